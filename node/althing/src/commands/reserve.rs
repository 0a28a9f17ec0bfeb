//! `althing reserve`

use althing_api::ReserveRequest;
use althing_client::agent_file;

use crate::args::Reserve;
use crate::commands::{Out, short, text};
use crate::exit::Failure;
use crate::paths::Paths;

/// Reserves what a contract needs on another node, or releases it.
pub async fn run(at: &Paths, reserve: &Reserve, out: &Out) -> Result<(), Failure> {
    let file = reserve.file.as_deref().map(agent_file::read).transpose()?.map(|request| request.file);
    let (node, cancel) = (reserve.node.clone(), reserve.cancel.clone());
    let request = ReserveRequest { node, file, lease_s: reserve.lease, cancel };
    let done = at.connect().await?.post("/reserve", &request).await?;
    out.show(&done, |done| {
        if done["cancelled"].is_string() {
            return format!("{} is released", text(done, "cancelled"));
        }
        let promise = match done["responseBoundUs"].as_f64() {
            Some(bound) => format!("every job would be done within {bound:.0} µs\n"),
            None => String::new(),
        };
        let seconds = done["leaseMs"].as_u64().unwrap_or_default() / 1_000;
        let id = text(done, "id");
        format!(
            "{id} is held by {} for {seconds} s\n{promise}there, within that time: althing agent add FILE --reservation {id}",
            short(&text(done, "node"))
        )
    });
    Ok(())
}

//! `althing reserve`

use althing_api::{NodeReservation, ReserveReply, ReserveRequest};
use althing_client::agent_file;

use crate::args::Reserve;
use crate::commands::{Out, short};
use crate::exit::Failure;
use crate::paths::Paths;

/// Reserves what a contract needs on another node, or releases it.
pub async fn run(at: &Paths, reserve: &Reserve, out: &Out) -> Result<(), Failure> {
    let file = reserve.file.as_deref().map(agent_file::read).transpose()?.map(|request| request.file);
    let (node, cancel) = (reserve.node.clone(), reserve.cancel.clone());
    let request = ReserveRequest { node, file, lease_s: reserve.lease, cancel };
    let done: ReserveReply = at.connect().await?.ask("/reserve", &request).await?;
    out.show(&done, |done| match done {
        ReserveReply::Cancellation(released) => format!("{} is released", released.cancelled),
        ReserveReply::Reservation(NodeReservation { id, node, lease_ms, response_bound_us, .. }) => {
            let promise = match response_bound_us {
                Some(bound) => format!("every job would be done within {bound:.0} µs\n"),
                None => String::new(),
            };
            format!(
                "{id} is held by {} for {} s\n{promise}there, within that time: althing agent add FILE --reservation {id}",
                short(node),
                lease_ms / 1_000
            )
        }
    });
    Ok(())
}

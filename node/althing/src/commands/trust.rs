//! `althing trust`.

use serde_json::Value;

use crate::args::Trust;
use crate::commands::{Out, rows, text};
use crate::control::TrustRequest;
use crate::control::client::Client;
use crate::exit::Failure;
use crate::paths::Paths;

/// Gives or takes trust, or lists it.
pub async fn run(at: &Paths, trust: &Trust, out: &Out) -> Result<(), Failure> {
    let client = Client::connect(at).await?;
    let Some(did) = &trust.did else {
        let list = client.get("/trust").await?;
        out.show(&list, |list| {
            let dids: Vec<&str> = rows(list, "trusted").iter().filter_map(Value::as_str).collect();
            if dids.is_empty() { "nobody but the owner's own nodes".to_owned() } else { dids.join("\n") }
        });
        return Ok(());
    };
    let request = TrustRequest { did: did.clone(), trusted: !trust.remove };
    let done = client.post("/trust", &request).await?;
    out.show(&done, |done| {
        let may = if done["trusted"] == true { "may call" } else { "may no longer call" };
        format!("{} {may} this node's agents that answer trusted callers", text(done, "did"))
    });
    Ok(())
}

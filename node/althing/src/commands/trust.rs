//! `althing trust`.

use althing_protocol::{CallerId, IdentityError};
use serde_json::Value;

use crate::args::Trust;
use crate::commands::{Out, rows, text};
use crate::exit::Failure;
use crate::paths::Paths;
use althing_api::TrustRequest;

/// Trusts a node or an owner, stops to trust it, or lists who is trusted.
pub async fn run(at: &Paths, trust: &Trust, out: &Out) -> Result<(), Failure> {
    // Checked before the node is asked: a mistyped id is reported whether the node runs or not.
    let id: Option<Result<CallerId, IdentityError>> = trust.id.as_deref().map(str::parse);
    let id = id.transpose().map_err(|error| Failure::usage(error.to_string()))?;
    let client = at.connect().await?;
    let Some(id) = id else {
        let list = client.get("/trust").await?;
        out.show(&list, |list| {
            let ids: Vec<&str> = rows(list, "trusted").iter().filter_map(Value::as_str).collect();
            if ids.is_empty() { "only the owner's own nodes".to_owned() } else { ids.join("\n") }
        });
        return Ok(());
    };
    let request = TrustRequest { id: id.to_string(), trusted: !trust.remove };
    let done = client.post("/trust", &request).await?;
    out.show(&done, |done| {
        let may = if done["trusted"] == true { "may call" } else { "may no longer call" };
        format!("{} {may} this node's agents that answer trusted callers", text(done, "id"))
    });
    Ok(())
}

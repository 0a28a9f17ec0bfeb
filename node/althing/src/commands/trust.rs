//! `althing trust`.

use althing_api::{TrustChange, TrustList, TrustRequest};
use althing_protocol::{CallerId, IdentityError};

use crate::args::Trust;
use crate::commands::Out;
use crate::exit::Failure;
use crate::paths::Paths;

/// Trusts a node or an owner, stops to trust it, or lists who is trusted.
pub async fn run(at: &Paths, trust: &Trust, out: &Out) -> Result<(), Failure> {
    // Checked before the node is asked: a mistyped id is reported whether the node runs or not.
    let id: Option<Result<CallerId, IdentityError>> = trust.id.as_deref().map(str::parse);
    let id = id.transpose().map_err(|error| Failure::usage(error.to_string()))?;
    let client = at.connect().await?;
    let Some(id) = id else {
        let list: TrustList = client.read("/trust").await?;
        out.show(&list, |list| {
            if list.trusted.is_empty() { "only the owner's own nodes".to_owned() } else { list.trusted.join("\n") }
        });
        return Ok(());
    };
    let request = TrustRequest { id: id.to_string(), trusted: !trust.remove };
    let done: TrustChange = client.ask("/trust", &request).await?;
    out.show(&done, |done| {
        let may = if done.trusted { "may call" } else { "may no longer call" };
        format!("{} {may} this node's agents that answer trusted callers", done.id)
    });
    Ok(())
}

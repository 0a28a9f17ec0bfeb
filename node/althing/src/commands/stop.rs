//! `althing stop`

use althing_api::{StopNode, StopReply, StopRequest};

use crate::args::Stop;
use crate::commands::Out;
use crate::commands::agreement::agree;
use crate::exit::Failure;
use crate::paths::Paths;

/// Stops an agent, or all of them.
pub async fn run(at: &Paths, stop: &Stop, out: &Out) -> Result<(), Failure> {
    let request = StopRequest { agent: stop.agent.clone(), revoke: stop.revoke };
    agree(&request, &order(&request), stop.yes, "stop", out)?;
    let reply: StopReply = at.connect().await?.ask("/stop", &request).await?;
    out.show(&reply, stopped);
    Ok(())
}

/// What somebody agrees to.
fn order(request: &StopRequest) -> String {
    let who = request.agent.as_deref().unwrap_or("every agent of this owner");
    let revoked = if request.revoke { ", and the nodes of others refuse it from then on" } else { "" };
    format!(
        "{who} has no effect any more, on any node of this owner that is connected{revoked}. Adding it again starts it"
    )
}

fn stopped(reply: &StopReply) -> String {
    let StopReply { agent, revoked, known, nodes } = reply;
    let who = agent.as_deref().unwrap_or("every agent of this owner");
    let mut lines = format!("{who} is stopped\n");
    if !known {
        lines += "no node is known that has it: check the name (`althing agent list`)\n";
    }
    if *revoked {
        lines += "the nodes of others refuse it\n";
    }
    for StopNode { node, why } in nodes {
        let heard = why.as_ref().map_or_else(|| "heard of it".to_owned(), |why| format!("did not hear of it: {why}"));
        lines += &format!("{node}  {heard}\n");
    }
    if nodes.is_empty() {
        lines += "no other node of this owner is connected; each hears of it when it is\n";
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_agreed_to_and_what_was_done_are_told() {
        let all = order(&StopRequest { agent: None, revoke: true });
        assert!(all.starts_with("every agent of this owner") && all.contains("refuse it"), "{all}");
        let one = order(&StopRequest { agent: Some("clerk".to_owned()), revoke: false });
        assert!(one.starts_with("clerk has no effect") && !one.contains("refuse"), "{one}");
        let missed = StopNode { node: "did:n".to_owned(), why: Some("timed out".to_owned()) };
        let mut reply = StopReply { agent: Some("clerk".to_owned()), revoked: true, known: true, nodes: vec![missed] };
        let told = "clerk is stopped\nthe nodes of others refuse it\ndid:n  did not hear of it: timed out\n";
        assert_eq!(stopped(&reply), told);
        reply = StopReply { revoked: false, known: false, nodes: Vec::new(), ..reply };
        assert!(stopped(&reply).contains("check the name") && stopped(&reply).contains("no other node"), "{reply:?}");
    }
}

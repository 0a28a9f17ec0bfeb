//! `althing stop`

use althing_api::{StopNode, StopReply, StopRequest};

use crate::args::Stop;
use crate::commands::agreement::agree;
use crate::commands::{Out, one_line};
use crate::exit::Failure;
use crate::paths::Paths;

/// Stops an agent, or all of them.
pub async fn run(at: &Paths, stop: &Stop, out: &Out) -> Result<(), Failure> {
    let request = StopRequest { agent: stop.agent.clone(), revoke: stop.revoke };
    // Nobody agrees to what no node is there to do.
    let client = at.connect().await?;
    agree(&request, &order(&request), stop.yes, "stop", out)?;
    let reply: StopReply = client.ask("/stop", &request).await?;
    out.show(&reply, stopped);
    Ok(())
}

/// What somebody agrees to.
fn order(request: &StopRequest) -> String {
    let who = request.agent.as_deref().unwrap_or("every agent of this owner");
    let revoked = if request.revoke { ", and the nodes of others will refuse it from then on" } else { "" };
    format!(
        "{who} will have no effect any more, on any node of this owner that is connected{revoked}. Removing it and adding \
         its file again starts it"
    )
}

fn stopped(reply: &StopReply) -> String {
    let StopReply { agent, revoked, known, nodes, questions, unended } = reply;
    let who = agent.as_deref().unwrap_or("every agent of this owner");
    let mut lines = if *known {
        format!("{who} is stopped\n")
    } else {
        format!(
            "no node is known that has {who}: check the name (`althing agent list`). The order is given all the same, \
             and holds on each node of this owner that has it\n"
        )
    };
    if *revoked {
        lines += "the nodes of others refuse it\n";
    }
    match questions {
        0 => {}
        1 => lines += "1 question to people is over with that\n",
        more => lines += &format!("{more} questions to people are over with that\n"),
    }
    if let Some(why) = unended {
        lines += &format!("what people are asked about it waits on: {why}. Stop it again\n");
    }
    for StopNode { node, why } in nodes {
        let missed = |why: &String| format!("did not hear of it: {}", one_line(why));
        let heard = why.as_ref().map_or_else(|| "heard of it".to_owned(), missed);
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
    use crate::exit::code;

    #[tokio::test]
    async fn nobody_is_asked_for_what_no_node_is_there_to_do() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let at = Paths::within(folder.path());
        let stop = Stop { agent: Some("clerk".to_owned()), all: false, revoke: false, yes: false };
        let refused = run(&at, &stop, &Out { json: true }).await.expect_err("there is no node");
        assert_eq!(refused.code, code::NO_NODE, "{}", refused.message);
    }

    #[test]
    fn what_is_agreed_to_and_what_was_done_are_told() {
        let all = order(&StopRequest { agent: None, revoke: true });
        assert!(all.starts_with("every agent of this owner") && all.contains("refuse it"), "{all}");
        let one = order(&StopRequest { agent: Some("clerk".to_owned()), revoke: false });
        assert!(one.starts_with("clerk will have no effect") && !one.contains("refuse"), "{one}");
        let missed = StopNode { node: "did:n".to_owned(), why: Some("timed out".to_owned()) };
        let (agent, nodes) = (Some("clerk".to_owned()), vec![missed]);
        let mut reply = StopReply { agent, revoked: true, known: true, nodes, questions: 2, unended: None };
        let told = "clerk is stopped\nthe nodes of others refuse it\n\
                    2 questions to people are over with that\ndid:n  did not hear of it: timed out\n";
        assert_eq!(stopped(&reply), told);
        let forged = StopNode { node: "did:n".to_owned(), why: Some("no\ndid:m  heard of it".to_owned()) };
        assert_eq!(stopped(&StopReply { nodes: vec![forged], ..reply.clone() }).lines().count(), 4);
        reply = StopReply { revoked: false, known: false, nodes: Vec::new(), questions: 1, ..reply };
        assert!(stopped(&reply).contains("1 question to people is over"), "{reply:?}");
        let missing = StopReply { questions: 0, unended: Some("the disk is full".to_owned()), ..reply.clone() };
        let told = stopped(&missing);
        assert!(told.contains("waits on") && told.contains("the disk is full. Stop it again\n"), "{told}");
        reply = StopReply { questions: 0, ..reply };
        let told = stopped(&reply);
        let check = "no node is known that has clerk: check the name";
        assert!(told.starts_with(check) && told.contains("no other node"), "{told}");
        assert!(!told.contains("is stopped") && !told.contains("question"), "{told}");
    }
}

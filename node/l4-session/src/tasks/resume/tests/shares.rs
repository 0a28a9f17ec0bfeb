//! The room of journals: a caller takes its part of it, and the owner of the node has what is left.

use super::*;
use crate::machine::answers::payer_of_task;
use crate::machine::session::{CALLER_BYTES_MAX, Payer, SessionId};

#[tokio::test(start_paused = true)]
async fn a_stranger_whose_journals_are_full_makes_no_call_that_counts_and_the_owner_goes_on() {
    let world = world();
    let node = Node::start(&disk(), world, "1.0.0", UNENDING).await;
    let [stranger, other] = [2, 3].map(|seed| Scope::of(CallerId::Publisher(PublisherId::from_digest([seed; 32]))));
    {
        // As turns of many sessions take it.
        let (mut usage, payer) =
            (node.tasks.runner.store().journals().usage(), Payer::Other(payer_of_task(None, stranger)));
        for session in 0..8 {
            usage.count(SessionId([session; 16]), payer, CALLER_BYTES_MAX / 8);
        }
    }
    let task = async |scope: Scope| {
        let answer = node.ask_as(scope, false, TurnRights::default()).await.expect("it is answered");
        answer["task"]["status"].clone()
    };
    let status = task(stranger).await;
    assert_eq!(status["state"], "TASK_STATE_FAILED");
    let said = status["message"].to_string();
    assert!(said.contains("FULL: the journals of this caller's unfinished tasks hold all that they may"), "{said}");
    let made = calls(world);
    assert!(!made.contains_key(&1), "its intent has no room: {made:?}");
    for scope in [scope(), other] {
        let status = task(scope).await;
        assert_eq!(status["state"], "TASK_STATE_COMPLETED", "{status}");
    }
}

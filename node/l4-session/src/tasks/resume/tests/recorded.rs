//! The turns of an agent whose contract says `record: tape`.

use super::*;
use crate::machine::session::RowKind;
use crate::tasks::steps::StepsError;

async fn start(disk: &MemoryStore, world: u64, left: usize) -> Node {
    let contract = json!({ "class": { "latency": "srt" }, "record": "tape" });
    Node::start_with(disk, (world, "1.0.0"), left, Ports::none(), contract).await
}

#[tokio::test(start_paused = true)]
async fn the_steps_of_a_turn_are_shown_when_it_is_over_and_when_the_node_starts_again() {
    let (disk, world) = (disk(), world());
    let node = start(&disk, world, UNENDING).await;
    let id = node.send().await.expect("it is accepted");
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_COMPLETED");
    assert!(node.sessions().list().is_empty(), "it is over");
    let shown = node.sessions().steps(&id).expect("it is recorded");
    assert_eq!((shown.len(), shown[0].message.as_str(), shown[0].ended_ms), (1, "m-1", Some(NOW_MS)));
    let kinds: Vec<RowKind> = shown[0].rows.iter().map(|row| row.kind).collect();
    assert_eq!(kinds[0], RowKind::Begin);
    let count = |kind: RowKind| kinds.iter().filter(|known| **known == kind).count();
    let intents = STEPS.iter().filter(|effect| matches!(effect, Effect::Keyed | Effect::Final)).count();
    assert_eq!((count(RowKind::Intent), count(RowKind::Result)), (intents, STEPS.len()));
    let again = start(&disk, self::world(), UNENDING).await;
    assert_eq!(again.sessions().steps(&id), Ok(shown));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_shows_its_steps_whatever_its_contract_says() {
    let (disk, world, id) = in_doubt().await;
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    for _ in 0..2 {
        let shown = node.sessions().steps(&id).expect("it is not over");
        assert_eq!((shown.len(), shown[0].ended_ms), (1, None));
        assert_eq!(shown[0].rows.last().map(|row| row.kind), Some(RowKind::Intent));
        node.add();
        node.settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_without_a_journal_says_why_nothing_is_shown() {
    let node = Node::start(&disk(), world(), "1.0.0", UNENDING).await;
    let id = node.send().await.expect("it is accepted");
    node.settle().await;
    let refused = node.sessions().steps(&id).expect_err("nothing is recorded");
    assert!(matches!(&refused, StepsError::NoJournal { .. }) && refused.to_string().contains("record: tape"));
    let refused = node.sessions().steps("none").expect_err("there is none");
    assert!(matches!(refused, StepsError::NoTask { .. }), "{refused:?}");
}

//! What the log has of denials that come again and again: each that it took once, and of the others how many there are.

use althing_call::{Decision, IncomingRequest, Operation, Principal, Service};
use althing_communication::{Caller, CallerRule};
use althing_protocol::audit::BodyRole;
use althing_protocol::{AgentId, CallerId, digest};
use althing_testing_store::FaultStore;

use super::records::{Open, leaves};
use super::*;
use crate::audit::{AuditFilter, RecordBody};
use crate::refusals::{Refusal, RefusalEntry, RefusalKind};

const NOTHING: &str = "forbid(principal, action, resource);";

/// A node that permits nothing, on a disk that may be full.
async fn on_a_disk(bench: &Bench) -> (Governance, FaultStore) {
    let disk = FaultStore::over(bench.store.as_ref().clone());
    let governance = bench.start_on(Arc::new(disk.clone())).await;
    governance.load_policy(NOTHING, Actor::Owner).await.expect("it is good");
    (governance, disk)
}

/// A stranger's node.
fn stranger(seed: u8) -> Caller {
    Caller { node: SecretKey::from_seed(&[seed; 32]).public(), owner: None }
}

/// A message of a stranger, on behalf of an agent of that name, is denied.
async fn deny_message(governance: &Governance, seed: u8, name: &str) {
    let (callee, callers, caller) = (agent(), CallerRule::Anyone, stranger(seed));
    let by = [Principal::Agent(AgentId::new(PublisherId::from_digest([seed; 32]), name).expect("a name"))];
    let service = Service::Call { agent: &callee.id, callers: &callers, operation: Operation::SendMessage };
    let asked = IncomingRequest { principals: &by, ..IncomingRequest::plain(service, &caller) };
    let decided = governance.decide(Arc::new(Open)).decide_incoming(&asked).decision().await;
    assert!(matches!(decided, Decision::Deny(_)), "{decided:?}");
}

/// What is done on a node, and what comes from another one, is denied.
async fn deny_both(governance: &Governance) {
    let act = Act::Egress { agent: "a", host: "shop.example", port: Some(443), method: None, pattern: None };
    admit(governance, &act).await.expect_err("it is forbidden");
    deny_message(governance, 2, "asker").await;
}

/// The actions of the denials that are on record.
async fn denials(governance: &Governance) -> Vec<String> {
    let denied = leaves(governance).await.into_iter().filter(|leaf| leaf.stage == AuditStage::Denied);
    denied.filter_map(|leaf| leaf.action).collect()
}

/// The counts that are on record: of whom they are, and in words.
async fn counts(governance: &Governance) -> Vec<(Vec<String>, String)> {
    let filter = AuditFilter { action: Some("further ".to_owned()), ..AuditFilter::default() };
    let page = governance.audit().query(&filter, 100).await.expect("it is read");
    let words = |record: &crate::audit::AuditRecord| {
        let record = governance.audit().record_at(record.log, record.index).expect("it is whole");
        let reason = record.bodies.into_iter().find_map(|body| match body {
            RecordBody::Whole(body) if body.role == BodyRole::Reason => String::from_utf8(body.body).ok(),
            _ => None,
        });
        (record.leaf.principals, reason.unwrap_or_default())
    };
    page.records.iter().rev().map(words).collect()
}

fn further(seed: u8, number: u64) -> (Vec<String>, String) {
    let words = format!("{number} further messages of this sender were denied by these policies so far");
    (vec![CallerId::Node(stranger(seed).node).to_string()], words)
}

#[tokio::test]
async fn a_denial_that_could_not_be_written_is_written_when_it_comes_again() {
    let bench = Bench::new();
    let (governance, disk) = on_a_disk(&bench).await;
    disk.set_full(true);
    deny_both(&governance).await;
    disk.set_full(false);
    assert_eq!(denials(&governance).await, Vec::<String>::new());
    for _ in 0..2 {
        deny_both(&governance).await;
        assert_eq!(denials(&governance).await, ["egress", "call"]);
    }
}

#[tokio::test]
async fn a_denial_that_the_log_did_not_take_is_written_when_it_comes_again() {
    let bench = Bench::new();
    let (governance, disk) = on_a_disk(&bench).await;
    disk.set_full(true);
    governance.audit().drain().await.expect_err("what waits cannot be moved");
    deny_both(&governance).await;
    disk.set_full(false);
    governance.audit().drain().await.expect("there is room");
    assert_eq!(denials(&governance).await, Vec::<String>::new());
    for _ in 0..2 {
        deny_both(&governance).await;
        assert_eq!(denials(&governance).await, ["egress", "call"]);
    }
}

/// A sender was denied as many different messages as it has entries for.
fn fill(governance: &Governance, seed: u8) {
    let (policies, set) = (governance.policies(), governance.policies().digest());
    let kind = RefusalKind::Message { by: CallerId::Node(stranger(seed).node), is_near: false };
    let noted = |number: u64| {
        let what = digest(&[&[seed][..], &number.to_be_bytes()].concat());
        policies.refusals.note(Refusal { kind, set, what })
    };
    let own = (0..256).filter(|number| noted(*number) == RefusalEntry::Own).count();
    assert_eq!(own, 256, "there is room for so many");
}

#[tokio::test]
async fn a_sender_that_makes_up_agents_is_counted_by_itself_and_others_have_their_entries() {
    let bench = Bench::new();
    let governance = bench.start().await;
    governance.load_policy(NOTHING, Actor::Owner).await.expect("it is good");
    fill(&governance, 2);
    for number in 0..3 {
        deny_message(&governance, 2, &format!("made-up-{number}")).await;
    }
    assert_eq!(counts(&governance).await, [further(2, 1), further(2, 2)]);
    deny_message(&governance, 3, "asker").await;
    assert_eq!(denials(&governance).await, ["further messages", "further messages", "call"]);
}

#[tokio::test]
async fn how_many_there_were_is_told_in_the_end_and_when_other_policies_are_loaded() {
    let bench = Bench::new();
    let (governance, disk) = on_a_disk(&bench).await;
    fill(&governance, 2);
    for number in 0..3 {
        deny_message(&governance, 2, &format!("made-up-{number}")).await;
    }
    governance.load_policy(&format!("{NOTHING} "), Actor::Owner).await.expect("it is good");
    deny_message(&governance, 2, "made-up").await;
    disk.set_full(true);
    governance.sweep().await;
    disk.set_full(false);
    let before = [further(2, 1), further(2, 2)];
    assert_eq!(counts(&governance).await, before, "the disk was full");
    governance.sweep().await;
    let before = [&before[..], &[further(2, 3)]].concat();
    assert_eq!(counts(&governance).await, before);

    fill(&governance, 3);
    for number in 0..3 {
        deny_message(&governance, 3, &format!("made-up-{number}")).await;
    }
    governance.shut_down().await;
    let all = [&before[..], &[further(3, 1), further(3, 2), further(3, 3)]].concat();
    assert_eq!(counts(&governance).await, all);
    governance.shut_down().await;
    assert_eq!(counts(&governance).await, all, "once");
}

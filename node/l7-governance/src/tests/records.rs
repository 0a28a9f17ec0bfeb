//! What is on record beside calls.

use althing_call::{Decide, Decision, IncomingRequest, Judgement, OutgoingRequest, Principal};
use althing_discovery::TrustRelation;
use althing_execution::{EndedTurn, TurnRecorder};
use althing_protocol::audit::{AuditLeaf, AuditOutcome, AuditStage};
use althing_store::Batch;

use super::*;
use crate::audit::AuditFilter;
use crate::records::{BoundBy, TurnRecords};

/// All leaves, the oldest first.
pub(super) async fn leaves(governance: &Governance) -> Vec<AuditLeaf> {
    let page = governance.audit().query(&AuditFilter::default(), 100).await.expect("it is read");
    let mut leaves: Vec<AuditLeaf> = page.records.into_iter().map(|record| record.leaf).collect();
    leaves.reverse();
    leaves
}

/// Contracts that permit everything.
struct Open;

impl Decide for Open {
    fn decide(&self, _: &OutgoingRequest<'_>) -> Judgement {
        Judgement::Now(Decision::Allow)
    }

    fn decide_incoming(&self, _: &IncomingRequest<'_>) -> Judgement {
        Judgement::Now(Decision::Allow)
    }

    fn relation(&self, _: PublisherId) -> TrustRelation {
        TrustRelation::Own
    }

    fn near(&self) -> Vec<PublisherId> {
        Vec::new()
    }
}

#[tokio::test]
async fn what_policies_decide_about_messages_is_remembered_and_a_denial_is_on_record() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let forbid = "permit(principal, action, resource);
        @id(\"quiet\") forbid(principal, action == Action::\"call\", resource) when { context.level > 1 };";
    governance.load_policy(forbid, Actor::Owner).await.expect("it is good");
    let decide = governance.decide(Arc::new(Open));
    let (agent, principals) = (agent(), [Principal::Local]);
    governance.take_tools(&agent, &BTreeMap::new(), &profiles());
    let send = |level| {
        let label = Some(Label { level, trusted: true });
        decide.decide(&OutgoingRequest::Message { agent: &agent.id, version: None, principals: &principals, label })
    };
    assert_eq!(send(DataLabel::Internal).decision().await, Decision::Allow);
    assert!(matches!(send(DataLabel::Restricted).decision().await, Decision::Deny(_)));
    let said: Vec<String> = governance
        .decisions(8)
        .expect("they are read")
        .records
        .into_iter()
        .map(|(_, record)| format!("{} {}", record.gate, record.answer))
        .collect();
    assert_eq!(said, ["call deny", "call permit"]);
    let denied: Vec<AuditLeaf> =
        leaves(&governance).await.into_iter().filter(|leaf| leaf.stage == AuditStage::Denied).collect();
    let [leaf] = denied.as_slice() else { panic!("{denied:?}") };
    assert_eq!((leaf.action.as_deref(), leaf.deciding.as_slice()), (Some("call"), ["quiet".to_owned()].as_slice()));
    assert_eq!((leaf.agent.as_ref(), leaf.policy.is_some()), (Some(&agent.id), true));
}

fn ended<'a>(agent: &'a AgentRef, task: &'a str, has_task: bool) -> EndedTurn<'a> {
    EndedTurn {
        agent,
        task,
        has_task,
        principals: &[],
        label: None,
        label_after: None,
        contract: "",
        binding: "",
        trace: None,
        row: if has_task { b"row".as_slice() } else { b"".as_slice() },
        outcome: AuditOutcome::Done,
    }
}

#[tokio::test]
async fn a_turn_with_a_task_leaves_one_leaf_and_none_where_it_has_others_or_only_answers() {
    let (bench, turn, agent) = (Bench::new(), Turn::new(), agent());
    let governance = bench.start().await;
    let turns = TurnRecords(governance.clone());
    let over = |task: &str, has_task| !turns.ended(&ended(&agent, task, has_task)).is_empty();
    assert!(over("quiet", true), "it made no system call");
    assert!(!over("answer", false), "it answered, and did nothing else");
    permitted(gate(&governance).decide(&turn.call("reads", "shop/search")).await);
    assert!(over("reads", true), "what only reads has no leaf of its own");
    permitted(gate(&governance).decide(&turn.call("asks", "shop/search")).await);
    assert!(over("asks", false), "it answered, and made a system call");
    let permit = permitted(gate(&governance).decide(&turn.call("acts", "shop/send")).await);
    bench.intent(permit).await;
    assert!(!over("acts", true), "its intent is on record");
    denied(gate(&governance).decide(&turn.call("denied", "bank/pay")).await);
    assert!(!over("denied", true), "its denial is on record");
    let rows = turns.ended(&ended(&agent, "quiet", true));
    bench.store.write(rows, Durability::Synced).await.expect("it is written");
    let last = leaves(&governance).await.pop().expect("a leaf");
    assert_eq!((last.stage, last.outcome, last.row.is_some()), (AuditStage::Turn, Some(AuditOutcome::Done), true));
}

#[tokio::test]
async fn starts_ends_and_what_the_owner_changes_are_on_record_and_nothing_starts_where_nothing_can_be() {
    let (bench, agent, turn) = (Bench::new(), agent(), Turn::new());
    let governance = bench.start().await;
    crate::records::check(&governance).await.expect("it can be recorded");
    crate::records::start(&governance, &agent, BoundBy::default()).await.expect("it is recorded");
    crate::records::end(&governance, &agent).await;
    let change = OwnerChange { what: "adding", agent: Some(&agent), before: "", after: "{}" };
    crate::records::change(&governance, change).await.expect("it is recorded");
    for text in ["one", "one", "two"] {
        crate::records::setting(&governance, "keys", "one", text).await.expect("it is recorded");
    }
    let said: Vec<String> = leaves(&governance)
        .await
        .iter()
        .map(|leaf| format!("{} {}", leaf.stage.word(), leaf.action.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(said, ["started ", "ended ", "changed adding", "changed keys"]);

    let mut noise = Batch::new();
    let queue = crate::audit::FAMILIES.into_iter().find(|family| family.0 == "audit.queue").expect("there is one");
    noise.put(queue, b"noise".as_slice(), b"noise".as_slice());
    bench.store.write(noise, Durability::Synced).await.expect("it is written");
    governance.audit().drain().await.expect_err("it is damaged");
    let refused = crate::records::check(&governance).await.expect_err("nothing is recorded");
    assert!(refused.to_string().starts_with("AUDIT_UNAVAILABLE: "), "{refused}");
    let reason = denied(gate(&governance).decide(&turn.call("task", "shop/send")).await);
    assert!(reason.starts_with("AUDIT_UNAVAILABLE: "), "{reason}");
    permitted(gate(&governance).decide(&turn.call("task", "shop/search")).await);
}

//! What is on record beside calls.

use althing_call::{Decide, Decision, IncomingRequest, Judgement, Operation, OutgoingRequest, Principal, Service};
use althing_communication::{Caller, CallerRule};
use althing_discovery::TrustRelation;
use althing_execution::tools::{PendingAsks, Permission, contract_gates};
use althing_execution::{EndedTurn, ToldCall, TurnRecorder};
use althing_protocol::audit::{AuditLeaf, AuditOutcome, AuditStage, AuditVerdict, AuditWord};
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
pub(super) struct Open;

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
        let (agent, principals) = (&agent.id, principals.as_slice());
        decide.decide(&OutgoingRequest::Message { agent, version: None, principals, label, content: None })
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

/// How many denials are on record.
async fn denials(governance: &Governance) -> usize {
    leaves(governance).await.iter().filter(|leaf| leaf.stage == AuditStage::Denied).count()
}

#[tokio::test]
async fn a_denied_message_of_another_node_is_one_entry_for_each_set_however_often_it_is_sent() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let decide = governance.decide(Arc::new(Open));
    let (agent, callers) = (agent(), CallerRule::Anyone);
    let stranger = Caller { node: SecretKey::from_seed(&[2; 32]).public(), owner: None };
    let service = Service::Call { agent: &agent.id, callers: &callers, operation: Operation::SendMessage };
    for (name, known) in [("quiet", 1), ("silent", 2)] {
        let forbid = format!(
            "permit(principal, action, resource);
            @id(\"{name}\") forbid(principal, action == Action::\"call\", resource);"
        );
        governance.load_policy(&forbid, Actor::Owner).await.expect("it is good");
        for _ in 0..3 {
            let asked = decide.decide_incoming(&IncomingRequest::plain(service, &stranger));
            assert!(matches!(asked.decision().await, Decision::Deny(_)));
            assert_eq!(denials(&governance).await, known);
        }
    }
    // What the owner sends is sent by nobody else.
    for known in [3, 4] {
        let (agent, principals) = (&agent.id, [Principal::Local]);
        let (principals, label, content) = (&principals, None, None);
        let sent = OutgoingRequest::Message { agent, version: None, principals, label, content };
        assert!(matches!(decide.decide(&sent).decision().await, Decision::Deny(_)));
        assert_eq!(denials(&governance).await, known);
    }
}

#[tokio::test]
async fn a_denied_task_of_a_group_is_on_record_with_its_label_and_the_policy_that_denies_it() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let forbid = "permit(principal, action, resource);
        @id(\"quiet\") forbid(principal, action == Action::\"call\", resource) when { context.level > 2 };";
    governance.load_policy(forbid, Actor::Owner).await.expect("it is good");
    let decide = governance.decide(Arc::new(Open));
    let (agent, callers) = (agent(), CallerRule::Anyone);
    governance.take_tools(&agent, &BTreeMap::new(), &profiles());
    let here = Caller { node: SecretKey::from_seed(&[1; 32]).public(), owner: Some(owner()) };
    let comes = |level| {
        let service = Service::GroupTask { agent: &agent.id, callers: &callers, elsewhere: true };
        let label = Some(Label { level, trusted: true });
        decide.decide_incoming(&IncomingRequest { label, ..IncomingRequest::plain(service, &here) }).decision()
    };
    assert_eq!(comes(DataLabel::Confidential).await, Decision::Allow);
    assert!(matches!(comes(DataLabel::Restricted).await, Decision::Deny(_)));
    let said = governance.decisions(8).expect("they are read").records;
    let said: Vec<&str> = said.iter().map(|(_, record)| record.answer.as_str()).collect();
    assert_eq!(said, ["deny", "permit"]);
    let denied: Vec<AuditLeaf> =
        leaves(&governance).await.into_iter().filter(|leaf| leaf.stage == AuditStage::Denied).collect();
    let [leaf] = denied.as_slice() else { panic!("{denied:?}") };
    assert_eq!(leaf.label, Some(Label { level: DataLabel::Restricted, trusted: true }));
    assert_eq!((leaf.agent.as_ref(), leaf.deciding.as_slice()), (Some(&agent.id), ["quiet".to_owned()].as_slice()));
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
        verdicts: &[],
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
async fn what_gates_said_is_in_the_leaf_of_the_turn_whatever_else_is_on_record_of_it() {
    let (bench, turn, agent) = (Bench::new(), Turn::new(), agent());
    let governance = bench.start().await;
    let turns = TurnRecords(governance.clone());
    let word = |gate: &str, word| AuditVerdict { gate: gate.to_owned(), word };
    let said = [word("agents/judge", AuditWord::Passed), word("schema", AuditWord::Refused)];
    let judged = |task, has_task| EndedTurn { verdicts: &said, ..ended(&agent, task, has_task) };
    assert!(turns.ended(&judged("answer", false)).is_empty(), "it answered, and did nothing else");
    let permit = permitted(gate(&governance).decide(&turn.call("acts", "shop/send")).await);
    bench.intent(permit).await;
    let rows = turns.ended(&judged("acts", true));
    bench.store.write(rows, Durability::Synced).await.expect("it is written");
    let last = leaves(&governance).await.pop().expect("a leaf");
    assert_eq!((last.stage, last.verdicts.as_slice()), (AuditStage::Turn, said.as_slice()));
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
    let all = AgentRef { version: "".into(), ..agent.clone() };
    let change = OwnerChange { what: "stopping", agent: Some(&all), before: "", after: "a" };
    crate::records::change_in_any_case(&governance, change).await;
    for text in ["one", "one", "two"] {
        crate::records::setting(&governance, "keys", "one", text).await.expect("it is recorded");
    }
    let all = leaves(&governance).await;
    let said: Vec<String> = all
        .iter()
        .map(|leaf| format!("{} {}", leaf.stage.word(), leaf.action.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(said, ["started ", "ended ", "changed adding", "changed stopping", "changed keys"]);
    assert_eq!((all[3].agent.as_ref(), all[3].version.as_deref()), (Some(&agent.id), None), "it names the agent");

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

#[tokio::test]
async fn what_somebody_says_of_a_call_in_doubt_is_its_outcome_and_names_who_said_so() {
    let (bench, agent) = (Bench::new(), agent());
    let governance = bench.start().await;
    let result = json!({ "receipt": 7 });
    let told = |outcome, result| ToldCall {
        agent: &agent,
        task: "t-1",
        step: 3,
        name: "shop/send",
        principals: &[],
        label: Some(Label::UNLABELLED),
        contract: "",
        binding: "",
        outcome,
        result,
        by: "local",
    };
    for (outcome, result, said) in [
        (AuditOutcome::Done, Some(&result), "it took place"),
        (AuditOutcome::InDoubt, None, "nobody knows, and it is to be made again"),
        (AuditOutcome::Failed, None, "it failed, or is given up"),
    ] {
        let rows = TurnRecords(governance.clone()).told(&told(outcome, result));
        bench.store.write(rows, Durability::Synced).await.expect("it is written");
        let page = governance.audit().query(&AuditFilter::default(), 1).await.expect("it is read");
        let leaf = &page.records[0].leaf;
        assert_eq!((leaf.stage, leaf.outcome), (AuditStage::Outcome, Some(outcome)));
        assert_eq!(leaf.action.as_deref(), Some("shop/send"));
        assert_eq!((leaf.agent.as_ref(), leaf.label_after), (Some(&agent.id), Some(Label::UNLABELLED)));
        let draft = crate::leaves::told_call(&told(outcome, result), ("grace", None), NOW_MS);
        let bodies = draft.bodies.iter().map(|body| String::from_utf8_lossy(&body.bytes).into_owned());
        let why = format!("step 3 of task t-1 was in doubt; local said: {said}");
        let with_result = result.map(ToString::to_string).into_iter();
        assert_eq!(bodies.collect::<Vec<_>>(), with_result.chain([why]).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn nobody_is_asked_any_more_once_the_turn_that_waited_is_over() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let gate = gate(&governance);
    let ask = asked(gate.decide(&turn.call("one", "shop/order")).await);
    assert_eq!(asked(gate.decide(&turn.call("two", "shop/order")).await).id, ask.id, "both wait for the same answer");
    governance.withdraw("one");
    governance.sweep().await;
    assert_eq!(governance.pending().len(), 1, "the other one waits");
    governance.withdraw("two");
    governance.sweep().await;
    assert!(governance.pending().is_empty());
    let refused = governance.answer(&ask.id, yes(), Actor::Owner).await.expect_err("it is over");
    assert!(refused.to_string().contains("nobody waits for an answer"), "{refused}");
    let last = leaves(&governance).await.pop().expect("a leaf");
    assert_eq!((last.stage, last.outcome), (AuditStage::Answered, Some(AuditOutcome::Expired)));

    let governance = bench.start().await;
    assert!(governance.pending().is_empty(), "after a restart too");
    let gate = super::gate(&governance);
    assert_ne!(asked(gate.decide(&turn.call("two", "shop/order")).await).id, ask.id, "a later turn asks anew");
    let ask = asked(gate.decide(&turn.call("three", "shop/order")).await);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
    TurnRecords(governance.clone()).ended(&ended(&agent(), "three", true));
    governance.sweep().await;
    assert_eq!(governance.ask_state(&ask.id), Some(AskState::Approved), "the other one may use it");
    TurnRecords(governance.clone()).ended(&ended(&agent(), "two", true));
    governance.sweep().await;
    assert_ne!(governance.ask_state(&ask.id), Some(AskState::Approved), "and after that nobody");
}

#[tokio::test]
async fn what_a_stopped_agent_wants_to_do_is_denied_on_record() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let (governance, gates) = (bench.start().await, Gates::default());
    gates.connect(&governance);
    let made = gates.make(contract_gates())(&agent(), &contract(), &profiles());
    permitted(made.decide(&turn.call("task", "shop/search")).await);
    gates.stops().connect(Box::new(|agent| Some(format!("{} was stopped by its owner", agent.name()))));
    let reason = denied(made.decide(&turn.call("task", "shop/send")).await);
    assert!(reason.contains("stopped by its owner"), "{reason}");
    let leaves = leaves(&governance).await;
    let denials: Vec<_> = leaves.iter().filter(|leaf| leaf.stage == AuditStage::Denied).collect();
    let [leaf] = denials.as_slice() else { panic!("{leaves:?}") };
    assert_eq!((leaf.action.as_deref(), leaf.agent.as_ref()), (Some("shop/send"), Some(&agent().id)));
    let said = governance.decisions(8).expect("they are read").records.into_iter().map(|(_, one)| one.rule);
    assert_eq!(said.collect::<Vec<_>>(), [Some("stop".to_owned())]);
}

#[tokio::test]
async fn a_tool_above_the_tier_of_the_contract_is_not_shown_and_denied_on_record_without_policies_too() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let mut contract = contract();
    contract.security.max_tier = Some(3);
    let (trusted, clearance) = (Some(true), Some(DataLabel::Restricted));
    let of = |tier| ToolTerms { trusted, clearance, tier: Some(tier), ..ToolTerms::default() };
    let terms = [("shop/search", 3), ("shop/order", 4)].map(|(name, tier)| (name.to_owned(), of(tier)));
    let said = ToolStatements { terms: [BTreeMap::from(terms), BTreeMap::new()], ..profiles() };
    let gate = governance.gate(Arc::new(ContractGate::of(&contract)), &agent(), &contract, said);
    let lists = ["shop/search", "shop/order", "shop/send"].map(|tool| gate.lists(&agent(), tool));
    assert_eq!(
        lists,
        [Permission::Allowed, Permission::Denied, Permission::Denied],
        "nobody wrote the last one's tier"
    );
    permitted(gate.decide(&turn.call("task", "shop/search")).await);
    for tool in ["shop/order", "shop/send"] {
        let reason = denied(gate.decide(&turn.call("task", tool)).await);
        assert!(reason.contains("up to tier 3"), "{reason}");
    }
    assert_eq!(denials(&governance).await, 2);
}

//! Calls that are decided again: what holds, what is not there any more, and what was altered.

use althing_execution::run_notes::arguments_hash;

use super::*;

const ALL: &str = "@id(\"all\") permit(principal, action, resource);";
const QUIET: &str = "@id(\"all\") permit(principal, action, resource);
    @id(\"quiet\") forbid(principal, action, resource == Tool::\"shop/search\");";
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const SEARCH: &str = "shop/search";
const SEND: &str = "shop/send";

type Told = (ReviewFinding, String);

/// What came of deciding one call of a traced turn again, which ended at `ended_ms`.
async fn reviewed_at(
    ended_ms: u64,
    governance: &Governance,
    contract: &Contract,
    (tool, outcome): (&str, &str),
    arguments: &Value,
) -> Told {
    let (agent, hash) = (agent(), arguments_hash(arguments));
    let calls = [PastCall { tool, arguments: &hash, outcome }];
    let (trace, contract) = (TRACE.split('-').nth(1), Some(contract));
    let turn = PastTurn { agent: &agent, task: "task", after_ms: 0, ended_ms, trace, contract, calls: &calls };
    let mut reviews = review_calls(governance, &[turn]).await.into_iter().flatten();
    let review = reviews.next().expect("there is one call");
    assert!(review.tool == tool && reviews.next().is_none(), "{review:?}");
    (review.finding, review.why)
}

async fn reviewed(governance: &Governance, tool: &str, outcome: &str) -> Told {
    reviewed_at(NOW_MS, governance, &contract(), (tool, outcome), &Turn::new().arguments).await
}

fn alter(governance: &Governance, change: impl Fn(&mut DecisionRecord)) {
    let changed = governance.decision_log().change_waiting(|record| {
        change(record);
        true
    });
    assert!(changed, "a decision is remembered");
}

fn of(finding: ReviewFinding, why: &str) -> Told {
    (finding, why.to_owned())
}

#[tokio::test]
async fn what_the_same_policies_decide_again_holds_and_nothing_is_said_of_what_is_not_known_any_more() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    governance.load_policy(ALL, Actor::Owner).await.expect("it is good");
    permitted(gate(&governance).decide(&turn.call("task", SEARCH)).await);
    let holds = of(ReviewFinding::Holds, "again permit by all, as then");
    assert_eq!(reviewed(&governance, SEARCH, "done").await, holds);
    let (finding, why) = reviewed(&governance, SEND, "done").await;
    assert_eq!(finding, ReviewFinding::Gone, "nothing was decided of it: {why}");
    let other = json!({ "item": "ring" });
    let (finding, why) = reviewed_at(NOW_MS, &governance, &contract(), (SEARCH, "done"), &other).await;
    assert!(finding == ReviewFinding::Gone && why.ends_with("not remembered any more"), "{why}");
    let (finding, why) = reviewed_at(NOW_MS - 1, &governance, &contract(), (SEARCH, "done"), &turn.arguments).await;
    assert_eq!(finding, ReviewFinding::Gone, "it was decided after that turn: {why}");

    governance.sweep().await;
    let governance = bench.start().await;
    let (finding, why) = reviewed(&governance, SEARCH, "done").await;
    assert!(finding == ReviewFinding::Gone && why.contains("nothing is known of Tool"), "{why}");
    let tools = BTreeMap::from([(SEARCH.to_owned(), Value::Null)]);
    governance.take_tools(&agent(), &tools, &profiles());
    assert_eq!(reviewed(&governance, SEARCH, "done").await, holds, "after a start too");

    governance.load_policy(QUIET, Actor::Owner).await.expect("it is good");
    let (finding, why) = reviewed(&governance, SEARCH, "done").await;
    assert!(finding == ReviewFinding::Gone && why.contains("not in force any more"), "{why}");
}

#[tokio::test]
async fn a_decision_that_was_altered_differs_from_what_is_decided_again() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    governance.load_policy(ALL, Actor::Owner).await.expect("it is good");
    permitted(gate(&governance).decide(&turn.call("task", SEARCH)).await);
    alter(&governance, |record| record.policy_answer = Some("deny".to_owned()));
    let (finding, why) = reviewed(&governance, SEARCH, "done").await;
    assert!(finding == ReviewFinding::Differs && why.starts_with("then deny by all, now permit by all"), "{why}");
    alter(&governance, |record| record.policy_answer = Some("permit".to_owned()));
    assert_eq!(reviewed(&governance, SEARCH, "done").await.0, ReviewFinding::Holds, "it is as it was");
    alter(&governance, |record| record.policies = vec!["other".to_owned()]);
    let (finding, why) = reviewed(&governance, SEARCH, "done").await;
    assert!(finding == ReviewFinding::Differs && why.contains("permit by other, now permit by all"), "{why}");
    alter(&governance, |record| {
        record.policies = vec!["all".to_owned()];
        record.answer = "deny".to_owned();
    });
    let (finding, why) = reviewed(&governance, SEARCH, "done").await;
    assert!(finding == ReviewFinding::Differs && why.contains("is remembered as denied"), "{why}");
}

#[tokio::test]
async fn a_denial_is_decided_again_and_what_is_remembered_follows_from_what_policies_said() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    governance.load_policy(QUIET, Actor::Owner).await.expect("it is good");
    denied(gate(&governance).decide(&turn.call("task", SEARCH)).await);
    let holds = of(ReviewFinding::Holds, "again deny by quiet, as then");
    assert_eq!(reviewed(&governance, SEARCH, "denied").await, holds);
    let (finding, why) = reviewed(&governance, SEARCH, "done").await;
    assert!(finding == ReviewFinding::Differs && why.contains("is remembered as denied"), "{why}");
    alter(&governance, |record| record.answer = "permit".to_owned());
    let (finding, why) = reviewed(&governance, SEARCH, "done").await;
    assert!(finding == ReviewFinding::Differs && why.contains("deny by quiet, and permit is remembered"), "{why}");
}

#[tokio::test]
async fn the_audit_log_names_the_policies_that_decided() {
    let (bench, mut turn) = (Bench::new(), Turn::new());
    turn.attributes.label = Some(Label { level: DataLabel::Public, trusted: true });
    let governance = bench.start().await;
    governance.load_policy(ALL, Actor::Owner).await.expect("it is good");
    let call = ToolCall { trace: Some(TRACE), ..turn.call("task", SEND) };
    let permit = permitted(gate(&governance).decide(&call).await);
    bench.intent(permit).await;
    let holds = of(ReviewFinding::Holds, "again permit by all, as then");
    assert_eq!(reviewed(&governance, SEND, "done").await, holds);
    alter(&governance, |record| record.set = Some([9; 32]));
    let (finding, why) = reviewed(&governance, SEND, "done").await;
    assert!(finding == ReviewFinding::Differs && why.contains("the audit log names other policies"), "{why}");
    alter(&governance, |record| record.task = "another".to_owned());
    let (finding, why) = reviewed(&governance, SEND, "done").await;
    let digest = governance.policy().digest.expect("a set is in force");
    assert!(finding == ReviewFinding::Gone && why.contains(&digest[..12]), "it says what decided: {why}");
}

#[tokio::test]
async fn where_no_policies_were_in_force_the_contract_decides_again() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    permitted(gate(&governance).decide(&turn.call("task", SEARCH)).await);
    let holds = of(ReviewFinding::Holds, "its contract names it, and no policies were in force");
    assert_eq!(reviewed(&governance, SEARCH, "done").await, holds);
    let bank = "bank/pay";
    denied(gate(&governance).decide(&turn.call("task", bank)).await);
    assert_eq!(reviewed(&governance, bank, "denied").await.0, ReviewFinding::Holds);
    let (finding, why) = reviewed(&governance, bank, "done").await;
    assert!(finding == ReviewFinding::Differs && why.contains("does not name it"), "{why}");

    bench.later(1);
    governance.load_policy(ALL, Actor::Owner).await.expect("it is good");
    let (finding, why) = reviewed(&governance, SEARCH, "done").await;
    assert!(finding == ReviewFinding::Gone && why.ends_with("not remembered any more"), "{why}");
    unload_policy(&governance, Actor::Owner).await.expect("they are taken out");
    assert_eq!(reviewed(&governance, SEARCH, "done").await.0, ReviewFinding::Gone, "they changed since");
    let later = reviewed_at(NOW_MS + 1, &governance, &contract(), (SEARCH, "done"), &turn.arguments).await;
    assert_eq!(later, holds, "none were in force when that turn ended");
}

#[tokio::test]
async fn calls_of_memory_are_found_by_what_they_are_to_policies() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    governance.load_policy(ALL, Actor::Owner).await.expect("it is good");
    let contract = json!({ "class": { "latency": "srt" }, "capabilities": ["memory/*"] });
    let contract: Contract = serde_json::from_value(contract).expect("a contract");
    let gate = governance.gate(Arc::new(ContractGate::of(&contract)), &agent(), &contract, profiles());
    for tool in ["memory/get", "memory/keys", "memory/put", "memory/recall", "memory/remember"] {
        governance.decision_log().change_waiting(|record| {
            record.task = "before".to_owned();
            true
        });
        permitted(gate.decide(&turn.call("task", tool)).await);
        let told = reviewed_at(NOW_MS, &governance, &contract, (tool, "done"), &turn.arguments).await;
        assert_eq!(told, of(ReviewFinding::Holds, "again permit by all, as then"), "{tool}");
    }
}

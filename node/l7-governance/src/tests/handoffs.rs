//! Handing work over: the one tool of a session that leaves the node.

use althing_execution::tools::{HAND_OVER, Permission};
use althing_execution::{GivenWork, Level, TurnRecorder};
use althing_protocol::audit::{AuditLeaf, AuditOutcome};

use super::records::leaves;
use super::*;
use crate::records::TurnRecords;

const ALL: &str = "permit(principal, action, resource);";

fn handing() -> Contract {
    let contract = json!({ "class": { "latency": "srt" }, "capabilities": ["session/*", "agents/clerk"] });
    serde_json::from_value(contract).expect("a contract")
}

/// The gate of an agent that may hand work over, where its owner says that of it.
fn gate_of(governance: &Governance, contract: &Contract, terms: ToolTerms) -> Arc<dyn ToolGate> {
    let terms = BTreeMap::from([(HAND_OVER.to_owned(), terms)]);
    let said = ToolStatements { terms: [terms, BTreeMap::new()], ..ToolStatements::default() };
    governance.gate(Arc::new(ContractGate::of(contract)), &agent(), contract, said)
}

/// A turn with internal data, which perhaps nobody vouches for.
fn turn(trusted: bool) -> Turn {
    let mut turn = Turn::new();
    turn.attributes.label = Some(Label { level: DataLabel::Internal, trusted });
    turn.arguments = json!({ "to": "clerk" });
    turn
}

fn cleared() -> ToolTerms {
    ToolTerms { clearance: Some(DataLabel::Internal), ..ToolTerms::default() }
}

#[tokio::test]
async fn a_turn_that_read_what_nobody_vouches_for_hands_nothing_over_unasked() {
    let (bench, contract, unsaid) = (Bench::new(), handing(), ToolTerms::default());
    let (honest, led) = (turn(true), turn(false));
    let governance = bench.start().await;
    permitted(gate_of(&governance, &contract, unsaid).decide(&led.call("one", HAND_OVER)).await);
    // Once an owner says more of it, labels decide without policies too.
    asked(gate_of(&governance, &contract, cleared()).decide(&led.call("two", HAND_OVER)).await);
    governance.load_policy(ALL, Actor::Owner).await.expect("it is good");
    let reason = denied(gate_of(&governance, &contract, unsaid).decide(&honest.call("three", HAND_OVER)).await);
    assert!(reason.contains("the data are internal") && reason.contains("cleared for public"), "{reason}");
    asked(gate_of(&governance, &contract, cleared()).decide(&led.call("four", HAND_OVER)).await);
    permitted(gate_of(&governance, &contract, cleared()).decide(&honest.call("five", HAND_OVER)).await);
    // What stays within the node is nobody's question.
    permitted(gate_of(&governance, &contract, unsaid).decide(&led.call("six", "session/note")).await);
}

#[tokio::test]
async fn above_the_tier_of_the_contract_it_is_not_shown_and_denied() {
    let (bench, mut contract) = (Bench::new(), handing());
    contract.security.max_tier = Some(3);
    let governance = bench.start().await;
    let tier = |tier| ToolTerms { tier, ..cleared() };
    for (terms, shown) in [(tier(None), false), (tier(Some(4)), false), (tier(Some(3)), true)] {
        let gate = gate_of(&governance, &contract, terms);
        assert_eq!(gate.lists(&agent(), HAND_OVER) == Permission::Allowed, shown, "{terms:?}");
        assert_eq!(gate.lists(&agent(), "session/note"), Permission::Allowed);
        let decided = gate.decide(&turn(true).call("task", HAND_OVER)).await;
        assert_eq!(matches!(decided, GateVerdict::Permit(_)), shown, "{terms:?}: {decided:?}");
    }
}

fn shown(leaves: &[AuditLeaf]) -> Vec<(AuditStage, Option<&str>, Option<AuditOutcome>)> {
    leaves.iter().map(|leaf| (leaf.stage, leaf.action.as_deref(), leaf.outcome)).collect()
}

#[tokio::test]
async fn its_intent_and_its_outcome_are_on_record() {
    let (bench, honest) = (Bench::new(), turn(true));
    let governance = bench.start().await;
    let (gate, call) = (gate_of(&governance, &handing(), ToolTerms::default()), honest.call("task", HAND_OVER));
    let permit = permitted(gate.decide(&call).await);
    bench.intent(permit.clone()).await;
    let rows = gate.settle(&call, &permit, Ok(&json!({ "content": [], "isError": false }))).await;
    bench.store.write(rows, Durability::Synced).await.expect("it is written");
    let outcome = |outcome| (AuditStage::Outcome, Some(HAND_OVER), outcome);
    let intent = (AuditStage::Intent, Some(HAND_OVER), None);
    assert_eq!(shown(&leaves(&governance).await), [intent, outcome(Some(AuditOutcome::Done))]);

    // Where the work is taken its agent is stopped, and nobody else says what came of the call.
    let (agent, recipient) = (agent(), AgentRef::new(owner(), "clerk", "1.0.0").expect("a name").id);
    let work = GivenWork {
        agent: &agent,
        task: "t-1",
        handoff: "h-1",
        recipient: &recipient,
        becomes: "t-2",
        label: honest.attributes.label,
        principals: &honest.principals,
        contract: "",
        binding: "",
        outcome: AuditOutcome::Done,
    };
    for (said, word) in [(AuditOutcome::Done, "t-2"), (AuditOutcome::Failed, "the work of task t-1 was not given")] {
        let work = GivenWork { outcome: said, ..work };
        let rows = TurnRecords(governance.clone()).given(&work);
        bench.store.write(rows, Durability::Synced).await.expect("it is written");
        let all = leaves(&governance).await;
        assert_eq!(shown(&all).pop(), Some(outcome(Some(said))));
        assert_eq!(all.last().and_then(|leaf| leaf.label_after), honest.attributes.label);
        let draft = crate::leaves::given_work(&work, ("grace", None), NOW_MS);
        let bodies: Vec<String> =
            draft.bodies.iter().map(|body| String::from_utf8_lossy(&body.bytes).into_owned()).collect();
        assert!(bodies.len() == 1 && bodies[0].contains(word), "{bodies:?}");
    }
}

#[tokio::test]
async fn a_read_of_a_program_that_turns_out_to_be_enclosed_weakly_carries_text_out_of_the_node() {
    let (bench, led) = (Bench::new(), turn(false));
    let governance = bench.start().await;
    let here = ToolStatements { here: BTreeSet::from(["shop".to_owned()]), ..profiles() };
    let at = |level| ToolCall { level, ..led.call("task", "shop/search") };
    for level in [None, Some(Level::Namespaces)] {
        permitted(gate_with(&governance, here.clone()).decide(&at(level)).await);
    }
    for level in [Level::Landlock, Level::Account, Level::None] {
        asked(gate_with(&governance, here.clone()).decide(&at(Some(level))).await);
    }
    let [node, file] = here.terms;
    let said = |terms: ToolTerms| ToolTerms { leaves: Some(false), ..terms };
    let node = node.into_iter().map(|(name, terms)| (name, said(terms))).collect();
    let known = ToolStatements { terms: [node, file], ..profiles() };
    permitted(gate_with(&governance, known).decide(&at(Some(Level::Landlock))).await);
}

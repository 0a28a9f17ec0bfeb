//! A tool that is not what it was: what people were asked about it is over, and no yes to further calls of it counts.

use althing_execution::definition::Unfit;
use althing_execution::tools::ToolError;
use althing_protocol::audit::AuditOutcome;

use super::records::leaves;
use super::*;
use crate::machine::consent::DenialReason;

/// An agent with tools of the same names, of which its contract wants the same.
fn other() -> AgentRef {
    AgentRef::new(owner(), "b", "1.0.0").expect("a name")
}

fn gate_of(governance: &Governance, agent: &AgentRef) -> Arc<dyn ToolGate> {
    let contract = contract();
    governance.gate(Arc::new(ContractGate::of(&contract)), agent, &contract, profiles())
}

fn about(agent: &AgentRef, item: &str) -> Turn {
    Turn { agent: agent.clone(), arguments: json!({ "item": item, "count": 1 }), ..Turn::new() }
}

/// Of an agent: a question that waits, and another one that was agreed to, with a yes to further calls. Gives their ids.
async fn asked_of(governance: &Governance, agent: &AgentRef) -> [String; 2] {
    let (gate, one, two) = (gate_of(governance, agent), about(agent, "lamp"), about(agent, "chair"));
    let waits = asked(gate.decide(&one.call("waits", "shop/order")).await).id;
    let agreed = asked(gate.decide(&two.call("agreed", "shop/order")).await).id;
    let standing = StandingTerms { until_ms: NOW_MS + 60_000, count: 2, free: ["count".to_owned()].into() };
    governance.answer(&agreed, Answer { standing: Some(standing), ..yes() }, Actor::Owner).await.expect("it counts");
    [waits, agreed]
}

/// Whose standing yes counts still.
fn standing_of(governance: &Governance) -> Vec<String> {
    governance.standing().iter().map(|yes| yes.template.agent.name().to_owned()).collect()
}

fn states(governance: &Governance, ids: &[String; 2]) -> [Option<AskState>; 2] {
    ids.each_ref().map(|id| governance.ask_state(id))
}

const OVER: [Option<AskState>; 2] = [Some(AskState::Denied(DenialReason::Changed)); 2];
const AS_BEFORE: [Option<AskState>; 2] = [Some(AskState::Open), Some(AskState::Approved)];

#[tokio::test]
async fn what_was_asked_and_agreed_to_about_a_tool_of_an_agent_ends_when_it_is_another_one() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let (mine, theirs) = (asked_of(&governance, &agent()).await, asked_of(&governance, &other()).await);
    let lamp = about(&agent(), "lamp");
    let waits = asked(gate(&governance).decide(&lamp.call("waits", "shop/order")).await);
    permitted(gate(&governance).decide(&lamp.call("reads", "shop/search")).await);
    assert_eq!(standing_of(&governance).len(), 2);
    let mut told = governance.asks_changed();
    let _ = told.borrow_and_update();

    let changed = Turn { definition: "cd".repeat(32), ..about(&agent(), "lamp") };
    let reason = denied(gate(&governance).decide(&changed.call("later", "shop/search")).await);
    assert!(reason.contains("add the agent again"), "{reason}");
    assert_eq!(states(&governance, &mine), AS_BEFORE, "another tool changed");
    let reason = denied(gate(&governance).decide(&changed.call("later", "shop/order")).await);
    assert!(reason.contains("add the agent again"), "{reason}");
    waits.answered.await;
    assert!(told.has_changed().expect("it is open"), "who tells people looks again");
    for is_started_again in [false, true] {
        let governance = if is_started_again { bench.start().await } else { governance.clone() };
        assert_eq!(states(&governance, &mine), OVER);
        assert_eq!(states(&governance, &theirs), AS_BEFORE, "the tool of another agent is what it was");
        assert_eq!(standing_of(&governance), ["b"]);
        let refused = governance.answer(&mine[0], yes(), Actor::Owner).await.expect_err("it is over");
        assert!(refused.to_string().contains("definition changed"), "{refused}");
    }
    let governance = bench.start().await;
    let leaves = leaves(&governance).await;
    let over = leaves.iter().filter(|leaf| leaf.outcome == Some(AuditOutcome::Expired));
    assert_eq!(over.filter_map(|leaf| leaf.agent.clone()).collect::<Vec<_>>(), [agent().id, agent().id]);
    let ended = leaves.iter().find(|leaf| leaf.action.as_deref() == Some("standing yes")).expect("it is on record");
    assert_eq!((ended.agent.clone(), ended.principals.len()), (Some(agent().id), 0), "nobody took it back");

    // Somebody agrees to what it is now, and is asked about it anew.
    governance.forget_definitions(&agent().id).await.expect("it is written");
    let ask = asked(gate(&governance).decide(&changed.call("later", "shop/order")).await);
    assert!(!mine.contains(&ask.id));
}

#[tokio::test]
async fn what_was_agreed_to_before_the_agent_was_added_again_with_another_tool_ends_with_its_first_call() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let mine = asked_of(&governance, &agent()).await;
    governance.forget_definitions(&agent().id).await.expect("it is written");
    asked(gate(&governance).decide(&about(&agent(), "sofa").call("same", "shop/order")).await);
    assert_eq!(states(&governance, &mine), AS_BEFORE, "it is the same tool");
    governance.forget_definitions(&agent().id).await.expect("it is written");
    let changed = Turn { definition: "cd".repeat(32), ..about(&agent(), "sofa") };
    asked(gate(&governance).decide(&changed.call("new", "shop/order")).await);
    assert_eq!((states(&governance, &mine), standing_of(&governance)), (OVER, Vec::new()));
}

#[tokio::test]
async fn a_tool_that_changes_while_its_agent_runs_ends_what_was_agreed_to_and_not_the_yes_that_was_used() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let (mine, theirs) = (asked_of(&governance, &agent()).await, asked_of(&governance, &other()).await);
    let (gate, chair) = (gate(&governance), about(&agent(), "chair"));
    let call = chair.call("agreed", "shop/order");
    let permit = permitted(gate.decide(&call).await);
    bench.intent(permit.clone()).await;
    let unfit = ToolError::Unfit { tool: "shop/order".to_owned(), unfit: Unfit::Refused("hidden".to_owned()) };
    drop(gate.settle(&call, &permit, Err(&unfit)).await);
    assert_eq!(governance.ask_state(&mine[0]), Some(AskState::Open), "it is not another one");
    // It is compared when it is called, after the gate permitted that.
    let unfit = ToolError::Unfit { tool: "shop/order".to_owned(), unfit: Unfit::Changed(Vec::new()) };
    drop(gate.settle(&call, &permit, Err(&unfit)).await);
    let expected = [Some(AskState::Denied(DenialReason::Changed)), Some(AskState::Used)];
    assert_eq!(states(&governance, &mine), expected);
    assert_eq!(states(&governance, &theirs), AS_BEFORE);
    assert_eq!(standing_of(&governance), ["b"]);
}

//! The principals of a call, on three nodes of three owners: the first calls the second's agent, which calls the third's.

use std::sync::Arc;

use althing_calls::machine::chain;
use althing_calls::{AgentCaller, HostedAgent, Operation, Principal};
use althing_communication::{CallerRule, Priority};
use althing_conformance::mesh::{Node, Owner, ask_as, file, message, store};
use althing_conformance::program::heard_beside;
use althing_conformance::world::until;
use althing_discovery::Query;
use althing_execution::TurnRights;
use althing_execution::agents::{AgentCalls as _, Question};
use althing_execution::lease::Leases;
use althing_protocol::{AgentId, AnswerAttributes, Attributes, CallerId};
use althing_simnet::{LinkConfig, SimNet};
use serde_json::json;

const X: u8 = 101;
const A: u8 = 102;
const B: u8 = 103;

struct Scene {
    x: Node,
    a: Node,
    b: Node,
    agent_a: AgentId,
    agent_b: AgentId,
    asking: AgentCaller,
}

/// An agent for all callers, which records the requests that it gets.
async fn host(node: &Node, name: &str) -> AgentId {
    let mut program = file(name, "does as it is told", "acting.do", "do", "play");
    program.runtime = althing_td::RuntimeSpec::Native { builtin: "program".to_owned(), config: json!({}) };
    node.host_for_anyone(&program).await
}

async fn scene() -> Scene {
    let net = SimNet::new(1, LinkConfig::default());
    let owner = |number: u8| CallerId::Publisher(Owner::new(althing_conformance::key(number)).id());
    let x = Node::start(&net, 1, X, &[], store()).await;
    let a = Node::start(&net, 2, A, &[owner(B)], store()).await;
    let b = Node::start(&net, 3, B, &[owner(A)], store()).await;
    let (agent_a, agent_b) = (host(&a, "a").await, host(&b, "b").await);
    x.connect(&a).await;
    a.connect(&b).await;
    x.connect(&b).await;
    let knows = |node: &Node, id: &AgentId| {
        let (all, _) = node.discovery.find(&Query::default());
        all.iter().any(|found| found.candidate.verified.agent == *id)
    };
    until("they know each other", || knows(&x, &agent_a) && knows(&a, &agent_b) && knows(&b, &agent_a)).await;
    let asking = AgentCaller::default();
    asking.connect(&a.calls);
    Scene { x, a, b, agent_a, agent_b, asking }
}

fn question(to: &AgentId, text: &str, principals: Vec<String>, as_itself: bool) -> Question {
    Question {
        from: "a".to_owned(),
        to: to.to_string(),
        message: text.to_owned(),
        task: None,
        delay_tolerant: false,
        principals,
        as_itself,
        rights: TurnRights::default(),
        key: None,
        callee: None,
        binding_hash: Arc::default(),
        attributes: Attributes::default(),
        answer: AnswerAttributes::default(),
    }
}

fn principals(text: &str) -> Vec<String> {
    let [heard] = &heard_beside(text)[..] else { panic!("{text:?} was heard once") };
    heard.principals.clone()
}

#[tokio::test(start_paused = true)]
async fn whoever_is_behind_a_call_is_seen_by_the_agent_at_its_end() {
    let scene = scene().await;
    scene.x.one(&scene.agent_a, Operation::SendMessage, message("message to a")).await.expect("an answer");
    let x = scene.x.owner.id().to_string();
    assert_eq!(principals("message to a"), ["local".to_owned(), x.clone()]);

    let asked = question(&scene.agent_b, "message to b", principals("message to a"), false);
    scene.asking.ask(asked).await.expect("an answer");
    assert_eq!(principals("message to b"), ["local".to_owned(), x, scene.agent_a.to_string()]);

    let asked = question(&scene.agent_b, "message as itself", principals("message to a"), true);
    scene.asking.ask(asked).await.expect("an answer");
    let anew = ["anew:2".to_owned(), scene.agent_a.to_string()];
    assert_eq!(principals("message as itself"), anew, "a new chain, which the other side sees");
}

/// Threat row 9: X may call A, and A may call B, which X may not.
#[tokio::test(start_paused = true)]
async fn nobody_gets_through_an_agent_what_it_may_not_have_itself() {
    let scene = scene().await;
    scene.b.hosting.add(HostedAgent {
        agent: scene.b.stable(&scene.agent_b),
        callers: CallerRule::Trusted,
        input_modes: vec!["text/plain".to_owned()],
        barge_in: false,
        is_told_again: false,
        priority: Priority::default(),
    });
    let directly = scene.x.one(&scene.agent_b, Operation::SendMessage, message("message directly")).await;
    assert_eq!(directly.expect_err("a refusal").reason(), "CALLER_NOT_ALLOWED");
    scene.x.one(&scene.agent_a, Operation::SendMessage, message("message deputy")).await.expect("an answer");
    let behind = principals("message deputy");
    let refused = scene.asking.ask(question(&scene.agent_b, "message by a", behind.clone(), false)).await;
    let why = refused.expect_err("a refusal");
    assert!(why.contains(&scene.x.owner.id().to_string()), "{why}");
    assert_eq!(heard_beside("message by a"), []);

    // A may, for its own people and in its own name.
    let local = vec!["local".to_owned()];
    scene.asking.ask(question(&scene.agent_b, "message of a's", local, false)).await.expect("an answer");
    scene.asking.ask(question(&scene.agent_b, "message of a", behind, true)).await.expect("an answer");
    assert_eq!(principals("message of a").last(), Some(&scene.agent_a.to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_caller_can_hide_others_but_not_itself() {
    let scene = scene().await;
    let x = scene.x.owner.id().to_string();
    let a_node = scene.a.id().to_string();
    for (number, said) in
        [vec![], vec!["local".to_owned()], vec![a_node], vec![scene.agent_b.to_string()]].into_iter().enumerate()
    {
        let text = format!("message hiding {number}");
        let sends = (Operation::SendMessage, &message(&text));
        let lie = ask_as(&scene.x.calls, &scene.agent_a, sends, chain::read(&said)).await;
        scene.x.calls.ask(lie.expect("good parameters")).await.expect("an answer");
        assert_eq!(principals(&text), [said, vec![x.clone()]].concat());
    }
}

#[tokio::test(start_paused = true)]
async fn an_agents_id_that_a_caller_wrote_makes_no_call_a_loop() {
    let scene = scene().await;
    let said = vec![Principal::Agent(scene.agent_b.clone())];
    let sends = (Operation::SendMessage, &message("message with a lie"));
    let lie = ask_as(&scene.x.calls, &scene.agent_a, sends, said).await;
    scene.x.calls.ask(lie.expect("good parameters")).await.expect("an answer");
    let asked = question(&scene.agent_b, "message despite it", principals("message with a lie"), false);
    scene.asking.ask(asked).await.expect("it is no loop");

    // What B's own node says of B is one.
    let said = vec![Principal::Local, Principal::Agent(scene.agent_b.clone())];
    let sends = (Operation::SendMessage, &message("message of b"));
    let truth = ask_as(&scene.b.calls, &scene.agent_a, sends, said).await;
    scene.b.calls.ask(truth.expect("good parameters")).await.expect("an answer");
    let asked = question(&scene.agent_b, "message back", principals("message of b"), false);
    assert!(scene.asking.ask(asked).await.expect_err("a loop").contains("waits for this answer already"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_of_this_node_works_under_the_lease_of_the_one_that_asks_it() {
    let scene = scene().await;
    let beside = host(&scene.a, "beside").await;
    let leases = Leases::default();
    let lease = leases.begin("group", "task", 3);
    let under = |to: &AgentId, text: &str| Question {
        rights: TurnRights::under(lease.clone()),
        ..question(to, text, vec!["local".to_owned()], false)
    };
    scene.asking.ask(under(&beside, "message under a lease")).await.expect("an answer");
    let [heard] = &heard_beside("message under a lease")[..] else { panic!("it was heard once") };
    assert_eq!(heard.rights.lease, Some(lease.clone()), "its tools and its memory are refused with the attempt");
    // Another node learns nothing of it, and cannot be told by whom it does not know.
    scene.asking.ask(under(&scene.agent_b, "message far under a lease")).await.expect("an answer");
    let [heard] = &heard_beside("message far under a lease")[..] else { panic!("it was heard once") };
    assert_eq!(heard.rights.lease, None);
}

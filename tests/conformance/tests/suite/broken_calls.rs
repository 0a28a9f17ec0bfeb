//! A call that broke off is not retried on another node, since its work could be done twice; nor is one that an agent makes again
//! under its key, since nodes that host the same agent do not know each other's keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use althing_calls::{AgentCaller, Operation, OperationError};
use althing_conformance::mesh::{Node, Setup, file, message, store};
use althing_conformance::program::heard_beside;
use althing_conformance::world::until;
use althing_execution::TurnRights;
use althing_execution::agents::{AgentCalls as _, Question};
use althing_execution::journal::{Intent, Journal, JournalError, NextStep, Step, StepOutcome};
use althing_protocol::{AgentId, AnswerAttributes, Attributes};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::Batch;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;

const OWNER: u8 = 100;

/// A node that asks, and two that host the same agent.
async fn scene(net: &SimNet) -> (Node, [Node; 2], AgentId) {
    let hosts = [Node::start(net, 2, OWNER, &[], store()).await, Node::start(net, 3, OWNER, &[], store()).await];
    let (asks, id) = asking(net, &hosts).await;
    (asks, hosts, id)
}

/// A node that asks, and knows that these host the same agent.
async fn asking(net: &SimNet, hosts: &[Node; 2]) -> (Node, AgentId) {
    let asks = Node::start(net, 1, OWNER, &[], store()).await;
    let mut program = file("program", "does as it is told", "acting.do", "do", "play");
    program.runtime = althing_td::RuntimeSpec::Native { builtin: "program".to_owned(), config: json!({}) };
    let id = hosts[0].host(&program).await;
    assert_eq!(hosts[1].host(&program).await, id);
    for host in hosts {
        asks.connect(host).await;
    }
    until("both are found", || asks.discovery.hosts(&id).len() == 2).await;
    (asks, id)
}

/// Asks in either way, for an answer that takes 90 s.
async fn call(node: &Node, id: &AgentId, operation: Operation, text: &str) -> Result<(), OperationError> {
    if operation.streams() {
        node.all(id, operation, message(text)).await.map(drop)
    } else {
        node.one(id, operation, message(text)).await.map(drop)
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_a_host_took_before_it_died_is_not_sent_to_another_host() {
    for operation in [Operation::SendMessage, Operation::SendStreamingMessage] {
        let net = SimNet::new(1, LinkConfig::default());
        let (asks, hosts, id) = scene(&net).await;
        let text = format!("late {}", operation.name());
        let dies = async {
            let works = || hosts.iter().find(|host| host.hosting.live_tasks() == 1);
            until("one works on it", || works().is_some()).await;
            net.crash(works().expect("one of them").id());
        };
        let (outcome, ()) = tokio::join!(call(&asks, &id, operation, &text), dies);
        assert_eq!(outcome.expect_err("nobody knows what became of it").reason(), "AGENT_UNREACHABLE", "{operation:?}");
        assert_eq!(heard_beside(&text).len(), 1, "{operation:?}: it is worked on once");
        // The other one is well, and takes what is asked next.
        until("the one that died is gone", || asks.discovery.hosts(&id).len() == 1).await;
        let next = format!("message after {}", operation.name());
        call(&asks, &id, operation, &next).await.expect("an answer");
        assert_eq!(heard_beside(&next).len(), 1);
    }
}

/// The journal of a turn whose node is killed: what others do for it goes on.
struct PausedJournal;

impl Journal for PausedJournal {
    fn step<'a>(&'a self, _: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        futures::future::ready(Err(JournalError::Write)).boxed()
    }

    fn done<'a>(&'a self, _: Intent, _: &'a StepOutcome, _: Batch) -> BoxFuture<'a, Result<(), JournalError>> {
        futures::future::ready(Err(JournalError::Write)).boxed()
    }

    fn is_paused(&self) -> bool {
        true
    }
}

/// An agent that asks one on two other nodes.
struct Desk {
    net: SimNet,
    caller: AgentCaller,
    asks: Node,
    hosts: [Node; 2],
    /// The loads of these, thousandths.
    loads: [Arc<AtomicU16>; 2],
    agent: AgentId,
}

impl Desk {
    async fn start() -> Desk {
        let net = SimNet::new(1, LinkConfig::default());
        let setups = [2, 3].map(|number| Setup::new(&net, number, u32::from(OWNER)));
        let loads = setups.each_ref().map(|setup| setup.load_permille.clone());
        let [first, second] = setups;
        let hosts = [Node::assemble(&net, first, store()).await, Node::assemble(&net, second, store()).await];
        let (asks, agent) = asking(&net, &hosts).await;
        asks.host(&file("asks", "asks another", "asking.do", "do", "ask")).await;
        let caller = AgentCaller::default();
        caller.connect(&asks.calls);
        Desk { net, caller, asks, hosts, loads, agent }
    }

    /// A question under a key that is made of that byte.
    fn question(&self, text: &str, key: &str, callee: &str) -> Question {
        Question {
            from: "asks".to_owned(),
            to: "program".to_owned(),
            message: text.to_owned(),
            task: None,
            delay_tolerant: false,
            principals: vec!["local".to_owned()],
            as_itself: false,
            rights: TurnRights { lease: None, journal: Some(Arc::new(PausedJournal)) },
            key: Some(key.repeat(32)),
            callee: Some(callee.to_owned()),
            binding_hash: Arc::default(),
            attributes: Attributes::default(),
            answer: AnswerAttributes::default(),
        }
    }

    /// The agent is asked, and the node of whoever asked ends while a host works; gives the number of that one.
    async fn cut_off(&self, question: Question) -> usize {
        let working = || self.hosts.iter().position(|host| host.hosting.live_tasks() == 1);
        let mut asked = self.caller.ask(question);
        tokio::select! {
            answered = &mut asked => panic!("it takes 90 s: {answered:?}"),
            () = until("a host works on it", || working().is_some()) => {}
        }
        working().expect("it was waited for")
    }
}

/// P-77
#[tokio::test(start_paused = true)]
async fn a_call_that_is_made_again_goes_to_the_host_that_took_it_though_another_one_is_idle() {
    let desk = Desk::start().await;
    let text = "late answer of the first";
    let callee = desk.caller.callee("program".to_owned()).await.expect("it may be called");
    let question = || desk.question(text, "9c", &callee);
    let busy = desk.cut_off(question()).await;
    desk.loads[busy].store(900, Ordering::Relaxed);
    let idle = desk.hosts[1 - busy].id();
    until("the other one is asked first by now", || desk.asks.discovery.hosts(&desk.agent)[0] == idle).await;
    let answer = desk.caller.ask(question()).await.expect("what the first one says");
    assert_eq!((answer.text.as_str(), heard_beside(text).len()), ("answer of the first", 1));
}

/// P-77
#[tokio::test(start_paused = true)]
async fn a_call_that_is_made_again_is_told_to_nobody_else_when_its_host_is_gone() {
    let desk = Desk::start().await;
    let text = "late answer of nobody";
    let callee = desk.caller.callee("program".to_owned()).await.expect("it may be called");
    let question = || desk.question(text, "9d", &callee);
    let gone = desk.cut_off(question()).await;
    let gone = desk.hosts[gone].id();
    desk.net.crash(gone);
    until("it is gone", || !desk.asks.discovery.hosts(&desk.agent).contains(&gone)).await;
    let why = desk.caller.ask(question()).await.expect_err("its host does not come back");
    assert!(why.contains(&gone.did()) && why.contains("no other node is asked"), "{why}");
    assert_eq!(heard_beside(text).len(), 1);
}

/// As builds from before wrote intents.
#[tokio::test(start_paused = true)]
async fn a_call_whose_host_was_not_written_down_is_not_made_again_where_several_may_have_it() {
    let desk = Desk::start().await;
    let text = "message of an older build";
    let question = || desk.question(text, "9e", &desk.agent.to_string());
    let why = desk.caller.ask(question()).await.expect_err("nobody knows who has it");
    assert!(why.contains("2 nodes host") && why.contains("not sent again"), "{why}");
    assert_eq!(heard_beside(text).len(), 0);
    desk.net.crash(desk.hosts[0].id());
    until("one is alone", || desk.asks.discovery.hosts(&desk.agent).len() == 1).await;
    let answer = desk.caller.ask(question()).await.expect("there is no other one");
    assert_eq!((answer.text.as_str(), heard_beside(text).len()), ("of an older build", 1));
}

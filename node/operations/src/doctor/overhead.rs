//! What each layer of this node adds to a call that does nothing: measured now, with an agent that echoes and that nobody else
//! sees, beside the cost of a bare task of the runtime in the same run.

use std::path::Path;
use std::time::Duration;

use a2a::{GetTaskRequest, Message, Part, Role, SendMessageRequest};
use althing_calls::spans::TRACE;
use althing_calls::{Asker, CALL, CallRequest, Callee, Operation, OperationRequest, Principal, Purpose, Reply};
use althing_communication::{CallError, Request};
use althing_discovery::TrustRelation;
use althing_execution::agent::Parameters;
use althing_execution::{Output, Turn};
use althing_node::Node;
use althing_protocol::{AgentId, Frame, FrameKind, FrameOpener, FrameSealer, PublicKey, SecretKey, StreamBinding};
use althing_td::AgentFile;
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Rounds of what takes microseconds.
const ROUNDS: usize = 1_000;
/// Rounds of what writes to disk; each leaves a task.
const DURABLE_ROUNDS: usize = 32;
/// Rounds before those that count.
const WARMING: usize = 8;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The agent that is called.
const AGENT: &str = "overhead-echo";
/// What it is, as an agent file.
const FILE: &str = r#"{
    "name": "overhead-echo",
    "description": "Is measured for what the layers of a node add to a call",
    "runtime": { "native": { "builtin": "echo", "config": {} } },
    "callers": "this-node",
    "exposure": "hidden",
    "contract": { "class": { "latency": "srt" }, "verify": { "output": "optional" } }
}"#;

/// What the layers of a node add to a call.
#[derive(Debug, Clone)]
pub struct Overhead {
    /// The parts of a call, in the order of the layers.
    pub rows: Vec<OverheadRow>,
    /// Whether the way to another node was measured too.
    pub is_remote: bool,
}

/// What was measured of one part of a call.
#[derive(Debug, Clone)]
pub struct OverheadRow {
    /// Which adds it: `L2 communication`, or `floor` for what none of them adds.
    pub layer: &'static str,
    /// What was done.
    pub what: String,
    /// The median, microseconds.
    pub p50_us: f64,
    /// The 99th percentile, microseconds.
    pub p99_us: f64,
    /// How much of the median the layer itself adds, microseconds.
    pub adds_us: f64,
    /// How often it was measured.
    pub rounds: usize,
}

/// One part of a call.
struct Row {
    layer: &'static str,
    what: String,
    took: Vec<Duration>,
}

impl Row {
    fn quantile_us(&self, permille: usize) -> f64 {
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * permille / 1_000).min(sorted.len().saturating_sub(1));
        sorted.get(at).map_or(0.0, |took| took.as_secs_f64() * 1e6)
    }
}

/// Measures what each layer adds to a call.
///
/// # Errors
/// What could not be measured, for people.
pub async fn overhead(node: &Node) -> Result<Overhead, String> {
    let file = AgentFile::parse(FILE).map_err(|error| error.to_string())?;
    let added = node.agents.add(file, Path::new("/"), None, false).await;
    let agent = added.map_err(|error| format!("the agent that is measured does not run: {error}"))?;
    let measured = tokio::time::timeout(PATIENCE, measure(node, &agent)).await;
    if let Err(error) = node.agents.end(AGENT).await {
        tracing::error!(%error, "the agent that was measured could not be ended");
    }
    measured.map_err(|_| format!("this node is too busy: it took more than {} s", PATIENCE.as_secs()))?
}

async fn measure(node: &Node, agent: &AgentId) -> Result<Overhead, String> {
    let floor = bare().await?;
    let frame = frames(node)?;
    let found = resolved(node, agent).await?;
    let turn = turns(node).await?;
    let (read, sent) = called(node, agent).await?;
    let p50 = |row: &Row| row.quantile_us(500);
    let shown = |row: &Row, adds: f64| OverheadRow {
        layer: row.layer,
        what: row.what.clone(),
        p50_us: p50(row),
        p99_us: row.quantile_us(990),
        adds_us: adds.max(0.0),
        rounds: row.took.len(),
    };
    let mut rows = vec![
        shown(&floor, p50(&floor)),
        shown(&turn, p50(&turn) - p50(&floor)),
        shown(&frame, p50(&frame)),
        shown(&found, p50(&found)),
        shown(&read, p50(&read) - p50(&found)),
        shown(&sent, p50(&sent) - p50(&turn) - p50(&read)),
    ];
    let there_and_back = remote(node).await;
    if let Some(row) = &there_and_back {
        rows.insert(3, shown(row, p50(row)));
    }
    Ok(Overhead { rows, is_remote: there_and_back.is_some() })
}

/// Spawning a task that does nothing, and awaiting it. From a thread that is none of the runtime's workers, as in `althing
/// bench layers`: a worker runs a task of its own next and wakes nobody, so that there is nothing to measure.
async fn bare() -> Result<Row, String> {
    let runtime = Handle::current();
    let measuring = move || {
        let mut took = Vec::with_capacity(ROUNDS);
        runtime.block_on(async {
            for round in 0..ROUNDS + WARMING {
                let begun = Instant::now();
                // A task that does nothing does not fail.
                let _ = tokio::spawn(async {}).await;
                note(&mut took, round, begun);
            }
        });
        took
    };
    let took = tokio::task::spawn_blocking(measuring).await.map_err(|error| error.to_string())?;
    Ok(Row { layer: "floor", what: "a bare task of the runtime".to_owned(), took })
}

/// The first rounds do not count.
fn note(took: &mut Vec<Duration>, round: usize, begun: Instant) {
    if round >= WARMING {
        took.push(begun.elapsed());
    }
}

/// A request, signed by this node's key, and opened as its peer does.
fn frames(node: &Node) -> Result<Row, String> {
    let peer = SecretKey::from_seed(&node.entropy().bytes());
    let binding = StreamBinding {
        network: node.network().to_owned(),
        protocol: CALL.to_owned(),
        opener: node.key.public(),
        acceptor: peer.public(),
        opener_challenge: node.entropy().bytes(),
        acceptor_challenge: node.entropy().bytes(),
    };
    let mut sealer = FrameSealer::new(&binding, node.key.clone());
    let mut opener = FrameOpener::new(&binding, peer.public());
    let mut took = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS + WARMING {
        let begun = Instant::now();
        let frame = Frame { operation: Some("GetTask".to_owned()), ..Frame::new(FrameKind::Request, b"{}".to_vec()) };
        let bytes = sealer.seal(frame).map_err(|error| error.to_string())?;
        opener.open(&bytes).map_err(|error| error.to_string())?;
        note(&mut took, round, begun);
    }
    Ok(Row { layer: "L2 communication", what: "a frame, signed and verified".to_owned(), took })
}

/// From an agent's name to its id.
async fn resolved(node: &Node, agent: &AgentId) -> Result<Row, String> {
    let mut took = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS + WARMING {
        let begun = Instant::now();
        let resolved = node.calls.target(&Asker::Owner, &Callee::near(agent.name()), Purpose::Call).await;
        resolved.map_err(|error| error.message)?;
        note(&mut took, round, begun);
    }
    Ok(Row { layer: "L3 discovery", what: "a name, resolved".to_owned(), took })
}

/// Turns, without a task on disk.
async fn turns(node: &Node) -> Result<Row, String> {
    let mut took = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS + WARMING {
        let turn = Turn {
            task_id: "overhead".to_owned(),
            context_id: "overhead".to_owned(),
            message: Message::new(Role::User, vec![Part::text("")]),
            history: Vec::new(),
            artifacts: Vec::new(),
            remembered: None,
            parameters: Parameters::default(),
        };
        let (output, mut outputs) = Output::channel();
        let begun = Instant::now();
        let reading = async { while outputs.recv().await.is_some() {} };
        let (ended, ()) = tokio::join!(node.host.turn(AGENT, turn, output), reading);
        ended.map_err(|error| error.to_string())?;
        note(&mut took, round, begun);
    }
    Ok(Row { layer: "L1 execution", what: "a turn of an agent that echoes".to_owned(), took })
}

/// Whole calls: of an operation that only reads, and of a message, whose task is on disk before it is answered.
async fn called(node: &Node, agent: &AgentId) -> Result<(Row, Row), String> {
    let (mut sent, mut read, mut task) = (Vec::new(), Vec::new(), String::new());
    for round in 0..DURABLE_ROUNDS + WARMING {
        let mut message = Message::new(Role::User, vec![Part::text("")]);
        message.message_id = node.calls.new_id();
        let params = SendMessageRequest { message, configuration: None, metadata: None, tenant: None };
        let begun = Instant::now();
        let answer = ask(node, agent, Operation::SendMessage, &params).await?;
        note(&mut sent, round, begun);
        task = answer["task"]["id"].as_str().unwrap_or_default().to_owned();
    }
    let params = GetTaskRequest { id: task, history_length: None, tenant: None };
    for round in 0..ROUNDS + WARMING {
        let begun = Instant::now();
        ask(node, agent, Operation::GetTask, &params).await?;
        note(&mut read, round, begun);
    }
    let read = Row { layer: "calls", what: "an operation that reads a task".to_owned(), took: read };
    let what = "a message: checked, its turn, its task on disk".to_owned();
    Ok((read, Row { layer: "calls", what, took: sent }))
}

async fn ask<P: Serialize>(node: &Node, agent: &AgentId, operation: Operation, params: &P) -> Result<Value, String> {
    let params = serde_json::to_vec(params).map_err(|error| error.to_string())?;
    let request = OperationRequest::parse(operation, params).map_err(|error| error.message)?;
    let target = node.calls.target(&Asker::Owner, &Callee::Id(agent.clone()), Purpose::Call).await;
    let request = CallRequest::new(target.map_err(|error| error.message)?, request, vec![Principal::Local]);
    match node.calls.ask(request).await.map_err(|error| error.message)? {
        Reply::One(body) => serde_json::from_slice(&body).map_err(|error| error.to_string()),
        Reply::Events(_) => Err("it answered with a stream".to_owned()),
    }
}

/// A signed call to a connected node of the same owner, there and back; none if there is none.
async fn remote(node: &Node) -> Option<Row> {
    let peer = own_peer(node)?;
    let question = format!(r#"{{"trace":"{}"}}"#, "f".repeat(32)).into_bytes();
    let mut took = Vec::new();
    for round in 0..DURABLE_ROUNDS + WARMING {
        let begun = Instant::now();
        let answer: Result<Vec<u8>, CallError> =
            node.communication.call(peer, TRACE, Request::new("spans", question.clone())).await;
        answer.ok()?;
        note(&mut took, round, begun);
    }
    let what = format!("a signed call to {} that does nothing, there and back", super::short(&peer.did()));
    Some(Row { layer: "L2 communication", what, took })
}

fn own_peer(node: &Node) -> Option<PublicKey> {
    let peers = node.communication.network().peers().into_iter().map(|info| info.peer);
    let mut own = peers.filter(|peer| {
        let owner = node.communication.owner(*peer);
        owner.is_some_and(|owner| node.calls.relation(owner) == TrustRelation::Own)
    });
    own.next()
}

#[cfg(test)]
mod tests {
    use althing_protocol::contract::OutputRule;

    use super::*;

    #[test]
    fn the_agent_that_is_measured_may_say_nothing_so_that_a_measurement_leaves_no_finding() {
        let file = AgentFile::parse(FILE).expect("an agent file");
        let contract = file.contract.expect("it has a contract");
        assert_eq!(contract.verify.output, OutputRule::Optional);
    }
}

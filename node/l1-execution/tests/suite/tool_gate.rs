//! What the gate of an agent's tools sees of a turn that a host runs.

use std::path::Path;
use std::sync::{Arc, Mutex};

use a2a::{Message, Part, Role};
use althing_execution::agent::Parameters;
use althing_execution::memory::{MEMORY, Memories};
use althing_execution::process::ProcessConfig;
use althing_execution::tools::{GateVerdict, Permission, Permit, ToolCall, ToolError, ToolGate, ToolStatements, Tools};
use althing_execution::{Agent, AgentError, Builtins, Host, Output, Ports, Turn};
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentRef, Attributes, Contract, Label, PublisherId};
use althing_store::{Batch, MemoryStore};
use althing_td::AgentFile;
use futures::future::BoxFuture;
use serde_json::{Value, json};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Notes its message under a key.
struct Scribe(Arc<Tools>);

impl Agent for Scribe {
    fn turn<'a>(&'a self, turn: Turn, _: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            let arguments = json!({ "key": "last", "value": turn.text() }).to_string();
            let (noted, _) = self.0.invoke("memory/put", &arguments).await;
            noted.map(drop).map_err(|error| AgentError::Failed(error.to_string()))
        })
    }
}

/// What was seen of one call.
#[derive(Debug, PartialEq)]
struct Sighting {
    agent: AgentRef,
    words: [String; 5],
    trace: Option<String>,
    attributes: Attributes,
    arguments: Value,
}

type Sightings = Arc<Mutex<Vec<Sighting>>>;

/// Allows all calls of the agent that it was made for.
struct Watch {
    agent: AgentRef,
    sightings: Sightings,
}

impl ToolGate for Watch {
    fn lists(&self, agent: &AgentRef, _: &str) -> Permission {
        if *agent == self.agent { Permission::Allowed } else { Permission::Denied }
    }

    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, GateVerdict> {
        let words = [call.task, call.binding_hash, call.label.name(), call.server, call.tool].map(str::to_owned);
        self.sightings.lock().expect("nobody panics with it").push(Sighting {
            agent: call.agent.clone(),
            words,
            trace: call.trace.map(str::to_owned),
            attributes: call.attributes.clone(),
            arguments: call.arguments.clone(),
        });
        Box::pin(std::future::ready(GateVerdict::Permit(Permit::default())))
    }

    fn settle<'a>(
        &'a self,
        _: &'a ToolCall<'a>,
        _: &'a Permit,
        _: Result<&'a Value, &'a ToolError>,
    ) -> BoxFuture<'a, Batch> {
        Box::pin(std::future::ready(Batch::new()))
    }
}

#[tokio::test]
async fn a_gate_sees_the_agent_its_version_and_the_turn_that_a_call_is_made_in() {
    let sightings = Sightings::default();
    let seen = sightings.clone();
    let memories = Memories::new(
        Arc::new(MemoryStore::new(&[MEMORY])),
        Arc::new(|| 1_000),
        Arc::new(|bytes: &mut [u8]| bytes.fill(7)),
        Arc::new(|_: &str| Ok(None)),
    );
    let gate = move |agent: &AgentRef, _: &Contract, _: &ToolStatements| -> Arc<dyn ToolGate> {
        Arc::new(Watch { agent: agent.clone(), sightings: seen.clone() })
    };
    let owner = PublisherId::from_digest([4; 32]);
    let ports = Ports { owner, memories: Some(Arc::new(memories)), gate: Arc::new(gate), ..Ports::none() };
    let mut builtins = Builtins::new();
    builtins.insert("scribe", |_, _, calls| Ok(Arc::new(Scribe(calls.tools.clone()))));
    let host = Host::new(builtins, ProcessConfig::default()).with_ports(ports);
    let file = json!({
        "name": "scribe",
        "version": "2.1.0",
        "description": "Notes what it is told",
        "runtime": { "native": { "builtin": "scribe" } },
        "contract": {
            "class": { "latency": "srt" },
            "data_label": "confidential",
            "capabilities": ["memory/put"],
            "memory": {},
        },
    });
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
    let (out, _made) = Output::channel();
    let label = Label { level: DataLabel::Restricted, trusted: false };
    let attributes = Attributes { label: Some(label), session: Some([9; 32]), delegation: Some(vec![1, 2, 3]) };
    let turn = Turn {
        task_id: "task-7".to_owned(),
        context_id: "context".to_owned(),
        message: Message::new(Role::User, vec![Part::text("buy milk")]),
        history: Vec::new(),
        artifacts: Vec::new(),
        remembered: None,
        parameters: Parameters {
            traceparent: Some(TRACE.to_owned()),
            attributes: attributes.clone(),
            ..Parameters::default()
        },
    };
    host.turn("scribe", turn, out).await.expect("it is noted");

    let hash = host.binding("scribe").expect("it is bound").hash;
    let expected = Sighting {
        agent: AgentRef::new(owner, "scribe", "2.1.0").expect("a name"),
        words: ["task-7", &*hash, "confidential", "memory", "memory/put"].map(str::to_owned),
        trace: Some(TRACE.to_owned()),
        attributes,
        arguments: json!({ "key": "last", "value": "buy milk" }),
    };
    assert_eq!(*sightings.lock().expect("nobody panics with it"), [expected]);
}

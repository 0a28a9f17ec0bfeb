//! Tools as system calls: the only way out of an agent.
//!
//! A call is checked against the contract before anything is dispatched, bounded in time and size, hashed (the tool's
//! definition, the arguments, the result), and traced. What an agent is told of tools is what it may use.

mod gate;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use althing_protocol::{Contract, binding, digest, hex};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use crate::agents;
use crate::syscalls;

pub use gate::{ContractGate, Denied, ToolCall, ToolGate};

/// How long a tool may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a server may take to tell of its tools.
const LISTING: Duration = Duration::from_secs(20);
/// Arguments of a call, bytes of JSON.
const ARGUMENTS_BYTES_MAX: usize = 256 << 10;
/// A result, bytes of JSON; what is longer is refused, not cut.
const RESULT_BYTES_MAX: usize = 1 << 20;
/// Characters of a name that a model is told.
const TOLD_MAX: usize = 64;
/// Between a server and its tool, in names that models are told: they may hold no slash.
const JOINT: &str = "__";

/// A tool, as its server describes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Definition {
    /// Its name on the server.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
}

impl Definition {
    /// SHA-256 of the definition's canonical JSON (RFC 8785): another one is another tool.
    #[must_use]
    pub fn hash(&self) -> String {
        hash(&json!({ "name": self.name, "description": self.description, "inputSchema": self.input_schema }))
    }
}

/// Why a server did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It cannot be reached, or not be started.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// It did not answer in time.
    #[error("it did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// It answered with an error.
    #[error("{0}")]
    Failed(String),
}

/// A server of tools.
pub trait ToolServer: Send + Sync + 'static {
    /// Its tools, as they are now.
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>>;

    /// Calls one; gives MCP's `CallToolResult`.
    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>>;

    /// Ends the connection, and the program behind it.
    fn stop(&self) -> BoxFuture<'_, ()>;
}

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// It may not be made.
    #[error("{0}")]
    Denied(#[from] Denied),
    /// Its definition is not the one that the contract was bound to.
    #[error("{0:?} is not the tool that was bound: its definition has changed; add the agent again to bind it anew")]
    Changed(String),
    /// There is no such tool.
    #[error("there is no tool {0:?}")]
    Unknown(String),
    /// Its arguments are no JSON object, or too long.
    #[error("the arguments of {tool:?} are refused: {reason}")]
    Arguments {
        /// Which tool.
        tool: String,
        /// Why.
        reason: String,
    },
    /// Its server failed.
    #[error("{tool:?} failed: {fault}")]
    Fault {
        /// Which tool.
        tool: String,
        /// How.
        fault: Fault,
    },
}

/// What is kept of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// `server/tool`.
    pub tool: String,
    /// Hash of its definition.
    pub definition: String,
    /// Hash of its arguments.
    pub arguments: String,
    /// Hash of its result, when there was one.
    pub result: Option<String>,
    /// How long it took.
    pub took_us: u64,
    /// `done`, `error` (said by the tool), `denied` or `failed`.
    pub outcome: &'static str,
}

/// One agent's tools.
pub struct Tools {
    agent: String,
    servers: BTreeMap<String, Arc<dyn ToolServer>>,
    gate: Arc<dyn ToolGate>,
    /// What the servers listed last, by `server/tool`.
    known: Mutex<BTreeMap<String, Definition>>,
    /// The only definitions that may be called, where a contract insists.
    pinned: OnceLock<BTreeMap<String, String>>,
}

impl Tools {
    /// The tools of these servers, as far as the gate lets the agent use them.
    #[must_use]
    pub fn new(agent: &str, servers: BTreeMap<String, Arc<dyn ToolServer>>, gate: Arc<dyn ToolGate>) -> Tools {
        Tools { agent: agent.to_owned(), servers, gate, known: Mutex::default(), pinned: OnceLock::new() }
    }

    /// The same, as far as a contract alone lets the agent use them.
    #[must_use]
    pub fn of(agent: &str, contract: &Contract, servers: BTreeMap<String, Arc<dyn ToolServer>>) -> Tools {
        Tools::new(agent, servers, Arc::new(ContractGate::of(contract)))
    }

    /// From now on only these definitions may be called, by `server/tool` and hash.
    pub fn pin(&self, definitions: BTreeMap<String, String>) {
        // What was pinned stays.
        let _ = self.pinned.set(definitions);
    }

    /// What the servers listed last, allowed or not.
    #[must_use]
    pub fn definitions(&self) -> Vec<binding::Tool> {
        let known = self.known.lock().expect("no holder of the tools panics");
        let tool = |(name, tool): (&String, &Definition)| binding::Tool { name: name.clone(), definition: tool.hash() };
        known.iter().map(tool).collect()
    }

    /// True when there is no server at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The tools that the agent may use, by the name that a model is told. A server that does not answer has none now.
    pub async fn listed(&self) -> BTreeMap<String, Definition> {
        // One that hangs is no reason to know of none.
        let list = |(name, server): (&String, &Arc<dyn ToolServer>)| {
            let (name, server) = (name.clone(), server.clone());
            async move {
                let listed = timeout(LISTING, server.tools()).await;
                (name, listed.unwrap_or(Err(Fault::Silent(LISTING))))
            }
        };
        let listing = self.servers.iter().map(list);
        let mut known = BTreeMap::new();
        for (server, listed) in futures::future::join_all(listing).await {
            match listed {
                Ok(definitions) => {
                    known.extend(definitions.into_iter().map(|tool| (format!("{server}/{}", tool.name), tool)));
                }
                Err(fault) => tracing::warn!(agent = self.agent, server, %fault, "a tool server does not answer"),
            }
        }
        // Names that models cannot be told of: they would refuse the whole question.
        known.retain(|name: &String, _| {
            let tellable = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            let told = told_name(name);
            told.len() <= TOLD_MAX && told.chars().all(tellable)
        });
        let may = |name: &str| self.gate.lists(&self.agent, name);
        let told = known.iter().filter(|(name, _)| may(name)).map(|(name, tool)| (told_name(name), tool.clone()));
        let told = told.collect();
        *self.known.lock().expect("no holder of the tools panics") = known;
        told
    }

    /// Calls a tool by the name that a model was told, or by `server/tool`.
    pub async fn invoke(&self, told: &str, arguments: &str) -> (Result<Value, ToolError>, CallRecord) {
        let name = real_name(told);
        let definition = self.known.lock().expect("no holder of the tools panics").get(&name).cloned();
        let begun = Instant::now();
        let mut record = CallRecord {
            tool: name.clone(),
            definition: definition.as_ref().map(Definition::hash).unwrap_or_default(),
            arguments: String::new(),
            result: None,
            took_us: 0,
            outcome: "failed",
        };
        // The names are those of OpenTelemetry's conventions for GenAI.
        let span = syscalls::span(|| {
            tracing::info_span!(
                "execute_tool",
                otel.kind = "client",
                gen_ai.operation.name = "execute_tool",
                gen_ai.tool.name = name,
                gen_ai.agent.name = self.agent,
                gen_ai.tool.call.arguments = tracing::field::Empty,
                gen_ai.tool.call.result = tracing::field::Empty,
                althing.tool.definition = record.definition,
                althing.binding.hash = &*syscalls::binding(),
            )
        });
        syscalls::tell(&span, "gen_ai.tool.call.arguments", || arguments.to_owned());
        let dispatched = self.dispatch(&name, definition.as_ref(), arguments, &mut record).instrument(span.clone());
        let outcome = dispatched.await;
        syscalls::tell(&span, "gen_ai.tool.call.result", || match &outcome {
            Ok(result) => result.to_string(),
            Err(error) => error.to_string(),
        });
        record.took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        record.outcome = match &outcome {
            Ok(result) if result["isError"] == true => "error",
            Ok(_) => "done",
            Err(ToolError::Denied(_)) => "denied",
            Err(_) => "failed",
        };
        tracing::info!(
            agent = self.agent,
            tool = record.tool,
            outcome = record.outcome,
            took_us = record.took_us,
            "system call"
        );
        (outcome, record)
    }

    async fn dispatch(
        &self,
        name: &str,
        definition: Option<&Definition>,
        arguments: &str,
        record: &mut CallRecord,
    ) -> Result<Value, ToolError> {
        let refused = |reason: String| ToolError::Arguments { tool: name.to_owned(), reason };
        if arguments.len() > ARGUMENTS_BYTES_MAX {
            return Err(refused(format!("they have {} bytes, and {ARGUMENTS_BYTES_MAX} is the most", arguments.len())));
        }
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let arguments: Value = serde_json::from_str(text).map_err(|error| refused(error.to_string()))?;
        record.arguments = hash(&arguments);
        // The gate is asked first: who may not use a tool does not learn whether there is one.
        let call = ToolCall { agent: &self.agent, tool: name, definition: &record.definition, arguments: &arguments };
        self.gate.check(&call)?;
        if !arguments.is_object() {
            return Err(refused("they are no object".to_owned()));
        }
        if let Some(pinned) = self.pinned.get()
            && definition.is_some()
            // What is asked of an agent is the same whoever it is.
            && name.split_once('/').is_none_or(|(server, _)| server != agents::SERVER)
            && pinned.get(name) != Some(&record.definition)
        {
            return Err(ToolError::Changed(name.to_owned()));
        }
        let unknown = || ToolError::Unknown(name.to_owned());
        let (server, tool) = name.split_once('/').ok_or_else(unknown)?;
        let server = self.servers.get(server).filter(|_| definition.is_some()).ok_or_else(unknown)?;
        let fault = |fault| ToolError::Fault { tool: name.to_owned(), fault };
        let called =
            timeout(PATIENCE, server.call(tool, arguments)).await.map_err(|_| fault(Fault::Silent(PATIENCE)))?;
        let result = called.map_err(fault)?;
        let length = result.to_string().len();
        if length > RESULT_BYTES_MAX {
            return Err(fault(Fault::Failed(format!(
                "its result has {length} bytes, and {RESULT_BYTES_MAX} is the most"
            ))));
        }
        record.result = Some(hash(&result));
        Ok(result)
    }

    /// Whether a call that is no server's may be made.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn permits(&self, name: &str) -> Result<(), Denied> {
        self.gate.check(&ToolCall { agent: &self.agent, tool: name, definition: "", arguments: &Value::Null })
    }

    /// Ends all servers.
    pub async fn stop(&self) {
        futures::future::join_all(self.servers.values().map(|server| server.stop())).await;
    }
}

fn told_name(name: &str) -> String {
    name.replacen('/', JOINT, 1)
}

fn real_name(told: &str) -> String {
    if told.contains('/') { told.to_owned() } else { told.replacen(JOINT, "/", 1) }
}

fn hash(value: &Value) -> String {
    let canonical = serde_json_canonicalizer::to_vec(value).unwrap_or_default();
    hex(&digest(&canonical))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counting {
        calls: AtomicUsize,
    }

    impl ToolServer for Counting {
        fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
            let tool = |name: &str| Definition {
                name: name.to_owned(),
                description: "Does it.".to_owned(),
                input_schema: json!({}),
            };
            Box::pin(async move { Ok(vec![tool("read"), tool("write")]) })
        }

        fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
            self.calls.fetch_add(1, Ordering::SeqCst);
            Box::pin(
                async move { Ok(json!({ "content": [{ "type": "text", "text": format!("{tool} {arguments}") }] })) },
            )
        }

        fn stop(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
    }

    fn tools(allowed: &[&str]) -> (Tools, Arc<Counting>) {
        let counting = Arc::new(Counting::default());
        let gate = ContractGate::new(allowed.iter().map(|name| (*name).to_owned()).collect());
        let servers = BTreeMap::from([("files".to_owned(), counting.clone() as Arc<dyn ToolServer>)]);
        (Tools::new("agent", servers, Arc::new(gate)), counting)
    }

    #[tokio::test]
    async fn what_is_not_allowed_is_neither_told_of_nor_dispatched() {
        let (tools, counting) = tools(&["files/read"]);
        assert_eq!(tools.listed().await.keys().collect::<Vec<_>>(), ["files__read"]);
        for name in ["files__write", "files/write", "other/read", "nonsense", "files/none"] {
            let (outcome, record) = tools.invoke(name, "{}").await;
            assert!(matches!(outcome, Err(ToolError::Denied(_))), "{name}: {outcome:?}");
            assert_eq!((record.outcome, record.result), ("denied", None));
        }
        assert_eq!(counting.calls.load(Ordering::SeqCst), 0);
        let (outcome, record) = tools.invoke("files__read", r#"{"path": "a"}"#).await;
        assert!(outcome.expect("allowed").to_string().contains("read {"));
        assert_eq!((record.outcome, record.tool.as_str()), ("done", "files/read"));
        assert!([&record.definition, &record.arguments].iter().all(|hash| hash.len() == 64) && record.result.is_some());
    }

    #[tokio::test]
    async fn what_wants_consent_is_denied_where_nobody_can_be_asked() {
        let contract = json!({
            "class": { "latency": "srt" },
            "capabilities": ["files/*"],
            "security": { "consent_for": ["files/write"] },
        });
        let contract = Contract::from_value(&contract).expect("a contract");
        let counting = Arc::new(Counting::default());
        let servers = BTreeMap::from([("files".to_owned(), counting.clone() as Arc<dyn ToolServer>)]);
        let tools = Tools::of("agent", &contract, servers);
        assert_eq!(tools.listed().await.keys().collect::<Vec<_>>(), ["files__read"]);
        let (outcome, record) = tools.invoke("files/write", "{}").await;
        assert!(outcome.expect_err("denied").to_string().contains("consent"), "{record:?}");
        assert_eq!((record.outcome, counting.calls.load(Ordering::SeqCst)), ("denied", 0));
    }

    #[tokio::test]
    async fn arguments_are_an_object_of_bounded_size() {
        let (tools, counting) = tools(&["files/*"]);
        assert_eq!(tools.listed().await.len(), 2);
        for arguments in ["[]", "7", "{", &format!("{{\"a\": \"{}\"}}", "x".repeat(ARGUMENTS_BYTES_MAX))] {
            let (outcome, _) = tools.invoke("files__read", arguments).await;
            assert!(matches!(outcome, Err(ToolError::Arguments { .. })), "{outcome:?}");
        }
        assert!(matches!(tools.invoke("files/none", "{}").await.0, Err(ToolError::Unknown(_))));
        assert_eq!(counting.calls.load(Ordering::SeqCst), 0);
        assert!(tools.invoke("files__write", "").await.0.is_ok());
    }

    #[test]
    fn another_definition_is_another_tool() {
        let one =
            Definition { name: "a".to_owned(), description: "b".to_owned(), input_schema: json!({ "x": 1, "y": 2 }) };
        let same = Definition { input_schema: json!({ "y": 2, "x": 1 }), ..one.clone() };
        let other = Definition { description: "c".to_owned(), ..one.clone() };
        assert_eq!(one.hash(), same.hash());
        assert_ne!(one.hash(), other.hash());
    }
}

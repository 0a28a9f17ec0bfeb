//! Finding agents as a system call: `mesh/find_agents` and `mesh/describe_agent` pass the same gate as any tool. What an agent
//! finds it may call only where its contract names that agent too.

use std::sync::Arc;

use althing_protocol::contract::DataLabel;
use althing_protocol::{Contract, Label};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::agents::AgentCalls;
use crate::journal::Effect;
use crate::tools::{Definition, Fault, ToolServer};

/// The server name of the mesh in `capabilities`.
pub const SERVER: &str = "mesh";
/// The tool that searches.
const FIND: &str = "find_agents";
/// The tool that describes one agent.
const DESCRIBE: &str = "describe_agent";
/// Agents in one answer by default, and at most.
pub const LIMIT_DEFAULT: usize = 20;
/// See [`LIMIT_DEFAULT`].
pub const LIMIT_MAX: usize = 100;
/// Bytes of an agent's name or id.
const AGENT_BYTES_MAX: usize = 256;

/// What is looked for, as a JSON Schema.
#[must_use]
pub fn filter_schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "properties": {
            "text": text("Free text: the best matches come first."),
            "capability": text("A skill's id, such as billing.view; billing.* matches all that begin with billing."),
            "action": text("What the agent does, such as translate."),
            "target": text("What it does it to, such as text."),
            "max_load": { "type": "number", "minimum": 0, "maximum": 1, "description": "Highest load of its node." },
            "limit": { "type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT },
        },
        "additionalProperties": false,
    })
}

/// What an agent may learn of others, as a tool server.
pub(crate) struct MeshServer(Arc<dyn AgentCalls>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    agent: String,
}

impl MeshServer {
    /// The server; none if the contract names none of its tools or the node reaches no other agents.
    pub fn of(contract: &Contract, calls: Option<&Arc<dyn AgentCalls>>) -> Option<MeshServer> {
        let of_it = |name: &String| name.split_once('/').is_some_and(|(server, _)| server == SERVER);
        let named = contract.capabilities.iter().any(of_it);
        calls.filter(|_| named).map(|calls| MeshServer(calls.clone()))
    }
}

fn definitions() -> Vec<Definition> {
    let find = "Finds agents of this node's owner and of those it trusts, on any node, by what they can do. A list of \
                agents with their skills; `more` counts those that were left out.";
    let describe = "Describes one agent by its name or id: what it does, its skills, and the nodes that host it.";
    let named = json!({
        "type": "object",
        "properties": { "agent": { "type": "string", "description": "Its name or id." } },
        "required": ["agent"],
        "additionalProperties": false,
    });
    vec![Definition::new(FIND, find, filter_schema()), Definition::new(DESCRIBE, describe, named)]
}

impl ToolServer for MeshServer {
    fn is_own(&self) -> bool {
        true
    }

    fn effect(&self, _: &str) -> Option<Effect> {
        Some(Effect::Repeatable)
    }

    /// Descriptions are published, and strangers write them.
    fn label(&self, _: &str) -> Option<Label> {
        Some(Label { level: DataLabel::Public, trusted: false })
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(std::future::ready(Ok(definitions())))
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            let found = match tool {
                FIND => self.0.find(arguments).await,
                DESCRIBE => {
                    let Named { agent } =
                        Named::deserialize(arguments).map_err(|error| Fault::Failed(error.to_string()))?;
                    if agent.len() > AGENT_BYTES_MAX {
                        return Err(Fault::Failed(format!("an agent's id has at most {AGENT_BYTES_MAX} bytes")));
                    }
                    self.0.describe(agent).await
                }
                other => Err(format!("there is no tool {other:?} here; there are {FIND} and {DESCRIBE}")),
            };
            let found = found.map_err(Fault::Failed)?;
            Ok(json!({
                "content": [{ "type": "text", "text": found.to_string() }],
                "structuredContent": found,
                "isError": false,
            }))
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::agents::{AgentReply, Question};
    use crate::journal::is_own_read;
    use crate::ports::Ports;
    use crate::tools::{ContractGate, ToolError, Tools};

    struct Table;

    impl AgentCalls for Table {
        fn known(&self, _: usize) -> Vec<String> {
            Vec::new()
        }

        fn ask(&self, _: Question) -> BoxFuture<'_, Result<AgentReply, String>> {
            Box::pin(async { Err("nobody is asked".to_owned()) })
        }

        fn find(&self, filter: Value) -> BoxFuture<'_, Result<Value, String>> {
            Box::pin(async move { Ok(json!({ "agents": [], "more": 0, "asked": filter })) })
        }

        fn describe(&self, agent: String) -> BoxFuture<'_, Result<Value, String>> {
            Box::pin(async move { Err(format!("{agent} is not known")) })
        }
    }

    fn tools(capability: &str) -> Tools {
        let contract = json!({ "class": { "latency": "srt" }, "capabilities": [capability] });
        let contract = Contract::from_value(&contract).expect("a contract");
        let calls: Arc<dyn AgentCalls> = Arc::new(Table);
        let server = MeshServer::of(&contract, Some(&calls)).map(|server| (SERVER.to_owned(), Arc::new(server) as _));
        let agent = Ports::none().agent_ref("helper", "1.0.0").expect("a name");
        Tools::new(agent, server.into_iter().collect::<BTreeMap<_, _>>(), Arc::new(ContractGate::of(&contract)))
    }

    #[test]
    fn all_of_its_tools_only_look() {
        for tool in definitions() {
            assert!(is_own_read(&format!("{SERVER}/{}", tool.name)), "{}", tool.name);
        }
        assert_eq!(definitions().len(), 2);
    }

    #[tokio::test]
    async fn a_contract_decides_what_an_agent_may_find_out() {
        let both = tools("mesh/*");
        assert_eq!(both.listed().await.into_keys().collect::<Vec<_>>(), ["mesh__describe_agent", "mesh__find_agents"]);
        let (found, record) = both.invoke("mesh__find_agents", r#"{"text": "billing"}"#).await;
        assert_eq!(found.expect("an answer")["structuredContent"]["asked"]["text"], "billing");
        assert_eq!((record.tool.as_str(), record.outcome), ("mesh/find_agents", "done"));
        for (arguments, why) in [
            (r#"{"agent": "x"}"#.to_owned(), "x is not known"),
            ("{}".to_owned(), "missing field"),
            (json!({ "agent": "x".repeat(300) }).to_string(), "at most 256 bytes"),
        ] {
            let (described, _) = both.invoke("mesh/describe_agent", &arguments).await;
            let error = described.expect_err("it is refused");
            assert!(matches!(error, ToolError::Fault { .. }) && error.to_string().contains(why), "{error}");
        }

        let one = tools("mesh/find_agents");
        assert_eq!(one.listed().await.into_keys().collect::<Vec<_>>(), ["mesh__find_agents"]);
        for (tools, tool) in [(one, "mesh/describe_agent"), (tools("agents/echo"), "mesh/find_agents")] {
            let (denied, record) = tools.invoke(tool, r#"{"agent": "x"}"#).await;
            assert!(matches!(denied, Err(ToolError::Denied(_))), "{denied:?}");
            assert_eq!(record.outcome, "denied");
        }
    }
}

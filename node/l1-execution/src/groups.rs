//! The groups of this node as tools: `groups/NAME` gives the group a task and waits for its result, through the same gate as
//! any system call; and `group`, an agent that does nothing else, so that a group is an agent that anybody may call.

use std::path::Path;
use std::sync::Arc;

use althing_protocol::group::Target;
use althing_protocol::{AnswerAttributes, Contract, Label};
use althing_td::{AgentFile, AsksAs};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::ServedGroup;
use crate::context;
use crate::journal::{Effect, TurnRights};
use crate::steps;
use crate::syscalls::SystemCalls;
use crate::tools::{Definition, Fault, ToolError, ToolServer, Tools};
use crate::{Agent, AgentError, Output, Turn};

/// The server name of groups in `capabilities`.
pub const SERVER: &str = "groups";

/// Gives groups tasks.
pub trait GroupTasks: Send + Sync + 'static {
    /// Submits a task, and waits for its result. Dropping the future cancels the task, unless the turn that orders it was paused.
    fn run(&self, order: Order) -> BoxFuture<'_, Result<String, OrderError>>;
}

/// Why a group gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// The group does not answer now. The text says whether the task may have been executed.
    #[error("{0}")]
    Busy(String),
    /// It has none.
    #[error("{0}")]
    Failed(String),
}

impl From<OrderError> for Fault {
    fn from(error: OrderError) -> Fault {
        match error {
            OrderError::Busy(why) => Fault::Busy(why),
            OrderError::Failed(why) => Fault::Failed(why),
        }
    }
}

/// What an agent asks of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The agent, of this node.
    pub from: String,
    /// The group's name or id.
    pub group: String,
    /// The capability of the agent that does it.
    pub capability: Option<String>,
    /// Or its name.
    pub agent: Option<String>,
    /// What is to be done.
    pub message: String,
    /// On whose behalf the agent runs, the origin first.
    pub principals: Vec<String>,
    /// Whether it asks on its own behalf only.
    pub as_itself: bool,
    /// The key of the call, where the turn has a journal: the group is given one task, however often it is ordered with it.
    pub key: Option<[u8; 32]>,
    /// The lease under which the agent's turn runs, and its journal.
    pub rights: TurnRights,
    /// The label of all that the agent's turn was given.
    pub label: Option<Label>,
    /// Where the label of the result is added to.
    pub answer: AnswerAttributes,
}

/// The groups that one agent may give tasks, as a tool server.
pub(crate) struct GroupServer {
    from: String,
    named: Vec<String>,
    as_itself: bool,
    tasks: Arc<dyn GroupTasks>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capability: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
}

impl GroupServer {
    /// The server for the groups that the contract names; none if it names none, or the node has no groups.
    pub fn of(file: &AgentFile, contract: &Contract, tasks: Option<&Arc<dyn GroupTasks>>) -> Option<GroupServer> {
        let names = contract.capabilities.iter().filter_map(|name| name.strip_prefix(SERVER)?.strip_prefix('/'));
        let named: Vec<String> = names.map(str::to_owned).collect();
        let as_itself = file.asks_as == AsksAs::Itself;
        let some = !named.is_empty();
        tasks.filter(|_| some).map(|tasks| GroupServer {
            from: file.name.clone(),
            named,
            as_itself,
            tasks: tasks.clone(),
        })
    }
}

/// Whether a contract lets its agent give groups tasks.
pub(crate) fn gives_tasks(contract: &Contract) -> bool {
    contract.capabilities.iter().any(|name| name.split_once('/').is_some_and(|(server, _)| server == SERVER))
}

fn definition(name: &str) -> Definition {
    let description = format!(
        "Gives the group {name:?} a task, which a member does whose agent has the capability, or the name, and returns the \
         result."
    );
    let input_schema = json!({
        "type": "object",
        "properties": {
            "message": { "type": "string" },
            "capability": { "type": "string" },
            "agent": { "type": "string" },
        },
        "required": ["message"],
        "additionalProperties": false,
    });
    Definition::new(name, &description, input_schema)
}

impl ToolServer for GroupServer {
    fn is_own(&self) -> bool {
        true
    }

    fn effect(&self, _: &str) -> Option<Effect> {
        Some(Effect::Keyed)
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(async move { Ok(self.named.iter().map(|name| definition(name)).collect()) })
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            let Arguments { message, capability, agent } =
                Arguments::deserialize(arguments).map_err(|error| Fault::Failed(error.to_string()))?;
            if capability.is_some() == agent.is_some() {
                return Err(Fault::Failed("name either a capability or an agent".to_owned()));
            }
            let (turn, answer) = (context::now(), AnswerAttributes::default());
            let order = Order {
                from: self.from.clone(),
                group: tool.to_owned(),
                capability,
                agent,
                message,
                principals: turn.principals.to_vec(),
                as_itself: self.as_itself,
                key: steps::current_key(),
                rights: turn.rights.clone(),
                label: turn.attributes.sent().label,
                answer: answer.clone(),
            };
            let text = self.tasks.run(order).await;
            // Of why there is no result the same is said as of a result.
            turn.attributes.hear(answer.label());
            let text = text?;
            Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": false }))
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// A group as an agent: each message is a task of the group, and the answer is its result.
pub struct GroupAgent {
    tools: Arc<Tools>,
    tool: String,
    served: ServedGroup,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    group: String,
    capability: Option<String>,
    agent: Option<String>,
}

impl GroupAgent {
    /// The agent of this configuration: `group`, and either `capability` or `agent`.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn build(config: &Value, _folder: &Path, calls: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
        let Config { group, capability, agent } = Config::deserialize(config)
            .map_err(|error| format!("{error}; write group, and either capability or agent"))?;
        let target = match (capability, agent) {
            (Some(capability), None) => Target::Capability(capability),
            (None, Some(agent)) => Target::Agent(agent),
            _ => return Err("name either a capability or an agent of the group's members".to_owned()),
        };
        let tool = format!("{SERVER}/{group}");
        Ok(Arc::new(GroupAgent { tools: calls.tools.clone(), tool, served: ServedGroup { group, target } }))
    }
}

impl Agent for GroupAgent {
    fn serves_group(&self) -> Option<&ServedGroup> {
        Some(&self.served)
    }

    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            let (capability, agent) = match self.served.target.clone() {
                Target::Capability(capability) => (Some(capability), None),
                Target::Agent(agent) => (None, Some(agent)),
            };
            let arguments = Arguments { message: turn.text(), capability, agent };
            let arguments = serde_json::to_string(&arguments).expect("texts are JSON");
            let (outcome, _) = self.tools.invoke(&self.tool, &arguments).await;
            let result = outcome.map_err(|error| match error {
                ToolError::Fault { fault: Fault::Busy(why), .. } => AgentError::Busy(why),
                error => AgentError::Failed(error.to_string()),
            })?;
            out.text("result", result["content"][0]["text"].as_str().unwrap_or_default()).await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use a2a::{Message, Part, Role};

    use super::*;
    use crate::agent::Parameters;
    use crate::ports::Ports;
    use crate::tools::ContractGate;

    /// A group that never has a result.
    struct Never(OrderError);

    impl GroupTasks for Never {
        fn run(&self, _: Order) -> BoxFuture<'_, Result<String, OrderError>> {
            Box::pin(async move { Err(self.0.clone()) })
        }
    }

    /// What the agent of a group says to a message when the group says so.
    async fn said(error: OrderError) -> AgentError {
        let server = GroupServer {
            from: "desk".to_owned(),
            named: vec!["team".to_owned()],
            as_itself: false,
            tasks: Arc::new(Never(error)),
        };
        let servers = BTreeMap::from([(SERVER.to_owned(), Arc::new(server) as Arc<dyn ToolServer>)]);
        let gate = ContractGate::new(vec!["groups/team".to_owned()]);
        let desk = Ports::none().agent_ref("desk", "1.0.0").expect("a name");
        let tools = Arc::new(Tools::new(desk, servers, Arc::new(gate)));
        let served = ServedGroup { group: "team".to_owned(), target: Target::Capability("echo".to_owned()) };
        let agent = GroupAgent { tools, tool: "groups/team".to_owned(), served };
        let turn = Turn {
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            message: Message::new(Role::User, vec![Part::text("do it")]),
            history: Vec::new(),
            artifacts: Vec::new(),
            remembered: None,
            parameters: Parameters::default(),
        };
        agent.turn(turn, Output::channel().0).await.expect_err("the group has no result")
    }

    #[tokio::test]
    async fn a_group_that_does_not_answer_is_busy_and_nothing_has_failed() {
        let why = || "the group did not answer".to_owned();
        assert_eq!(said(OrderError::Busy(why())).await, AgentError::Busy(why()));
        let failed = said(OrderError::Failed("the task was canceled".to_owned())).await;
        assert!(matches!(&failed, AgentError::Failed(why) if why.contains("canceled")), "{failed:?}");
    }
}

//! Other agents as tools: `agents/NAME` goes through the same gate as any system call, and is kept, timed and traced as
//! one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::Contract;
use althing_protocol::contract::Class;
use althing_td::{AgentFile, AsksAs};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context;
use crate::tools::{Definition, Fault, ToolServer};

/// The name that other agents have in `capabilities`.
pub const SERVER: &str = "agents";
/// Agents that a model is told of, where its contract names none of them.
const TOLD_MAX: usize = 64;

/// Reaches other agents, wherever they are.
pub trait AgentCalls: Send + Sync + 'static {
    /// Names of agents that are known now, at most `max`; each once.
    fn known(&self, max: usize) -> Vec<String>;

    /// Asks one. Dropping the future gives its task up.
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<Said, String>>;
}

/// The state of a task that waits for whoever began it.
pub const ASKS_BACK: &str = "TASK_STATE_INPUT_REQUIRED";
/// Tasks of one agent with others that may be gone on with.
const BEGUN_MAX: usize = 1_000;

/// What one agent asks another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Who asks: an agent of this node.
    pub from: String,
    /// Who is asked.
    pub to: String,
    /// What.
    pub message: String,
    /// The task that it goes on with, where the other agent had a question of its own.
    pub task: Option<String>,
    /// Whether nobody waits for it.
    pub delay_tolerant: bool,
    /// Who asked the one who asks, the origin first.
    pub principals: Vec<String>,
    /// Whether it is asked in nobody's name but the agent's own.
    pub as_itself: bool,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The agent's id.
    pub agent: String,
    /// Its task.
    pub task: String,
    /// A2A's name of the task's state.
    pub state: String,
    /// Everything that it said; its data as JSON, where it said nothing in words.
    pub text: String,
}

/// The agents that one agent may ask.
pub(crate) struct AgentServer {
    from: String,
    named: Vec<String>,
    delay_tolerant: bool,
    as_itself: bool,
    calls: Arc<dyn AgentCalls>,
    /// Tasks that the agent began, by whom they are with: nobody else's are gone on with.
    begun: Mutex<BTreeSet<(String, String)>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    message: String,
    task: Option<String>,
}

impl AgentServer {
    /// Those that the contract names, if it names any and there is a way to them.
    pub fn of(file: &AgentFile, contract: &Contract, calls: Option<&Arc<dyn AgentCalls>>) -> Option<AgentServer> {
        let names = contract.capabilities.iter().filter_map(|name| name.strip_prefix(SERVER)?.strip_prefix('/'));
        let named: Vec<String> = names.map(str::to_owned).collect();
        let delay_tolerant = matches!(contract.class, Class::Dt(_));
        let some = !named.is_empty();
        calls.filter(|_| some).map(|calls| AgentServer {
            from: file.name.clone(),
            named,
            delay_tolerant,
            as_itself: file.asks_as == AsksAs::Itself,
            calls: calls.clone(),
            begun: Mutex::default(),
        })
    }

    fn begun(&self) -> MutexGuard<'_, BTreeSet<(String, String)>> {
        self.begun.lock().expect("no holder of the tasks panics")
    }
}

/// The same wherever it is bound: what an agent says of itself may change without becoming another one.
fn definition(name: &str) -> Definition {
    let description = format!(
        "Asks the agent {name:?} and gives its answer. Where it answers with a question, its task goes on with the next \
         message that names it as `task`."
    );
    let input_schema = json!({
        "type": "object",
        "properties": { "message": { "type": "string" }, "task": { "type": "string" } },
        "required": ["message"],
        "additionalProperties": false,
    });
    Definition::new(name, &description, input_schema)
}

impl ToolServer for AgentServer {
    fn is_own(&self) -> bool {
        true
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        let mut names: Vec<String> = self.named.iter().filter(|name| *name != "*").cloned().collect();
        if names.len() < self.named.len() {
            names.extend(self.calls.known(TOLD_MAX));
        }
        names.sort_unstable();
        names.dedup();
        names.retain(|name| *name != self.from);
        Box::pin(async move { Ok(names.iter().map(|name| definition(name)).collect()) })
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            let Arguments { message, task } =
                Arguments::deserialize(arguments).map_err(|error| Fault::Failed(error.to_string()))?;
            if let Some(task) = &task
                && !self.begun().contains(&(tool.to_owned(), task.clone()))
            {
                return Err(Fault::Failed(format!("{task:?} is no task that it began with {tool:?}")));
            }
            let question = Question {
                from: self.from.clone(),
                to: tool.to_owned(),
                message,
                task,
                delay_tolerant: self.delay_tolerant,
                principals: context::current().principals.to_vec(),
                as_itself: self.as_itself,
            };
            let said = self.calls.ask(question).await.map_err(Fault::Failed)?;
            if said.state == ASKS_BACK {
                let mut begun = self.begun();
                if begun.len() >= BEGUN_MAX {
                    // Task ids begin with the time at which they were made.
                    begun.pop_first();
                }
                begun.insert((tool.to_owned(), said.task.clone()));
            }
            Ok(json!({
                "content": [{ "type": "text", "text": said.text }],
                "structuredContent": { "agent": said.agent, "task": said.task, "state": said.state },
                "isError": !matches!(said.state.as_str(), "TASK_STATE_COMPLETED" | ASKS_BACK),
            }))
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

//! Other agents as tools: `agents/NAME` passes the same gate as any system call, and is recorded, timed and traced like one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::contract::Class;
use althing_protocol::{AnswerAttributes, Attributes, Contract};
use althing_td::{AgentFile, AsksAs};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context;
use crate::journal::{Effect, TurnRights};
use crate::steps;
use crate::tools::{Definition, Fault, ToolServer};

/// The server name of other agents in `capabilities`.
pub const SERVER: &str = "agents";
/// Agents that are listed for a model whose contract names `agents/*`.
const LISTED_MAX: usize = 64;

/// Reaches other agents, wherever they are.
pub trait AgentCalls: Send + Sync + 'static {
    /// The distinct names of known agents, at most `max`.
    fn known(&self, max: usize) -> Vec<String>;

    /// The agent to which a name leads now, if it leads to one that may be called, and which of its nodes is to be asked: as a text that
    /// [`AgentCalls::ask`] reads.
    fn callee(&self, _name: String) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Whether the agent to which a name leads now does once what it is told twice with one key. One to which its node only passes
    /// messages on decides that by itself.
    fn compares_ids(&self, _name: String) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(true))
    }

    /// Sends a message to one. Dropping the future abandons the task, unless the turn that asks was paused.
    fn ask(&self, question: Question) -> BoxFuture<'_, Result<AgentReply, String>>;

    /// The agents that match a filter ([`crate::mesh::filter_schema`]), of this node's owner and of those it trusts.
    fn find(&self, filter: Value) -> BoxFuture<'_, Result<Value, String>>;

    /// What is known of one of them, by its name or id.
    fn describe(&self, agent: String) -> BoxFuture<'_, Result<Value, String>>;

    /// Offers one the work of a task; gives what became of that, where the agent has the work still. If it is taken, the turn that
    /// made the offer ends.
    fn hand_over(&self, _offer: WorkOffer) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(std::future::ready(Err("this node hands no work over".to_owned())))
    }
}

/// The work of a task, which its agent gives to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkOffer {
    /// The task, by its id on this node.
    pub task: String,
    /// Who is to have the work.
    pub to: String,
    /// What is still to be done.
    pub remaining: Vec<String>,
    /// What must be true of the result.
    pub checklist: Vec<String>,
    /// On whose behalf the agent runs, the origin first.
    pub principals: Vec<String>,
    /// Whether it acts on its own behalf only.
    pub as_itself: bool,
}

/// The state of a task that waits for input of its caller.
pub const INPUT_REQUIRED: &str = "TASK_STATE_INPUT_REQUIRED";
/// Tasks of one agent with other agents that it may continue.
const OPEN_TASKS_MAX: usize = 1_000;

/// What one agent asks another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The calling agent, of this node.
    pub from: String,
    /// The called agent.
    pub to: String,
    /// The text.
    pub message: String,
    /// The task that it continues, if the called agent asked for input.
    pub task: Option<String>,
    /// Whether the call is delay-tolerant.
    pub delay_tolerant: bool,
    /// On whose behalf the calling agent runs, the origin first.
    pub principals: Vec<String>,
    /// Whether the agent calls on its own behalf only.
    pub as_itself: bool,
    /// The lease under which the calling agent's turn runs, and its journal.
    pub rights: TurnRights,
    /// The key of the call, where the turn has a journal: the called agent does once what it is told twice with it.
    pub key: Option<String>,
    /// Who is called, as [`AgentCalls::callee`] said, whatever the name leads to now; none: the agent to which it leads.
    pub callee: Option<String>,
    /// The hash of the manifest that the calling agent was bound to; empty outside turns.
    pub binding_hash: Arc<str>,
    /// Session and delegation of the call that the calling agent's turn answers, and the label of all that the turn was given.
    pub attributes: Attributes,
    /// Where what is said of the answer is added to.
    pub answer: AnswerAttributes,
}

/// The reply of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentReply {
    /// The agent's id.
    pub agent: String,
    /// Its task.
    pub task: String,
    /// The state of the task, as A2A names it.
    pub state: String,
    /// Its text; if it has none, its data as JSON.
    pub text: String,
}

/// The agents that one agent may call, as a tool server.
pub(crate) struct AgentServer {
    from: String,
    named: Vec<String>,
    delay_tolerant: bool,
    as_itself: bool,
    calls: Arc<dyn AgentCalls>,
    /// The open tasks of this agent with the called agent's name: it can continue no others.
    open_tasks: Mutex<BTreeSet<(String, String)>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    message: String,
    task: Option<String>,
}

impl AgentServer {
    /// The server for the agents that the contract names; none if it names none or calls are not possible.
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
            open_tasks: Mutex::default(),
        })
    }

    /// Notes a task that waits for the next message of this agent.
    fn note_open(&self, agent: &str, task: &str) {
        let mut open_tasks = self.open_tasks();
        if open_tasks.len() >= OPEN_TASKS_MAX {
            // Task ids begin with the time at which they were made.
            open_tasks.pop_first();
        }
        open_tasks.insert((agent.to_owned(), task.to_owned()));
    }

    fn open_tasks(&self) -> MutexGuard<'_, BTreeSet<(String, String)>> {
        self.open_tasks.lock().expect("no holder of the tasks panics")
    }
}

/// The definition of an agent as a tool; it does not depend on the agent's description, which may change.
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

    fn effect(&self, _: &str) -> Option<Effect> {
        Some(Effect::Keyed)
    }

    fn callee<'a>(&'a self, tool: &'a str) -> Option<BoxFuture<'a, Option<String>>> {
        Some(self.calls.callee(tool.to_owned()))
    }

    fn callee_effect<'a>(&'a self, tool: &'a str) -> Option<BoxFuture<'a, Effect>> {
        Some(Box::pin(async move {
            if self.calls.compares_ids(tool.to_owned()).await { Effect::Keyed } else { Effect::Final }
        }))
    }

    fn replayed(&self, tool: &str, result: &Value) {
        let answer = &result["structuredContent"];
        if let (Some(task), Some(INPUT_REQUIRED)) = (answer["task"].as_str(), answer["state"].as_str()) {
            self.note_open(tool, task);
        }
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        let mut names: Vec<String> = self.named.iter().filter(|name| *name != "*").cloned().collect();
        if names.len() < self.named.len() {
            names.extend(self.calls.known(LISTED_MAX));
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
                && !self.open_tasks().contains(&(tool.to_owned(), task.clone()))
            {
                return Err(Fault::Failed(format!("{task:?} is no task that it began with {tool:?}")));
            }
            let (turn, answer) = (context::now(), AnswerAttributes::default());
            let question = Question {
                from: self.from.clone(),
                to: tool.to_owned(),
                message,
                task,
                delay_tolerant: self.delay_tolerant,
                principals: turn.principals.to_vec(),
                as_itself: self.as_itself,
                rights: turn.rights.clone(),
                key: steps::current_key_text(),
                callee: steps::current_callee(),
                binding_hash: turn.binding_hash.clone(),
                attributes: turn.attributes.sent().clone(),
                answer: answer.clone(),
            };
            let reply = self.calls.ask(question).await;
            // Of why there is no answer the same is said as of an answer.
            turn.attributes.hear(answer.label());
            let reply = reply.map_err(Fault::Failed)?;
            if reply.state == INPUT_REQUIRED {
                self.note_open(tool, &reply.task);
            }
            Ok(json!({
                "content": [{ "type": "text", "text": reply.text }],
                "structuredContent": { "agent": reply.agent, "task": reply.task, "state": reply.state },
                "isError": !matches!(reply.state.as_str(), "TASK_STATE_COMPLETED" | INPUT_REQUIRED),
            }))
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

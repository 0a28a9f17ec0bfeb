//! An agent gives the work of its task to another one, which its contract lets it call.

use std::sync::Arc;

use althing_protocol::Contract;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{HANDOFF, arguments};
use crate::agents::{AgentCalls, SERVER as AGENTS, WorkOffer};
use crate::context;
use crate::tools::{Definition, Fault};

/// Sentences of each kind that an agent says of its work.
const SENTENCES_MAX: usize = 64;
/// Bytes of one of them.
const SENTENCE_BYTES_MAX: usize = 4 << 10;

/// To whom an agent may give its work.
pub(super) struct Handoffs {
    /// The agents that it may call: their names, or `*`.
    named: Vec<String>,
    as_itself: bool,
    calls: Option<Arc<dyn AgentCalls>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Offer {
    to: String,
    #[serde(default)]
    remaining: Vec<String>,
    #[serde(default)]
    checklist: Vec<String>,
}

/// The definition of the tool.
pub(super) fn definition() -> Definition {
    let description = "Gives the work of this task to another agent, by its name. Say what remains to be done, and what must be true of \
                       the result. If it takes the work, you are stopped, and the task ends with its result; if not, you are told why \
                       and go on.";
    let sentences = json!({ "type": "array", "items": { "type": "string" }, "maxItems": SENTENCES_MAX });
    let input_schema = json!({
        "type": "object",
        "properties": { "to": { "type": "string" }, "remaining": sentences, "checklist": sentences },
        "required": ["to"],
        "additionalProperties": false,
    });
    Definition::new(HANDOFF, description, input_schema)
}

impl Handoffs {
    /// Those of an agent with that contract.
    pub fn of(contract: &Contract, as_itself: bool, calls: Option<&Arc<dyn AgentCalls>>) -> Handoffs {
        let names = contract.capabilities.iter().filter_map(|name| name.strip_prefix(AGENTS)?.strip_prefix('/'));
        Handoffs { named: names.map(str::to_owned).collect(), as_itself, calls: calls.cloned() }
    }

    /// Offers the work of the turn that runs here; gives what became of that.
    pub async fn offer(&self, given: Value) -> Result<Value, Fault> {
        let failed = |why: &str| Fault::Failed(why.to_owned());
        let Offer { to, remaining, checklist } = arguments(given)?;
        if !self.named.iter().any(|name| *name == to || name == "*") {
            let why = "its contract does not let this agent call it";
            return Err(Fault::Failed(format!("the work cannot be given to {to:?}: {why} (`{AGENTS}/{to}`)")));
        }
        check(&remaining).and_then(|()| check(&checklist)).map_err(Fault::Failed)?;
        let turn = context::now();
        if turn.task.is_empty() {
            return Err(failed("this turn is of no task: work is handed over while a message is answered"));
        }
        if turn.rights.lease.is_some() {
            return Err(failed("this is the work of a group, which gives it to another member if this one fails"));
        }
        let calls = self.calls.as_ref().ok_or_else(|| failed("this node hands no work over"))?;
        let offer = WorkOffer {
            task: turn.task.to_string(),
            to,
            remaining,
            checklist,
            principals: turn.principals.to_vec(),
            as_itself: self.as_itself,
        };
        calls.hand_over(offer).await.map_err(Fault::Failed)
    }
}

fn check(sentences: &[String]) -> Result<(), String> {
    if sentences.len() > SENTENCES_MAX {
        return Err(format!("there are {} sentences, and {SENTENCES_MAX} are possible", sentences.len()));
    }
    match sentences.iter().map(String::len).find(|bytes| *bytes > SENTENCE_BYTES_MAX) {
        Some(bytes) => {
            Err(format!("a sentence has {bytes} bytes, and {SENTENCE_BYTES_MAX} is the most; say it shorter"))
        }
        None => Ok(()),
    }
}

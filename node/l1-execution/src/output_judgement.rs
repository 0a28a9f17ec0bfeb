//! What may be shown of outputs that are in the place of an agent's own, and of what it says when a task is cancelled: neither is
//! made in a turn of it.

use a2a::{Message, PartContent};
use althing_protocol::contract::{Contract, Delivery};
use serde_json::Value;

use crate::agent::{AgentError, Made, Output, Parameters, Turn};
use crate::context::CALL_CONTEXT;
use crate::host::{Host, RunningAgent};
use crate::journal::TurnRights;
use crate::output_gates::{ANSWER_REFUSED, GatedTurn};
use crate::running::AgentKey;

/// The data that a node's own runtimes add to an answer.
const NOTES: [&str; 2] = ["usage", "tools"];

impl RunningAgent {
    /// Whether what it says has to pass a gate before anybody sees it.
    pub(crate) fn is_judged(&self) -> bool {
        let Contract { verify, memory, .. } = &self.contract;
        verify.judges_answers(self.is_model()) || memory.as_ref().is_some_and(|memory| memory.require_grounding)
    }
}

impl Host {
    /// Whether answers of a running agent may be seen before they have passed the gates of its contract.
    #[must_use]
    pub fn shows_early<'a>(&self, agent: impl Into<AgentKey<'a>>) -> bool {
        let is_early = |agent: &RunningAgent| agent.contract.verify.deliver == Delivery::Early;
        self.find(agent.into()).is_some_and(|agent| agent.is_judged() && is_early(&agent))
    }
}

/// What may be shown of outputs that another agent made in the place of this one, to which the work of a turn was handed over:
/// what the gates of this one's contract let pass; all of it where it runs and has none.
///
/// # Errors
/// [`AgentError::Down`]: it does not run now, so that nobody knows what its contract lets pass. See [`AgentError`]; nothing of it
/// may be shown then.
pub async fn judge_outputs<'a>(
    host: &Host,
    agent: impl Into<AgentKey<'a>>,
    turn: Turn,
    made: Vec<Made>,
) -> Result<Vec<Made>, AgentError> {
    let key: AgentKey<'_> = agent.into();
    // That it does not run says nothing of its gates: of what is shown now nothing can be taken back.
    let agent = host.find(key).ok_or_else(|| AgentError::Down {
        agent: key.name().to_owned(),
        why: "what may be shown of work that it gave away is not known before it runs again".to_owned(),
    })?;
    if !agent.is_judged() {
        return Ok(made);
    }
    let (gates, findings) = {
        // Of another agent nothing is known but what it says.
        let gated = GatedTurn { notes: false, own_failures: true, is_model: false, ..agent.gated(&turn) };
        ((host.ports.output_gates)(&gated), gated.findings.clone())
    };
    let rights = TurnRights { journal: None, ..turn.parameters.rights.clone() };
    let (context, task) = (agent.call_context(&turn, rights), turn.task_id.clone());
    let (out, mut shown) = Output::channel();
    let out = out.gated(gates);
    let judging = async move {
        out.admit(&turn.message)?;
        for made in made {
            out.put(without_notes(made)).await?;
        }
        out.release(Ok(())).await
    };
    let hearing = async move {
        let mut all = Vec::new();
        while let Some(made) = shown.recv().await {
            all.push(made);
        }
        all
    };
    let both = Box::pin(futures::future::join(judging, hearing));
    let (ended, all) = CALL_CONTEXT.scope(context, both).await;
    if matches!(ended, Err(AgentError::GateRefused(_))) {
        findings.add(ANSWER_REFUSED, &task);
    }
    ended.map(|()| all)
}

/// The same without what the runtime of another node may have added to it.
fn without_notes(made: Made) -> Made {
    match made {
        Made::Artifact { mut artifact, append, last } => {
            artifact.parts.retain(|part| !is_note(&part.content));
            Made::Artifact { artifact, append, last }
        }
        made => made,
    }
}

/// Whether a part is what a node's own runtimes add to an answer.
fn is_note(content: &PartContent) -> bool {
    matches!(content, PartContent::Data(Value::Object(data))
        if !data.is_empty() && data.keys().all(|key| NOTES.contains(&key.as_str())))
}

/// Tells an agent that a task is cancelled which waits for its next message; gives the agent's message, if any. What has to
/// pass a gate is not shown: none is asked of a task that is over. See [`Agent::cancel`](crate::Agent::cancel).
///
/// # Errors
/// See [`AgentError`].
pub async fn cancel_task<'a>(
    host: &Host,
    agent: impl Into<AgentKey<'a>>,
    remembered: &str,
    parameters: &Parameters,
) -> Result<Option<Message>, AgentError> {
    let key: AgentKey<'_> = agent.into();
    let Some(agent) = host.find(key) else { return Ok(None) };
    let Some(told) = agent.agent() else { return Ok(None) };
    let said = told.cancel(remembered, parameters).await;
    if !agent.is_judged() {
        return said;
    }
    match said {
        Ok(_) => Ok(None),
        Err(error) => {
            let (error, words) = error.without_words(agent.words_failures());
            if let Some(why) = words {
                tracing::warn!(agent = key.name(), why, "an agent whose answers are judged did not cancel a task");
            }
            Err(error)
        }
    }
}

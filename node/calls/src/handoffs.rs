//! Handoffs on the path of calls: the way to the agents that take work, and the owner's order to hand a task over.

use std::sync::Arc;

use althing_call::{Asker, CallRequest, Callee, OperationError, OutgoingRequest, Principal, Purpose, Reply, chain};
use althing_execution::agents::WorkOffer;
use althing_failure::{Kind, Remedy};
use althing_protocol::{AgentId, Attributes, CallerId, PublicKey};
use althing_session::{
    DraftWords, HANDOFF_EXTENSION, HandoffCall, HandoffError, HandoffFile, HandoffGiver, HandoffProgress, HandoffState,
    HandoffWay,
};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::outgoing::{Calls, WeakCalls};

/// Why a task is not handed over.
#[derive(Debug, thiserror::Error)]
pub enum HandoffOrderError {
    /// The work may not go to that agent: it is not found, may not be called, or the owner's policies forbid it.
    #[error("{}", .0.message)]
    Recipient(OperationError),
    /// The work is not offered.
    #[error(transparent)]
    Handoff(#[from] HandoffError),
}

impl HandoffOrderError {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            HandoffOrderError::Recipient(error) => error.kind(),
            HandoffOrderError::Handoff(error) => error.kind(),
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            HandoffOrderError::Recipient(error) => error.remedy.as_deref().cloned(),
            HandoffOrderError::Handoff(error) => error.remedy(),
        }
    }
}

/// The way to agents, as long as the node runs.
struct Way {
    calls: WeakCalls,
}

impl HandoffWay for Way {
    fn call(&self, call: HandoffCall) -> BoxFuture<'static, Result<Reply, OperationError>> {
        let calls = self.calls.upgrade();
        Box::pin(async move {
            let calls = calls.ok_or_else(|| OperationError::busy("this node is being stopped"))?;
            let HandoffCall { from, to, request, label, answer } = call;
            let principals = chain::asked_by(&[Principal::Local], &from, &to);
            let principals = principals.map_err(|error| OperationError::invalid_request(error.to_string()))?;
            // As where the order was taken: the owner gives the work away.
            let target = calls.target(&Asker::Owner, &Callee::Id(to), Purpose::Call).await?;
            let call = CallRequest::new(target, request, principals)
                .in_turn_bound_by(calls.hosting().binding_hash(&from).unwrap_or_default())
                .with_extensions(vec![HANDOFF_EXTENSION.to_owned()])
                .with_attributes(Attributes { label, ..Attributes::default() })
                .adding_to(answer);
            calls.ask(call).await
        })
    }

    fn is_host<'a>(&'a self, agent: &'a AgentId, node: PublicKey) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Some(calls) = self.calls.upgrade() else { return false };
            calls.is_here(agent, node) || calls.discovery().search_host(agent, node).await
        })
    }
}

impl Calls {
    /// Lets the node's tasks be handed over through this, and follows those that were.
    pub(crate) fn connect_handoffs(&self) {
        let way = Arc::new(Way { calls: self.downgrade() });
        self.hosting().handoffs().connect(way);
    }

    /// A handoff of a task of this node to the agent that a name or an id means, not signed, with all that the node knows of the
    /// work.
    ///
    /// # Errors
    /// [`HandoffOrderError`].
    pub async fn draft_handoff(
        &self,
        task: &str,
        to: &str,
        words: &DraftWords,
    ) -> Result<HandoffFile, HandoffOrderError> {
        let to = recipient(self, &Asker::Owner, to).await?;
        Ok(self.hosting().handoffs().draft(task, &to, words).await?)
    }

    /// Signs a handoff of a task of this node and offers it to the agent that a name or an id means, for which it must be. Completes
    /// once that is settled, or once it takes longer; then it goes on.
    ///
    /// # Errors
    /// [`HandoffOrderError`]; the task's agent still has the work then.
    pub async fn hand_over(
        &self,
        task: &str,
        to: &str,
        file: HandoffFile,
    ) -> Result<HandoffProgress, HandoffOrderError> {
        let (to, found) = (recipient(self, &Asker::Owner, to).await?, &file.handoff.recipient);
        if to != *found {
            let (found, wanted) = (found.to_string(), to.to_string());
            return Err(HandoffError::Document { member: "recipient", found, wanted }.into());
        }
        give(self, task, file, HandoffGiver::Owner).await
    }
}

/// Gives work away, if that is decided.
async fn give(
    calls: &Calls,
    task: &str,
    file: HandoffFile,
    by: HandoffGiver,
) -> Result<HandoffProgress, HandoffOrderError> {
    let handoff = &file.handoff;
    // What the document says of its sender and its label is checked against the task before anything is sent.
    let asked = OutgoingRequest::HandOver { from: &handoff.sender.agent, to: &handoff.recipient, label: handoff.label };
    let judgement = calls.hosting().decide().decide(&asked);
    judgement.decision().await.allowed().map_err(HandoffOrderError::Recipient)?;
    Ok(calls.hosting().handoffs().give(task, file, by).await?)
}

/// Offers work for an agent of this node; gives what the agent is told, which has the work still.
///
/// # Errors
/// Why it is not offered.
pub(crate) async fn offer(calls: &Calls, offer: WorkOffer) -> Result<Value, String> {
    check_principals(calls, &offer)?;
    let progress = give_work(calls, &offer).await.map_err(|error| error.to_string())?;
    Ok(told(&progress))
}

/// Work is given away in the name of this node's owner: an agent may not lend that to whoever asked it, unless its file says so.
fn check_principals(calls: &Calls, offer: &WorkOffer) -> Result<(), String> {
    let me = calls.me();
    let is_own = |principal: &Principal| match principal {
        Principal::Local | Principal::Token | Principal::User(_) => true,
        Principal::Caller(caller) => *caller == me.id() || *caller == CallerId::Node(me.node),
        Principal::Agent(agent) => me.id() == CallerId::Publisher(agent.publisher()),
        Principal::Anew(_) | Principal::Other(_) => false,
    };
    match chain::read(&offer.principals).into_iter().find(|principal| !is_own(principal)) {
        Some(other) if !offer.as_itself => Err(format!(
            "{other} asked for this work, and work is given away in the name of this node's owner: `asks_as: itself` in the agent \
             file permits that"
        )),
        _ => Ok(()),
    }
}

fn told(progress: &HandoffProgress) -> Value {
    let HandoffProgress { handoff, recipient, state, .. } = progress;
    let mut told = json!({ "handoff": handoff, "to": recipient.to_string() });
    let more = match state {
        HandoffState::Given { task } => json!({ "state": "given", "task": task }),
        HandoffState::Waiting { why } => {
            let message = format!("{why}; it is offered again while this node runs, and not after a restart");
            json!({ "state": "waiting", "message": message })
        }
        HandoffState::Duplicate { original } => json!({ "state": "duplicate", "original": original }),
        HandoffState::Rejected { reason, message } => {
            json!({ "state": "rejected", "reason": reason.word(), "message": message })
        }
        HandoffState::Unanswered => json!({ "state": "unanswered" }),
    };
    if let (Some(told), Value::Object(more)) = (told.as_object_mut(), more) {
        told.extend(more);
    }
    told
}

/// Offers the work of an agent of this node, which asks for that, to an agent that it may call.
async fn give_work(calls: &Calls, offer: &WorkOffer) -> Result<HandoffProgress, HandoffOrderError> {
    let to = recipient(calls, &Asker::Agent, &offer.to).await?;
    let words = DraftWords { remaining: offer.remaining.clone(), checklist: offer.checklist.clone() };
    let file = calls.hosting().handoffs().draft(&offer.task, &to, &words).await?;
    give(calls, &offer.task, file, HandoffGiver::Agent).await
}

/// The agent that is to have work. If the owner asks, it may be a stranger's, by its id.
async fn recipient(calls: &Calls, asker: &Asker, to: &str) -> Result<AgentId, HandoffOrderError> {
    let target = calls.target(asker, &Callee::near(to), Purpose::Call).await;
    Ok(target.map_err(HandoffOrderError::Recipient)?.agent)
}

#[cfg(test)]
mod tests {
    use althing_protocol::PublisherId;

    use super::*;

    #[test]
    fn of_an_offer_that_waits_an_agent_is_told_that_it_ends_with_the_node() {
        let recipient = AgentId::new(PublisherId::from_digest([1; 32]), "auditor").expect("a name");
        let state = HandoffState::Waiting { why: "it has no room now".to_owned() };
        let progress = HandoffProgress { handoff: "h-1".to_owned(), task: "t-1".to_owned(), recipient, state };
        let told = told(&progress);
        assert_eq!((&told["state"], &told["handoff"]), (&json!("waiting"), &json!("h-1")));
        let message = told["message"].as_str().expect("why");
        assert!(message.starts_with("it has no room now; ") && message.contains("not after a restart"), "{message}");
    }
}

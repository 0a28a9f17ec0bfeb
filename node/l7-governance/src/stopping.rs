//! What people were asked about agents that are stopped: nobody waits for an answer any more.

use std::collections::BTreeSet;

use althing_call::Principal;
use althing_protocol::AgentId;
use althing_store::{Batch, Durability, WriteError};

use crate::consents::Consents;
use crate::consultation;
use crate::decide::ACTION;
use crate::governance::{Governance, put_over};
use crate::machine::consent::{AskId, Question, QuestionState};

/// How many questions wait for people about calls of these agents, messages of theirs, and messages to them.
#[must_use]
pub fn questions_of(governance: &Governance, agents: impl Fn(&AgentId) -> bool) -> usize {
    let consents = governance.book().now();
    let is_open = |id: &AskId| consents.asks.get(id).is_some_and(|one| one.state() == QuestionState::Open);
    theirs(&consents, agents).into_iter().filter(is_open).count()
}

/// Ends what people were asked about agents that are stopped, and each yes that they did not use: on disk, and on record. Gives how
/// many it were.
///
/// # Errors
/// [`WriteError`]: they stay as they were.
pub async fn end_questions_of(
    governance: &Governance,
    stopped: impl Fn(&AgentId) -> bool + Send + Sync,
) -> Result<usize, WriteError> {
    let _writing = governance.writing().lock().await;
    let mut next = (*governance.book().now()).clone();
    let mut batch = Batch::new();
    // A yes that was used is not one that waits.
    consultation::take_used(governance, &mut next, &mut batch);
    let theirs = theirs(&next, stopped);
    let over = next.asks.stop(&theirs);
    if over.is_empty() {
        // What was noted besides is noted with the next sweep.
        return Ok(0);
    }
    put_over(governance, &next, &over, &mut batch);
    governance.write(batch, Durability::Synced).await?;
    consultation::forsake(governance, &next, &over);
    governance.book().publish(next);
    Ok(over.len())
}

/// The questions about these agents that wait for people, or whose yes was not used yet.
fn theirs(consents: &Consents, agents: impl Fn(&AgentId) -> bool) -> BTreeSet<AskId> {
    let is_theirs = |question: &&Question| {
        agents(&question.ask().terms.agent) || sender(consents, question).is_some_and(|agent| agents(&agent))
    };
    let pending = consents.asks.pending().into_iter().chain(consents.asks.approved());
    pending.filter(is_theirs).map(|question| question.ask().id).collect()
}

/// The agent whose message a question is about, if it is about one: it is for the agent of the question.
fn sender(consents: &Consents, question: &Question) -> Option<AgentId> {
    let details = consents.details.get(&question.ask().id).filter(|_| question.ask().terms.action == ACTION)?;
    match Principal::parse(details.principals.last()?) {
        Principal::Agent(agent) => Some(agent),
        _ => None,
    }
}

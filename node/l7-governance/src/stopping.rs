//! What people were asked about agents that are stopped: nobody waits for an answer any more.

use std::collections::BTreeSet;

use althing_call::Principal;
use althing_protocol::AgentId;
use althing_store::{Batch, Durability, WriteError};

use crate::consents::Consents;
use crate::consultation;
use crate::decide::ACTION;
use crate::governance::{Governance, put_over};
use crate::machine::consent::{AskId, DenialReason, Question, QuestionState};

/// What people were asked about calls of these agents, messages of theirs, and messages to them, and is over since agents were stopped,
/// as far as it is remembered.
#[must_use]
pub fn stopped_questions(governance: &Governance, agents: impl Fn(&AgentId) -> bool) -> BTreeSet<AskId> {
    let consents = governance.book().now();
    let is_over = |one: &&Question| one.state() == QuestionState::Denied(DenialReason::Stopped);
    let over = consents.details.keys().filter_map(|id| consents.asks.get(id)).filter(is_over);
    over.filter(|question| is_about(&consents, question, &agents)).map(|question| question.ask().id).collect()
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
    consultation::forsake(governance, &over);
    governance.book().publish(next);
    Ok(over.len())
}

/// The questions about these agents that wait for people, or whose yes was not used yet.
fn theirs(consents: &Consents, agents: impl Fn(&AgentId) -> bool) -> BTreeSet<AskId> {
    let pending = consents.asks.pending().into_iter().chain(consents.asks.approved());
    pending.filter(|question| is_about(consents, question, &agents)).map(|question| question.ask().id).collect()
}

fn is_about(consents: &Consents, question: &Question, agents: impl Fn(&AgentId) -> bool) -> bool {
    agents(&question.ask().terms.agent) || sender(consents, question).is_some_and(|agent| agents(&agent))
}

/// The agent whose message a question is about, if it is about one: it is for the agent of the question.
fn sender(consents: &Consents, question: &Question) -> Option<AgentId> {
    let details = consents.details.get(&question.ask().id).filter(|_| question.ask().terms.action == ACTION)?;
    match Principal::parse(details.principals.last()?) {
        Principal::Agent(agent) => Some(agent),
        _ => None,
    }
}

//! All questions of an owner.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::audit::{AnswerWord, Ask, CallTerms};

use super::definitions::ToolChange;
use super::error::ConsentError;
use super::question::{DenialReason, Need, Question, QuestionState, Speaker};
use super::rows::{self, RowError};
use crate::machine::people::People;

/// Questions that wait, or whose yes was not used yet.
pub const ASKS_MAX: usize = 1_024;
/// How long a question that is over is known, milliseconds (24 h): who comes late hears what became of it.
const REMEMBER_MS: u64 = 24 * 60 * 60 * 1_000;

/// The id of a question.
pub type AskId = [u8; 16];

/// All questions. Who changes one writes its row before anything follows from the change.
#[derive(Debug, Clone, Default)]
pub struct Asks {
    questions: BTreeMap<AskId, Question>,
}

impl Asks {
    /// Those of rows.
    ///
    /// # Errors
    /// [`RowError`], with the id in the key of the row that cannot be read.
    pub fn read<'a>(rows: impl IntoIterator<Item = (AskId, &'a [u8])>) -> Result<Asks, (AskId, RowError)> {
        let mut asks = Asks::default();
        for (id, bytes) in rows {
            let question = rows::decode_row(bytes).map_err(|error| (id, error))?;
            if question.ask().id != id {
                return Err((id, RowError::Foreign));
            }
            asks.questions.insert(id, question);
        }
        Ok(asks)
    }

    /// The row of a question.
    #[must_use]
    pub fn row(&self, id: &AskId) -> Option<Vec<u8>> {
        self.questions.get(id).map(rows::encode_row)
    }

    /// A question.
    #[must_use]
    pub fn get(&self, id: &AskId) -> Option<&Question> {
        self.questions.get(id)
    }

    /// Those that wait for people, the oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<&Question> {
        let mut open: Vec<_> = self.questions.values().filter(|it| it.state() == QuestionState::Open).collect();
        open.sort_by_key(|question| (question.ask().asked_at_ms, question.ask().id));
        open
    }

    /// Asks. What is asked again in the same words while it waits is the same question: its id is given.
    ///
    /// # Errors
    /// [`ConsentError`].
    pub fn open(&mut self, ask: Ask, need: Need, is_resumable: bool, people: &People) -> Result<AskId, ConsentError> {
        let waits = |it: &&Question| it.state() == QuestionState::Open && it.ask().not_after_ms >= ask.asked_at_ms;
        let same = self.questions.values().filter(waits).find(|it| it.ask().terms == ask.terms && *it.need() == need);
        if let Some(same) = same {
            return Ok(same.ask().id);
        }
        let is_pending = |it: &&Question| matches!(it.state(), QuestionState::Open | QuestionState::Approved);
        let pending = self.questions.values().filter(is_pending).count();
        if pending >= ASKS_MAX {
            return Err(ConsentError::TooMany(pending));
        }
        let id = ask.id;
        if self.questions.contains_key(&id) {
            return Err(ConsentError::Malformed("its id was used before".to_owned()));
        }
        self.questions.insert(id, Question::new(ask, need, is_resumable, people)?);
        Ok(id)
    }

    /// Takes an answer, and gives the state that follows.
    ///
    /// # Errors
    /// [`ConsentError`].
    pub fn answer(
        &mut self,
        id: &AskId,
        (word, until_ms): (AnswerWord, u64),
        speaker: Speaker<'_>,
        people: &People,
        now_ms: u64,
    ) -> Result<QuestionState, ConsentError> {
        let question = self.questions.get_mut(id).ok_or(ConsentError::Unknown)?;
        question.take_answer((word, until_ms), speaker, people, now_ms)?;
        Ok(question.state())
    }

    /// Uses a yes for a call: its row is written, with the intent of the call, before the call is made.
    ///
    /// # Errors
    /// [`ConsentError`]: the call may not be made.
    pub fn take(&mut self, id: &AskId, call: &CallTerms, people: &People, now_ms: u64) -> Result<(), ConsentError> {
        self.questions.get_mut(id).ok_or(ConsentError::Unknown)?.take(call, people, now_ms)
    }

    /// Takes a question as it is on disk, where its yes was used.
    pub fn replace(&mut self, question: Question) {
        self.questions.insert(question.ask().id, question);
    }

    /// Those whose yes was not used yet.
    pub fn approved(&self) -> impl Iterator<Item = &Question> {
        self.questions.values().filter(|it| it.state() == QuestionState::Approved)
    }

    /// Denies what nobody answered, or used, in time. Gives what changed.
    pub fn expire(&mut self, now_ms: u64) -> Vec<AskId> {
        self.deny_all(DenialReason::Silence, |question| question.ask().not_after_ms < now_ms)
    }

    /// The node started again: denies what is asked by agents that cannot go on. Gives what changed.
    pub fn restart(&mut self) -> Vec<AskId> {
        self.deny_all(DenialReason::NotResumable, |question| !question.is_resumable())
    }

    /// Nobody waits for the answer any more: denies it. Says whether that changed it.
    pub fn withdraw(&mut self, id: &AskId) -> bool {
        self.questions.get_mut(id).is_some_and(|question| question.deny(DenialReason::Withdrawn))
    }

    /// Agents were stopped: denies these. Gives what changed.
    pub fn stop(&mut self, theirs: &BTreeSet<AskId>) -> Vec<AskId> {
        self.deny_all(DenialReason::Stopped, |question| theirs.contains(&question.ask().id))
    }

    /// Somebody is erased: denies what is asked on their behalf. Gives what changed.
    pub fn erase(&mut self, person: &str) -> Vec<AskId> {
        self.deny_all(DenialReason::Erased, |question| question.need().person() == person)
    }

    /// All that was asked on behalf of somebody.
    #[must_use]
    pub fn about(&self, person: &str) -> Vec<AskId> {
        let theirs = self.questions.iter().filter(|(_, it)| it.need().person() == person);
        theirs.map(|(id, _)| *id).collect()
    }

    /// Those whose yes was used, the oldest first.
    #[must_use]
    pub fn used(&self) -> Vec<AskId> {
        let mut used: Vec<_> = self.questions.values().filter(|it| it.state() == QuestionState::Used).collect();
        used.sort_by_key(|question| (question.ask().asked_at_ms, question.ask().id));
        used.into_iter().map(|question| question.ask().id).collect()
    }

    /// Whether a question waits, or a yes was not used yet, about a tool as it was before.
    #[must_use]
    pub fn has_pending_of(&self, change: &ToolChange<'_>) -> bool {
        self.questions.values().any(|question| question.is_pending() && is_ended_by(question, change))
    }

    /// A tool is another one: denies what was asked about it as it was before. Gives what changed.
    pub fn redefine(&mut self, change: &ToolChange<'_>) -> Vec<AskId> {
        self.deny_all(DenialReason::Changed, |question| is_ended_by(question, change))
    }

    /// Forgets what is over for long; gives what is forgotten, whose rows are deleted.
    pub fn forget(&mut self, now_ms: u64) -> Vec<AskId> {
        let is_old = |it: &Question| {
            let is_over = !matches!(it.state(), QuestionState::Open | QuestionState::Approved);
            is_over && it.ask().not_after_ms.saturating_add(REMEMBER_MS) < now_ms
        };
        let old: Vec<AskId> = self.questions.iter().filter(|(_, it)| is_old(it)).map(|(id, _)| *id).collect();
        for id in &old {
            self.questions.remove(id);
        }
        old
    }

    fn deny_all(&mut self, reason: DenialReason, applies: impl Fn(&Question) -> bool) -> Vec<AskId> {
        let concerned = self.questions.values_mut().filter(|question| applies(question));
        concerned.filter_map(|question| question.deny(reason).then_some(question.ask().id)).collect()
    }
}

fn is_ended_by(question: &Question, change: &ToolChange<'_>) -> bool {
    let CallTerms { agent, action, definition, server, .. } = &question.ask().terms;
    change.ends(agent, action, (*definition, *server))
}

//! What becomes of a turn that had not ended when its node did: its rows and what is here now in, a decision out.

use althing_execution::journal::JournalError;

use crate::machine::session::{DOUBT_MS_MAX, Damage, Doubt, TurnRows};
use crate::machine::task::REASON_BYTES_MAX;

/// Calls that are named one by one where a turn ends that did not hear of them.
const NAMED_MAX: usize = 8;
/// Characters of the name of a call there.
const NAME_CHARS_MAX: usize = 128;

/// What is here now.
#[derive(Debug, Clone, Copy)]
pub struct Present<'a> {
    /// The version of the agent that would go on.
    pub version: &'a str,
    /// The hash of the manifest that it is bound to.
    pub binding: &'a str,
    /// Whether its runtime can begin a turn again.
    pub is_resumable: bool,
    /// Unix milliseconds.
    pub now_ms: u64,
}

/// What becomes of the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// It runs again, with its rows.
    Resume,
    /// Its task fails.
    Fail(Failure),
    /// It waits until somebody says what came of these calls.
    Wait(Vec<Doubt>),
}

impl Recovery {
    /// Why the turn does not go on, whose caller may have been `refused` that it does; none if it goes on, or waits.
    pub fn failure(self, refused: Option<Reason>) -> Option<Failure> {
        match (self, refused) {
            (Recovery::Fail(failure), _) => Some(failure),
            (Recovery::Wait(doubts), Some(reason)) => Some(Failure { reason, doubts }),
            (Recovery::Resume, Some(reason)) => Some(Failure { reason, doubts: Vec::new() }),
            (Recovery::Resume | Recovery::Wait(_), None) => None,
        }
    }
}

/// Why a turn does not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Its agent cannot begin a turn again.
    #[error("NOT_RESUMABLE: the node ended while the task was running; send the message again")]
    NotResumable,
    /// By its journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Another attempt at the group's task counts, or none any more.
    #[error(
        "STALE_TOKEN: the group's task is not this node's any more ({0}); what it did for it before is not repeated, and its \
         result would not count"
    )]
    StaleToken(String),
    /// Whoever sent the message may not call the agent any more.
    #[error("its caller may not call this agent any more: {0}")]
    Caller(String),
}

impl Reason {
    /// Whether what its agent knew is lost with that: not where others decided that it does not go on.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        match self {
            Reason::NotResumable | Reason::Journal(_) => true,
            Reason::StaleToken(_) | Reason::Caller(_) => false,
        }
    }
}

impl From<&Damage> for Reason {
    fn from(Damage { step, what }: &Damage) -> Reason {
        JournalError::Damaged { what: format!("step {step}: {what}") }.into()
    }
}

/// Why a turn does not go on, and what stays in doubt with that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What keeps it from that.
    pub reason: Reason,
    /// Calls of which nobody will ever know here whether they took place.
    pub doubts: Vec<Doubt>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.reason)?;
        let told = match &self.reason {
            Reason::Journal(JournalError::InDoubt { seq, .. }) => Some(*seq),
            _ => None,
        };
        for doubt in self.doubts.iter().filter(|doubt| Some(doubt.seq) != told) {
            write!(f, ". {}", doubt_sentence(doubt))?;
        }
        Ok(())
    }
}

/// Decides on a turn with its rows, which may be none.
#[must_use]
pub fn decide(rows: &Result<TurnRows, Damage>, present: Present<'_>) -> Recovery {
    let (rows, doubts) = match rows {
        Ok(rows) => (rows, rows.doubts()),
        Err(damage) => return Recovery::Fail(Failure { reason: damage.into(), doubts: Vec::new() }),
    };
    let reason = if !present.is_resumable {
        Some(Reason::NotResumable)
    } else if rows.agent() != (present.version, present.binding) {
        Some(JournalError::VersionChanged.into())
    } else {
        let past = doubts.iter().find(|doubt| is_past(doubt, present.now_ms));
        past.map(|doubt| JournalError::InDoubt { seq: doubt.seq, name: doubt.name.clone() }.into())
    };
    match reason {
        Some(reason) => Recovery::Fail(Failure { reason, doubts }),
        None if doubts.is_empty() => Recovery::Resume,
        None => Recovery::Wait(doubts),
    }
}

/// Whether a turn that stopped for that may go on anew from one of its steps, if the owner of the node wants it to: its rows are whole,
/// and its agent is there.
#[must_use]
pub fn may_restart(error: &JournalError) -> bool {
    matches!(error, JournalError::Diverged { .. } | JournalError::VersionChanged)
}

/// How long these calls may stay in doubt from now on, milliseconds.
#[must_use]
pub fn patience_ms(doubts: &[Doubt], now_ms: u64) -> u64 {
    let until = |doubt: &Doubt| doubt.since_ms.saturating_add(DOUBT_MS_MAX);
    doubts.iter().map(until).min().map_or(0, |until| until.saturating_sub(now_ms))
}

/// What a task says that waits for somebody to say what came of these calls.
#[must_use]
pub fn in_doubt_message(doubts: &[Doubt]) -> String {
    let calls: Vec<String> = doubts.iter().map(|doubt| format!("step {}, {:?}", doubt.seq, doubt.name)).collect();
    format!(
        "IN_DOUBT: the node ended during a call, and nobody knows whether it took place: {}. It is not made again unless the \
         owner of the node says so; after a day this task fails",
        calls.join("; ")
    )
}

/// Why a turn ended, and the calls of which nobody knows whether they took place, but for those that `why` names already. A reason that
/// is too long is cut, and they are not.
#[must_use]
pub fn with_doubts(why: Option<String>, doubts: &[Doubt]) -> Option<String> {
    let said = why.as_deref().unwrap_or_default();
    let untold: Vec<&Doubt> = doubts.iter().filter(|doubt| !said.contains(&call_words(doubt))).collect();
    if untold.is_empty() {
        return why;
    }
    let mut named: Vec<String> = untold.iter().take(NAMED_MAX).map(|doubt| doubt_sentence(doubt)).collect();
    if let Some(more) = untold.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        named.push(format!("So it is with {more} more"));
    }
    let named = named.join(". ");
    let Some(mut why) = why else { return Some(named) };
    let room = REASON_BYTES_MAX.saturating_sub(named.len() + 2);
    why.truncate(why.floor_char_boundary(room));
    Some(format!("{why}. {named}"))
}

/// What is said of a call of which nobody will know here whether it took place: a message that is sent again makes another one, whatever
/// the reason before it advises.
fn doubt_sentence(doubt: &Doubt) -> String {
    format!(
        "Nobody knows whether this call took place, so look before the message is sent again: {}",
        call_words(doubt)
    )
}

/// A call in the words by which every reason names it, that of [`JournalError::InDoubt`] too.
fn call_words(doubt: &Doubt) -> String {
    let name: String = doubt.name.chars().take(NAME_CHARS_MAX).collect();
    format!("step {} called {name:?}", doubt.seq)
}

fn is_past(doubt: &Doubt, now_ms: u64) -> bool {
    now_ms >= doubt.since_ms.saturating_add(DOUBT_MS_MAX)
}

#[cfg(test)]
mod tests;

//! What models and tools said in a turn that is over, by the hash of what they were asked: a turn that asks the same is told the
//! same, and nothing outside is asked. What is not on the tape is not made up.

mod output;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use althing_execution::journal::StepOutcome;
use althing_execution::tools::CallKind;
use althing_protocol::Digest;
use althing_session::{RecordedTurn, call_digest};
use serde_json::Value;

use super::cases::excerpt;

pub use output::{answer_data, answer_text, message_text, state_word, turn_output};
pub use replay::{Difference, ReplayVerdict, TurnOutput, compare};

/// What was said in one turn.
#[derive(Debug, Clone)]
pub struct Tape {
    turn: RecordedTurn,
    /// The places of the steps that asked the same, in their order.
    calls: BTreeMap<Digest, Vec<usize>>,
}

/// Why a tape cannot stand for what a turn would be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    /// It is of another agent.
    #[error(
        "the tape is of agent {tape}, and {tested} is tested: what others said to one agent is no answer to another; record a \
         task of {tested}, with `record: tape` in its contract"
    )]
    OtherAgent {
        /// Whose it is.
        tape: String,
        /// Who is tested.
        tested: String,
    },
}

/// One thing that a turn asks.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What it is.
    pub kind: CallKind,
    /// `server/tool`, or what the node calls it.
    pub name: &'a str,
    /// With what.
    pub arguments: &'a Value,
}

/// A request that the tape has no answer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotOnTape {
    /// What was asked: `server/tool`, or what the node calls it.
    pub name: String,
    /// What the tape has of that name.
    pub has: OnTape,
}

/// What a tape has of a name that was asked, where it has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnTape {
    /// There is no such step on it.
    Nothing,
    /// So many requests with other arguments.
    OtherArguments(usize),
    /// The same request, so many times, and it is asked once more.
    FewerTimes(usize),
    /// The same request, and its turn ended before it was answered.
    NoAnswer,
    /// Perhaps: what was before a checkpoint is deleted.
    AfterCheckpoint,
    /// The same request, answered by somebody who is not asked now, such as another model.
    OtherAnswerer(String),
}

impl fmt::Display for NotOnTape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not on the tape: {}", excerpt(&self.name))?;
        match &self.has {
            OnTape::Nothing => f.write_str(", which it never asked"),
            OnTape::OtherArguments(times) => write!(f, " with these arguments; it has {times} with others"),
            OnTape::FewerTimes(times) => write!(f, " once more; it has that {times} times"),
            OnTape::NoAnswer => f.write_str("; its turn ended before that was answered"),
            OnTape::AfterCheckpoint => f.write_str("; it begins at a checkpoint, and what was before that is deleted"),
            OnTape::OtherAnswerer(whose) => {
                write!(f, "; it has what {} answered, which is not asked now", excerpt(whose))
            }
        }
    }
}

impl std::error::Error for NotOnTape {}

impl Tape {
    /// The tape of a turn, for a test of that agent, which may be of another version.
    ///
    /// # Errors
    /// [`TapeError`].
    pub fn new(turn: RecordedTurn, tested: &str) -> Result<Tape, TapeError> {
        if turn.agent != tested {
            return Err(TapeError::OtherAgent { tape: turn.agent, tested: tested.to_owned() });
        }
        let mut calls: BTreeMap<Digest, Vec<usize>> = BTreeMap::new();
        for (place, step) in turn.steps.iter().enumerate() {
            calls.entry(step.call).or_default().push(place);
        }
        Ok(Tape { turn, calls })
    }

    /// The turn that it is of.
    #[must_use]
    pub fn turn(&self) -> &RecordedTurn {
        &self.turn
    }
}

/// A tape that is played to one turn: each answer is told once, those to the same request in their order.
#[derive(Debug, Clone)]
pub struct Playback {
    tape: Tape,
    /// How often each request was asked.
    asked: BTreeMap<Digest, usize>,
    played: BTreeSet<usize>,
    /// The first request without an answer.
    missing: Option<NotOnTape>,
}

impl Playback {
    /// From the beginning.
    #[must_use]
    pub fn new(tape: Tape) -> Playback {
        Playback { tape, asked: BTreeMap::new(), played: BTreeSet::new(), missing: None }
    }

    /// What came of that request, with the number of the step on the tape.
    ///
    /// # Errors
    /// [`NotOnTape`].
    pub fn answer(&mut self, request: Request<'_>) -> Result<(u32, StepOutcome), NotOnTape> {
        let digest = call_digest(request.kind, request.name, request.arguments);
        let times = self.asked.get(&digest).copied().unwrap_or_default();
        let places = self.tape.calls.get(&digest).map(Vec::as_slice).unwrap_or_default();
        let step = places.get(times).and_then(|place| Some((*place, self.tape.turn.steps.get(*place)?)));
        if let Some((place, step)) = step
            && let Some(outcome) = &step.outcome
        {
            let told = (step.seq, outcome.clone());
            self.played.insert(place);
            self.asked.insert(digest, times + 1);
            return Ok(told);
        }
        let has = match (step, places.len()) {
            (Some(_), _) => OnTape::NoAnswer,
            (None, 0) => self.of_name(request.name),
            (None, times) => OnTape::FewerTimes(times),
        };
        let missing = NotOnTape { name: request.name.to_owned(), has };
        self.missing.get_or_insert_with(|| missing.clone());
        Err(missing)
    }

    /// Notes that the answer that was told to a request of that name is of somebody who is not asked now.
    pub fn refuse(&mut self, name: &str, whose: &str) -> NotOnTape {
        let missing = NotOnTape { name: name.to_owned(), has: OnTape::OtherAnswerer(whose.to_owned()) };
        self.missing.get_or_insert_with(|| missing.clone());
        missing
    }

    /// What it has of a name that was never asked so.
    fn of_name(&self, name: &str) -> OnTape {
        match self.tape.turn.steps.iter().filter(|step| step.name == name).count() {
            _ if self.tape.turn.checkpoint.is_some() => OnTape::AfterCheckpoint,
            0 => OnTape::Nothing,
            others => OnTape::OtherArguments(others),
        }
    }

    /// The tape that is played.
    #[must_use]
    pub fn tape(&self) -> &Tape {
        &self.tape
    }

    /// The first request that it had no answer to.
    #[must_use]
    pub fn missing(&self) -> Option<&NotOnTape> {
        self.missing.as_ref()
    }

    /// What is on the tape and was not asked: names, in their order.
    #[must_use]
    pub fn unplayed(&self) -> Vec<&str> {
        let steps = self.tape.turn.steps.iter().enumerate();
        let rest = steps.filter(|(place, step)| step.outcome.is_some() && !self.played.contains(place));
        rest.map(|(_, step)| step.name.as_str()).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! A turn that stopped where its agent did something else goes on anew from a step: the steps before it keep their rows and are
//! told again, and those from there on count no more. None of these may be a call that must not be made twice.

use althing_execution::journal::JournalError;

use super::{StepRows, TurnRows};
use crate::machine::session::row::{RestartRow, RowBody, StepEffect};

/// Why a turn does not go on anew from a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestartError {
    /// A call would be forgotten that must not be made twice.
    #[error(
        "step {seq} called {name:?}, which must not be made twice, and no row of it is dropped: go on from step {} or a later one, \
         or send the message again",
        .seq.saturating_add(1)
    )]
    Final {
        /// The number of the last such step.
        seq: u32,
        /// `server/tool`.
        name: String,
    },
    /// Its rows begin later.
    #[error(
        "the steps before step {since} are in a checkpoint of the agent, which is whole: go on from step {since} or a later one"
    )]
    Checkpoint {
        /// The number of the step that followed the checkpoint.
        since: u32,
    },
    /// It did not come so far.
    #[error("the turn has no step {from}: its journal ends before step {end}, from which it may go on at the latest")]
    NoStep {
        /// The number that was named.
        from: u32,
        /// The number of the step that would follow.
        end: u32,
    },
    /// There is no room for a row more.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl TurnRows {
    /// Has the turn go on anew from a step, as that version of its agent, bound to the manifest of that hash: all steps before it are
    /// to be reached again, and keep their keys.
    ///
    /// # Errors
    /// [`RestartError`]; then nothing changed.
    pub fn restart(
        &mut self,
        from: u32,
        (version, binding): (&str, &str),
        (by, now_ms): (&str, u64),
    ) -> Result<(), RestartError> {
        if from < self.since {
            return Err(RestartError::Checkpoint { since: self.since });
        }
        let end = self.steps.last_key_value().map_or(self.since, |(last, _)| last.saturating_add(1));
        if from > end {
            return Err(RestartError::NoStep { from, end });
        }
        if let Some((seq, known)) = self.final_from(from) {
            return Err(RestartError::Final { seq, name: known.call.name.clone() });
        }
        let row = RestartRow {
            step: from,
            version: version.to_owned(),
            binding: binding.to_owned(),
            by: by.to_owned(),
            said_ms: now_ms,
        };
        self.append(vec![RowBody::Restart(row.clone())], now_ms)?;
        self.forget_from(row);
        Ok(())
    }

    /// The version of the agent that goes on with the turn, and the hash of the manifest that it is bound to.
    #[must_use]
    pub fn agent(&self) -> (&str, &str) {
        match &self.restart {
            Some(restart) => (restart.version.as_str(), restart.binding.as_str()),
            None => (self.begin.version.as_str(), self.begin.binding.as_str()),
        }
    }

    /// When the turn began, or went on anew, Unix milliseconds.
    #[must_use]
    pub fn began_ms(&self) -> u64 {
        self.restart.as_ref().map_or(self.begin.began_ms, |restart| restart.said_ms)
    }

    /// That it went on anew, to follow a checkpoint, in whose place the row before is dropped.
    pub(super) fn restart_again(&self) -> Option<RowBody> {
        self.restart.clone().map(|row| RowBody::Restart(RestartRow { step: self.next, ..row }))
    }

    /// Takes that the turn went on anew.
    pub(super) fn take_restart(&mut self, row: RestartRow) -> Result<(), &'static str> {
        if row.step < self.since {
            return Err("it went on anew from a step before its checkpoint");
        }
        if self.final_from(row.step).is_some() {
            return Err("it forgets a call that must not be made twice");
        }
        self.forget_from(row);
        Ok(())
    }

    /// The last step from there on that must not be made twice.
    fn final_from(&self, from: u32) -> Option<(u32, &StepRows)> {
        let found = self.steps.range(from..).rfind(|(_, known)| known.call.effect == StepEffect::Final);
        found.map(|(seq, known)| (*seq, known))
    }

    fn forget_from(&mut self, row: RestartRow) {
        self.steps.retain(|seq, _| *seq < row.step);
        self.read_by.retain(|seq, _| *seq < row.step);
        // What clocks said after the last step that stays is not told again.
        let told = self.read_by.values().max().copied().unwrap_or_default();
        self.readings.truncate(told);
        self.restart = Some(row);
    }
}

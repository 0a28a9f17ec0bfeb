//! How servers of tools fail.

use std::time::Duration;

use crate::ending::meaning;

/// Why a tool server failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It cannot be reached, or not be started.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// There is no such program.
    #[error("there is no program {0:?}")]
    NoProgram(String),
    /// Its program ended before it answered.
    #[error("its program ended before it answered, with exit status {status}{}", exit_meaning(.status, .ran_out))]
    Ended {
        /// How.
        status: i32,
        /// Whether it was killed for the memory that it took.
        ran_out: bool,
        /// What it said last on standard error; only for the owner of its node ([`Fault::in_full`]).
        said: String,
    },
    /// It did not answer in time.
    #[error("it did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// It cannot do it now, and may in a moment.
    #[error("{0}")]
    Busy(String),
    /// It answered with an error.
    #[error("{0}")]
    Failed(String),
    /// The call was not dispatched: the tools may have changed since the listing.
    #[error("its tools change all the time")]
    Stale,
}

/// What an exit code says, as it follows that.
fn exit_meaning(status: &i32, ran_out: &bool) -> String {
    let why = if *ran_out { Some("it was killed: it took more memory than it may") } else { meaning(*status) };
    why.map(|why| format!(": {why}")).unwrap_or_default()
}

impl Fault {
    /// With what its program said, which callers are not told.
    #[must_use]
    pub fn in_full(&self) -> String {
        match self {
            Fault::Ended { said, .. } if !said.is_empty() => format!("{self}; it said: {said}"),
            _ => self.to_string(),
        }
    }
}

//! The port of a turn's journal: what an agent hears is a row of it before the agent hears it, so that a turn whose node
//! ended goes on from its rows, and does nothing outside twice.
//!
//! A turn of an agent is a sequence of steps: calls of tools, requests to its model, searches of its memory. Each step is
//! told to the journal before it is made, and its outcome before the agent is told. When the turn is resumed it makes the
//! same steps again: those with an outcome are answered from it. A step that ends the turn may have none. The steps of a program
//! have no order: it makes several at once.

use std::fmt;
use std::sync::Arc;

use althing_protocol::Label;
use althing_store::Batch;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::call_kind::CallKind;
use crate::lease::Lease;
use crate::ruling::{Ask, Denied, GateVerdict, Permit, TurnRest};

pub use crate::own_tools::is_own_read;
pub use althing_td::Effect;

/// One step of a turn, before it is made.
pub struct Step<'a> {
    /// What it is.
    pub kind: CallKind,
    /// `server/tool`; `memory/recall` for a search of the memory, `models` for a request to a model.
    pub name: &'a str,
    /// What it is called with. Of a request to a model the messages: the same for all of its models.
    pub arguments: &'a Value,
    /// What it does outside if it is made twice.
    pub effect: Effect,
    /// Finds out whom the name of a called agent stands for now; none for other steps. The journal awaits it before it writes a new
    /// intent, and not where it has a row of the step.
    pub callee: Option<BoxFuture<'a, Option<String>>>,
    /// Decides whether it may be made; none for a step that needs no decision of its own. The journal awaits it only where it has
    /// no row of the step, and before it writes one.
    pub gate: Option<BoxFuture<'a, GateVerdict>>,
    /// What may be done while an intent is written, since it changes nothing outside, and is awaited with that: on the disk alone the
    /// call would wait longer. A journal that writes no intent does not begin it, and whoever makes the call does it then.
    pub meanwhile: Option<BoxFuture<'a, ()>>,
}

impl Step<'_> {
    /// What its gate says; one without a gate is permitted. Asked once.
    pub async fn rule(&mut self) -> GateVerdict {
        match self.gate.take() {
            Some(gate) => gate.await,
            None => GateVerdict::Permit(Permit::default()),
        }
    }
}

/// What the journal says of a step.
#[derive(Debug, PartialEq)]
pub enum NextStep {
    /// It was made, or denied: this came of it. It is not made again.
    Replayed(StepOutcome),
    /// It may be made now: its intent is as durable as its effect wants. The permit holds the rows that were not written with
    /// that, and belong into the batch of the result.
    Go(Intent, Permit),
    /// Its gate denied it, which is written as its result.
    Denied(Denied),
    /// Somebody is asked first; nothing is written.
    Ask(Ask),
}

/// A step that may be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The number of the step in its turn.
    pub seq: u32,
    /// The same for each attempt at the step, and of no other step.
    pub key: [u8; 32],
    /// The agent and the node for which a called agent's name stood when the intent was written first, as who asks agents writes that:
    /// they are asked, and no others.
    pub callee: Option<String>,
}

/// What came of a step: all that the agent hears.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutcome {
    /// The result, or why there is none, in the words that the agent is told.
    pub result: Result<Value, String>,
    /// Tokens that it took, of the prompt and of the answer.
    pub tokens: u64,
    /// The label of all that the turn was given by then, beside the call that it answers.
    pub label: Option<Label>,
}

/// The journal of one turn. Its steps are made one after another, but where the agent makes several at once
/// ([`Agent::calls_in_order`](crate::agent::Agent::calls_in_order)).
pub trait Journal: Send + Sync + 'static {
    /// Reaches the next step: gives its outcome, if it has one, or writes its intent.
    ///
    /// # Errors
    /// [`JournalError`]: the step is not made, and the turn ends.
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>>;

    /// Writes what came of a step, in one batch with `rows`, which belong to the store in which the journal is. The agent is told
    /// afterwards.
    ///
    /// # Errors
    /// [`JournalError`]: the agent is not told, and the turn ends.
    fn done<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        rows: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>>;

    /// How many of the next steps it has rows of: no gate is asked about those. None where the steps have no order.
    fn ahead(&self) -> BoxFuture<'_, usize> {
        Box::pin(std::future::ready(0))
    }

    /// Whether its turn may end where somebody is asked about its next step, and go on from there when that is answered. Else the
    /// step waits for the answer.
    fn is_parkable(&self) -> bool {
        false
    }

    /// The turn ends here, whatever its agent makes of that.
    fn park(&self, _: &TurnRest) {}

    /// What it has for an agent whose own code runs again when its turn is resumed, if it has that.
    fn replay(&self) -> Option<&dyn Replay> {
        None
    }

    /// Whether it has what was said in a turn that is over, for a test: nobody is asked, and nothing is spent, also where a step is
    /// answered.
    fn is_tape(&self) -> bool {
        false
    }

    /// Tells a tape that its answer to a request of that name is of somebody who is not asked now, so that it is none; nothing of what
    /// is no tape.
    fn refuse_answer(&self, _name: &str, _whose: &str) -> Option<JournalError> {
        None
    }

    /// Whether its turn is one of a test: what people would be asked about is denied at once.
    fn asks_nobody(&self) -> bool {
        false
    }

    /// Whether its turn was paused, since the node is being stopped: it goes on when the node is up again, and asks then for what
    /// it waits for now. What others do for it is not cancelled.
    fn is_paused(&self) -> bool {
        false
    }

    /// Whether its turn made room for others in this process, and goes on: what it is told again was paid for, and counted.
    fn goes_on(&self) -> bool {
        false
    }
}

/// Bytes of the state that an agent gives with a checkpoint.
pub const CHECKPOINT_BYTES_MAX: usize = 1 << 20;
/// Bytes of the arguments of the tool that saves one, as JSON.
pub const CHECKPOINT_ARGUMENTS_BYTES_MAX: usize = CHECKPOINT_BYTES_MAX + (256 << 10);
/// Readings of clocks in one turn, since its last checkpoint.
pub const READINGS_MAX: usize = 64 << 10;

/// What a journal has for an agent whose own code runs again when its turn is resumed: with the same randomness and the same
/// time, from its beginning or from its last checkpoint.
pub trait Replay: Send + Sync {
    /// What randomness of the turn is made of: the same whenever the turn is resumed, and of no other turn.
    fn seed(&self) -> [u8; 32];

    /// Reads a clock that stands at `now`: gives what the turn was told there before its node ended, or else `now`, which is
    /// written with the next row.
    ///
    /// # Errors
    /// [`JournalError`]: the turn ends. It read another clock there, or has read them more than [`READINGS_MAX`] times.
    fn read_clock(&self, now: Reading) -> Result<Reading, JournalError>;

    /// The checkpoint from which a resumed turn goes on; none where it begins anew.
    fn checkpoint(&self) -> Option<Checkpoint>;

    /// Writes a checkpoint, and deletes in the same batch what was written between the beginning of the turn and now.
    ///
    /// # Errors
    /// [`JournalError`]: the turn ends, and goes on from what was there before.
    fn save<'a>(&'a self, checkpoint: &'a Checkpoint) -> BoxFuture<'a, Result<(), JournalError>>;

    /// The same, of an agent that makes several steps at once: false, and nothing is written, while one of them is not over, or was
    /// made before the node ended and has not come again.
    ///
    /// # Errors
    /// [`JournalError`]: as above.
    fn save_between<'a>(&'a self, checkpoint: &'a Checkpoint) -> BoxFuture<'a, Result<bool, JournalError>> {
        Box::pin(async move { self.save(checkpoint).await.map(|()| true) })
    }

    /// Writes what came of a step in one batch with what the step changed, synced: after a crash there are both, or neither.
    /// `changes` belong to the store in which the journal is.
    ///
    /// # Errors
    /// [`JournalError`]: nothing was written, and the turn ends.
    fn done_with<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        changes: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>>;
}

/// A clock that an agent reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The time of day, since 1970.
    Wall,
    /// A clock that only goes forward, since the turn began.
    Monotonic,
}

/// What a clock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Which one.
    pub clock: Clock,
    /// Nanoseconds; of the time of day at most `i64::MAX`, which is in the year 2262.
    pub ns: u64,
}

/// From where a turn goes on, in place of its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// What the agent gave, at most [`CHECKPOINT_BYTES_MAX`] bytes.
    pub state: Vec<u8>,
    /// What its runtime notes beside that, in a form of its own.
    pub progress: Vec<u8>,
    /// The label of all that the turn was given by then, beside the call that it answers.
    pub label: Option<Label>,
}

/// Why a checkpoint was not made. The turn may go on without one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// It is too large.
    #[error("a checkpoint has {CHECKPOINT_BYTES_MAX} bytes at most, and this one has {bytes}; nothing was saved")]
    Size {
        /// Bytes of its state.
        bytes: usize,
    },
    /// The turn has no journal.
    #[error(
        "this turn has no journal, and nothing was saved: its agent may call nothing and has no memory, or cannot be given a \
         message again"
    )]
    NoJournal,
    /// The agent makes several calls at once, and not all of them are answered.
    #[error(
        "calls of this turn are under way, or were made before its node ended and have not come again; nothing was saved: save when \
         all are answered"
    )]
    Calls,
    /// The journal of the turn cannot go on, and the turn ends.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Whose journals hold all that they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JournalShare {
    /// Those of the turn's own session.
    #[error("the journals of this session")]
    Session,
    /// Those of whoever sent the message, or of all strangers of that one's origin.
    #[error("the journals of this caller's unfinished tasks")]
    Caller,
    /// Those of everybody but the owner of the node, for whom the rest is kept.
    #[error("the journals of all callers but the owner of this node")]
    Others,
    /// All that there are.
    #[error("the journals of this node")]
    Node,
}

/// Why a turn cannot go on by its journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The turn makes another step than the one that the journal has at its place.
    #[error(
        "DIVERGED: step {seq} of the resumed turn is {came}, and it was {was} before its node ended. Nothing was called \
         again. Send the message again to begin anew; or have the owner of its node go on from one of its steps, within a day"
    )]
    Diverged {
        /// The number of the step.
        seq: u32,
        /// What it was.
        was: String,
        /// What it is now.
        came: String,
    },
    /// The agent was bound to other models, tools or code when the turn began.
    #[error(
        "VERSION_CHANGED: the agent is not the one that began this turn: its models, its tools or its code changed \
         since. Nothing was called again. Send the message again to begin anew; or have the owner of its node go on from one of \
         its steps, within a day"
    )]
    VersionChanged,
    /// Nobody knows whether a call took place that must not be made twice.
    #[error(
        "IN_DOUBT: its node ended while step {seq} called {name:?}, and nobody knows whether that took place. It is not \
         called again unless the owner of the node says so"
    )]
    InDoubt {
        /// The number of the step.
        seq: u32,
        /// `server/tool`.
        name: String,
    },
    /// The turn has more steps, or more bytes, than a journal holds.
    #[error("TOO_LONG: the turn has {what}, and its journal holds {most} at most; ask for less in one message")]
    TooLong {
        /// `steps` or `bytes`, with their number.
        what: String,
        /// How many it holds.
        most: u64,
    },
    /// Its rows are not those that were written.
    #[error(
        "DAMAGED: the journal of this turn cannot be read: {what}. Other turns go on; send the message again to begin \
         anew"
    )]
    Damaged {
        /// What is wrong, and at which step where that is known.
        what: String,
    },
    /// The rows of turns take as much of the node's disk as they may.
    #[error("FULL: {whose} hold all that they may, {most} bytes; send the message again when other tasks have ended")]
    Full {
        /// Those of which turns.
        whose: JournalShare,
        /// Bytes.
        most: u64,
    },
    /// Somebody is asked about the next step, and the turn goes on when that is answered.
    #[error("{0}")]
    Parked(TurnRest),
    /// The turn makes room for turns that go before it, and goes on from its rows when those have had theirs.
    #[error("PREEMPTED: the turn makes room for others, and goes on in a moment")]
    Preempted,
    /// The turn is told what a tape has, and asks for what is not on it.
    #[error("NOT_ON_TAPE: {what}. Nothing was called; run the test live, or record the task anew")]
    NotOnTape {
        /// What it asked, and what the tape has of that.
        what: String,
    },
    /// A row could not be written.
    #[error(
        "the journal of this turn cannot be written; the log of its node says why, and then send the message again"
    )]
    Write,
}

/// By what right a turn acts, and where what it does is written down.
#[derive(Clone, Default)]
pub struct TurnRights {
    /// The lease under which it runs, if it is for a task of a group.
    pub lease: Option<Lease>,
    /// Its journal, if it has one.
    pub journal: Option<Arc<dyn Journal>>,
}

impl TurnRights {
    /// Those of a turn for a task of a group.
    #[must_use]
    pub fn under(lease: Lease) -> TurnRights {
        TurnRights { lease: Some(lease), journal: None }
    }

    /// Those of a turn of another agent that this one asks: it works under the same lease, and has a journal of its own.
    #[must_use]
    pub fn of_callee(&self) -> TurnRights {
        TurnRights { lease: self.lease.clone(), journal: None }
    }

    /// Whether the turn was paused ([`Journal::is_paused`]); never one that has no journal.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_paused())
    }
}

impl fmt::Debug for TurnRights {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let journal = self.journal.is_some();
        formatter.debug_struct("TurnRights").field("lease", &self.lease).field("journal", &journal).finish()
    }
}

impl PartialEq for TurnRights {
    fn eq(&self, other: &TurnRights) -> bool {
        let same = match (&self.journal, &other.journal) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        };
        same && self.lease == other.lease
    }
}

impl Eq for TurnRights {}

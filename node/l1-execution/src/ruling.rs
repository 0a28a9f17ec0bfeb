//! What the gate of an agent says of a call.

use std::fmt;

use althing_keeper::Level;
use althing_protocol::Label;
use althing_store::Batch;
use futures::future::BoxFuture;

/// A denied call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("denied: {reason}")]
pub struct Denied {
    /// Why, and what to do.
    pub reason: String,
}

/// What the gate says of a call.
#[derive(Debug, PartialEq)]
pub enum GateVerdict {
    /// It may be made.
    Permit(Permit),
    /// It is not made.
    Deny(Denied),
    /// Somebody is asked first. The gate decides again once that is answered.
    Ask(Ask),
}

/// What the gate said of a call while others were to be made before it.
#[derive(Debug)]
pub(crate) struct RulingAhead {
    /// Which counts as long as the gate would go by the same.
    pub verdict: GateVerdict,
    /// What the call could carry out then. Whoever wanted it wrote it by then, so that what the others brought is not in it.
    pub carries: Option<Label>,
    /// How strongly the program of its tool was known to be enclosed then: one that was not started yet may turn out to be less so.
    pub level: Option<Level>,
}

/// The right to make one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permit {
    /// Rows of the store in which the journal is, for the batch of the call's intent; of a call without an intent they are written
    /// before it is made, or with its result where it changes nothing. The gate of a call that is not journalled writes what it must by
    /// itself, before it permits the call.
    pub rows: Batch,
    /// What the gate gets back with the outcome; none of a call that was permitted before its node ended.
    pub receipt: Option<[u8; 16]>,
    /// Which revision of its rules the gate went by, where it counts these; nobody else reads it.
    pub revision: u64,
}

/// Somebody is asked about a call.
pub struct Ask {
    /// Its name: 32 hexadecimal digits.
    pub id: String,
    /// What is asked of whom, in words for whoever sent the message: nothing above public.
    pub to: String,
    /// Ends when it was answered, or when its time is over. It may be dropped before.
    pub answered: BoxFuture<'static, ()>,
}

/// Where a turn ended until somebody has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRest {
    /// The name of what is asked: 32 hexadecimal digits.
    pub ask: String,
    /// What is asked of whom, in words for whoever sent the message.
    pub to: String,
}

impl fmt::Display for TurnRest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AUTH_REQUIRED: {}", self.to)
    }
}

impl Ask {
    /// Where a turn ends that waits for it.
    #[must_use]
    pub fn rest(&self) -> TurnRest {
        TurnRest { ask: self.id.clone(), to: self.to.clone() }
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("id", &self.id).field("to", &self.to).finish_non_exhaustive()
    }
}

impl PartialEq for Ask {
    fn eq(&self, other: &Ask) -> bool {
        (&self.id, &self.to) == (&other.id, &other.to)
    }
}

/// Knows what is asked, also after a start of the node.
pub trait PendingAsks: Send + Sync + 'static {
    /// Ends when what is asked under that name was answered, or when its time is over; none where nothing is asked under it any
    /// more.
    fn waits(&self, ask: &str) -> Option<BoxFuture<'static, ()>>;

    /// A task is over in whose turn people were asked: nobody waits for their answer any more.
    fn withdraw(&self, task: &str);
}

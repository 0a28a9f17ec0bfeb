//! Planted bugs, one file each: what a node writes, what its journal tells the agent, or what an end of a handoff does is
//! rewritten at its ports, as if the program had the bug. The product has no switch for any of them. Each must be caught by an
//! invariant.

mod checkpoint_ahead;
mod doubt_dropped;
mod end_unsynced;
mod final_repeated;
mod handoff_begun_twice;
mod intent_unsynced;
mod journal_deleted_early;
mod key_without_occurrence;
mod label_lost;
mod none;
mod note_lost;
mod result_late;
mod task_unsynced;

use std::sync::Arc;

use althing_calls::{Resolution, SESSION_HEADS, TASKS};
use althing_execution::journal::StepOutcome;
use althing_protocol::Digest;
use althing_store::{Batch, Durability};

/// A write to the disk.
pub struct DiskWrite {
    /// What is on disk for good before the rest, whether or not that is written.
    pub torn: Option<Batch>,
    /// What is written.
    pub batch: Batch,
    /// When it counts as done.
    pub durability: Durability,
}

impl DiskWrite {
    /// Whether it is not on disk for good when the node goes on.
    fn buffered(self) -> DiskWrite {
        DiskWrite { durability: Durability::Buffered, ..self }
    }

    /// Whether it writes a task; one that ends deletes its journal with that.
    fn is_of_task(&self, ends: bool) -> bool {
        let writes_task = self.batch.changes().any(|(family, _, value)| family == TASKS && value.is_some());
        let deletes = self.batch.changes().any(|(family, _, value)| family == SESSION_HEADS && value.is_none());
        writes_task && deletes == ends
    }
}

/// A planted bug. Without one, everything is as it should be.
pub trait Flaw: Send + Sync + 'static {
    /// As the command line and reports have it.
    fn name(&self) -> &'static str;

    /// The node writes to its disk.
    fn on_write(&self, writing: DiskWrite) -> DiskWrite {
        writing
    }

    /// The key of a call; `first` is that of the first call of its turn with the same name and arguments.
    fn key(&self, key: Digest, _first: Digest) -> Digest {
        key
    }

    /// Whether the agent hears a result before it is written.
    fn hears_first(&self) -> bool {
        false
    }

    /// The agent is told again what came of a step.
    fn on_replay(&self, _outcome: &mut StepOutcome) {}

    /// The step from which a turn goes on that makes a checkpoint before step `next`.
    fn checkpoint_at(&self, next: usize) -> usize {
        next
    }

    /// Whether notes are written.
    fn takes_notes(&self) -> bool {
        true
    }

    /// What the node itself says of a call in doubt, before anybody is told of it.
    fn settles(&self) -> Option<Resolution> {
        None
    }

    /// Whether an agent begins work again that is committed again.
    fn begins_again(&self) -> bool {
        false
    }
}

type Make = fn() -> Arc<dyn Flaw>;

/// All planted bugs.
const ALL: &[Make] = &[
    || Arc::new(checkpoint_ahead::CheckpointAhead),
    || Arc::new(doubt_dropped::DroppedDoubt),
    || Arc::new(end_unsynced::UnsyncedEnd),
    || Arc::new(final_repeated::FinalRepetition),
    || Arc::new(handoff_begun_twice::SecondStart),
    || Arc::new(intent_unsynced::UnsyncedIntent),
    || Arc::new(journal_deleted_early::EarlyDeletion),
    || Arc::new(key_without_occurrence::KeyWithoutOccurrence),
    || Arc::new(label_lost::LostLabel),
    || Arc::new(note_lost::LostNote),
    || Arc::new(result_late::LateResult),
    || Arc::new(task_unsynced::UnsyncedTask),
];

/// The program as it is.
#[must_use]
pub fn none() -> Arc<dyn Flaw> {
    Arc::new(none::None)
}

/// The names of all planted bugs.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|make| make().name()).collect()
}

/// The planted bug of a name.
#[must_use]
pub fn named(name: &str) -> Option<Arc<dyn Flaw>> {
    ALL.iter().map(|make| make()).find(|flaw| flaw.name() == name)
}

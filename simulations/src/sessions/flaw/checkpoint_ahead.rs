//! A checkpoint is ahead of its rows: it says that the step is made before which it is.

use super::Flaw;

pub(super) struct CheckpointAhead;

impl Flaw for CheckpointAhead {
    fn name(&self) -> &'static str {
        "checkpoint-ahead"
    }

    fn checkpoint_at(&self, next: usize) -> usize {
        next + 1
    }
}

//! The end of a turn that could not be written as it was to be, of one with calls in doubt: its rows stay for a day, since what was
//! called can be read nowhere else.

use althing_store::Batch;

use super::{TurnJournal, put_head, stored_bytes};
use crate::machine::session::HeadEnd;

impl TurnJournal {
    /// Adds to the batch which says that its task failed that its rows stay, whatever else was to become of them. None if none is on
    /// disk. Nothing is written any more.
    pub async fn put_stay(&self, batch: &mut Batch) -> Option<HeadEnd> {
        let mut writing = self.writing.lock().await;
        writing.is_closed = true;
        if writing.rows.size().0 == 0 || writing.rows.is_unwritten() {
            return None;
        }
        let end = self.stay.end_in_doubt(self.clock.now_ms(), stored_bytes(&writing.rows, &self.seal));
        put_head(&self.turn, writing.rows.begin().task.clone(), Some(end), batch);
        Some(end)
    }
}

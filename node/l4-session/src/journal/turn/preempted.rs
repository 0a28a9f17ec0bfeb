//! A delay-tolerant turn that makes room for others, and goes on from its rows in the same process.

use althing_execution::kernel::slots::Slots;

use super::room::Room;
use super::{TurnJournal, ledger, stored_bytes};
use crate::machine::session::TurnRows;

impl TurnJournal {
    /// The same, whose turn makes room for those that wait for these slots, if there are any and its steps have an order.
    #[must_use]
    pub fn preempted_by(mut self, slots: Option<Slots>) -> TurnJournal {
        let is_ordered = self.writing.get_mut().rows.is_ordered();
        self.room = Room::of(slots.filter(|_| is_ordered));
        self
    }

    /// Ends when those have had a slot for which its turn makes room.
    pub async fn until_there_is_room(&self) {
        self.room.until_there_is_some().await;
    }

    /// Goes back to what is on disk: its turn begins again, and is told these rows.
    pub async fn rewind(&self, mut rows: TurnRows) {
        let mut writing = self.writing.lock().await;
        let counted = stored_bytes(&rows, &self.seal);
        {
            let mut usage = self.journals.usage();
            usage.remove(self.turn.session, self.payer, writing.counted);
            usage.count(self.turn.session, self.payer, counted);
        }
        writing.counted = counted;
        self.past.rewind(&mut rows);
        self.ledger.send_replace(ledger(&rows));
        self.final_calls.reset(rows.doubts());
        writing.rows = rows;
    }
}

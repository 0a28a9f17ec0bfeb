//! A note is said to be made, and is not written.

use super::Flaw;

pub(super) struct LostNote;

impl Flaw for LostNote {
    fn name(&self) -> &'static str {
        "note-lost"
    }

    fn takes_notes(&self) -> bool {
        false
    }
}

//! A node that starts again takes a call in doubt for one that failed, and tells nobody.

use althing_calls::Resolution;

use super::Flaw;

pub(super) struct DroppedDoubt;

impl Flaw for DroppedDoubt {
    fn name(&self) -> &'static str {
        "doubt-dropped"
    }

    fn settles(&self) -> Option<Resolution> {
        Some(Resolution::Failed)
    }
}

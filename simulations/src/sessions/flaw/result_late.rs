//! The agent hears a result before it is written.

use super::Flaw;

pub(super) struct LateResult;

impl Flaw for LateResult {
    fn name(&self) -> &'static str {
        "result-late"
    }

    fn hears_first(&self) -> bool {
        true
    }
}

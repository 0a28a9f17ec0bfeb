//! The other node is told what was decided before that is written.

use super::Flaw;

pub(super) struct EarlyNews;

impl Flaw for EarlyNews {
    fn name(&self) -> &'static str {
        "decision-told-early"
    }

    fn tells_first(&self) -> bool {
        true
    }
}

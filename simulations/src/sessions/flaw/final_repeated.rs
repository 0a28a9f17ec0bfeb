//! A node that starts again makes calls again of which nobody knows whether they took place.

use althing_calls::Resolution;

use super::Flaw;

pub(super) struct FinalRepetition;

impl Flaw for FinalRepetition {
    fn name(&self) -> &'static str {
        "final-repeated"
    }

    fn settles(&self) -> Option<Resolution> {
        Some(Resolution::Again)
    }
}

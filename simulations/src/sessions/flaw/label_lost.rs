//! What is told again comes without its label.

use althing_execution::journal::StepOutcome;

use super::Flaw;

pub(super) struct LostLabel;

impl Flaw for LostLabel {
    fn name(&self) -> &'static str {
        "label-lost"
    }

    fn on_replay(&self, outcome: &mut StepOutcome) {
        outcome.label = None;
    }
}

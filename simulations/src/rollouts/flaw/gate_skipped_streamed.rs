//! What is streamed is shown before the gate has judged it.

use super::Flaw;

pub(super) struct UngatedStream;

impl Flaw for UngatedStream {
    fn name(&self) -> &'static str {
        "gate-skipped-streamed"
    }

    fn skips_gate_of_streams(&self) -> bool {
        true
    }
}

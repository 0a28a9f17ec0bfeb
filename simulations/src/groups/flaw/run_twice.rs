//! A worker runs an attempt that it is handed once a second time.

use althing_coordination::Assigned;

use super::Flaw;

pub(super) struct RunTwice;

impl Flaw for RunTwice {
    fn name(&self) -> &'static str {
        "run-twice"
    }

    fn on_task(&self, _: &mut Assigned) -> usize {
        2
    }
}

//! A worker is handed the token of an earlier attempt.

use althing_coordination::Assigned;

use super::Flaw;

pub(super) struct TokenReused;

impl Flaw for TokenReused {
    fn name(&self) -> &'static str {
        "token-reused"
    }

    fn on_task(&self, task: &mut Assigned) -> usize {
        task.token = task.token.saturating_sub(1).max(1);
        1
    }
}

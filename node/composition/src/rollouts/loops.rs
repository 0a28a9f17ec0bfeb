//! Control loops in two versions: both run their jobs on the same inputs, and what came of these jobs is counted.

use super::divided::AgentRollout;
use super::jobs::Jobs;
use crate::node::Node;

/// Counts the jobs of both versions since the last look, if they are control loops.
pub(super) async fn weigh(node: &Node, divided: &AgentRollout) {
    if !divided.is_running() {
        return;
    }
    let stable = divided.name_of(divided.versions().stable());
    let Some((stable, tried)) = stable.zip(divided.tried()) else { return };
    let all = node.host.status();
    let jobs = |version: &str| {
        let found = all.iter().find(|one| one.name == divided.name && *one.version == *version)?;
        found.hard.as_ref().map(Jobs::of)
    };
    let Some((of_stable, of_new)) = jobs(&stable).zip(jobs(&tried)) else { return };
    let came = divided.note_jobs([of_stable, of_new]);
    node.rollouts.count_jobs(divided, came).await;
}

//! Shadows: the new version is given what the stable one was given, beside the tasks of this node. Its calls have no effects, and
//! nobody hears what it answers; it is compared with what the stable one answered, and counted.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use althing_calls::TurnCourse;
use althing_verification::Trial;
use althing_verification::machine::rollout::Outcome;
use althing_verification::machine::tape::turn_output;
use futures::FutureExt as _;
use futures::future::join_all;

use super::node_rollouts::counted;
use super::shadows::ShadowTurn;
use crate::node::Node;

/// Shadows at once, of all agents.
const AT_ONCE: usize = 4;

/// Makes shadows for as long as the node runs.
pub(crate) async fn follow_shadows(node: &Node) {
    join_all((0..AT_ONCE).map(|_| make(node))).await;
}

async fn make(node: &Node) {
    loop {
        let turn = node.rollouts.shadows().next().await;
        if let Some(came) = run(node, &turn).await {
            node.rollouts.count_shadow(&turn.divided, [turn.stable, (turn.ticket, came)]).await;
        }
    }
}

/// What came of a shadow; none of one that says nothing of its version.
async fn run(node: &Node, turn: &ShadowTurn) -> Option<Outcome> {
    let divided = &turn.divided;
    let version = divided.tried().filter(|_| divided.is_running())?;
    let mut rehearsal = match node.hosting.own_tasks().rehearsal(&divided.name, Some(&*version)) {
        Ok(rehearsal) => rehearsal,
        Err(error) => {
            tracing::warn!(agent = divided.name, %error, "a new version has no shadow");
            return None;
        }
    };
    // It may be on its way to be started again.
    if *rehearsal.agent().version != *version {
        return None;
    }
    let trial = Arc::new(Trial::live(node.store.clone(), BTreeSet::new(), node.entropy().bytes()));
    let played = AssertUnwindSafe(rehearsal.copy(&turn.copy, trial.clone())).catch_unwind().await;
    if played.is_err() {
        tracing::warn!(agent = divided.name, version = &*version, "a shadow broke down");
    }
    let denied = trial.notes().denied;
    if denied > 0 {
        divided.add_denied();
    }
    let (course, first) = match played {
        Ok(times) => (rehearsal.course(), times.first),
        Err(_) => (Some(TurnCourse::Crashed), None),
    };
    let came = counted(course_of(course, denied), first)?;
    let answered = rehearsal.task().map(|task| turn_output("", task));
    Some(Outcome { differs: answered.as_ref() != Some(&turn.answered), ..came })
}

/// As what a shadow counts that went so, and to which so many calls were denied. With effects it might have gone otherwise, well or
/// badly, so that it says nothing of its version, however it went: what is counted is not chosen by what came of it.
fn course_of(course: Option<TurnCourse>, denied: u64) -> TurnCourse {
    course.filter(|_| denied == 0).unwrap_or(TurnCourse::Open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_to_which_a_call_was_denied_is_evidence_of_nothing_however_it_went() {
        let all = [
            TurnCourse::Good,
            TurnCourse::Failed,
            TurnCourse::Silent,
            TurnCourse::Refused,
            TurnCourse::Unjudged,
            TurnCourse::Crashed,
            TurnCourse::OverBudget,
        ];
        for course in all {
            assert_eq!(counted(course_of(Some(course), 1), None), None, "{course:?}");
            let came = counted(course_of(Some(course), 0), None).expect("it counts");
            assert_eq!(came.is_error || came.is_refused, course != TurnCourse::Good, "{course:?}");
        }
        assert_eq!(counted(course_of(None, 0), None), None);
    }
}

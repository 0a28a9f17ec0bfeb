//! Shadows: the new version is given what the stable one was given, beside the tasks of this node. Its calls have no effects, and
//! nobody hears what it answers; it is compared with what the stable one answered, and counted.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use althing_calls::{Rehearsal, TurnCourse};
use althing_verification::Trial;
use althing_verification::machine::rollout::{Breach, Outcome};
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
            node.rollouts.count_shadow(&turn.divided, turn.ticket, came).await;
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
    let Ok(times) = played else {
        tracing::warn!(agent = divided.name, version = &*version, "a shadow broke down");
        return Some(Outcome { is_error: true, breach: Some(Breach::Crash), ..Outcome::default() });
    };
    let came = counted(course(&rehearsal, trial.notes().denied), times.first)?;
    let answered = rehearsal.task().map(|task| turn_output("", task));
    Some(Outcome { differs: answered.as_ref() != Some(&turn.answered), ..came })
}

/// How a shadow went to which so many calls were denied: that it may have no effects is not its fault.
fn course(rehearsal: &Rehearsal, denied: u64) -> TurnCourse {
    match rehearsal.course() {
        Some(TurnCourse::Open) | None => TurnCourse::Open,
        Some(_) if denied > 0 => TurnCourse::Good,
        Some(course) => course,
    }
}

//! Declares in the group's log which rules this node knows and what its state was, and tells when another member's state was
//! another one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::PublicKey;
use althing_protocol::group::{Command, Declaration, RULES};

use super::Groups;
use super::member::Member;
use crate::machine::group::{Group, comparison};

/// Between two looks: each entry wakes this, and a mark is taken every ten minutes.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Before what could not be declared is declared again where nothing changes.
const RETRY: Duration = Duration::from_secs(30);

/// What was told.
#[derive(Default)]
struct Told {
    differing: BTreeSet<PublicKey>,
}

/// Runs until this node has no part in the group any more. A group in which nothing happens is left alone.
pub(super) async fn run(groups: Groups, member: Arc<Member>) {
    let (here, mut told) = (groups.shared.here(), Told::default());
    while !member.stop.is_cancelled() {
        let Ok(replica) = member.replica() else {
            // It starts again from disk.
            tokio::time::sleep(LOOK_PAUSE).await;
            continue;
        };
        let (mut changes, leader) = (replica.changes(), replica.status().leader);
        drop(replica);
        let Ok((due, differing)) = member.look(|state| (due(state, here), comparison::differing(state))) else {
            continue;
        };
        told.tell(&member, differing);
        if let Some(declaration) = due.filter(|_| leader.is_some()) {
            let declared = member.outbox(&groups).execute(Command::Declare(declaration)).await;
            if let Err(error) = declared {
                tracing::debug!(group = %member.id, %error, "what this node knows and has could not be declared");
            }
        }
        tokio::select! {
            biased;
            () = member.stop.cancelled() => return,
            _ = changes.changed() => {}
            () = tokio::time::sleep(RETRY), if due.is_some() => {}
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// What this node has not declared yet.
fn due(state: &Group, here: PublicKey) -> Option<Declaration> {
    let known = state.members().get(&here)?;
    let mark = comparison::last_mark(state);
    // What it does not know any more the group would refuse to hear.
    let is_declared = known.rules == RULES && (mark.is_none() || known.mark == mark);
    (!is_declared && comparison::check_rules(state).is_ok()).then_some(Declaration { rules: RULES, mark })
}

impl Told {
    /// Tells each thing once.
    fn tell(&mut self, member: &Member, differing: Vec<PublicKey>) {
        let differing: BTreeSet<PublicKey> = differing.into_iter().collect();
        for node in differing.difference(&self.differing) {
            tracing::error!(
                group = %member.id, %node,
                "a member has another state than this one: one of both runs another build, or was sent a state that is not the \
                 group's; compare both, and have the one that is wrong forget the group and be invited again"
            );
        }
        self.differing = differing;
    }
}

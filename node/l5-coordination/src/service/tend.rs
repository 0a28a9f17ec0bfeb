//! Keeps a group running: at the leader makes the log's members those of the state, connects to members, restarts a replica
//! that failed, and ends it when this node has no part in the group any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::PublicKey;
use althing_protocol::group::{Author, Command, Dissolution, Endorsed};
use tokio::time::Instant;

use super::member::Member;
use super::record::Standing;
use super::{Groups, Shared};
use crate::consensus::wire::Unserved;
use crate::consensus::{Replica, Role};

/// Between two looks where nothing changes.
const TICK: Duration = Duration::from_secs(1);
/// Before a change of the log's members that failed is tried again.
const RETRY: Duration = Duration::from_millis(50);
/// Before a replica that failed is started again, at first and at most.
const RESTART: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Before a member that could not be dialled is dialled again, at first and at most.
const REDIAL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// When a member is dialled again.
struct Redial {
    at: Instant,
    pause: Duration,
}

/// Runs until this node has no part in the group.
pub(super) async fn run(groups: Groups, member: Arc<Member>) {
    let mut redial = BTreeMap::new();
    let mut pause = RESTART.0;
    loop {
        let Ok(replica) = member.replica() else {
            if member.stop.is_cancelled() {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RESTART.1);
            if !member.stop.is_cancelled()
                && let Err(error) = member.start(&groups.shared).await
            {
                tracing::error!(group = %member.id, %error, "the group could not be started");
            }
            continue;
        };
        let (mut changes, mut moves) = (replica.changes(), replica.moves());
        loop {
            if step(&groups, &member, &replica, &mut redial).await {
                return;
            }
            if let Some(why) = replica.status().failure {
                tracing::error!(group = %member.id, why, "the replica of the group failed; it starts again from disk");
                member.halt(why).await;
                break;
            }
            let reconciled = replica.reconcile().await;
            let next = match reconciled {
                Ok(true) => TICK,
                Ok(false) | Err(_) => RETRY,
            };
            pause = RESTART.0;
            tokio::select! {
                () = member.stop.cancelled() => return,
                _ = changes.changed() => {}
                _ = moves.changed() => {}
                () = member.noticed.notified() => {}
                () = tokio::time::sleep(next) => {}
            }
        }
    }
}

/// What is due now. True when this node has no part in the group any more.
async fn step(
    groups: &Groups,
    member: &Arc<Member>,
    replica: &Arc<Replica>,
    redial: &mut BTreeMap<PublicKey, Redial>,
) -> bool {
    let shared = &groups.shared;
    let Some(standing) = standing(shared, member, replica).await else {
        connect(shared, replica, redial);
        tell_addresses(groups, member, replica);
        return false;
    };
    tracing::info!(group = %member.id, ?standing, "this node has no part in the group any more");
    if let Err(error) = groups.end(member, standing).await {
        tracing::error!(group = %member.id, %error, "the data of the group could not be removed");
    }
    true
}

/// How this node stands to the group, if it has no part in it any more.
async fn standing(shared: &Shared, member: &Arc<Member>, replica: &Arc<Replica>) -> Option<Standing> {
    let here = shared.here();
    let (is_founded, is_ours, ended) = {
        let view = replica.view();
        let state = view.group();
        (state.charter().is_some(), state.members().get(&here).is_some(), state.dissolution().cloned())
    };
    if let Some(proof) = ended {
        // The others hear it from the leader, or, asking later, from whoever knows it.
        return Some(Standing::Dissolved(proof));
    }
    // A leader that was removed leads until the others have voted themselves another one.
    let was_ours = member.was_named(is_ours);
    if was_ours && !is_ours && replica.status().role != Role::Leader {
        return Some(Standing::Gone);
    }
    let unserved = member.take_unserved();
    let removed = |(peer, said): (&PublicKey, &Unserved)| matches!(said, Unserved::NotAMember).then_some(*peer);
    let removed: BTreeSet<PublicKey> = unserved.iter().filter_map(removed).collect();
    if is_founded && member.is_majority(&removed) {
        return Some(Standing::Gone);
    }
    let proofs = unserved.values().filter_map(|said| match said {
        Unserved::Dissolved(proof) => Some(proof.clone()),
        _ => None,
    });
    proofs.into_iter().find(|proof| is_proof(shared, replica, proof)).map(Standing::Dissolved)
}

/// Whether the group's owners signed this end of it, as far as the state here knows them.
fn is_proof(shared: &Shared, replica: &Arc<Replica>, proof: &Endorsed) -> bool {
    let view = replica.view();
    let dissolution: Option<Dissolution> = view.group().verify_at(proof, shared.clock.now_ms());
    dissolution.is_some_and(|dissolution| dissolution.group == view.group().id())
}

/// Dials the members to whom there is no connection.
fn connect(shared: &Arc<Shared>, replica: &Arc<Replica>, redial: &mut BTreeMap<PublicKey, Redial>) {
    let network = shared.communication.network();
    let connected: BTreeSet<PublicKey> = network.connected().into_iter().collect();
    let now = Instant::now();
    let view = replica.view();
    let members = view.group().members();
    redial.retain(|node, _| members.get(node).is_some() && !connected.contains(node));
    for (node, known) in members.iter() {
        if *node == shared.here() || connected.contains(node) {
            continue;
        }
        let next = redial.entry(*node).or_insert(Redial { at: now, pause: REDIAL.0 });
        if next.at > now {
            continue;
        }
        *next = Redial { at: now + next.pause, pause: (next.pause * 2).min(REDIAL.1) };
        let (shared, node, addresses) = (shared.clone(), *node, known.addresses.clone());
        tokio::spawn(async move { shared.reach(node, addresses).await });
    }
}

/// Tells the group where this node can be dialled, once that has changed.
fn tell_addresses(groups: &Groups, member: &Arc<Member>, replica: &Arc<Replica>) {
    let shared = &groups.shared;
    let addresses = shared.addresses();
    let here = shared.here();
    let known = replica.view().group().members().get(&here).map(|known| known.addresses == addresses);
    if known != Some(false) || replica.status().leader.is_none() || !member.begin_telling() {
        return;
    }
    let (groups, member) = (groups.clone(), member.clone());
    tokio::spawn(async move {
        let author = Author::Node(here);
        let command = Command::Addresses(addresses);
        if let Err(error) = groups.submit(member.id, author, &groups.shared.key, vec![command]).await {
            tracing::debug!(group = %member.id, %error, "the group was not told of this node's addresses");
        }
        member.end_telling();
    });
}

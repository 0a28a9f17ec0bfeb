//! Keeps a group running: at the leader makes the log's members those of the state, connects to members, restarts a replica
//! that failed, and ends it when this node has no part in the group any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::group::{Author, Command, Dissolution, Endorsed, RULES};
use althing_protocol::{KeyLog, PublicKey};
use tokio::time::Instant;

use super::member::Member;
use super::record::Standing;
use super::withdrawn;
use super::{Groups, Shared};
use crate::consensus::wire::Unserved;
use crate::consensus::{Replica, Role};
use crate::machine::group::{comparison, is_later};

/// Between two looks where nothing changes.
const TICK: Duration = Duration::from_secs(1);
/// Before a change of the log's members that failed is tried again.
const RETRY: Duration = Duration::from_millis(50);
/// Between two steps in any case.
const PAUSE: Duration = Duration::from_millis(5);
/// Between an entry and the step that it causes.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Before a replica that failed is started again, at first and at most.
const RESTART: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Before a member that could not be dialled is dialled again, at first and at most.
const REDIAL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// How long a leader waits for a majority that it reaches to accept its entries, before it lets another one lead.
const STALL: Duration = Duration::from_secs(10);

/// How long a member follows a leader under whom nothing is accepted: one that means harm could lead for ever in this way.
const LEADER_STALL: Duration = Duration::from_secs(20);

/// How long a leader's own vote may be for a later term: whoever has just been elected shows it so for a moment.
const OUTVOTED: Duration = Duration::from_secs(3);

/// Watches whether a leader still leads.
#[derive(Default)]
struct Stall {
    /// What was applied when it was noticed that nothing more is. Members refuse the entries of a leader whose clock is far ahead,
    /// and may refuse a change of members that they cannot justify.
    applied: Option<(Option<u64>, Instant)>,
    outvoted: Option<Instant>,
}

impl Stall {
    /// Whether nothing was applied for too long, though there is something to apply and a majority to accept it: the part that
    /// this node has in that.
    fn stalled(&mut self, shared: &Shared, replica: &Replica) -> Option<Role> {
        let status = replica.status();
        let network = shared.communication.network();
        let connected: BTreeSet<PublicKey> = network.connected().into_iter().chain([network.local()]).collect();
        let has_majority = {
            let view = replica.view();
            let voters = view.group().members().voters();
            voters.intersection(&connected).count() * 2 > voters.len()
        };
        let most = match status.role {
            Role::Leader => Some(STALL),
            Role::Follower => status.leader.map(|_| LEADER_STALL),
            _ => None,
        };
        let Some(most) = most.filter(|_| status.applied < status.last && has_majority) else {
            self.applied = None;
            return None;
        };
        match self.applied {
            Some((applied, since)) if applied == status.applied => {
                let is_due = since.elapsed() > most;
                is_due.then(|| {
                    self.applied = None;
                    status.role
                })
            }
            _ => {
                self.applied = Some((status.applied, Instant::now()));
                None
            }
        }
    }

    /// Whether the leader has been outvoted by itself for too long.
    fn is_outvoted(&mut self, replica: &Replica) -> bool {
        if !replica.is_outvoted_by_itself() {
            self.outvoted = None;
            return false;
        }
        self.outvoted.get_or_insert_with(Instant::now).elapsed() > OUTVOTED
    }
}

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
        let (mut stall, started) = (Stall::default(), Instant::now());
        let outdated = loop {
            if started.elapsed() > RESTART.1 {
                pause = RESTART.0;
            }
            if let Err(why) = comparison::check_rules(replica.view().group()) {
                break Some(why);
            }
            if step(&groups, &member, &replica, &mut redial).await {
                return;
            }
            if member.stop.is_cancelled() {
                return;
            }
            if !is_present(&member, &replica) {
                // Somebody halted it: it starts again from disk.
                break None;
            }
            let stalled = stall.stalled(&groups.shared, &replica);
            if stalled == Some(Role::Follower) {
                tracing::warn!(group = %member.id, "the leader has nothing accepted: this member stands for election");
                replica.stand().await;
            }
            if let Some(why) = reason_to_restart(&replica, &mut stall, stalled) {
                tracing::error!(group = %member.id, why, "the replica of the group starts again from disk");
                member.halt(why).await;
                break None;
            }
            let next = reconciled(&replica).await;
            tokio::select! {
                biased;
                () = member.stop.cancelled() => return,
                // Each entry wakes this: under load it need not look at all members each time.
                _ = changes.changed() => tokio::time::sleep(LOOK_PAUSE).await,
                is_alive = moves.changed() => if !is_alive {
                    // Unless somebody stopped it.
                    if is_present(&member, &replica) {
                        member.halt("it ended by itself".to_owned()).await;
                    }
                    break comparison::check_rules(replica.view().group()).err();
                },
                () = member.noticed.notified() => {}
                () = tokio::time::sleep(next) => {}
            }
        };
        if let Some(why) = outdated {
            rest(&member, why).await;
            return;
        }
    }
}

/// Makes the members of the log those of the state, a step at most; when to look again. It waits for a majority; no longer than
/// what else may be wrong must wait to be seen.
async fn reconciled(replica: &Replica) -> Duration {
    if let Ok(Ok(true)) = tokio::time::timeout(OUTVOTED, replica.reconcile()).await {
        return TICK;
    }
    // What it waits for may be announced many times.
    tokio::time::sleep(PAUSE).await;
    RETRY
}

/// Halts the replica of a group whose rules this build does not know, for as long as this build runs: what it executed would be
/// another state, and it may be asked to lead by that.
async fn rest(member: &Member, why: String) {
    tracing::error!(group = %member.id, why, known = RULES, "the replica of the group is halted");
    member.halt(why).await;
    member.stop.cancelled().await;
}

/// Why the replica must start again from disk, if it must.
fn reason_to_restart(replica: &Replica, stall: &mut Stall, stalled: Option<Role>) -> Option<String> {
    if let Some(why) = replica.status().failure {
        return Some(why);
    }
    if stall.is_outvoted(replica) {
        return Some("its name was given votes of a later term: does another program use its key?".to_owned());
    }
    (stalled == Some(Role::Leader))
        .then(|| "a majority did not accept its entries; is this node's clock right?".to_owned())
}

/// Whether this is the member's replica yet.
fn is_present(member: &Member, replica: &Arc<Replica>) -> bool {
    member.replica().is_ok_and(|now| Arc::ptr_eq(&now, replica))
}

/// What is due now. True when this node has no part in the group any more.
async fn step(
    groups: &Groups,
    member: &Arc<Member>,
    replica: &Arc<Replica>,
    redial: &mut BTreeMap<PublicKey, Redial>,
) -> bool {
    let shared = &groups.shared;
    member.arriving.give_up(replica.status().term);
    if let Err(error) = replica.shorten_log().await {
        tracing::debug!(group = %member.id, %error, "the log of the group was not shortened");
    }
    let Some(standing) = standing(shared, member, replica).await else {
        if let Err(error) = member.forget_sponsors(shared.store.as_ref(), shared.here(), replica).await {
            tracing::error!(group = %member.id, %error, "whom the ticket named could not be forgotten");
        }
        withdrawn::watch(shared, replica.view().group());
        connect(shared, replica, redial);
        tell(groups, member, replica);
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
    let record = member.record.lock().expect("no panic").clone();
    let (is_founded, is_ours, has_joined, is_later, ended) = {
        let view = replica.view();
        let state = view.group();
        let (is_ours, is_later) = (state.members().get(&here).is_some(), state.epoch() > record.since_epoch);
        let has_joined = record.has_joined(state, here);
        (state.charter().is_some(), is_ours, has_joined, is_later, state.dissolution().cloned())
    };
    if let Some(proof) = ended {
        // The others hear it from the leader, or, asking later, from whoever knows it.
        return Some(Standing::Dissolved(proof));
    }
    let was_ours = member.was_named(has_joined);
    // Not while it votes: until then the others may need it to go on.
    if was_ours && !is_ours && is_later && !replica.votes_in_log() {
        return Some(Standing::Gone);
    }
    let unserved = member.take_unserved();
    let removed = |(peer, said): (&PublicKey, &Unserved)| matches!(said, Unserved::NotAMember).then_some(*peer);
    let removed: BTreeSet<PublicKey> = unserved.iter().filter_map(removed).collect();
    if is_founded && replica.status().role != Role::Leader && replica.is_majority(&removed) {
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

/// Tells the group where this node can be dialled, and of later keys of its owner, once that has changed; that it is there; and
/// which members their owners withdrew.
fn tell(groups: &Groups, member: &Arc<Member>, replica: &Arc<Replica>) {
    let shared = &groups.shared;
    let (here, addresses, owner) = (shared.here(), shared.addresses(), (shared.owner)().log);
    let command = {
        let view = replica.view();
        let state = view.group();
        let Some(known) = state.members().get(&here) else { return };
        let is_news = |log: &Arc<KeyLog>| is_later(&owner, log) && owner != **log;
        if state.logs.get(&owner.publisher()).is_some_and(is_news) {
            Command::Keys(super::events(&owner))
        } else if known.addresses != addresses {
            Command::Addresses(addresses)
        } else if state.members().silent_since(&here).is_some() {
            // Another one did not hear it: any word shows that it is there.
            Command::Tick
        } else if let Some(command) = withdrawn::due(shared, state, replica.status().leader) {
            command
        } else {
            return;
        }
    };
    if replica.status().leader.is_none() || !member.begin_telling() {
        return;
    }
    let (groups, member) = (groups.clone(), member.clone());
    tokio::spawn(async move {
        let author = Author::Node(here);
        if let Err(error) = groups.submit(member.id, author, &groups.shared.key, vec![command]).await {
            tracing::debug!(group = %member.id, %error, "the group was not told of what changed here");
        }
        member.end_telling();
    });
}

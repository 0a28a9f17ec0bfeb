//! Changes of a node's groups, for whoever shows them: which there are, what their states are, and who leads them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use althing_protocol::group::GroupId;
use futures::future::{BoxFuture, FutureExt as _, select_all};
use tokio::sync::watch;

use super::Groups;
use super::member::Member;
use super::record::Standing;
use crate::consensus::{Moves, Replica};

/// Before a replica that is started again, or has ended, is looked for.
const RESTART: Duration = Duration::from_secs(1);

/// Follows the groups of a node.
pub struct GroupChanges {
    members: watch::Receiver<BTreeMap<GroupId, Arc<Member>>>,
    replicas: BTreeMap<GroupId, ReplicaChanges>,
}

/// Changes of one replica, for as long as it runs.
struct ReplicaChanges {
    of: Weak<Replica>,
    state: crate::consensus::watch::Receiver<u64>,
    moves: Moves,
}

impl ReplicaChanges {
    fn new(replica: &Arc<Replica>) -> ReplicaChanges {
        ReplicaChanges { of: Arc::downgrade(replica), state: replica.changes(), moves: replica.moves() }
    }

    /// Waits for the next change. False when the replica has ended.
    async fn changed(&mut self) -> bool {
        tokio::select! {
            biased;
            changed = self.state.changed() => changed.is_ok(),
            is_alive = self.moves.changed() => is_alive,
        }
    }
}

impl GroupChanges {
    /// Changes from now on.
    #[must_use]
    pub fn of(groups: &Groups) -> GroupChanges {
        GroupChanges { members: groups.shared.members.subscribe(), replicas: BTreeMap::new() }
    }

    /// Waits until something may have changed; whoever was not waiting meanwhile misses nothing. Forever once the groups are no
    /// more.
    pub async fn changed(&mut self) {
        let (is_other, is_whole) = self.follow();
        if is_other {
            return;
        }
        let each = self.replicas.iter_mut().map(|(group, replica)| {
            let group = *group;
            replica.changed().map(move |is_alive| (!is_alive).then_some(group)).boxed()
        });
        // One that never comes: there may be no replica.
        let never: BoxFuture<'_, Option<GroupId>> = std::future::pending().boxed();
        let any = select_all(each.chain([never]));
        let ended = tokio::select! {
            biased;
            changed = self.members.changed() => match changed {
                Ok(()) => None,
                Err(_) => std::future::pending().await,
            },
            (ended, ..) = any => ended,
            () = tokio::time::sleep(RESTART), if !is_whole => None,
        };
        if let Some(group) = ended {
            self.replicas.remove(&group);
            // Another one takes its place, or the group ends: not looked for in a circle.
            tokio::time::sleep(RESTART).await;
        }
    }

    /// Follows the replicas that run now, and no others: whether they or the groups are others than before, and whether each
    /// group that goes on has one.
    fn follow(&mut self) -> (bool, bool) {
        let (mut is_other, mut is_whole) = (self.members.has_changed().unwrap_or(false), true);
        let members = self.members.borrow_and_update().clone();
        self.replicas.retain(|group, _| members.contains_key(group));
        for (group, member) in members {
            let Ok(replica) = member.replica() else {
                is_other |= self.replicas.remove(&group).is_some();
                is_whole &= member.record.lock().expect("no panic").standing != Standing::Member;
                continue;
            };
            let is_known = self.replicas.get(&group).is_some_and(|known| known.of.as_ptr() == Arc::as_ptr(&replica));
            if !is_known {
                self.replicas.insert(group, ReplicaChanges::new(&replica));
                is_other = true;
            }
        }
        (is_other, is_whole)
    }
}

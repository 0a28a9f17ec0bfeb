//! Leads the group, and as its leader sends two members different entries at one index of its term. Raft believes a leader, so
//! that such a group agrees on nothing any more; what must hold then is that its members prove it, and follow it no longer.

use std::time::Duration;

use althing_coordination::Role;
use althing_coordination::consensus::wire::{self, Append, Ballot, EntryRecord, Payload, Position};
use althing_coordination::machine::group::Group;
use althing_protocol::group::{Command, Set};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::Target;
use crate::NOW_MS;

/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(60);
/// Its session: later than that of its node.
const SESSION: u64 = u64::MAX / 2;

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        let (group, node) = (target.group, target.key.public());
        let mut rng = StdRng::seed_from_u64(target.seed);
        for number in 1.. {
            tokio::time::sleep(EVERY).await;
            let status = target.running.groups.overview(group).ok().and_then(|overview| overview.replica);
            let Some((status, last)) = status.and_then(|status| Some((status.clone(), status.last?))) else { continue };
            if status.role != Role::Leader {
                // Whoever leads hands over to it.
                if let Some(owner) = target.office.any(rng.random()) {
                    let _ = owner.down.run_until_cancelled(owner.groups.transfer(group, node)).await;
                }
                continue;
            }
            let epoch = target.running.groups.look(group, Group::epoch).unwrap_or(1);
            let told = ["this", "that"].map(|value| {
                let value = value.as_bytes().to_vec().into();
                let set = Set { key: "two-faced".to_owned(), value, if_version: None };
                let batch = target.sign(epoch, SESSION, number, Command::Set(set));
                let at = Position { term: status.term, index: last + 1 };
                let previous = Some(Position { term: status.term, index: last });
                Append {
                    group,
                    leader: Ballot { term: status.term, node, elected: true },
                    previous,
                    committed: previous,
                    entries: vec![EntryRecord { at, payload: Payload::Batch(NOW_MS, batch.into()) }],
                }
            });
            for (append, to) in told.iter().zip(&target.honest) {
                target.send(*to, "append", wire::write(append)).await;
            }
            target.books.open().lies += 1;
        }
    }
    .boxed()
}

//! Says different things to different members: two batches under one number, and two entries at one index, as the leader of
//! the term before the first one. Of a later term a member that starts again might believe it.

use std::time::Duration;

use althing_coordination::consensus::wire::{self, Append, Ballot, EntryRecord, Payload, Position, Submit};
use althing_coordination::machine::group::Group;
use althing_protocol::group::{Command, Set};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

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
            let epoch = target.running.groups.look(group, Group::epoch).unwrap_or(1);
            let batches = ["this", "that"].map(|value| {
                let set =
                    Set { key: "two-faced".to_owned(), value: value.as_bytes().to_vec().into(), if_version: None };
                target.sign(epoch, SESSION, number, Command::Set(set))
            });
            let first = target.honest.iter().next().copied().expect("there are some");
            for (batch, to) in batches.iter().zip([first, target.victim(&mut rng)]) {
                let submit = Submit { group, batch: batch.clone().into() };
                target.send(to, "submit", wire::write(&submit)).await;
            }
            let status = target.running.groups.overview(group).ok().and_then(|overview| overview.replica);
            let Some(last) = status.and_then(|status| status.last) else { continue };
            for (batch, to) in batches.into_iter().zip([first, target.victim(&mut rng)]) {
                let at = Position { term: 0, index: last + 1 };
                let entry = EntryRecord { at, payload: Payload::Batch(NOW_MS, batch.into()) };
                let append = Append {
                    group,
                    leader: Ballot { term: 0, node, elected: true },
                    previous: Some(Position { term: 0, index: last }),
                    committed: Some(at),
                    entries: vec![entry],
                };
                target.send(to, "append", wire::write(&append)).await;
            }
        }
    }
    .boxed()
}

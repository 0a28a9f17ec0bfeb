//! Is expelled, and goes on: asks for votes, sends entries and batches, as if it were a member yet.

use std::time::Duration;

use althing_coordination::consensus::wire::{self, Append, Ballot, Elect, Position, Submit};
use althing_protocol::group::{Command, Set};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::Target;

/// When it is expelled.
const AFTER: Duration = Duration::from_millis(800);
/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(60);

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        let (group, node) = (target.group, target.key.public());
        let mut rng = StdRng::seed_from_u64(target.seed);
        tokio::time::sleep(AFTER).await;
        // Its owner tries until there is a leader.
        while !target.expel(&mut rng).await {
            tokio::time::sleep(EVERY).await;
        }
        target.books.note(format_args!("{node} is expelled, and goes on"));
        let ballot = |term, elected| Ballot { term, node, elected };
        for number in 1.. {
            tokio::time::sleep(EVERY).await;
            target.connect().await;
            let last = Some(Position { term: number, index: 10_000 });
            let elect = Elect { group, candidate: ballot(number, false), last, is_transfer: true };
            target.send(target.victim(&mut rng), "vote", wire::write(&elect)).await;
            // Of a later term a member that does not know yet that it was expelled might believe it.
            let append =
                Append { group, leader: ballot(0, true), previous: None, committed: None, entries: Vec::new() };
            target.send(target.victim(&mut rng), "append", wire::write(&append)).await;
            for epoch in [1, 2, 3, u64::from(target.honest.len() as u32) + 1] {
                let set = Set { key: "expelled".to_owned(), value: Vec::new().into(), if_version: None };
                let batch = target.sign(epoch, 1, number, Command::Set(set));
                let submit = Submit { group, batch: batch.into() };
                target.send(target.victim(&mut rng), "submit", wire::write(&submit)).await;
            }
        }
    }
    .boxed()
}

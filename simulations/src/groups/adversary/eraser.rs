//! Says, as the leader of a later term, that entries which others have executed are of that term, and that no more than these are
//! committed: who believes it drops what it has executed (P-141).

use std::time::Duration;

use althing_coordination::consensus::wire::{self, Append, Ballot, EntryRecord, Payload, Position};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::Target;

/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(120);
/// How far behind its own node others may be: of what they have not executed yet, Raft believes a leader.
const BEHIND: u64 = 10;

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        let (group, node) = (target.group, target.key.public());
        let mut rng = StdRng::seed_from_u64(target.seed);
        loop {
            tokio::time::sleep(EVERY).await;
            let status = target.running.groups.overview(group).ok().and_then(|overview| overview.replica);
            let Some((term, applied)) = status.and_then(|status| Some((status.term + 1, status.applied?))) else {
                continue;
            };
            let Some(most) = applied.checked_sub(BEHIND) else { continue };
            let at = Position { term, index: rng.random_range(0..=most) };
            let leader = Ballot { term, node, elected: true };
            let next = EntryRecord { at: Position { term, index: at.index + 1 }, payload: Payload::Blank };
            let victim = target.victim(&mut rng);
            for (committed, entries) in [(Some(at), Vec::new()), (None, vec![next])] {
                let append = Append { group, leader, previous: Some(at), committed, entries };
                target.send(victim, "append", wire::write(&append)).await;
            }
        }
    }
    .boxed()
}

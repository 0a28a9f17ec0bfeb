//! Raises the terms of the others as far as one message may, and again, for each to another term: members whose terms are too far
//! apart would never hear each other again (P-101).

use std::time::Duration;

use althing_coordination::consensus::wire::{self, Append, Ballot, TERM_AHEAD_MAX};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::Target;

/// Between two steps: no member takes more of them.
const EVERY: Duration = Duration::from_millis(1_050);
/// How often, before it begins anew.
const STEPS: usize = 3;

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        let (group, node) = (target.group, target.key.public());
        loop {
            let status = target.running.groups.overview(group).ok().and_then(|overview| overview.replica);
            let base = status.map_or(0, |status| status.term);
            for step in 1..=STEPS {
                tokio::time::sleep(EVERY).await;
                // The first is left alone, the next one takes one step, the one after it two.
                for (_, victim) in target.honest.iter().enumerate().filter(|(at, _)| at % STEPS >= step) {
                    let term = base.saturating_add(step as u64 * TERM_AHEAD_MAX);
                    let leader = Ballot { term, node, elected: true };
                    let append = Append { group, leader, previous: None, committed: None, entries: Vec::new() };
                    target.send(*victim, "append", wire::write(&append)).await;
                }
            }
        }
    }
    .boxed()
}

//! Asks all others for their votes all the time, in ever later terms, and lies about how long its log is.

use std::time::Duration;

use althing_coordination::consensus::wire::{self, Ballot, Elect, Position};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::Target;

/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(40);

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        let (group, node) = (target.group, target.key.public());
        for term in 2.. {
            tokio::time::sleep(EVERY).await;
            let candidate = Ballot { term, node, elected: false };
            let last = Some(Position { term: term - 1, index: 10_000 });
            let elect = wire::write(&Elect { group, candidate, last, is_transfer: false });
            for operation in ["pre-vote", "vote"] {
                let sent = target.honest.iter().map(|peer| target.send(*peer, operation, elect.clone()));
                futures::future::join_all(sent).await;
            }
        }
    }
    .boxed()
}

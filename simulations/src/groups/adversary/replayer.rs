//! Sends what its node was sent to others, again and again: votes, entries, batches of others.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::Target;

/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(60);

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        let mut rng = StdRng::seed_from_u64(target.seed);
        loop {
            tokio::time::sleep(EVERY).await;
            target.connect().await;
            let Some((operation, body)) = target.books.replay(rng.random()) else { continue };
            target.send(target.victim(&mut rng), &operation, body).await;
        }
    }
    .boxed()
}

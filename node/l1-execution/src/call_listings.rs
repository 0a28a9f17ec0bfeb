//! Listings of one server for calls: of many calls at once those that came before a listing began share it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::fault::Fault;

/// How long a call waits for the listing of another one: a server that lists slowly is asked by each call.
const PATIENCE: Duration = Duration::from_millis(1);

/// A listing that ended well.
struct LastListing {
    number: u64,
    version: u64,
}

/// Who lists a server now, and what the last one found who waited for that.
#[derive(Default)]
pub(crate) struct CallListings {
    /// How many listings have begun.
    begun: AtomicU64,
    last: Mutex<Option<LastListing>>,
}

impl CallListings {
    /// The version that a listing gives which begins after this was called: by `list`, or by another call that wanted one meanwhile.
    ///
    /// # Errors
    /// Those of `list`: why another call's listing failed says nothing of this one.
    pub async fn listed(&self, list: impl Future<Output = Result<u64, Fault>>) -> Result<u64, Fault> {
        let before = self.begun.load(Ordering::SeqCst);
        let last = match self.last.try_lock() {
            Ok(last) => Some(last),
            Err(_) => timeout(PATIENCE, self.last.lock()).await.ok(),
        };
        if let Some(version) = last.as_deref().and_then(|last| of_after(last.as_ref(), before)) {
            return Ok(version);
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let version = list.await?;
        if let Some(mut last) = last {
            *last = Some(LastListing { number, version });
        }
        Ok(version)
    }
}

/// What a listing found that began after so many others.
fn of_after(last: Option<&LastListing>, before: u64) -> Option<u64> {
    last.filter(|last| last.number > before).map(|last| last.version)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::future::join_all;
    use tokio::sync::Semaphore;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// A server that counts how often it lists its tools.
    #[derive(Default)]
    struct Server {
        listings: CallListings,
        begun: AtomicUsize,
    }

    impl Server {
        /// The number of the listing that a call went by; each takes as long as that.
        async fn call(&self, takes: impl Future<Output = ()>) -> Result<u64, Fault> {
            let list = async {
                let number = self.begun.fetch_add(1, Ordering::SeqCst) as u64 + 1;
                takes.await;
                Ok(number)
            };
            self.listings.listed(list).await
        }

        fn begun(&self) -> usize {
            self.begun.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_share_a_listing_that_begins_after_they_came_and_no_other() {
        let (server, gate) = (Server::default(), Semaphore::new(2));
        let call = || server.call(async { gate.acquire().await.expect("nobody closes it").forget() });
        assert_eq!((call().await, call().await), (Ok(1), Ok(2)), "one after the other");
        let mut first = Box::pin(call());
        assert!(futures::poll!(&mut first).is_pending());
        let mut others = Box::pin(join_all((0..8).map(|_| call())));
        assert!(futures::poll!(&mut others).is_pending());
        assert_eq!(server.begun(), 3, "one is under way, which began before the others came");
        gate.add_permits(2);
        assert_eq!(tokio::join!(first, others), (Ok(3), vec![Ok(4); 8]));
        assert_eq!(server.begun(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_lists_slowly_keeps_no_call_waiting_for_another() {
        let (server, takes, begun) = (Server::default(), Duration::from_secs(1), Instant::now());
        let all = join_all((0..5).map(|_| server.call(sleep(takes)))).await;
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        assert_eq!(server.begun(), 5);
        assert!(begun.elapsed() < takes + PATIENCE * 5, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_listing_that_fails_or_is_given_up_fails_no_other_call() {
        let listings = CallListings::default();
        let slow = async {
            sleep(PATIENCE / 2).await;
            Err(Fault::Failed("no".to_owned()))
        };
        let (failed, other) = tokio::join!(listings.listed(slow), listings.listed(async { Ok(7) }));
        assert_eq!((failed, other), (Err(Fault::Failed("no".to_owned())), Ok(7)));
        let given_up = timeout(PATIENCE, listings.listed(std::future::pending()));
        let (given_up, other) = tokio::join!(given_up, listings.listed(async { Ok(8) }));
        assert!(given_up.is_err());
        assert_eq!(other, Ok(8));
        assert_eq!(listings.listed(async { Ok(9) }).await, Ok(9));
    }
}

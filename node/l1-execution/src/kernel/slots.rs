//! Who may keep a processor busy: soft real-time turns take slots by priority, then by what their agents had already.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::realtime::now_ns;

/// Turns that wait for a slot.
const WAITING_MAX: usize = 4_096;
/// How much an agent runs in each period before others of its priority go first.
const BANDWIDTH_NS: u64 = 20_000_000;
/// That period, nanoseconds.
const PERIOD_NS: u64 = 100_000_000;

/// What an agent was given of the processors: a constant-bandwidth server (Abeni and Buttazzo, RTSS 1998). Among agents
/// of one priority the earliest deadline goes first, and each [`BANDWIDTH_NS`] of running puts it off by a period: one
/// that runs on and on is overtaken by one that seldom runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bandwidth {
    deadline_ns: u64,
    left_ns: u64,
}

impl Bandwidth {
    /// A turn comes while none was waiting or running.
    fn comes(&mut self, now_ns: u64) {
        // What is left may be used until the deadline only at the server's own rate.
        let until_ns = self.deadline_ns.saturating_sub(now_ns);
        if u128::from(self.left_ns) * u128::from(PERIOD_NS) >= u128::from(until_ns) * u128::from(BANDWIDTH_NS) {
            *self = Bandwidth { deadline_ns: now_ns.saturating_add(PERIOD_NS), left_ns: BANDWIDTH_NS };
        }
    }

    /// A turn ran.
    fn ran(&mut self, mut ns: u64) {
        while ns >= self.left_ns {
            ns -= self.left_ns;
            self.left_ns = BANDWIDTH_NS;
            self.deadline_ns = self.deadline_ns.saturating_add(PERIOD_NS);
        }
        self.left_ns -= ns;
    }
}

/// The bandwidth of one agent, and how many of its turns use it.
#[derive(Debug, Clone, Default)]
pub struct Server(Arc<Mutex<(Bandwidth, usize)>>);

impl Server {
    fn lock(&self) -> MutexGuard<'_, (Bandwidth, usize)> {
        self.0.lock().expect("no holder of a bandwidth panics")
    }
}

/// Slots for turns that keep a processor busy, given by priority, then by deadline, then by age.
#[derive(Clone)]
pub struct Slots(Arc<Mutex<Waiting>>);

/// Who goes first: the higher priority, then the earlier deadline.
type Rank = (Reverse<u8>, u64);

struct Waiting {
    free: usize,
    number: u64,
    queue: BTreeMap<(Rank, u64), oneshot::Sender<Slot>>,
}

/// There is no room to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{WAITING_MAX} turns wait already")]
pub struct Crowded;

/// A slot that is held; dropping it gives it on.
pub struct Slot(Slots);

impl Slots {
    /// That many at once.
    #[must_use]
    pub fn new(free: usize) -> Slots {
        Slots(Arc::new(Mutex::new(Waiting { free, number: 0, queue: BTreeMap::new() })))
    }

    /// Waits for a slot.
    async fn take(&self, rank: Rank) -> Result<Slot, Crowded> {
        let given = {
            let mut waiting = self.lock();
            if waiting.free > 0 {
                waiting.free -= 1;
                return Ok(Slot(self.clone()));
            }
            // Who gave up waiting makes room.
            waiting.queue.retain(|_, sender| !sender.is_closed());
            if waiting.queue.len() == WAITING_MAX {
                return Err(Crowded);
            }
            let (give, given) = oneshot::channel();
            waiting.number += 1;
            let place = (rank, waiting.number);
            waiting.queue.insert(place, give);
            given
        };
        given.await.map_err(|_| Crowded)
    }

    /// Does somebody wait who goes before `rank`?
    fn outranks(&self, rank: Rank) -> bool {
        let waiting = self.lock();
        waiting.queue.iter().find(|(_, sender)| !sender.is_closed()).is_some_and(|((first, _), _)| *first < rank)
    }

    /// Turns that wait for a slot before those of `priority`, and all slots.
    fn before(&self, priority: u8) -> usize {
        let waiting = self.lock();
        let before = waiting.queue.iter().filter(|(((of, _), _), sender)| of.0 >= priority && !sender.is_closed());
        before.count()
    }

    /// Turns that wait for a slot.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().queue.values().filter(|sender| !sender.is_closed()).count()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().expect("no holder of the slots panics")
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        let next = loop {
            match waiting.queue.pop_first() {
                Some((_, sender)) if sender.is_closed() => {}
                next => break next,
            }
        };
        match next {
            None => waiting.free += 1,
            Some((_, sender)) => {
                drop(waiting);
                // A slot that nobody takes any more comes back here.
                drop(sender.send(Slot(self.0.clone())));
            }
        }
    }
}

/// The place of one turn among those that keep processors busy, for as long as the turn lasts.
pub struct Place {
    slots: Slots,
    priority: u8,
    server: Server,
    /// The slot, and since when it is held.
    slot: Mutex<Option<(Slot, u64)>>,
    held_ns: AtomicU64,
}

impl Place {
    /// Waits for a slot.
    ///
    /// # Errors
    /// [`Crowded`].
    pub async fn take(slots: &Slots, priority: u8, server: &Server) -> Result<Arc<Place>, Crowded> {
        {
            let now_ns = now_ns();
            let mut held = server.lock();
            if held.1 == 0 {
                held.0.comes(now_ns);
            }
            held.1 += 1;
        }
        let (slot, held_ns) = Default::default();
        let place = Place { slots: slots.clone(), priority, server: server.clone(), slot, held_ns };
        place.again().await?;
        Ok(Arc::new(place))
    }

    fn rank(&self) -> Rank {
        (Reverse(self.priority), self.server.lock().0.deadline_ns)
    }

    async fn again(&self) -> Result<(), Crowded> {
        let slot = self.slots.take(self.rank()).await?;
        *self.held() = Some((slot, now_ns()));
        Ok(())
    }

    fn give(&self) {
        if let Some((slot, since)) = self.held().take() {
            self.held_ns.fetch_add(now_ns().saturating_sub(since), Ordering::Relaxed);
            drop(slot);
        }
    }

    /// Gives the slot on for good; how long the turn had one, nanoseconds.
    pub fn ended(&self) -> u64 {
        self.give();
        self.held_ns.load(Ordering::Relaxed)
    }

    /// The turn ran for that long since this was said last. Somebody may go first now: then the turn waits for what is
    /// given.
    #[must_use]
    pub fn ran(self: &Arc<Place>, ns: u64) -> Option<BoxFuture<'static, ()>> {
        self.server.lock().0.ran(ns);
        if !self.slots.outranks(self.rank()) {
            return None;
        }
        let place = self.clone();
        Some(Box::pin(async move {
            place.give();
            // Where there is no room to wait, it goes on: so many wait that nobody would notice.
            let _ = place.again().await;
        }))
    }

    /// Waits for something else than a processor: others have the slot meanwhile.
    pub async fn aside<T>(&self, work: impl Future<Output = T>) -> T {
        self.give();
        let made = work.await;
        let _ = self.again().await;
        made
    }

    fn held(&self) -> MutexGuard<'_, Option<(Slot, u64)>> {
        self.slot.lock().expect("no holder of a slot panics")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.give();
        self.server.lock().1 -= 1;
    }
}

/// How long turns keep their slots, to tell what a new one would wait for.
#[derive(Debug, Default)]
pub struct Expectation(Mutex<f64>);

impl Expectation {
    /// A turn that ran that long, nanoseconds, waiting aside left out.
    pub fn ran(&self, ns: u64) {
        let mut mean = self.0.lock().expect("no holder of the expectation panics");
        *mean += (ns as f64 - *mean) / 8.0;
    }

    /// What a turn of `priority` that came now would wait for a slot, nanoseconds.
    #[must_use]
    pub fn wait_ns(&self, slots: &Slots, priority: u8, all: usize) -> u64 {
        let mean = *self.0.lock().expect("no holder of the expectation panics");
        let wait = mean * slots.before(priority) as f64 / all.max(1) as f64;
        // Nanoseconds of minutes at most.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
        let wait = wait as u64;
        wait
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rank(priority: u8) -> Rank {
        (Reverse(priority), 0)
    }

    #[tokio::test]
    async fn the_higher_priority_overtakes_and_the_older_goes_first() {
        let slots = Slots::new(1);
        let held = slots.take(rank(0)).await.expect("a slot");
        let (done, mut order) = tokio::sync::mpsc::channel(8);
        for (name, priority) in [("low", 1), ("first", 9), ("second", 9)] {
            let (slots, done, waits) = (slots.clone(), done.clone(), slots.waiting());
            let counted = slots.clone();
            tokio::spawn(async move {
                let slot = slots.take(rank(priority)).await.expect("a slot");
                done.send(name).await.expect("somebody listens");
                drop(slot);
            });
            while counted.waiting() == waits {
                tokio::task::yield_now().await;
            }
        }
        drop(held);
        let got = [order.recv().await, order.recv().await, order.recv().await];
        assert_eq!(got, [Some("first"), Some("second"), Some("low")]);
    }

    #[tokio::test]
    async fn who_gives_up_keeps_no_slot() {
        let slots = Slots::new(1);
        let held = slots.take(rank(0)).await.expect("a slot");
        let gives_up = tokio::time::timeout(std::time::Duration::from_millis(1), slots.take(rank(5))).await;
        assert!(gives_up.is_err());
        assert_eq!(slots.waiting(), 0);
        drop(held);
        assert!(slots.take(rank(0)).await.is_ok());
    }

    /// Waits until somebody waits for a slot.
    async fn waited(slots: &Slots) {
        while slots.waiting() == 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_turn_that_runs_on_gives_way_to_priority_and_to_who_ran_less() {
        for (long, short) in [(5, 6), (5, 5)] {
            let slots = Slots::new(1);
            let (spins, seldom) = (Server::default(), Server::default());
            let place = Place::take(&slots, long, &spins).await.expect("a slot");
            assert!(place.ran(10_000_000).is_none(), "nobody waits");
            let (queue, server) = (slots.clone(), seldom.clone());
            let other = tokio::spawn(async move { Place::take(&queue, short, &server).await.expect("a slot") });
            waited(&slots).await;
            let way = place.ran(BANDWIDTH_NS).expect("somebody goes first");
            let (again, other) = tokio::join!(
                async {
                    way.await;
                    tokio::time::Instant::now()
                },
                async {
                    let other = other.await.expect("no panic");
                    let had = tokio::time::Instant::now();
                    drop(other);
                    had
                }
            );
            assert!(again >= other);
        }
    }

    #[tokio::test]
    async fn who_waits_for_something_else_holds_no_slot() {
        let slots = Slots::new(1);
        let place = Place::take(&slots, 1, &Server::default()).await.expect("a slot");
        place
            .aside(async {
                let other = Place::take(&slots, 1, &Server::default()).await.expect("the slot is free");
                drop(other);
            })
            .await;
        assert_eq!(slots.lock().free, 0, "it has it again");
        drop(place);
        assert_eq!(slots.lock().free, 1);
    }

    #[test]
    fn what_is_expected_follows_what_was() {
        let (slots, expected) = (Slots::new(2), Expectation::default());
        for _ in 0..64 {
            expected.ran(80_000_000);
        }
        assert_eq!(expected.wait_ns(&slots, 1, 2), 0, "nobody waits");
        let mut queue = slots.lock();
        let mut ends = Vec::new();
        for number in 0..10 {
            let (give, given) = oneshot::channel();
            queue.queue.insert((rank(5), number), give);
            ends.push(given);
        }
        drop(queue);
        assert_eq!(expected.wait_ns(&slots, 9, 2), 0, "none of them goes before it");
        let wait_ms = expected.wait_ns(&slots, 5, 2) / 1_000_000;
        assert!((390..=400).contains(&wait_ms), "{wait_ms} ms for ten of 80 ms on two slots");
    }

    proptest! {
        // The bound of the constant-bandwidth server: in no interval does an agent get more than its share before
        // others of its priority, whatever it does.
        #[test]
        fn its_deadline_is_never_earlier_than_its_share_allows(
            steps in proptest::collection::vec((0_u64..50_000_000, 0_u64..60_000_000), 1..200)
        ) {
            let mut server = Bandwidth::default();
            let (mut now, mut ran) = (0_u64, 0_u64);
            for (idle, runs) in steps {
                now += idle;
                server.comes(now);
                server.ran(runs);
                // It runs on a processor of its own: time passes too.
                now += runs;
                ran += runs;
                let allowed = u128::from(server.deadline_ns) * u128::from(BANDWIDTH_NS) / u128::from(PERIOD_NS);
                prop_assert!(u128::from(ran) <= allowed + u128::from(BANDWIDTH_NS), "{ran} ran, {allowed} allowed");
                prop_assert!(server.left_ns <= BANDWIDTH_NS);
            }
        }
    }
}

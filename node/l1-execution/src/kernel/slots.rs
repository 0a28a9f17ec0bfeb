//! Who may keep a processor busy: soft real-time turns take slots by priority, then by what their agents had already.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use futures::task::{ArcWake, AtomicWaker};
use tokio::sync::oneshot;

use crate::realtime::{now_ns, ran_ns};

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
struct Bandwidth {
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

    /// A turn ran. What it ran while nobody waited is held against nobody.
    fn ran(&mut self, mut ns: u64, now_ns: u64, somebody_waits: bool) {
        while ns >= self.left_ns {
            ns -= self.left_ns;
            self.left_ns = BANDWIDTH_NS;
            self.deadline_ns = self.deadline_ns.saturating_add(PERIOD_NS);
        }
        self.left_ns -= ns;
        if !somebody_waits {
            self.deadline_ns = self.deadline_ns.min(now_ns.saturating_add(PERIOD_NS));
        }
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
    all: usize,
    free: usize,
    number: u64,
    /// How long a slot is held before it is given on; a moving average in nanoseconds.
    held_ns: f64,
    queue: BTreeMap<(Rank, u64), oneshot::Sender<Slot>>,
}

/// There is no room to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{WAITING_MAX} turns wait already")]
pub struct Crowded;

/// A slot that is held; dropping it gives it on.
struct Slot(Slots);

impl Slots {
    /// That many at once.
    #[must_use]
    pub fn new(free: usize) -> Slots {
        Slots(Arc::new(Mutex::new(Waiting { all: free, free, number: 0, held_ns: 0.0, queue: BTreeMap::new() })))
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

    /// What a turn of `priority` that came now would wait for a slot, nanoseconds.
    #[must_use]
    pub fn wait_ns(&self, priority: u8) -> u64 {
        let waiting = self.lock();
        if waiting.free > 0 {
            return 0;
        }
        let before = waiting.queue.iter().filter(|(((of, _), _), sender)| of.0 >= priority && !sender.is_closed());
        let wait = waiting.held_ns * (before.count() + 1) as f64 / waiting.all.max(1) as f64;
        // Nanoseconds of minutes at most.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
        let wait = wait as u64;
        wait
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
struct Place {
    slots: Slots,
    priority: u8,
    server: Server,
    /// The slot, and since when it is held.
    slot: Mutex<Option<(Slot, u64)>>,
}

/// Runs a turn that keeps a processor busy, on slots: whenever it waits, or yields, others have its slot, and it goes on
/// when it is its turn again.
///
/// # Errors
/// [`Crowded`], before anything ran.
pub async fn on_slots<T>(
    slots: &Slots,
    priority: u8,
    server: &Server,
    work: impl Future<Output = T>,
) -> Result<T, Crowded> {
    let place = Place::take(slots, priority, server).await?;
    let mut work = std::pin::pin!(work);
    let woken = Arc::<Woken>::default();
    let waker = futures::task::waker(woken.clone());
    loop {
        let before = ran_ns();
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        // One poll is on one thread.
        place.ran(ran_ns().saturating_sub(before));
        if let Poll::Ready(done) = polled {
            return Ok(done);
        }
        if woken.is.swap(false, Ordering::AcqRel) {
            // It only yields: the runtime's other tasks go on, and whoever goes first has the slot.
            tokio::task::yield_now().await;
            if !place.gives_way() {
                continue;
            }
            place.give();
        } else {
            place.give();
            woken.wait().await;
        }
        // Where there is no room to wait, it goes on: so many wait that nobody would notice.
        let _ = place.again().await;
    }
}

/// Wakes whoever waits for a turn that can go on.
#[derive(Default)]
struct Woken {
    is: AtomicBool,
    waiting: AtomicWaker,
}

impl ArcWake for Woken {
    fn wake_by_ref(woken: &Arc<Woken>) {
        woken.is.store(true, Ordering::Release);
        woken.waiting.wake();
    }
}

impl Woken {
    async fn wait(&self) {
        std::future::poll_fn(|cx| {
            self.waiting.register(cx.waker());
            if self.is.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Place {
    async fn take(slots: &Slots, priority: u8, server: &Server) -> Result<Place, Crowded> {
        {
            let mut held = server.lock();
            if held.1 == 0 {
                held.0.comes(now_ns());
            }
            held.1 += 1;
        }
        let place = Place { slots: slots.clone(), priority, server: server.clone(), slot: Mutex::default() };
        place.again().await?;
        Ok(place)
    }

    fn rank(&self) -> Rank {
        (Reverse(self.priority), self.server.lock().0.deadline_ns)
    }

    async fn again(&self) -> Result<(), Crowded> {
        let slot = self.slots.take(self.rank()).await?;
        *self.held() = Some((slot, now_ns()));
        Ok(())
    }

    fn ran(&self, ns: u64) {
        let somebody_waits = self.slots.waiting() > 0;
        self.server.lock().0.ran(ns, now_ns(), somebody_waits);
    }

    /// Does somebody wait who does not go after it?
    fn gives_way(&self) -> bool {
        let rank = self.rank();
        let waiting = self.slots.lock();
        let mut waits = waiting.queue.iter().filter(|(_, sender)| !sender.is_closed());
        waits.next().is_some_and(|((first, _), _)| *first <= rank)
    }

    fn give(&self) {
        if let Some((slot, since)) = self.held().take() {
            let held = now_ns().saturating_sub(since) as f64;
            let mut waiting = self.slots.lock();
            waiting.held_ns += (held - waiting.held_ns) / 8.0;
            drop(waiting);
            drop(slot);
        }
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

    /// As guests do.
    async fn yields() {
        let mut yielded = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// A turn that yields as often, and notes each time that it runs.
    async fn turn(
        name: char,
        run_ns: u64,
        times: usize,
        slots: Slots,
        priority: u8,
        server: Server,
        notes: Arc<Mutex<String>>,
    ) {
        let work = async {
            for _ in 0..times {
                notes.lock().expect("no panic").push(name);
                let until = ran_ns() + run_ns;
                while ran_ns() < until {}
                yields().await;
            }
        };
        on_slots(&slots, priority, &server, work).await.expect("a slot");
    }

    async fn both(run_ns: u64, low: (u8, usize), high: (u8, usize)) -> String {
        let (slots, notes) = (Slots::new(1), Arc::<Mutex<String>>::default());
        let long = turn('a', run_ns, low.1, slots.clone(), low.0, Server::default(), notes.clone());
        let short = turn('b', run_ns, high.1, slots.clone(), high.0, Server::default(), notes.clone());
        tokio::join!(long, short);
        let notes = notes.lock().expect("no panic").clone();
        assert_eq!(slots.lock().free, 1, "all slots are given back");
        notes
    }

    #[tokio::test]
    async fn a_turn_that_runs_on_gives_way_whenever_it_yields() {
        assert_eq!(both(0, (5, 4), (6, 3)).await, "abbbaaa", "the higher priority goes first");
        assert_eq!(both(0, (6, 4), (5, 3)).await, "aaaabbb");
        assert_eq!(both(0, (5, 3), (5, 3)).await, "aaabbb", "of equals the one that came first");
        let equals = both(BANDWIDTH_NS, (5, 4), (5, 4)).await;
        assert!(!equals.contains("aaa") && !equals.contains("bbb"), "until it had its share: {equals}");
    }

    #[tokio::test]
    async fn who_waits_for_something_else_holds_no_slot() {
        let slots = Slots::new(1);
        let (tell, told) = oneshot::channel();
        let servers = [Server::default(), Server::default()];
        let waits = on_slots(&slots, 9, &servers[0], async { told.await.is_ok() });
        let other = on_slots(&slots, 1, &servers[1], async { tell.send(()).is_ok() });
        let both = async { tokio::join!(waits, other) };
        let done =
            tokio::time::timeout(std::time::Duration::from_secs(10), both).await.expect("neither waits for ever");
        assert_eq!(done, (Ok(true), Ok(true)));
        assert_eq!(slots.lock().free, 1);
    }

    #[tokio::test]
    async fn what_is_expected_follows_what_was() {
        let slots = Slots::new(2);
        slots.lock().held_ns = 80e6;
        assert_eq!(slots.wait_ns(1), 0, "a slot is free");
        let _held = [slots.take(rank(0)).await, slots.take(rank(0)).await];
        assert_eq!(slots.wait_ns(1) / 1_000_000, 40, "the next that is given on");
        let mut ends = Vec::new();
        for number in 0..10 {
            let (give, given) = oneshot::channel();
            slots.lock().queue.insert((rank(5), number), give);
            ends.push(given);
        }
        assert_eq!(slots.wait_ns(9) / 1_000_000, 40, "none of them goes before it");
        assert_eq!(slots.wait_ns(5) / 1_000_000, 440, "eleven of 80 ms on two slots");
    }

    #[test]
    fn what_was_run_while_nobody_waited_is_held_against_nobody() {
        let mut alone = Bandwidth::default();
        alone.comes(0);
        for at in 1..=60_000 {
            alone.ran(1_000_000, at * 1_000_000, false);
        }
        let now = 60_000 * 1_000_000;
        assert!(alone.deadline_ns <= now + PERIOD_NS, "{} ms late", (alone.deadline_ns - now) / 1_000_000);
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
                // It runs on a processor of its own: time passes too.
                now += runs;
                server.ran(runs, now, true);
                ran += runs;
                let allowed = u128::from(server.deadline_ns) * u128::from(BANDWIDTH_NS) / u128::from(PERIOD_NS);
                prop_assert!(u128::from(ran) <= allowed + u128::from(BANDWIDTH_NS), "{ran} ran, {allowed} allowed");
                prop_assert!(server.left_ns <= BANDWIDTH_NS);
            }
        }
    }
}

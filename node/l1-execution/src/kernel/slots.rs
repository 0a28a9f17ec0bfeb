//! Slots for processor-bound soft real-time turns, given by priority, then by the bandwidth that their agents used.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use futures::task::{ArcWake, AtomicWaker};
use tokio::sync::{Notify, oneshot};

use crate::realtime::{now_ns, ran_ns};

/// Queued turns.
const WAITING_MAX: usize = 4_096;
/// The processor time that an agent gets in each period before others of its priority go first.
const BANDWIDTH_NS: u64 = 20_000_000;
/// That period, nanoseconds.
const PERIOD_NS: u64 = 100_000_000;

/// A constant-bandwidth server (Abeni and Buttazzo, RTSS 1998). Among agents of one priority the earliest deadline goes
/// first, and each [`BANDWIDTH_NS`] of running time postpones it by a period: an agent that runs all the time is overtaken
/// by one that runs seldom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Bandwidth {
    deadline_ns: u64,
    left_ns: u64,
}

impl Bandwidth {
    /// A turn is enqueued while the server is idle.
    fn enqueue(&mut self, now_ns: u64) {
        // The remaining budget may be used before the deadline only at the server's rate.
        let until_ns = self.deadline_ns.saturating_sub(now_ns);
        if u128::from(self.left_ns) * u128::from(PERIOD_NS) >= u128::from(until_ns) * u128::from(BANDWIDTH_NS) {
            *self = Bandwidth { deadline_ns: now_ns.saturating_add(PERIOD_NS), left_ns: BANDWIDTH_NS };
        }
    }

    /// Charges running time. Time that was run without contention does not postpone the deadline beyond one period.
    fn charge(&mut self, mut ns: u64, now_ns: u64, contended: bool) {
        while ns >= self.left_ns {
            ns -= self.left_ns;
            self.left_ns = BANDWIDTH_NS;
            self.deadline_ns = self.deadline_ns.saturating_add(PERIOD_NS);
        }
        self.left_ns -= ns;
        if !contended {
            self.deadline_ns = self.deadline_ns.min(now_ns.saturating_add(PERIOD_NS));
        }
    }
}

/// The bandwidth of one agent, and the number of its turns.
#[derive(Debug, Clone, Default)]
pub struct BandwidthServer(Arc<Mutex<(Bandwidth, usize)>>);

impl BandwidthServer {
    fn lock(&self) -> MutexGuard<'_, (Bandwidth, usize)> {
        self.0.lock().expect("no holder of a bandwidth panics")
    }
}

/// Slots for turns that keep a processor busy, given by priority, then by deadline, then by age.
#[derive(Clone)]
pub struct Slots(Arc<Mutex<SlotQueue>>);

/// The order of the queue: the higher priority, then the earlier deadline.
type Rank = (Reverse<u8>, u64);

struct SlotQueue {
    all: usize,
    free: usize,
    number: u64,
    /// The moving average of how long a slot is held, nanoseconds.
    held_ns: f64,
    queue: BTreeMap<(Rank, u64), oneshot::Sender<Slot>>,
    /// Told whenever a slot is given on, or back.
    given: Arc<Notify>,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{WAITING_MAX} turns wait already")]
pub struct QueueFull;

/// A slot; on drop it goes to the next turn in the queue.
struct Slot(Slots);

impl Slots {
    /// `free` slots.
    #[must_use]
    pub fn new(free: usize) -> Slots {
        let (queue, given) = Default::default();
        Slots(Arc::new(Mutex::new(SlotQueue { all: free, free, number: 0, held_ns: 0.0, queue, given })))
    }

    /// Waits for a slot.
    async fn take(&self, rank: Rank) -> Result<Slot, QueueFull> {
        let given = {
            let mut waiting = self.lock();
            if waiting.free > 0 {
                waiting.free -= 1;
                return Ok(Slot(self.clone()));
            }
            // Cancelled waiters make room.
            waiting.queue.retain(|_, sender| !sender.is_closed());
            if waiting.queue.len() == WAITING_MAX {
                return Err(QueueFull);
            }
            let (give, given) = oneshot::channel();
            waiting.number += 1;
            let key = (rank, waiting.number);
            waiting.queue.insert(key, give);
            given
        };
        given.await.map_err(|_| QueueFull)
    }

    /// The expected wait for a slot of a new turn of `priority`, nanoseconds.
    #[must_use]
    pub fn expected_wait_ns(&self, priority: u8) -> u64 {
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

    /// The number of turns that wait for a slot.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().queue.values().filter(|sender| !sender.is_closed()).count()
    }

    /// Ends when a slot is free: no turn waits for one then.
    pub async fn until_one_is_free(&self) {
        let given = self.lock().given.clone();
        loop {
            let told = given.notified();
            tokio::pin!(told);
            // Before it is looked: what is given on in between is heard.
            told.as_mut().enable();
            if self.lock().free > 0 {
                return;
            }
            told.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotQueue> {
        self.0.lock().expect("no holder of the slots panics")
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        let given = waiting.given.clone();
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
                // If the receiver is gone, dropping the slot runs this again.
                drop(sender.send(Slot(self.0.clone())));
            }
        }
        given.notify_waiters();
    }
}

/// The place of one processor-bound turn in the queue, for as long as the turn lasts.
struct Ticket {
    slots: Slots,
    priority: u8,
    server: BandwidthServer,
    /// The slot, and since when it is held.
    slot: Mutex<Option<(Slot, u64)>>,
}

/// Runs a processor-bound turn on slots: it releases its slot whenever it waits, or yields to a turn before it, and acquires
/// one again to continue.
///
/// # Errors
/// [`QueueFull`], before the turn starts.
pub async fn run_on_slots<T>(
    slots: &Slots,
    priority: u8,
    server: &BandwidthServer,
    work: impl Future<Output = T>,
) -> Result<T, QueueFull> {
    let ticket = Ticket::take(slots, priority, server).await?;
    let mut work = std::pin::pin!(work);
    let woken = Arc::<WakeFlag>::default();
    let waker = futures::task::waker(woken.clone());
    loop {
        let before = ran_ns();
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        // One poll is on one thread.
        ticket.charge(ran_ns().saturating_sub(before));
        if let Poll::Ready(done) = polled {
            return Ok(done);
        }
        if woken.is.swap(false, Ordering::AcqRel) {
            // It only yielded: other tasks of the runtime run, and a turn before it gets the slot.
            tokio::task::yield_now().await;
            if !ticket.should_yield() {
                continue;
            }
            ticket.release();
        } else {
            ticket.release();
            woken.wait().await;
        }
        // With a full queue it continues without a slot.
        let _ = ticket.acquire().await;
    }
}

/// Remembers that a turn was woken.
#[derive(Default)]
struct WakeFlag {
    is: AtomicBool,
    waiting: AtomicWaker,
}

impl ArcWake for WakeFlag {
    fn wake_by_ref(woken: &Arc<WakeFlag>) {
        woken.is.store(true, Ordering::Release);
        woken.waiting.wake();
    }
}

impl WakeFlag {
    async fn wait(&self) {
        std::future::poll_fn(|cx| {
            self.waiting.register(cx.waker());
            if self.is.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Ticket {
    async fn take(slots: &Slots, priority: u8, server: &BandwidthServer) -> Result<Ticket, QueueFull> {
        {
            let mut held = server.lock();
            if held.1 == 0 {
                held.0.enqueue(now_ns());
            }
            held.1 += 1;
        }
        let ticket = Ticket { slots: slots.clone(), priority, server: server.clone(), slot: Mutex::default() };
        ticket.acquire().await?;
        Ok(ticket)
    }

    fn rank(&self) -> Rank {
        (Reverse(self.priority), self.server.lock().0.deadline_ns)
    }

    async fn acquire(&self) -> Result<(), QueueFull> {
        let slot = self.slots.take(self.rank()).await?;
        *self.lock() = Some((slot, now_ns()));
        Ok(())
    }

    fn charge(&self, ns: u64) {
        let contended = self.slots.waiting() > 0;
        self.server.lock().0.charge(ns, now_ns(), contended);
    }

    /// Whether a turn of the same or a higher rank waits.
    fn should_yield(&self) -> bool {
        let rank = self.rank();
        let waiting = self.slots.lock();
        let mut waits = waiting.queue.iter().filter(|(_, sender)| !sender.is_closed());
        waits.next().is_some_and(|((first, _), _)| *first <= rank)
    }

    fn release(&self) {
        if let Some((slot, since)) = self.lock().take() {
            let held = now_ns().saturating_sub(since) as f64;
            let mut waiting = self.slots.lock();
            waiting.held_ns += (held - waiting.held_ns) / 8.0;
            drop(waiting);
            drop(slot);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Slot, u64)>> {
        self.slot.lock().expect("no holder of a slot panics")
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.release();
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
        server: BandwidthServer,
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
        run_on_slots(&slots, priority, &server, work).await.expect("a slot");
    }

    async fn both(run_ns: u64, low: (u8, usize), high: (u8, usize)) -> String {
        let (slots, notes) = (Slots::new(1), Arc::<Mutex<String>>::default());
        let long = turn('a', run_ns, low.1, slots.clone(), low.0, BandwidthServer::default(), notes.clone());
        let short = turn('b', run_ns, high.1, slots.clone(), high.0, BandwidthServer::default(), notes.clone());
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
        let servers = [BandwidthServer::default(), BandwidthServer::default()];
        let waits = run_on_slots(&slots, 9, &servers[0], async { told.await.is_ok() });
        let other = run_on_slots(&slots, 1, &servers[1], async { tell.send(()).is_ok() });
        let both = async { tokio::join!(waits, other) };
        let done =
            tokio::time::timeout(std::time::Duration::from_secs(10), both).await.expect("neither waits for ever");
        assert_eq!(done, (Ok(true), Ok(true)));
        assert_eq!(slots.lock().free, 1);
    }

    #[tokio::test]
    async fn whoever_makes_room_hears_when_the_last_one_had_its_slot_and_when_the_last_one_gave_up() {
        let slots = Slots::new(1);
        slots.until_one_is_free().await;
        for gives_up in [false, true] {
            let held = slots.take(rank(0)).await.expect("a slot");
            let (waits, makes_room) = (slots.clone(), slots.clone());
            let waits = tokio::spawn(async move { waits.take(rank(5)).await });
            while slots.waiting() == 0 {
                tokio::task::yield_now().await;
            }
            let room = tokio::spawn(async move { makes_room.until_one_is_free().await });
            tokio::task::yield_now().await;
            assert!(!room.is_finished(), "one waits");
            if gives_up {
                waits.abort();
            }
            drop(held);
            if let Ok(had) = waits.await {
                tokio::task::yield_now().await;
                assert!(!room.is_finished(), "it is not free yet");
                drop(had);
            }
            room.await.expect("it is free");
        }
    }

    #[tokio::test]
    async fn what_is_expected_follows_what_was() {
        let slots = Slots::new(2);
        slots.lock().held_ns = 80e6;
        assert_eq!(slots.expected_wait_ns(1), 0, "a slot is free");
        let _held = [slots.take(rank(0)).await, slots.take(rank(0)).await];
        assert_eq!(slots.expected_wait_ns(1) / 1_000_000, 40, "the next that is given on");
        let mut ends = Vec::new();
        for number in 0..10 {
            let (give, given) = oneshot::channel();
            slots.lock().queue.insert((rank(5), number), give);
            ends.push(given);
        }
        assert_eq!(slots.expected_wait_ns(9) / 1_000_000, 40, "none of them goes before it");
        assert_eq!(slots.expected_wait_ns(5) / 1_000_000, 440, "eleven of 80 ms on two slots");
    }

    #[test]
    fn what_was_run_while_nobody_waited_is_held_against_nobody() {
        let mut alone = Bandwidth::default();
        alone.enqueue(0);
        for at in 1..=60_000 {
            alone.charge(1_000_000, at * 1_000_000, false);
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
                server.enqueue(now);
                // It runs on a processor of its own: time passes too.
                now += runs;
                server.charge(runs, now, true);
                ran += runs;
                let allowed = u128::from(server.deadline_ns) * u128::from(BANDWIDTH_NS) / u128::from(PERIOD_NS);
                prop_assert!(u128::from(ran) <= allowed + u128::from(BANDWIDTH_NS), "{ran} ran, {allowed} allowed");
                prop_assert!(server.left_ns <= BANDWIDTH_NS);
            }
        }
    }
}

//! Where turns run: soft real-time ones by priority, delay-tolerant ones on what is left over.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::realtime::{Ladder, Level};

/// How many tasks a soft real-time worker polls before it looks at timers and sockets.
const EVENT_INTERVAL: u32 = 8;
/// Turns that wait for a slot.
const WAITING_MAX: usize = 4_096;

/// Two runtimes, so that delay-tolerant work never delays what somebody waits for.
pub struct Turns {
    soft: Option<Runtime>,
    idle: Option<Runtime>,
    /// The soft real-time turns that run at once.
    pub slots: Slots,
}

impl Turns {
    /// Starts both, with that many threads each.
    ///
    /// # Errors
    /// When no threads can be had.
    pub fn start(ladder: Ladder, threads: usize) -> io::Result<Turns> {
        let soft = Builder::new_multi_thread()
            .worker_threads(threads)
            .event_interval(EVENT_INTERVAL)
            .thread_name("srt")
            .enable_all()
            .build()?;
        let idle = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("dt")
            .on_thread_start(move || {
                // Where it may not be had, the threads are as any other.
                let _ = ladder.take(Level::Idle);
            })
            .enable_all()
            .build()?;
        Ok(Turns { soft: Some(soft), idle: Some(idle), slots: Slots::new(threads) })
    }

    /// Where soft real-time turns run.
    #[must_use]
    pub fn soft(&self) -> &tokio::runtime::Handle {
        self.soft.as_ref().expect("it is taken when the kernel is dropped only").handle()
    }

    /// Where delay-tolerant turns run.
    #[must_use]
    pub fn idle(&self) -> &tokio::runtime::Handle {
        self.idle.as_ref().expect("it is taken when the kernel is dropped only").handle()
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        // A runtime may be dropped within another one this way only.
        for runtime in [self.soft.take(), self.idle.take()].into_iter().flatten() {
            runtime.shutdown_background();
        }
    }
}

/// Slots for turns that keep a processor busy, given by priority, then by age.
#[derive(Clone)]
pub struct Slots(Arc<Mutex<Waiting>>);

struct Waiting {
    free: usize,
    number: u64,
    /// By falling priority, then by age.
    queue: BTreeMap<(std::cmp::Reverse<u8>, u64), oneshot::Sender<Slot>>,
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

    /// Waits for a slot; who has the higher priority gets it first.
    ///
    /// # Errors
    /// [`Crowded`].
    pub async fn take(&self, priority: u8) -> Result<Slot, Crowded> {
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
            let place = (std::cmp::Reverse(priority), waiting.number);
            waiting.queue.insert(place, give);
            given
        };
        given.await.map_err(|_| Crowded)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_higher_priority_overtakes_and_the_older_goes_first() {
        let slots = Slots::new(1);
        let held = slots.take(0).await.expect("a slot");
        let (done, mut order) = tokio::sync::mpsc::channel(8);
        for (name, priority) in [("low", 1), ("first", 9), ("second", 9)] {
            let (slots, done, waits) = (slots.clone(), done.clone(), slots.waiting());
            tokio::spawn(async move {
                let slot = slots.take(priority).await.expect("a slot");
                done.send(name).await.expect("somebody listens");
                drop(slot);
            });
            while slots_waiting(&slots_of(&held), waits).await {}
        }
        drop(held);
        let got = [order.recv().await, order.recv().await, order.recv().await];
        assert_eq!(got, [Some("first"), Some("second"), Some("low")]);
    }

    fn slots_of(slot: &Slot) -> Slots {
        slot.0.clone()
    }

    async fn slots_waiting(slots: &Slots, waits: usize) -> bool {
        tokio::task::yield_now().await;
        slots.waiting() == waits
    }

    #[tokio::test]
    async fn who_gives_up_keeps_no_slot() {
        let slots = Slots::new(1);
        let held = slots.take(0).await.expect("a slot");
        let gives_up = tokio::time::timeout(std::time::Duration::from_millis(1), slots.take(5)).await;
        assert!(gives_up.is_err());
        assert_eq!(slots.waiting(), 0);
        drop(held);
        assert!(slots.take(0).await.is_ok());
    }

    #[tokio::test]
    async fn both_runtimes_run_turns() {
        let turns = Turns::start(Ladder::without(), 1).expect("threads");
        let soft = turns.soft().spawn(async { std::thread::current().name().map(str::to_owned) });
        let idle = turns.idle().spawn(async { std::thread::current().name().map(str::to_owned) });
        assert_eq!(soft.await.expect("a turn").as_deref(), Some("srt"));
        assert_eq!(idle.await.expect("a turn").as_deref(), Some("dt"));
    }
}

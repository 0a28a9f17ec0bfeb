//! The two threads above an executor: one stops what runs over, one sees the machine itself stall.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;

use nix::sys::timer::{Expiration, TimerSetTimeFlags};
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};

use super::fiber::Interrupt;
use crate::realtime::{Ladder, Level, now_ns, sleep_until, spawn};

/// Between two looks of the sentinel, nanoseconds.
pub(super) const LOOK_NS: u64 = 500_000;
/// A wake-up that is later by less is none that a job would notice.
const STALL_NS: u64 = 100_000;
/// Between a strike and the next, while the fiber still runs, nanoseconds.
const AGAIN_NS: u64 = 50_000;
/// Stalls that may wait to be taken.
const STALLS: usize = 256;

/// Interrupts the running fiber at a moment that was set.
#[derive(Debug, Clone)]
pub(super) struct Watchdog {
    timer: Arc<TimerFd>,
    stopped: Arc<AtomicBool>,
}

impl Watchdog {
    pub fn start(ladder: Ladder, core: Option<usize>, interrupt: Arc<dyn Interrupt>) -> io::Result<Watchdog> {
        let timer = Arc::new(TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?);
        let stopped = Arc::new(AtomicBool::new(false));
        let watchdog = Watchdog { timer: timer.clone(), stopped: stopped.clone() };
        spawn("hrt-watchdog", ladder, Level::Watchdog, core, move || {
            while timer.wait().is_ok() && !stopped.load(Ordering::Acquire) {
                interrupt.interrupt();
            }
        })?;
        Ok(watchdog)
    }

    /// Strikes at `at_ns`, and again and again until [`Watchdog::rest`]: a strike that comes just before a fiber reads
    /// its epoch is not seen. What was set before is forgotten. A bounded system call.
    pub fn set(&self, at_ns: u64) {
        let moment = crate::realtime::moment;
        let at = Expiration::IntervalDelayed(moment(at_ns.max(1)), moment(AGAIN_NS));
        // It fails for moments that no clock reaches only.
        let _ = self.timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME);
    }

    /// Strikes no more. A bounded system call.
    pub fn rest(&self) {
        let _ = self.timer.unset();
    }
}

impl Watchdog {
    /// Its thread ends.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.set(1);
    }
}

/// Sees when a thread that nothing of ours is above is not run.
pub(super) struct Sentinel {
    stalls: rtrb::Consumer<(u64, u64)>,
    shared: Arc<Looks>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Looks {
    /// Until when it has looked.
    seen_ns: AtomicU64,
    wanted: AtomicBool,
    stopped: AtomicBool,
}

impl Sentinel {
    /// Rests until it is [`Sentinel::wanted`].
    pub fn start(ladder: Ladder, core: Option<usize>) -> io::Result<Sentinel> {
        let (mut stalled, stalls) = rtrb::RingBuffer::new(STALLS);
        let shared = Arc::new(Looks::default());
        let looks = shared.clone();
        let thread = spawn("hrt-sentinel", ladder, Level::Sentinel, core, move || {
            while !looks.stopped.load(Ordering::Acquire) {
                if !looks.wanted.load(Ordering::Acquire) {
                    looks.seen_ns.store(u64::MAX, Ordering::Release);
                    std::thread::park();
                    continue;
                }
                let due = now_ns() + LOOK_NS;
                sleep_until(due);
                let now = now_ns();
                if now.saturating_sub(due) > STALL_NS {
                    // With no room left the stall is not told, and what it did counts as unexplained.
                    let _ = stalled.push((due, now));
                }
                looks.seen_ns.store(now, Ordering::Release);
            }
        })?;
        Ok(Sentinel { stalls, shared, thread: thread.thread().clone() })
    }

    /// Looks, or rests.
    pub fn wanted(&self, wanted: bool) {
        if self.shared.wanted.swap(wanted, Ordering::AcqRel) != wanted {
            self.shared.seen_ns.store(0, Ordering::Release);
            self.thread.unpark();
        }
    }

    /// A stall that was not told of yet.
    pub fn stall(&mut self) -> Option<(u64, u64)> {
        self.stalls.pop().ok()
    }

    /// Until when every stall was seen.
    pub fn seen_ns(&self) -> u64 {
        self.shared.seen_ns.load(Ordering::Acquire)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

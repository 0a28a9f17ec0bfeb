//! The two threads above an executor: the watchdog interrupts jobs, the sentinel detects stalls of the machine.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;

use nix::sys::timer::{Expiration, TimerSetTimeFlags};
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};

use super::fiber::Interrupt;
use crate::realtime::{Level, RtPriorities, now_ns, sleep_until, spawn};

/// The period of the sentinel's samples, nanoseconds.
pub(super) const SAMPLE_NS: u64 = 500_000;
/// A wake-up that is late by less does not count as a stall.
const STALL_NS: u64 = 100_000;
/// The period at which a fiber is interrupted again while it still runs, nanoseconds.
const REPEAT_NS: u64 = 50_000;
/// Queued stalls.
const STALLS_MAX: usize = 256;

/// Interrupts the running fiber at a given time.
#[derive(Debug, Clone)]
pub(super) struct Watchdog {
    timer: Arc<TimerFd>,
    stopped: Arc<AtomicBool>,
}

impl Watchdog {
    pub fn start(priorities: RtPriorities, core: Option<usize>, interrupt: Arc<dyn Interrupt>) -> io::Result<Watchdog> {
        let timer = Arc::new(TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?);
        let stopped = Arc::new(AtomicBool::new(false));
        let watchdog = Watchdog { timer: timer.clone(), stopped: stopped.clone() };
        spawn("hrt-watchdog", priorities, Level::Watchdog, core, move || {
            while timer.wait().is_ok() && !stopped.load(Ordering::Acquire) {
                interrupt.interrupt();
            }
        })?;
        Ok(watchdog)
    }

    /// Interrupts at `at_ns` and periodically after that until [`Watchdog::disarm`]: an interrupt just before the fiber reads
    /// its epoch is lost. Replaces the time that was set before. A bounded system call.
    pub fn arm(&self, at_ns: u64) {
        let moment = crate::realtime::moment;
        let at = Expiration::IntervalDelayed(moment(at_ns.max(1)), moment(REPEAT_NS));
        // Fails only for times that no clock reaches.
        let _ = self.timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME);
    }

    /// Stops interrupting. A bounded system call.
    pub fn disarm(&self) {
        let _ = self.timer.unset();
    }
}

impl Watchdog {
    /// Ends its thread.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.arm(1);
    }
}

/// Detects stalls: times in which a thread above all other threads of this process does not run.
pub(super) struct Sentinel {
    stalls: rtrb::Consumer<(u64, u64)>,
    shared: Arc<SentinelState>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct SentinelState {
    /// The time of its last sample.
    seen_ns: AtomicU64,
    active: AtomicBool,
    stopped: AtomicBool,
}

impl Sentinel {
    /// Starts it inactive; see [`Sentinel::set_active`].
    pub fn start(priorities: RtPriorities, core: Option<usize>) -> io::Result<Sentinel> {
        let (mut stalled, stalls) = rtrb::RingBuffer::new(STALLS_MAX);
        let shared = Arc::new(SentinelState::default());
        let state = shared.clone();
        let thread = spawn("hrt-sentinel", priorities, Level::Sentinel, core, move || {
            while !state.stopped.load(Ordering::Acquire) {
                if !state.active.load(Ordering::Acquire) {
                    state.seen_ns.store(u64::MAX, Ordering::Release);
                    std::thread::park();
                    continue;
                }
                let due = now_ns() + SAMPLE_NS;
                sleep_until(due);
                let now = now_ns();
                if now.saturating_sub(due) > STALL_NS {
                    // When the ring is full the stall is lost, and misses that it caused count as unexplained.
                    let _ = stalled.push((due, now));
                }
                state.seen_ns.store(now, Ordering::Release);
            }
        })?;
        Ok(Sentinel { stalls, shared, thread: thread.thread().clone() })
    }

    /// Starts or stops sampling.
    pub fn set_active(&self, active: bool) {
        if self.shared.active.swap(active, Ordering::AcqRel) != active {
            self.shared.seen_ns.store(0, Ordering::Release);
            self.thread.unpark();
        }
    }

    /// The next stall that was not collected yet.
    pub fn next_stall(&mut self) -> Option<(u64, u64)> {
        self.stalls.pop().ok()
    }

    /// The time until which every stall was seen.
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

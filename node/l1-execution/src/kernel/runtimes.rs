//! The runtimes of turns: of soft real-time turns, and of delay-tolerant turns on idle processor time.

use std::io;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use super::floor::Floor;
use super::slots::Slots;
use crate::realtime::{Level, RtPriorities};

/// How many tasks a soft real-time worker polls before it polls timers and sockets.
const EVENT_INTERVAL: u32 = 8;

/// Two runtimes, so that delay-tolerant work never delays interactive work.
pub struct TurnRuntimes {
    soft: Option<Runtime>,
    idle: Option<Runtime>,
    /// The slots for soft real-time turns that use a processor.
    pub slots: Slots,
}

impl TurnRuntimes {
    /// Starts both, with that many threads each.
    ///
    /// # Errors
    /// When no threads can be had.
    pub fn start(priorities: RtPriorities, threads: usize) -> io::Result<TurnRuntimes> {
        let soft = Builder::new_multi_thread()
            .worker_threads(threads)
            .event_interval(EVENT_INTERVAL)
            .thread_name("srt")
            .on_thread_start(move || {
                priorities.apply(Level::Soft);
            })
            .enable_all()
            .build()?;
        let floor = Arc::<Floor>::default();
        let (join, leave) = (floor.clone(), floor.clone());
        let idle = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("dt")
            .on_thread_start(move || {
                // Without that class the threads are ordinary ones, and need no minimum share.
                if priorities.apply(Level::Idle) {
                    join.join();
                }
            })
            .on_thread_stop(move || leave.leave())
            .enable_all()
            .build()?;
        floor.watch(threads)?;
        Ok(TurnRuntimes { soft: Some(soft), idle: Some(idle), slots: Slots::new(threads) })
    }

    /// The runtime of soft real-time turns.
    #[must_use]
    pub fn soft(&self) -> &tokio::runtime::Handle {
        self.soft.as_ref().expect("it is taken only when the kernel is dropped").handle()
    }

    /// The runtime of delay-tolerant turns.
    #[must_use]
    pub fn idle(&self) -> &tokio::runtime::Handle {
        self.idle.as_ref().expect("it is taken only when the kernel is dropped").handle()
    }
}

impl Drop for TurnRuntimes {
    fn drop(&mut self) {
        // The only way to drop a runtime inside another one.
        for runtime in [self.soft.take(), self.idle.take()].into_iter().flatten() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_runtimes_run_turns() {
        let runtimes = TurnRuntimes::start(RtPriorities::none(), 1).expect("threads");
        let soft = runtimes.soft().spawn(async { std::thread::current().name().map(str::to_owned) });
        let idle = runtimes.idle().spawn(async { std::thread::current().name().map(str::to_owned) });
        assert_eq!(soft.await.expect("a turn").as_deref(), Some("srt"));
        assert_eq!(idle.await.expect("a turn").as_deref(), Some("dt"));
    }
}

//! Where turns run: soft real-time ones by priority, delay-tolerant ones on what is left over.

use std::io;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use super::floor::Floor;
use super::slots::Slots;
use crate::realtime::{RtPriorities, Level};

/// How many tasks a soft real-time worker polls before it looks at timers and sockets.
const EVENT_INTERVAL: u32 = 8;

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
    pub fn start(priorities: RtPriorities, threads: usize) -> io::Result<Turns> {
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
                // Where it may not be had, the threads are as any other, and need no help.
                if priorities.apply(Level::Idle) {
                    join.join();
                }
            })
            .on_thread_stop(move || leave.leave())
            .enable_all()
            .build()?;
        floor.watch(threads)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_runtimes_run_turns() {
        let turns = Turns::start(RtPriorities::none(), 1).expect("threads");
        let soft = turns.soft().spawn(async { std::thread::current().name().map(str::to_owned) });
        let idle = turns.idle().spawn(async { std::thread::current().name().map(str::to_owned) });
        assert_eq!(soft.await.expect("a turn").as_deref(), Some("srt"));
        assert_eq!(idle.await.expect("a turn").as_deref(), Some("dt"));
    }
}

//! The processor time of a guest's turn.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

use althing_execution::realtime::ran_ns;

use crate::epochs::Epochs;

/// The processor time of a turn, including the host functions that it called, without waiting time.
#[derive(Debug, Default)]
pub(super) struct Spent {
    /// Time of completed polls, nanoseconds.
    before_ns: AtomicU64,
    /// The thread time at the beginning of the current poll, nanoseconds.
    began_ns: AtomicU64,
}

impl Spent {
    /// Runs `work` and measures it; the epochs advance during its polls.
    pub async fn on<T>(&self, epochs: &Epochs, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.began_ns.store(ran_ns(), Ordering::Relaxed);
            let _running = epochs.run();
            let polled = work.as_mut().poll(context);
            self.before_ns.store(self.ns(), Ordering::Relaxed);
            polled
        })
        .await
    }

    /// The time so far, nanoseconds; called within a poll, on its thread.
    pub fn ns(&self) -> u64 {
        let now = ran_ns().saturating_sub(self.began_ns.load(Ordering::Relaxed));
        self.before_ns.load(Ordering::Relaxed).saturating_add(now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const WORK_NS: u64 = 20_000_000;
    const WAIT: Duration = Duration::from_millis(300);

    fn work() {
        let until = ran_ns() + WORK_NS;
        while ran_ns() < until {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn what_it_runs_before_and_after_it_waits_is_counted_and_waiting_is_not() {
        let engine = wasmtime::Engine::default();
        let (spent, epochs) = (Spent::default(), Epochs::of(engine.weak()).expect("a thread"));
        let told = spent.on(&epochs, async {
            work();
            tokio::time::sleep(WAIT).await;
            work();
            spent.ns()
        });
        let told = told.await;
        let wait_ns = u64::try_from(WAIT.as_nanos()).expect("less than a second");
        assert!((2 * WORK_NS..2 * WORK_NS + wait_ns / 2).contains(&told), "{told}");
        work();
        // A later poll adds to the previous ones.
        let again = spent.on(&epochs, async { spent.ns() }).await;
        assert!((told..told + WORK_NS).contains(&again), "{told} became {again}");
    }
}

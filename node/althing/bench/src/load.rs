//! Load of the other classes: soft real-time turns, and delay-tolerant work that takes all that is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use althing_execution::kernel::TurnRuntimes;
use althing_execution::realtime::now_ns;

/// How long a delay-tolerant task works before it lets another one work.
const CHUNK: Duration = Duration::from_millis(5);

/// Load that goes on until it is dropped.
pub struct Load {
    stop: Arc<AtomicBool>,
    /// Units of work that the delay-tolerant tasks did.
    pub done: Arc<AtomicU64>,
}

/// One unit of work that the optimiser cannot remove, about half a microsecond.
pub fn unit(seed: u64) -> u64 {
    let mut value = seed | 1;
    for _ in 0..256 {
        value = value.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17) ^ seed;
    }
    std::hint::black_box(value)
}

/// Works for that long.
pub fn work(time: Duration) -> u64 {
    let until = now_ns() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let mut units = 0;
    while now_ns() < until {
        (0..16).for_each(|n| {
            unit(n);
        });
        units += 16;
    }
    units
}

impl Load {
    /// `idle` delay-tolerant tasks that are always busy.
    pub fn delay_tolerant(runtimes: &TurnRuntimes, idle: usize) -> Load {
        let (stop, done): (Arc<AtomicBool>, Arc<AtomicU64>) = Default::default();
        for _ in 0..idle {
            let (stop, done) = (stop.clone(), done.clone());
            runtimes.idle().spawn(async move {
                while !stop.load(Ordering::Acquire) {
                    done.fetch_add(work(CHUNK), Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            });
        }
        Load { stop, done }
    }

    /// A soft real-time turn of 2 ms, 20 times a second, for each core: 4 % of it.
    pub fn soft(&self, runtimes: &TurnRuntimes, cores: usize) {
        for _ in 0..cores {
            let stop = self.stop.clone();
            runtimes.soft().spawn(async move {
                let mut ticks = tokio::time::interval(Duration::from_millis(50));
                while !stop.load(Ordering::Acquire) {
                    ticks.tick().await;
                    work(Duration::from_millis(2));
                }
            });
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

//! Advances the epoch of an engine: at the end of each epoch a running guest checks whether it must stop or yield.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use wasmtime::EngineWeak;

/// The length of an epoch: the longest time for which a guest keeps a slot from others of its class.
const TICK: Duration = Duration::from_millis(1);
/// The thread sleeps after that many ticks without a running guest, so that turns in quick succession do not wake it each
/// time.
const IDLE_TICKS: u32 = 50;

/// The epochs of one engine. Its thread sleeps while no guest runs.
#[derive(Debug)]
pub(crate) struct Epochs {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    /// The number of running guests.
    running: AtomicUsize,
    /// Whether the thread sleeps.
    asleep: AtomicBool,
    /// Whether the engine is gone.
    ended: AtomicBool,
}

/// Marks a guest as running until it is dropped.
pub(crate) struct Running<'a>(&'a Shared);

impl Epochs {
    /// Starts the thread, which ends with the engine.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn of(engine: EngineWeak) -> Result<Epochs, String> {
        let shared = Arc::<Shared>::default();
        let its = shared.clone();
        let spawned = std::thread::Builder::new().name("wasm-epoch".to_owned()).spawn(move || tick(&engine, &its));
        let thread = spawned.map_err(|error| error.to_string())?.thread().clone();
        Ok(Epochs { shared, thread })
    }

    /// Counts a guest as running.
    pub fn run(&self) -> Running<'_> {
        if self.shared.running.fetch_add(1, Ordering::SeqCst) == 0 && self.shared.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Running(&self.shared)
    }
}

impl Drop for Epochs {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends an epoch each tick while guests run, until the engine or its [`Epochs`] are dropped.
fn tick(engine: &EngineWeak, shared: &Shared) {
    let mut idle = 0;
    while !shared.ended.load(Ordering::SeqCst) {
        let Some(engine) = engine.upgrade() else { return };
        engine.increment_epoch();
        drop(engine);
        idle = if shared.running.load(Ordering::SeqCst) == 0 { idle + 1 } else { 0 };
        if idle < IDLE_TICKS {
            std::thread::park_timeout(TICK);
            continue;
        }
        shared.asleep.store(true, Ordering::SeqCst);
        // A guest that started before the flag was set did not wake this thread.
        if shared.running.load(Ordering::SeqCst) == 0 {
            std::thread::park();
        }
        shared.asleep.store(false, Ordering::SeqCst);
        idle = 0;
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::Engine;

    use super::*;

    fn until(what: &str, holds: impl Fn() -> bool) {
        for _ in 0..30_000 {
            if holds() {
                return;
            }
            std::thread::park_timeout(TICK);
        }
        panic!("{what}");
    }

    #[test]
    fn it_sleeps_while_no_guest_runs_wakes_with_one_and_ends_with_its_owner() {
        let engine = Engine::default();
        let epochs = Epochs::of(engine.weak()).expect("a thread");
        let shared = epochs.shared.clone();
        for _ in 0..3 {
            until("it falls asleep", || shared.asleep.load(Ordering::SeqCst));
            let running = epochs.run();
            until("a guest wakes it", || !shared.asleep.load(Ordering::SeqCst));
            drop(running);
        }
        let its = Arc::downgrade(&shared);
        drop((epochs, shared));
        until("its thread ends", || its.strong_count() == 0);
    }
}

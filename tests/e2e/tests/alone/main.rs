//! Real processes that need the machine to themselves, since they measure it or have hard real-time threads, which
//! disturb those of another program: one test at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

mod docs;
mod hostile_frames;
mod lan;
mod overhead;
mod soak;

/// The machine, which a test here holds while it runs.
static MACHINE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

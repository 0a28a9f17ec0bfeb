//! Real-time facilities of this machine: the clock, real-time threads, and the probe that grades it.

mod clock;
mod probe;
mod threads;

pub(crate) use clock::moment;
pub use clock::{faults_and_waits, now_ns, ran_ns, sleep_until};
pub use probe::{HardwareProfile, Lateness, PROBE_SAMPLES, lateness, probe};
pub use threads::{Level, Privilege, RtPriorities, cores, pin, spawn};

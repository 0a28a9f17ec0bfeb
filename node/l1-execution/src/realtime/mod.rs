//! Real-time facilities of this machine: the clock, real-time threads, and the probe that grades it.

mod clock;
mod grading;
mod probe;
mod threads;

pub(crate) use clock::moment;
pub use clock::{faults_and_waits, now_ns, ran_ns, show_ns, sleep_until};
pub use grading::keep_probing;
pub use probe::{HardwareProfile, Lateness, PROBE_SAMPLES, lateness, probe};
pub use threads::{Level, Privilege, RtPriorities, cores, pin, spawn};

//! Admission: whether a set of tasks keeps its deadlines, proved before it is promised. Pure, in whole nanoseconds.
//!
//! **Inputs**: tasks (sporadic, with worst-case execution time, period, deadline, release jitter and longest section
//! that is not preempted), the tasks that each core has, how a core schedules. **Outputs**: [`Admitted`] with a core, a
//! bound on the response and one on the jitter; or [`Rejected`] with the instant or task that fails, by how much, and
//! what would be admitted instead.
//!
//! **Invariants**: no clock, no randomness, no floating point; what is admitted never misses as long as its tasks keep
//! their own word; the work done is bounded.
//!
//! Cores are partitioned, first fit by falling utilisation; each is tested on its own: EDF by processor demand (QPA,
//! Zhang and Burns 2009, with blocking as George, Rivierre and Spuri 1996 have it), rate monotonic by exact
//! response-time analysis (Lehoczky 1990, Tindell 1994).

mod edf;
#[cfg(test)]
mod oracle;
mod partition;
mod rm;
#[cfg(test)]
mod simulator;
mod task;
#[cfg(test)]
mod vectors;

pub(crate) use partition::share_ppm;
pub use partition::{Admitted, Config, Core, Hint, Partition, Rejected, admit, bounds, partition};
pub use task::{Policy, Preemption, Reason, Task, TaskError};

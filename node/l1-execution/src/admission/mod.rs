//! Admission: the schedulability analysis of hard real-time tasks. Pure, in whole nanoseconds.
//!
//! **Inputs**: tasks (sporadic, with worst-case execution time, period, deadline, release jitter and longest section
//! that is not preempted), the tasks of each core, the scheduling policy. **Outputs**: [`Admitted`] with a core and bounds of
//! response time and jitter; or [`Rejected`] with the instant or task that fails, by how much, and what would be admitted
//! instead.
//!
//! **Invariants**: no clock, no randomness, no floating point; an admitted set misses no deadline as long as its tasks keep
//! their parameters; the work of a proof is bounded.
//!
//! Cores are partitioned, first fit by falling utilisation; each is tested on its own: EDF by processor demand (QPA,
//! Zhang and Burns 2009, with blocking by George, Rivierre and Spuri 1996), rate monotonic by exact
//! response-time analysis (Lehoczky 1990, Tindell 1994).

mod edf;
#[cfg(test)]
mod oracle;
mod partition;
mod proof;
mod rm;
#[cfg(test)]
mod simulator;
mod task;
#[cfg(test)]
mod vectors;

pub(crate) use partition::share_ppm;
pub use partition::{Admitted, Config, Core, Hint, Partition, Rejected, admit, bounds, partition};
pub use proof::{AdmissionProof, PROOF_TASKS_MAX, ProofFault, ResponseTimes};
pub use task::{Policy, Preemption, Reason, RtTask, TaskError};

//! The deciding code of tasks: plain data in, plain data out.

pub(crate) mod answers;
pub mod handoff;
pub(crate) mod listing;
pub mod losses;
pub(crate) mod moves;
pub(crate) mod preemption;
pub(crate) mod record;
pub(crate) mod recovery;
pub mod run;
pub(crate) mod session;
pub mod shares;
pub(crate) mod size;
pub mod task;
pub(crate) mod time_limit;

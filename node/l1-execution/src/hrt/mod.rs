//! Hard real-time: executors that run admitted jobs by their deadlines, and stop those that take too long.
//!
//! One executor has one core. Its thread runs jobs piecewise ([`Fiber`]); a watchdog thread above it interrupts the running
//! job when its budget ends or a more urgent job is released; a sentinel thread above both detects stalls of the machine
//! itself. The executor reports through a ring buffer, which an ordinary thread reads.

mod cell;
mod command;
mod counters;
mod executor;
mod fiber;
pub mod machine;
mod reports;
mod signals;
mod stalls;
mod watch;

pub use cell::{AgentCell, JobRecord, Outcome, RunState};
pub use counters::{Histogram, JobCounters};
pub use executor::{AddError, AddedTask, BestEffortExecutor, Executor, ExecutorConfig};
pub use fiber::{Fiber, Interrupt, Progress, SIGNALS_MAX, Template, Values};
pub use machine::Params;
pub use signals::{Input, OUTPUT_OUT_OF_LIMITS, OutputSignal, Signal, read, show};

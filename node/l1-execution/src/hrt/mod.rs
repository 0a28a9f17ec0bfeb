//! Hard real-time: executors that run admitted jobs by their deadlines, and stop those that take too long.
//!
//! One executor has one core. Its thread runs jobs piecewise ([`Fiber`]); a watchdog above it interrupts the running
//! job when its budget ends or something more urgent is released; a sentinel above both sees when the machine itself
//! stood still. What leaves the executor leaves through a ring; whoever takes it is an ordinary thread.

mod executor;
mod fiber;
pub mod machine;
mod reports;
mod signals;
mod stalls;
mod tally;
mod watch;

pub use executor::{Executor, ExecutorConfig, Leftover, Placed, PutError};
pub use fiber::{Fiber, Interrupt, Progress, SIGNALS_MAX, Template, Values};
pub use machine::Params;
pub use reports::{AgentCell, JobRecord, Outcome, Standing};
pub use signals::{Input, Signal, SignalError, Signals, read};
pub use tally::{Histogram, Tally};

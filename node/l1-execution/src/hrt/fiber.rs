//! The interface of code that an executor runs and interrupts.

/// Signals that a job reads, or writes, at most.
pub const SIGNALS_MAX: usize = 32;

/// The numbers that a job reads, or writes; by place, unused places 0.
pub type Values = [f64; SIGNALS_MAX];

/// The progress of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It was interrupted, and continues when it is resumed.
    Interrupted,
    /// It is done; its outputs may be read.
    Done,
    /// It failed, and cannot run another job.
    Failed(String),
}

/// Code that runs jobs piecewise, on the executor's thread. None of this may wait, allocate without bound or do I/O.
pub trait Fiber: Send {
    /// Begins a job, released `time_us` microseconds after the agent's first.
    fn begin(&mut self, inputs: &Values, time_us: u64);

    /// Runs until the job ends or is interrupted.
    fn resume(&mut self) -> Progress;

    /// The outputs of the last job.
    fn outputs(&self) -> &Values;
}

/// Interrupts the fiber that runs now; called from another thread, at any time.
pub trait Interrupt: Send + Sync + 'static {
    /// Makes the fiber return as soon as possible.
    fn interrupt(&self);
}

/// Instantiates the code of one agent, on ordinary threads.
pub trait Template: Send + Sync + 'static {
    /// A fiber in its initial state.
    ///
    /// # Errors
    /// The reason, for people.
    fn make(&self) -> Result<Box<dyn Fiber>, String>;
}

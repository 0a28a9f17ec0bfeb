//! What an executor runs, and how it is interrupted.

/// Signals that a job reads, or writes, at most.
pub const SIGNALS_MAX: usize = 32;

/// The numbers that a job reads, or writes; by place, unused places 0.
pub type Values = [f64; SIGNALS_MAX];

/// How far a job came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It was interrupted, and goes on when it is resumed.
    Interrupted,
    /// It is done; what it wrote may be taken.
    Done,
    /// It failed, and can run no more jobs.
    Failed(String),
}

/// Code that runs jobs piecewise, on the executor's thread. None of this may wait, allocate without bound or do I/O.
pub trait Fiber: Send {
    /// Begins a job, released `time_us` microseconds after the agent's first.
    fn begin(&mut self, inputs: &Values, time_us: u64);

    /// Runs until the job ends, or its [`Interrupt`] strikes.
    fn resume(&mut self) -> Progress;

    /// What the last job wrote.
    fn outputs(&self) -> &Values;
}

/// Strikes whatever fiber runs now; called from another thread, at any time.
pub trait Interrupt: Send + Sync + 'static {
    /// The fiber gives way as soon as it can.
    fn interrupt(&self);
}

/// Makes fibers of one agent; on ordinary threads.
pub trait Template: Send + Sync + 'static {
    /// A fiber in its first state.
    ///
    /// # Errors
    /// The reason, for people.
    fn make(&self) -> Result<Box<dyn Fiber>, String>;
}

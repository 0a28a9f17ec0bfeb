//! Blocking work beside the node's own.

use std::sync::Arc;

use althing_execution::kernel::Kernel;
use tokio::task::{JoinError, spawn_blocking};

/// Runs `work` on a thread for blocking work. Without a scheduler it runs at once: then nothing is compiled, and time may be
/// virtual, which does not wait for other threads.
pub async fn run_blocking<T: Send + 'static>(
    kernel: Option<&Arc<Kernel>>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    if kernel.is_some() { spawn_blocking(work).await } else { Ok(work()) }
}

//! Where tasks are read that are large, or many: to decode them takes tens of milliseconds, in which nothing else may wait.

use std::sync::Arc;

use althing_call::OperationError;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Reads at once: each has its tasks in memory, and takes a core.
const AT_ONCE: usize = 2;

/// The reads of a node.
pub(super) struct Reads {
    room: Arc<Semaphore>,
}

impl Reads {
    pub fn new() -> Reads {
        Reads { room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Does `work` on a thread for that. On a runtime of one thread it is done at once, before anything else: that is where
    /// time may be virtual, and where a simulation must do the same things in the same order twice. Nodes have several threads.
    pub async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, OperationError> {
        if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Ok(work());
        }
        let permit = self.room.clone().acquire_owned().await;
        let permit = permit.map_err(|error| OperationError::internal(error.to_string()))?;
        let done = spawn_blocking(move || {
            let done = work();
            // Only now: nobody may wait for it any more, and it takes its core all the same.
            drop(permit);
            done
        });
        done.await.map_err(|error| OperationError::internal(format!("no task was read: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn where_there_is_one_thread_work_is_done_at_once() {
        let read = Reads::new().apart(|| thread::current().id()).now_or_never();
        assert_eq!(read.expect("it waits for nothing").expect("it is read"), thread::current().id());
    }

    /// SG-12
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn where_there_are_several_threads_a_few_read_at_once_and_nothing_else_waits() {
        let reads = Arc::new(Reads::new());
        let (end, ended) = sync_channel::<()>(0);
        let ended = Arc::new(std::sync::Mutex::new(ended));
        let (begin, mut begun) = tokio::sync::mpsc::channel(AT_ONCE + 1);
        let reading: Vec<_> = (0..=AT_ONCE)
            .map(|_| {
                let (reads, ended, begin) = (reads.clone(), ended.clone(), begin.clone());
                tokio::spawn(async move {
                    let work = move || {
                        begin.try_send(()).expect("there is room");
                        ended.lock().expect("no panic").recv().expect("it is told to end");
                    };
                    reads.apart(work).await
                })
            })
            .collect();
        for _ in 0..AT_ONCE {
            begun.recv().await.expect("it begins");
        }
        assert_eq!(reads.room.available_permits(), 0);
        assert!(begun.try_recv().is_err(), "one more waits");
        for _ in 0..=AT_ONCE {
            end.send(()).expect("one waits for it");
        }
        for read in reading {
            read.await.expect("no panic").expect("it is read");
        }
        assert_eq!(reads.room.available_permits(), AT_ONCE);
    }
}

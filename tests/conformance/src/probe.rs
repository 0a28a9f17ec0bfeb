//! The service that answers calls in the suite, and counts their outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use althing_communication::{Answer, Caller, Inbound, Request};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{Semaphore, watch};

/// Bytes of each event of `endless`.
pub const EVENT_BYTES: usize = 16 << 10;

/// Between two events of `ticks`.
pub const TICK: Duration = Duration::from_millis(100);

/// Answers by operation:
///
/// - `echo` says the body again, `who` the caller's owner, `refuse` refuses with the body;
/// - `gate` answers once [`Probe::gate`] has a permit for it;
/// - `stuck` never answers, `stuck-stream` gives one event and then nothing;
/// - `three` streams 1, 2, 3; `breaks` streams one event and an error; `endless` streams without end,
///   and `ticks` an event each [`TICK`].
#[derive(Clone)]
pub struct Probe {
    /// Calls that came in.
    pub asked: Arc<watch::Sender<usize>>,
    /// Calls and streams that have ended or were dropped.
    pub dropped: Arc<watch::Sender<usize>>,
    /// What `gate` waits for.
    pub gate: Arc<Semaphore>,
    /// Events that `endless` was asked for.
    pub made: Arc<AtomicUsize>,
}

impl Default for Probe {
    fn default() -> Self {
        Probe {
            asked: Arc::new(watch::Sender::new(0)),
            dropped: Arc::new(watch::Sender::new(0)),
            gate: Arc::new(Semaphore::new(0)),
            made: Arc::default(),
        }
    }
}

impl Probe {
    /// Waits until `count` calls came in.
    pub async fn asked(&self, count: usize) {
        self.asked.subscribe().wait_for(|asked| *asked >= count).await.expect("the probe is held");
    }

    /// Waits until `count` calls are gone.
    pub async fn dropped(&self, count: usize) {
        self.dropped.subscribe().wait_for(|dropped| *dropped >= count).await.expect("the probe is held");
    }
}

struct Gone(Arc<watch::Sender<usize>>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count += 1);
    }
}

impl Inbound for Probe {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let probe = self.clone();
        let gone = Gone(self.dropped.clone());
        async move {
            probe.asked.send_modify(|count| *count += 1);
            match request.operation.as_str() {
                "echo" => Answer::Response(request.body),
                "who" => Answer::Response(caller.owner.map(|owner| owner.to_string()).unwrap_or_default().into_bytes()),
                "refuse" => Answer::Error(request.body),
                "gate" => {
                    probe.gate.acquire().await.expect("the gate is never closed").forget();
                    Answer::Response(request.body)
                }
                "three" => Answer::Events(futures::stream::iter([1, 2, 3].map(|number| Ok(vec![number]))).boxed()),
                "breaks" => Answer::Events(futures::stream::iter([Ok(b"one".to_vec()), Err(b"why".to_vec())]).boxed()),
                "stuck-stream" => {
                    let first = futures::stream::iter([Ok(b"one".to_vec())]);
                    let held = futures::stream::once(async move {
                        let _gone = gone;
                        std::future::pending().await
                    });
                    Answer::Events(first.chain(held).boxed())
                }
                "endless" => Answer::Events(
                    futures::stream::unfold(gone, move |gone| {
                        probe.made.fetch_add(1, Ordering::SeqCst);
                        async move { Some((Ok(vec![7; EVENT_BYTES]), gone)) }
                    })
                    .boxed(),
                ),
                "ticks" => Answer::Events(
                    futures::stream::unfold(gone, |gone| async move {
                        tokio::time::sleep(TICK).await;
                        Some((Ok(b"tick".to_vec()), gone))
                    })
                    .boxed(),
                ),
                _ => {
                    let _gone = gone;
                    std::future::pending().await
                }
            }
        }
        .boxed()
    }
}

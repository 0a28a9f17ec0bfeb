//! The server loop: connections are counted, and headers must come in time.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What the server bears.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at one time; more wait to be accepted.
    pub connections: usize,
    /// A request's head must be complete within this.
    pub header_timeout: Duration,
    /// Requests under way get this long once the node stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 1_024, header_timeout: Duration::from_secs(10), drain: Duration::from_secs(2) }
    }
}

/// Serves until `stop`, then lets what is under way end.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, stop: CancellationToken) {
    let gate = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    loop {
        let permit = gate.clone().acquire_owned().await.expect("this semaphore is never closed");
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: it passes when connections end.
                tracing::warn!(%error, "gateway cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        let (header_timeout, stop) = (limits.header_timeout, stop.clone());
        connections.spawn(async move {
            let mut builder = Builder::new(TokioExecutor::new());
            builder.http1().timer(TokioTimer::new()).header_read_timeout(header_timeout);
            builder.http2().timer(TokioTimer::new()).keep_alive_interval(Duration::from_secs(20));
            // hyper's limit begins with the first byte.
            let mut first = [0];
            tokio::select! {
                spoken = tokio::time::timeout(header_timeout, stream.peek(&mut first)) => if spoken.is_err() { return },
                () = stop.cancelled() => return,
            }
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "gateway connection ended");
            }
            drop(permit);
        });
    }
    connections.close();
    // Streams of events may never end by themselves.
    let _ = tokio::time::timeout(limits.drain, connections.wait()).await;
}

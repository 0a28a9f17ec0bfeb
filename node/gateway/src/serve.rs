//! The server loop: connections are counted, and headers must come in time.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
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

/// How a connection of HTTP/2 begins (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads until it is clear whether the connection speaks HTTP/2; gives it back with nothing read.
async fn begin(stream: TcpStream) -> std::io::Result<impl AsyncRead + AsyncWrite + Unpin> {
    let (mut reading, writing) = stream.into_split();
    let mut head = Vec::with_capacity(PREFACE.len());
    while head.len() < PREFACE.len() && PREFACE.starts_with(&head) {
        let left = PREFACE.len() - head.len();
        if (&mut reading).take(left as u64).read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(tokio::io::join(std::io::Cursor::new(head).chain(reading), writing))
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
            // hyper's limit begins once it is known which version of HTTP is spoken.
            let begun = tokio::select! {
                begun = tokio::time::timeout(header_timeout, begin(stream)) => begun,
                () = stop.cancelled() => return,
            };
            let Ok(Ok(stream)) = begun else { return };
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

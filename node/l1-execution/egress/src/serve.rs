//! Takes the connections of one program, and bounds them.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::egress::Egress;
use crate::machine::login::Login;
use crate::machine::rules::Rules;
use crate::proxy::Proxy;
use crate::target::Target;
use crate::traffic::{Meter, Traffic};
use crate::tunnel::Tunnel;
use crate::{local, proxy};

/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How long the head of a request may take, and a connection may wait for one.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// What a listener is to the program.
#[derive(Clone)]
enum Face {
    Proxy(Arc<Proxy>),
    Host(Arc<Target>),
}

impl Egress {
    /// Serves a proxy to these hosts, to whoever has the login, if there is one: where others than the program reach the listener. It
    /// does not end by itself; dropped, it ends all its connections.
    pub async fn serve(self, listener: TcpListener, rules: Rules, login: Option<Login>) {
        self.accept(listener, Face::Proxy(Arc::new(Proxy { rules, login }))).await;
    }

    /// Serves one host, as if it were there. It does not end by itself; dropped, it ends all its connections.
    pub async fn serve_host(self, listener: TcpListener, target: Target) {
        self.accept(listener, Face::Host(Arc::new(target))).await;
    }

    async fn accept(self, listener: TcpListener, face: Face) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Probably out of file descriptors, until connections end.
                    tracing::warn!(%error, "a program's connection cannot be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let place = self.places.clone().acquire_owned().await.expect("this semaphore is never closed");
            let conversation = self.clone().converse(face.clone(), stream, place);
            connections.spawn(conversation.in_current_span());
        }
    }

    /// Serves one connection to its end.
    async fn converse(self, face: Face, stream: TcpStream, _place: OwnedSemaphorePermit) {
        // Events are small, and would wait for the acknowledgement of the one before.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let bounds = self.bounds;
        let traffic = Arc::new(Traffic::new());
        let begun = Arc::<Mutex<Option<Tunnel>>>::default();
        let tunnel = begun.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (egress, face, begun) = (self.clone(), face.clone(), begun.clone());
            async move {
                Ok::<_, Infallible>(match &face {
                    Face::Proxy(proxy) => proxy::answer(&egress, proxy, &begun, request).await,
                    Face::Host(target) => local::answer(&egress, target, request).await,
                })
            }
        });
        let metered = Meter::new(stream, traffic.clone(), u64::MAX);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(metered), service)
            .with_upgrades();
        let ended = tokio::select! {
            ended = connection => ended,
            // A request that waits for its host ends before, with an answer that says why.
            () = traffic.quiet(bounds.idle + HEAD_TIME) => return,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a program's connection ended");
        }
        let tunnel = tunnel.lock().expect("no holder panics").take();
        if let Some(tunnel) = tunnel {
            tunnel.carry(&bounds).await;
        }
    }
}

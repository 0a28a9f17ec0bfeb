//! The server loop: limits the number of connections, the time for request headers, and idle connections, on which no
//! request comes or no answer is read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::activity::{Activity, WatchedStream, count};
use crate::gate::{Gate, LogPace};
use crate::origins::{Origins, Place};
use crate::peer::Peer;
use crate::room::BodyRoom;
use crate::tls::{Certified, Tls};

/// Limits of the server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Concurrent connections; more wait some seconds for a place, and are told then that there is none.
    pub connections: usize,
    /// Concurrent connections from one net; more are closed at once. Those from this machine are not counted: a proxy here has
    /// many clients.
    pub of_origin: usize,
    /// Concurrent connections from one site, an IPv6 net of 48 bits, in which somebody has 65,536 nets.
    pub of_site: usize,
    /// Bytes of bodies in memory at one time, while they are read and as long as a request needs them. Whoever sends more is
    /// told to try again.
    pub body_bytes: usize,
    /// The same from one net, or one site of IPv6; those from this machine are not counted.
    pub body_bytes_of_origin: usize,
    /// Timeout of the head of a connection's first request, and of one that has begun.
    pub header_timeout: Duration,
    /// A connection without a request or answer for this long is closed, once a request was answered on it, and so is one on
    /// which the client does not read an answer for this long; pings do not count. Longer than proxies and pools of clients keep
    /// theirs, so that they do not use one that is being closed.
    pub idle: Duration,
    /// Time for running requests to end once the node stops.
    pub drain: Duration,
}

/// Requests at one time on one connection of HTTP/2: at least 100 (RFC 9113 §6.5.2).
const STREAMS_MAX: u32 = 128;
/// Connections of one net, unless it is said otherwise.
const OF_ORIGIN: usize = 128;
/// A site has as many connections as so many nets.
const SITE_NETS: usize = 4;
/// Bytes of bodies in memory at one time: of a node's 512 MiB (threat model, row 14) a quarter.
const BODY_BYTES: usize = 128 << 20;
/// Bytes of bodies of one origin, for each connection that it may have: with as many as it has by default one sixteenth of all,
/// so that a few origins do not take the room of the others.
const CONNECTION_BODY_BYTES: usize = 64 << 10;
/// The least for one origin: the longest body that is taken anywhere, a staged bundle, and some more.
const ORIGIN_BODY_BYTES_MIN: usize = 8 << 20;

/// Bytes of bodies of an origin with so many connections.
fn body_bytes_of_origin(connections: usize, all: usize) -> usize {
    connections.saturating_mul(CONNECTION_BODY_BYTES).max(ORIGIN_BODY_BYTES_MIN).min(all)
}

impl Limits {
    /// These, with so many connections for each net, and four times as many for each IPv6 site; bodies accordingly.
    #[must_use]
    pub fn of_each_net(self, connections: usize) -> Limits {
        Limits {
            of_origin: connections,
            of_site: connections.saturating_mul(SITE_NETS),
            body_bytes_of_origin: body_bytes_of_origin(connections, self.body_bytes),
            ..self
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 1_024,
            of_origin: OF_ORIGIN,
            of_site: SITE_NETS * OF_ORIGIN,
            body_bytes: BODY_BYTES,
            body_bytes_of_origin: body_bytes_of_origin(OF_ORIGIN, BODY_BYTES),
            header_timeout: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            drain: Duration::from_secs(2),
        }
    }
}

/// The connection preface of HTTP/2 (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Peeks until it is known whether the connection speaks HTTP/2, and tells; nothing is consumed.
async fn begin<R: AsyncRead + Unpin, W: AsyncWrite>(
    (mut reading, writing): (R, W),
) -> std::io::Result<(tokio::io::Join<impl AsyncRead + Unpin, W>, bool)> {
    let mut head = Vec::with_capacity(PREFACE.len());
    while head.len() < PREFACE.len() && PREFACE.starts_with(&head) {
        let left = PREFACE.len() - head.len();
        if (&mut reading).take(left as u64).read_buf(&mut head).await? == 0 {
            break;
        }
    }
    let is_http2 = head == PREFACE;
    Ok((tokio::io::join(std::io::Cursor::new(head).chain(reading), writing), is_http2))
}

/// Accepts a connection, with TCP_NODELAY: events are small, and would wait 40 ms for the acknowledgement of the one
/// before.
async fn accept(listener: &TcpListener) -> std::io::Result<(TcpStream, SocketAddr)> {
    let (stream, from) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, from))
}

/// Serves one connection to its end, or until it is over.
async fn converse<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    begun: impl Future<Output = std::io::Result<(S, bool)>>,
    router: Router,
    limits: &Limits,
    over: impl Future<Output = ()>,
    stop: &CancellationToken,
) {
    let activity = Arc::<Activity>::default();
    let service = TowerToHyperService::new(router.layer(from_fn_with_state(activity.clone(), count)));
    let mut builder = Builder::new(TokioExecutor::new());
    // hyper's own would close a connection that is used and idle just as one on which nothing was ever asked.
    builder.http1().header_read_timeout(None::<Duration>);
    let keep_alive = Duration::from_secs(20);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(keep_alive).max_concurrent_streams(STREAMS_MAX);
    let begun = tokio::select! {
        begun = tokio::time::timeout(limits.header_timeout, begun) => begun,
        () = stop.cancelled() => return,
    };
    let Ok(Ok((stream, is_http2))) = begun else { return };
    let stream = WatchedStream::of(stream, &activity, is_http2);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = over => return,
        is_late = unused(&activity, limits) => {
            // Half a head of HTTP/1 is all that there is to lose.
            if is_late && !is_http2 {
                return;
            }
            connection.as_mut().graceful_shutdown();
            // A client that does not close in time is disconnected.
            tokio::time::timeout(limits.header_timeout, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "gateway connection ended");
    }
}

/// Ends when a connection is idle, or a head is late; tells whether it is the latter.
async fn unused(activity: &Activity, limits: &Limits) -> bool {
    tokio::select! {
        () = activity.idle_for(limits.idle) => false,
        () = activity.head_is_late(limits.header_timeout) => true,
    }
}

/// Tells proxies to pass events on one by one: some collect an answer until its end, and nothing arrives meanwhile.
async fn unbuffered(mut answer: Response) -> Response {
    let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream")) {
        answer.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    }
    answer
}

/// Ends when the certificate of a client does, if it has one.
async fn expired(shown: Option<Certified>) {
    match shown {
        Some(shown) => shown.expired().await,
        None => std::future::pending().await,
    }
}

/// Serves until `stop`, then lets running requests end.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, stop: CancellationToken) {
    run(listener, router, limits, None, stop).await;
}

/// The same over TLS 1.3. The user that a client's certificate names is an extension of each request.
pub async fn serve_tls(listener: TcpListener, router: Router, limits: Limits, tls: Arc<Tls>, stop: CancellationToken) {
    run(listener, router, limits, Some(tls), stop).await;
}

/// Who has how many connections.
struct Nets {
    nets: Origins,
    sites: Origins,
}

impl Nets {
    fn new(limits: &Limits) -> Nets {
        Nets { nets: Origins::of(limits.of_origin), sites: Origins::of(limits.of_site) }
    }

    /// A place for a connection; none where its net or its site has as many as it may.
    fn place(&self, peer: Peer) -> Option<(Place, Option<Place>)> {
        let net = self.nets.place(peer.net())?;
        let site = match peer.site() {
            Some(site) => Some(self.sites.place(site)?),
            None => None,
        };
        Some((net, site))
    }
}

/// The same as [`converse`], over TLS.
async fn converse_over(
    tls: &Tls,
    (stream, from): (TcpStream, SocketAddr),
    router: Router,
    limits: &Limits,
    stop: &CancellationToken,
) {
    let shaking = TlsAcceptor::from(tls.config()).accept(stream);
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(limits.header_timeout, shaking) => shaken,
        () = stop.cancelled() => return,
    };
    match shaken {
        Ok(Ok(stream)) => {
            let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let shown = tls.certified(shown);
            if tls.asks_clients() && shown.is_none() {
                return;
            }
            let router = match shown.clone() {
                Some(shown) => router.layer(Extension(shown)),
                None => router,
            };
            converse(begin(tokio::io::split(stream)), router, limits, expired(shown), stop).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, from = %from.ip(), "no TLS with a client"),
        Err(_) => {}
    }
}

async fn run(listener: TcpListener, router: Router, limits: Limits, tls: Option<Arc<Tls>>, stop: CancellationToken) {
    let mut gate = Gate::of(limits.connections);
    let nets = Nets::new(&limits);
    let router = router.layer(Extension(BodyRoom::of(limits.body_bytes, limits.body_bytes_of_origin)));
    let router = router.layer(map_response(unbuffered));
    let (mut crowded, mut full, mut failed) = (LogPace::default(), LogPace::default(), LogPace::default());
    let connections = TaskTracker::new();
    loop {
        let place = tokio::select! {
            place = gate.place() => place,
            () = stop.cancelled() => break,
        };
        let accepted = tokio::select! {
            accepted = accept(&listener) => accepted,
            () = stop.cancelled() => break,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Probably out of file descriptors, until connections end.
                if let Some(times) = failed.again() {
                    tracing::warn!(%error, times, "no connection can be accepted");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let peer = Peer(from.ip());
        let share = (!peer.is_own()).then(|| nets.place(peer));
        if matches!(share, Some(None)) {
            if let Some(closed) = crowded.again() {
                tracing::warn!(from = %peer.0, closed, "connections are closed: their net has as many as it may");
            }
            continue;
        }
        let Some(place) = place.or_else(|| gate.free()) else {
            if let Some(refused) = full.again() {
                tracing::warn!(refused, "connections are refused: as many are in use as there may be");
            }
            gate.turn_away(stream, tls.clone());
            continue;
        };
        let router = router.clone().layer(Extension(peer));
        let (limits, tls, stop) = (limits.clone(), tls.clone(), stop.clone());
        connections.spawn(async move {
            match tls {
                None => {
                    let over = std::future::pending();
                    converse(begin(stream.into_split()), router, &limits, over, &stop).await;
                }
                Some(tls) => converse_over(&tls, (stream, from), router, &limits, &stop).await,
            }
            drop((place, share));
        });
    }
    connections.close();
    // Event streams may never end by themselves.
    let _ = tokio::time::timeout(limits.drain, connections.wait()).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn what_is_written_to_a_client_does_not_wait_for_its_acknowledgements() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let (accepted, client) = tokio::join!(accept(&listener), TcpStream::connect(address));
        client.expect("it accepts");
        assert!(accepted.expect("a connection").0.nodelay().expect("an option"));
    }

    #[test]
    fn one_net_and_one_site_take_no_more_than_their_shares() {
        let limits = Limits::default();
        assert!(limits.of_site < limits.connections, "a site does not take all");
        let nets = Nets::new(&limits.of_each_net(2));
        let peer = |text: &str| Peer(text.parse().expect("an address"));
        let mut taken: Vec<_> = (0..2).map(|_| nets.place(peer("192.0.2.1")).expect("its net's share")).collect();
        assert!(nets.place(peer("192.0.2.1")).is_none(), "the net has its share");
        // Another net of 64 bits each time, of one site.
        taken.extend((0..8).map(|net| nets.place(peer(&format!("2001:db8:0:{net}::1"))).expect("its site's share")));
        assert!(nets.place(peer("2001:db8:0:ffff::1")).is_none(), "the site has its share");
        taken.push(nets.place(peer("2001:db8:1::1")).expect("another site has its own"));
        drop(taken);
        assert!(
            nets.nets.is_empty() && nets.sites.is_empty(),
            "also after a connection for which its site had no room"
        );
    }

    /// SR-8
    #[test]
    fn one_origin_has_a_sixteenth_of_the_room_for_bodies_and_never_too_little_for_one() {
        let limits = Limits::default();
        assert_eq!(limits.body_bytes_of_origin, limits.body_bytes / 16);
        assert_eq!(limits.clone().of_each_net(1).body_bytes_of_origin, ORIGIN_BODY_BYTES_MIN);
        // A proxy on another machine, which stands for many.
        assert_eq!(limits.clone().of_each_net(1_024).body_bytes_of_origin, limits.body_bytes / 2);
        assert_eq!(limits.clone().of_each_net(usize::MAX).body_bytes_of_origin, limits.body_bytes);
    }

    /// Requests that are worked on at one time, and the most that there were.
    #[derive(Default)]
    struct Together {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    #[tokio::test]
    async fn no_more_connections_are_served_at_one_time_than_the_limit_says() {
        const CLIENTS: usize = 8;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let mut clients = Vec::new();
        // All have connected and asked before the first is accepted.
        for _ in 0..CLIENTS {
            let mut client = TcpStream::connect(address).await.expect("it listens");
            let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            client.write_all(request).await.expect("it listens");
            clients.push(client);
        }
        let together = Arc::<Together>::default();
        let counted = together.clone();
        let work = move || {
            let counted = counted.clone();
            async move {
                let now = counted.now.fetch_add(1, Ordering::SeqCst) + 1;
                counted.most.fetch_max(now, Ordering::SeqCst);
                // Long enough for all others to begin, if they may.
                for _ in 0..10_000 {
                    tokio::task::yield_now().await;
                }
                counted.now.fetch_sub(1, Ordering::SeqCst);
                "done"
            }
        };
        let limits = Limits { connections: 2, ..Limits::default() };
        let (router, stop) = (Router::new().route("/", axum::routing::get(work)), CancellationToken::new());
        let serving = tokio::spawn(serve(listener, router, limits, stop.clone()));
        for mut client in clients {
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("done"), "{answer}");
        }
        let most = together.most.load(Ordering::SeqCst);
        assert!((1..=2).contains(&most), "{most} at one time");
        stop.cancel();
        serving.await.expect("it ends");
    }

    /// What a client is answered, and how long after that its connection lasts.
    async fn left_after(first: &[u8], second: &[u8]) -> (String, Duration) {
        let router = Router::new().route("/", axum::routing::get(|| async { "done" }));
        let (mut client, server) = tokio::io::duplex(4_096);
        let serving = tokio::spawn(async move {
            let (limits, stop) = (Limits::default(), CancellationToken::new());
            converse(begin(tokio::io::split(server)), router, &limits, std::future::pending(), &stop).await;
        });
        client.write_all(first).await.expect("it reads");
        let mut answer = [0; 4_096];
        let mut length = 0;
        if first.ends_with(b"\r\n\r\n") {
            length = client.read(&mut answer).await.expect("an answer");
        }
        let answered = tokio::time::Instant::now();
        client.write_all(second).await.expect("it reads");
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.expect("it ends");
        let took = answered.elapsed();
        serving.await.expect("it ends");
        (String::from_utf8_lossy(&answer[..length]).into_owned(), took)
    }

    /// A fixed time that is shorter than that of a proxy in front makes it use a connection that is being closed.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_used_outlives_those_of_proxies_and_a_head_that_has_begun_does_not_wait() {
        const WHOLE: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let seconds = |took: Duration| took.as_secs();
        let (answer, took) = left_after(WHOLE, b"").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert_eq!(seconds(took), 75);
        assert_eq!(seconds(left_after(WHOLE, b"GET / HT").await.1), 10, "the next head has begun");
        assert_eq!(seconds(left_after(b"", b"").await.1), 10, "nothing was ever asked");
        assert_eq!(seconds(left_after(b"GET /", b"").await.1), 10, "the first head does not end");
    }

    #[tokio::test]
    async fn proxies_are_told_to_pass_events_on_at_once() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let kind = |kind: &'static str| move || async move { ([(header::CONTENT_TYPE, kind)], "data: 1\n\n") };
        let router = Router::new()
            .route("/events", axum::routing::get(kind("text/event-stream")))
            .route("/named", axum::routing::get(kind("Text/Event-Stream; charset=utf-8")))
            .route("/text", axum::routing::get(kind("text/plain")));
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, router, Limits::default(), stop.clone()));
        let _ = rustls::crypto::ring::default_provider().install_default();
        for (path, told) in [("events", Some("no")), ("named", Some("no")), ("text", None)] {
            let answer = reqwest::get(format!("http://{address}/{path}")).await.expect("an answer");
            let header = answer.headers().get("x-accel-buffering").map(|value| value.to_str().expect("text"));
            assert_eq!(header, told, "{path}");
        }
        stop.cancel();
        serving.await.expect("it ends");
    }

    /// RFC 9113 §6.5.2: a client that finds no room for its next stream waits without a word.
    #[tokio::test]
    async fn a_hundred_requests_of_one_connection_are_worked_on_together() {
        const TOGETHER: usize = 100;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let all = Arc::new(tokio::sync::Barrier::new(TOGETHER));
        let work = move || {
            let all = all.clone();
            async move {
                all.wait().await;
                "done"
            }
        };
        let (router, stop) = (Router::new().route("/", axum::routing::get(work)), CancellationToken::new());
        let serving = tokio::spawn(serve(listener, router, Limits::default(), stop.clone()));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().expect("a client");
        // The first makes the connection that the others use.
        let asked = (0..TOGETHER).map(|_| client.get(format!("http://{address}/")).send());
        let asked = futures::future::join_all(asked);
        let answers = tokio::time::timeout(Duration::from_secs(60), asked).await.expect("none waits for another");
        for answer in answers {
            assert_eq!(answer.expect("an answer").status(), 200);
        }
        stop.cancel();
        serving.await.expect("it ends");
    }
}

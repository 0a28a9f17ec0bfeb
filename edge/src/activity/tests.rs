use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use futures::stream::{self, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{Limits, serve};

/// More than anything here takes that ends at all.
const SOON: Duration = Duration::from_secs(20);
/// How a connection of HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Settings with nothing in them, and with a window of nothing for every answer.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
const NO_WINDOW: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";
/// `GET /` of `localhost`, on stream 1.
const GET: &[u8] = b"\0\0\x0e\x01\x05\0\0\0\x01\x82\x86\x84\x41\x09localhost";
const STREAM: u32 = 1;

struct Server {
    at: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

/// A server with one place.
async fn server(router: Router, idle: Duration) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("bound");
    let stop = CancellationToken::new();
    let limits = Limits { connections: 1, idle, header_timeout: Duration::from_millis(500), ..Limits::default() };
    let serving = tokio::spawn(serve(listener, router, limits, stop.clone()));
    Server { at, stop, serving }
}

impl Server {
    /// What an honest client is answered, once there is a place for it.
    async fn says(&self) -> String {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().expect("a client");
        let asked = async { client.get(format!("http://{}/", self.at)).send().await?.text().await };
        timeout(SOON, asked).await.expect("there is a place for it").expect("a whole answer")
    }

    async fn end(self) {
        self.stop.cancel();
        self.serving.await.expect("it ends");
    }
}

/// A client that speaks HTTP/2 and does nothing by itself.
struct Client(TcpStream);

impl Client {
    async fn connected(at: SocketAddr, sent: &[&[u8]]) -> Client {
        let mut stream = TcpStream::connect(at).await.expect("connected");
        stream.write_all(&[&[PREFACE], sent].concat().concat()).await.expect("written");
        Client(stream)
    }

    /// The type and the payload of the next frame; none when the server hung up. Settings and pings are acknowledged.
    async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let mut body = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        self.0.read_exact(&mut body).await.ok()?;
        if matches!(head[3], 4 | 6) && head[4] & 1 == 0 {
            let payload = if head[3] == 6 { &body[..] } else { &[] };
            let answer = [&[0, 0, payload.len() as u8, head[3], 1, 0, 0, 0, 0][..], payload].concat();
            // It may have hung up meanwhile.
            let _ = self.0.write_all(&answer).await;
        }
        Some((head[3], body))
    }

    /// Lets so many bytes more of the answer through.
    async fn open_window(&mut self, bytes: u32) {
        for stream in [0, STREAM] {
            let head = [0, 0, 4, 8, 0].into_iter().chain(stream.to_be_bytes()).chain(bytes.to_be_bytes());
            let _ = self.0.write_all(&head.collect::<Vec<u8>>()).await;
        }
    }

    /// How many bytes of answers come until the server hangs up.
    async fn until_left(&mut self) -> usize {
        let left = async {
            let mut bytes = 0;
            while let Some((kind, payload)) = self.frame().await {
                bytes += if kind == 0 { payload.len() } else { 0 };
            }
            bytes
        };
        timeout(SOON, left).await.expect("the server hangs up")
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_or_just_ended_is_not_still() {
    let activity = Arc::<Activity>::default();
    let limit = Duration::from_secs(60);
    let begun = Instant::now();
    let still = tokio::spawn({
        let activity = activity.clone();
        async move { activity.idle_for(limit).await }
    });
    tokio::time::sleep(Duration::from_secs(50)).await;
    let (one, two) = (activity.begin(), activity.begin());
    drop(one);
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    assert!(!still.is_finished(), "an answer is under way");
    drop(two);
    timeout(2 * limit, still).await.expect("it ends").expect("no panic");
    assert_eq!(begun.elapsed().as_secs(), 50 + 1_000 + 60);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_taken_for_long_stands_still_and_what_is_waited_for_does_not() {
    let activity = Arc::<Activity>::default();
    let limit = Duration::from_secs(60);
    let begun = Instant::now();
    let still = tokio::spawn({
        let activity = activity.clone();
        async move { activity.idle_for(limit).await }
    });
    let (events, slow) = (activity.begin(), activity.begin());
    for _ in 0..10 {
        events.offer();
        slow.offer();
        tokio::time::sleep(Duration::from_secs(50)).await;
        events.taken();
    }
    assert!(!still.is_finished(), "each piece is taken in time");
    slow.taken();
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    assert!(!still.is_finished(), "the node has nothing to give");
    slow.offer();
    timeout(2 * limit, still).await.expect("it ends, though another request is under way").expect("no panic");
    assert_eq!(begun.elapsed().as_secs(), 500 + 1_000 + 60);
    drop((events, slow));
}

#[tokio::test]
async fn a_body_in_pieces_is_the_same_body() {
    let activity = Arc::<Activity>::default();
    let whole: Vec<u8> = (0..3 * PIECE_BYTES_MAX + 7).map(|at| (at % 251) as u8).collect();
    let body = Body::from(whole.clone());
    let mut body = TrackedBody { body, rest: Bytes::new(), guard: activity.begin() };
    let (mut read, mut left) = (Vec::new(), whole.len() as u64);
    while !body.is_end_stream() {
        assert_eq!(body.size_hint().exact(), Some(left));
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let piece = frame.expect("more").expect("no error").into_data().expect("data");
        assert!(!piece.is_empty() && piece.len() <= PIECE_BYTES_MAX);
        left -= piece.len() as u64;
        read.extend_from_slice(&piece);
    }
    assert_eq!((read, left), (whole, 0));
}

/// On the old server this connection lasted for as long as the node.
#[tokio::test]
async fn a_connection_that_only_answers_pings_gives_its_place_back() {
    let slow = || async {
        // Longer than a connection may be idle.
        tokio::time::sleep(Duration::from_millis(600)).await;
        "answered"
    };
    let server = server(Router::new().route("/", get(slow)), Duration::from_millis(200)).await;
    Client::connected(server.at, &[SETTINGS]).await.until_left().await;
    // Its place, the only one, is free; and who waits for an answer is not idle.
    assert_eq!(server.says().await, "answered");
    server.end().await;
}

/// The answer is there, and the client lets nothing of it through.
#[tokio::test]
async fn a_connection_that_takes_no_answer_gives_its_place_back() {
    let refused = || async { (axum::http::StatusCode::UNAUTHORIZED, "refused") };
    let server = server(Router::new().route("/", get(refused)), Duration::from_millis(200)).await;
    let taken = Client::connected(server.at, &[NO_WINDOW, GET]).await.until_left().await;
    assert_eq!(taken, 0);
    assert_eq!(server.says().await, "refused");
    server.end().await;
}

/// The same in HTTP/1.1, where the window is the kernel's.
#[tokio::test]
async fn a_connection_that_reads_nothing_gives_its_place_back() {
    let endless =
        || async { Body::from_stream(stream::repeat(Bytes::from(vec![7; 1 << 16])).map(Ok::<_, Infallible>)) };
    let router = Router::new().route("/", get(|| async { "answered" })).route("/endless", get(endless));
    let server = server(router, Duration::from_millis(200)).await;
    let mut deaf = TcpStream::connect(server.at).await.expect("connected");
    deaf.write_all(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("written");
    assert_eq!(server.says().await, "answered");
    drop(deaf);
    server.end().await;
}

#[tokio::test]
async fn events_that_are_long_in_coming_are_waited_for() {
    let idle = Duration::from_millis(200);
    let events = move || async move {
        let event = move |_| async move {
            tokio::time::sleep(4 * idle).await;
            Ok::<_, Infallible>("event ")
        };
        Body::from_stream(stream::iter(0..3).then(event))
    };
    let server = server(Router::new().route("/", get(events)), idle).await;
    assert_eq!(server.says().await, "event event event ");
    server.end().await;
}

/// A long answer lasts longer than a connection may be idle, and is taken bit by bit.
#[tokio::test]
async fn who_takes_an_answer_slowly_gets_all_of_it() {
    const STEPS: u32 = 16;
    const STEP: u32 = PIECE_BYTES_MAX as u32;
    let body = vec![7; (STEPS * STEP) as usize];
    let idle = Duration::from_secs(2);
    let router = Router::new().route("/", get(move || async move { body }));
    let server = server(router, idle).await;
    let mut client = Client::connected(server.at, &[NO_WINDOW, GET]).await;
    let mut taken = 0;
    for _ in 0..STEPS {
        tokio::time::sleep(idle / 8).await;
        client.open_window(STEP).await;
        let step = taken + STEP as usize;
        while taken < step {
            let (kind, payload) = client.frame().await.expect("the connection lasts");
            taken += if kind == 0 { payload.len() } else { 0 };
        }
    }
    drop(client);
    server.end().await;
}

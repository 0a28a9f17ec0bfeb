//! Connections that are dialled lead where URLs do; streams go both ways at once, and are bounded.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use althing_fetch::header::{HOST, HeaderMap, HeaderValue, LOCATION};
use althing_fetch::{
    Body, Fetch, FetchError, Given, Method, Place, StatusCode, StreamLimits, StreamReply, StreamRequest, Url,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::{Names, ONE, Site, TWO, fetch, url};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);
const LIMITS: StreamLimits = StreamLimits { sent: 1_000, received: 1_000, first: LONG, idle: LONG, whole: LONG };

/// A program that answers the head of a request with this, and then repeats each byte that comes: chunks come back as
/// chunks.
async fn repeater(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((ONE, 0)).await.expect("a port of loopback");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(repeat(stream, answer));
        }
    });
    address
}

async fn repeat(mut stream: TcpStream, answer: &'static str) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    stream.write_all(answer.as_bytes()).await?;
    let (mut reading, mut writing) = stream.split();
    tokio::io::copy(&mut reading, &mut writing).await.map(drop)
}

/// A body of pieces that are sent when they are there.
fn pieces() -> (mpsc::Sender<&'static str>, Body) {
    let (sender, receiver) = mpsc::channel::<&'static str>(1);
    let stream = futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (Ok::<_, Infallible>(piece), receiver))
    });
    (sender, Body::wrap_stream(stream))
}

async fn open(fetch: &Fetch, url: Url, body: impl Into<Body>, limits: StreamLimits) -> Result<StreamReply, FetchError> {
    let request = StreamRequest { method: Method::POST, url, headers: HeaderMap::new(), body: body.into() };
    fetch.open(Given::Operator, request, limits).await
}

#[tokio::test]
async fn nothing_is_dialled_where_no_url_would_lead() {
    let names = Arc::<Names>::default();
    let site = Site::at(ONE, |_| Some("hello".to_owned())).await;
    let port = site.address.port();
    names.answer("inside.example", &[&["127.0.0.1"]]);
    names.answer("mapped.example", &[&["::ffff:127.0.0.1"]]);
    names.answer("cloud.example", &[&["169.254.169.254"]]);
    names.answer("mixed.example", &[&["8.8.8.8", "127.0.0.1"]]);
    let guarded = fetch(&[], &names);
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "::1",
        "[::1]",
        "::ffff:127.0.0.1",
        "[::ffff:7f00:1]",
        "64:ff9b::7f00:1",
        "169.254.169.254",
        "fd00:ec2::254",
        "10.0.0.1",
        "inside.example",
        "INSIDE.example.",
        "mapped.example",
        "cloud.example",
        "mixed.example",
    ] {
        let dialled = guarded.dial(host, port, Given::Stranger).await.map(drop);
        assert!(matches!(dialled, Err(FetchError::Blocked { .. })), "{host}: {dialled:?}");
    }
    for host in ["", "a:80", "8.8.8.8:80", "user@8.8.8.8", "8.8.8.8/x", "a b"] {
        let dialled = guarded.dial(host, port, Given::Stranger).await.map(drop);
        assert!(matches!(dialled, Err(FetchError::Url(_))), "{host}: {dialled:?}");
    }
    for port in [0, 22, 25, 53, 6379] {
        let dialled = guarded.dial("8.8.8.8", port, Given::Stranger).await.map(drop);
        assert!(matches!(dialled, Err(FetchError::Url(_))), "{port}: {dialled:?}");
    }
    let unknown = guarded.dial("nobody.example", port, Given::Stranger).await.map(drop);
    assert!(matches!(unknown, Err(FetchError::Unresolved(_))), "{unknown:?}");
    assert_eq!(site.seen(), 0, "connections");

    // The counter counts: what the operator excepted is connected to.
    let free = fetch(&["127.0.0.0/8"], &names);
    for (host, given) in
        [("127.0.0.1", Given::Stranger), ("inside.example", Given::Stranger), ("inside.example", Given::Operator)]
    {
        let mut stream = free.dial(host, port, given).await.unwrap_or_else(|error| panic!("{host}: {error}"));
        stream.write_all(b"GET / x").await.expect("it is there");
        let mut said = String::new();
        stream.read_to_string(&mut said).await.expect("it answers");
        assert_eq!(said, "hello", "{host}");
    }
    assert_eq!(site.seen(), 3);
}

#[tokio::test]
async fn what_is_dialled_is_what_was_checked() {
    let names = Arc::<Names>::default();
    let good = Site::at(TWO, |_| None).await;
    let port = good.address.port();
    names.answer("rebind.example", &[&["127.0.0.2"], &["127.0.0.1"]]);
    let fetch = fetch(&["127.0.0.2"], &names);
    let stream = fetch.dial("rebind.example", port, Given::Stranger).await.expect("it is there");
    assert_eq!(stream.peer_addr().expect("connected"), good.address);
    assert_eq!(names.asked.load(Ordering::Relaxed), 1, "one look-up");
    let again = fetch.dial("rebind.example", port, Given::Stranger).await.map(drop);
    assert!(matches!(again, Err(FetchError::Blocked { address, .. }) if address == IpAddr::V4(ONE)), "{again:?}");

    // A fetch that is bound keeps to its places.
    names.answer("near.example", &[&["127.0.0.2"], &["10.0.0.1"]]);
    let near = Fetch::leading_to([Place::Loopback].into(), names.clone()).expect("a client");
    assert!(near.dial("near.example", port, Given::Operator).await.is_ok());
    let elsewhere = near.dial("near.example", port, Given::Operator).await.map(drop);
    assert!(matches!(elsewhere, Err(FetchError::Elsewhere(_))), "{elsewhere:?}");
}

#[tokio::test]
async fn of_several_addresses_the_one_that_takes_connections_is_dialled() {
    let names = Arc::<Names>::default();
    let site = Site::at(TWO, |_| None).await;
    let port = site.address.port();
    // Nobody listens at this port of the first.
    names.answer("two.example", &[&["127.0.0.3", "127.0.0.2"]]);
    names.answer("none.example", &[&["127.0.0.3"]]);
    let fetch = fetch(&["127.0.0.0/8"], &names);
    let stream = fetch.dial("two.example", port, Given::Stranger).await.expect("the second is there");
    assert_eq!(stream.peer_addr().expect("connected"), site.address);
    let none = fetch.dial("none.example", port, Given::Stranger).await.map(drop);
    assert_eq!(none, Err(FetchError::Closed));
}

#[tokio::test]
async fn what_is_sent_and_what_comes_are_streams_at_the_same_time() {
    let at = repeater("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let fetch = fetch(&[], &Arc::default());
    let (sender, body) = pieces();
    let reply =
        open(&fetch, url(&format!("http://{at}/")), body, LIMITS).await.expect("it answers before the body ends");
    assert_eq!(reply.status, StatusCode::OK);
    let mut body = reply.body;
    for (piece, sent) in [("ping", 4), ("pong!", 9)] {
        sender.send(piece).await.expect("it is sent");
        assert_eq!(body.chunk().await.expect("it comes back").as_deref(), Some(piece.as_bytes()));
        assert_eq!((body.sent(), body.received()), (sent, sent));
    }
    drop(sender);
    assert_eq!(body.chunk().await, Ok(None));
}

#[tokio::test]
async fn a_stream_is_bounded_in_bytes_each_way_and_in_time() {
    let at = repeater("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let there = url(&format!("http://{at}/"));
    let silent = Site::at(ONE, |_| None).await.url("/");
    let fetch = fetch(&[], &Arc::default());
    let few = StreamLimits { sent: 5, ..LIMITS };
    let (sender, body) = pieces();
    let mut reply = open(&fetch, there.clone(), body, few).await.expect("it answers").body;
    sender.send("12345").await.expect("it is sent");
    assert_eq!(reply.chunk().await.expect("as much as may be").as_deref(), Some(&b"12345"[..]));
    sender.send("6").await.expect("it is taken");
    let failed = loop {
        match reply.chunk().await {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(failed.is_err(), "the connection ends: {failed:?}");
    assert_eq!(reply.received(), 5, "what is too much is not sent");
    let said = open(&fetch, silent.clone(), "123456", few).await.map(drop);
    assert_eq!(said, Err(FetchError::TooMuch(5)));

    let (sender, body) = pieces();
    let little = StreamLimits { received: 5, ..LIMITS };
    let mut reply = open(&fetch, there.clone(), body, little).await.expect("it answers").body;
    sender.send("123456").await.expect("it is sent");
    assert_eq!(reply.chunk().await, Err(FetchError::TooLong(5)));

    let late = open(&fetch, silent.clone(), "", StreamLimits { first: SHORT, ..LIMITS }).await.map(drop);
    assert_eq!(late, Err(FetchError::TooLate(300)));
    let late = open(&fetch, silent, "", StreamLimits { whole: SHORT, ..LIMITS }).await.map(drop);
    assert_eq!(late, Err(FetchError::TooLate(300)));
    let (_sender, body) = pieces();
    let mut reply = open(&fetch, there, body, StreamLimits { idle: SHORT, ..LIMITS }).await.expect("it answers").body;
    assert_eq!(reply.chunk().await, Err(FetchError::TooLate(300)));
}

#[tokio::test]
async fn a_stream_is_checked_as_a_url_is_and_follows_no_redirect() {
    let at = repeater("HTTP/1.1 302 Found\r\nlocation: http://10.0.0.1/\r\ncontent-length: 0\r\n\r\n").await;
    let names = Arc::<Names>::default();
    names.answer("inside.example", &[&["127.0.0.1"]]);
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("elsewhere.example"));
    let request = |url: String| StreamRequest {
        method: Method::GET,
        url: Url::parse(&url).expect("a URL"),
        headers: headers.clone(),
        body: Body::default(),
    };
    let there = format!("http://inside.example:{}/", at.port());
    let guarded = fetch(&[], &names);
    for url in [there.clone(), format!("http://{at}/"), "http://169.254.169.254/".to_owned()] {
        let blocked = guarded.open(Given::Stranger, request(url.clone()), LIMITS).await.map(drop);
        assert!(matches!(blocked, Err(FetchError::Blocked { .. })), "{url}: {blocked:?}");
    }
    let reply = fetch(&["127.0.0.1"], &names).open(Given::Stranger, request(there), LIMITS).await.expect("it answers");
    assert_eq!(reply.status, StatusCode::FOUND);
    assert_eq!(reply.headers[LOCATION], "http://10.0.0.1/");
}

/// Whatever the headers say, the host is that of the URL.
#[tokio::test]
async fn the_host_is_that_of_the_url() {
    let listener = TcpListener::bind((ONE, 0)).await.expect("a port of loopback");
    let at = listener.local_addr().expect("bound");
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("elsewhere.example"));
    let url = url(&format!("http://{at}/"));
    let request = StreamRequest { method: Method::GET, url, headers, body: Body::default() };
    let fetch = fetch(&[], &Arc::default());
    let asked = async {
        let (mut stream, _) = listener.accept().await.expect("somebody");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a head"));
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("it reads");
        String::from_utf8(head).expect("ASCII")
    };
    let (reply, head) = tokio::join!(fetch.open(Given::Operator, request, LIMITS), asked);
    assert_eq!(reply.expect("an answer").status, StatusCode::NO_CONTENT);
    assert!(head.contains(&format!("host: {at}\r\n")) && !head.contains("elsewhere"), "{head}");
}

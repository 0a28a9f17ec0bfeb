//! The local address of a host: secrets are put in on the way there, and taken out on the way back.

use althing_egress::{Bounds, Event, Outcome, Scheme, SecretValue, Target};
use http::HeaderName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::support::{Host, Way, ask, head, listen, ok};

const SECRET: &str = "sk-0123456789";

/// The host at this port of loopback, which is asked with a secret.
fn headers() -> Vec<(HeaderName, SecretValue)> {
    let value = SecretValue::new(&format!("Bearer {SECRET}"), &[SECRET]).expect("a value");
    vec![(HeaderName::from_static("authorization"), value)]
}

fn target(port: u16, path: &str) -> Target {
    Target::new(Scheme::Http, "127.0.0.1", port, path, headers()).expect("a target")
}

fn get(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nAuthorization: Bearer none\r\nAccept-Encoding: gzip\r\n\
         X-Own: 1\r\n\r\n"
    )
}

#[tokio::test]
async fn the_host_gets_the_secret_and_the_program_never_does() {
    let way = Way::open();
    // What it was asked it says back, in headers and in its body.
    let host = Host::new(|request| {
        let told = request.lines().find(|line| line.starts_with("authorization")).unwrap_or_default().to_owned();
        ok(&format!("x-{told}\r\nx-other: safe\r\n"), request)
    })
    .await;
    let local = way.local(target(host.at.port(), "")).await;
    let answer = ask(local, &get("/v1/models?a=b")).await;
    let heard = host.last();
    assert!(heard.starts_with("GET /v1/models?a=b HTTP/1.1\r\n"), "{heard}");
    assert_eq!(heard.matches("authorization: ").count(), 1, "{heard}");
    assert!(heard.contains(&format!("authorization: Bearer {SECRET}\r\n")), "{heard}");
    assert!(heard.contains("accept-encoding: identity\r\n") && heard.contains("x-own: 1\r\n"), "{heard}");
    assert!(heard.contains(&format!("host: {}\r\n", host.at)), "{heard}");

    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("x-other: safe\r\n"), "{answer}");
    assert!(!answer.contains(SECRET) && !answer.contains("x-authorization"), "{answer}");
    assert!(answer.contains(&format!("authorization: Bearer {}\r\n", "*".repeat(SECRET.len()))), "{answer}");
    // Not a byte longer or shorter.
    assert!(answer.contains(&format!("content-length: {}\r\n", heard.len())), "{answer}");
    assert_eq!(answer.split_once("\r\n\r\n").map(|(_, body)| body.len()), Some(heard.len()));
    let reached = Event { host: "127.0.0.1".to_owned(), port: host.at.port(), outcome: Outcome::Reached };
    assert_eq!(way.events(), [reached]);
}

/// A host that answers one request with these pieces, each once the one before it was heard.
async fn slow(pieces: Vec<&'static str>, heard: Vec<oneshot::Receiver<()>>) -> u16 {
    let (listener, at) = listen().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("somebody");
        head(&mut stream).await;
        let begun = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(begun.as_bytes()).await.expect("it is heard");
        let mut heard = heard.into_iter();
        for piece in pieces {
            let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
            stream.write_all(chunk.as_bytes()).await.expect("it is heard");
            if let Some(heard) = heard.next() {
                heard.await.expect("it was heard");
            }
        }
        stream.write_all(b"0\r\n\r\n").await.expect("it is heard");
    });
    at.port()
}

async fn until(stream: &mut TcpStream, end: &str) -> String {
    let mut said = String::new();
    while !said.ends_with(end) {
        said.push(stream.read_u8().await.expect("more of it").into());
    }
    said
}

#[tokio::test]
async fn events_pass_as_they_come_and_a_secret_is_seen_across_them() {
    let way = Way::open();
    let (first, was_first) = oneshot::channel();
    let (second, was_second) = oneshot::channel();
    let port = slow(vec!["data: one\n\n", "data: sk-01234", "56789, two\n\n"], vec![was_first, was_second]).await;
    let local = way.local(target(port, "")).await;
    let mut stream = TcpStream::connect(local).await.expect("it listens");
    stream.write_all(get("/events").as_bytes()).await.expect("it is heard");
    let answered = head(&mut stream).await;
    assert!(answered.contains("content-type: text/event-stream\r\n"), "{answered}");
    // The host says the next only once this was heard.
    until(&mut stream, "data: one\n\n\r\n").await;
    first.send(()).expect("it waits");
    let begun = until(&mut stream, "data: ").await;
    assert!(!begun.contains("sk-"), "{begun}");
    second.send(()).expect("it waits");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.expect("the end");
    assert!(rest.contains(&format!("{}, two\n\n", "*".repeat(SECRET.len()))), "{rest}");
    assert!(!rest.contains("sk-") && !rest.contains("56789"), "{rest}");
}

#[tokio::test]
async fn a_body_of_the_program_is_a_stream_too() {
    let way = Way::open();
    let (listener, at) = listen().await;
    let local = way.local(target(at.port(), "")).await;
    let mut stream = TcpStream::connect(local).await.expect("it listens");
    let asked = "POST /upload HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n";
    stream.write_all(asked.as_bytes()).await.expect("it is heard");
    let (mut host, _) = listener.accept().await.expect("it is asked before the body ends");
    let heard = until(&mut host, "one\r\n").await;
    assert!(heard.starts_with("POST /upload HTTP/1.1\r\n") && heard.contains(SECRET), "{heard}");
    stream.write_all(b"3\r\ntwo\r\n0\r\n\r\n").await.expect("it is heard");
    until(&mut host, "two\r\n0\r\n\r\n").await;
    host.write_all(&ok("", "done")).await.expect("it is heard");
    let answered = head(&mut stream).await;
    assert!(answered.starts_with("HTTP/1.1 200 OK\r\n"), "{answered}");
    assert_eq!(until(&mut stream, "done").await, "done");
}

#[tokio::test]
async fn redirects_lead_to_the_local_address_or_elsewhere_without_the_secret() {
    let way = Way::open();
    // It is held, so that the host cannot get this very address.
    let (_elsewhere, at) = listen().await;
    let host = Host::new(move |request| {
        let own = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        let location = match request.split(' ').nth(1) {
            Some("/same") => format!("http://{own}/v2?x"),
            Some("/echo") => format!("http://{own}/?key={SECRET}"),
            _ => format!("http://{at}/else"),
        };
        format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n").into_bytes()
    })
    .await;
    let local = way.local(target(host.at.port(), "")).await;
    let same = ask(local, &get("/same")).await;
    assert!(same.starts_with("HTTP/1.1 307 ") && same.contains("location: /v2?x\r\n"), "{same}");
    let elsewhere = ask(local, &get("/other")).await;
    assert!(elsewhere.contains(&format!("location: http://{at}/else\r\n")), "{elsewhere}");
    let echoed = ask(local, &get("/echo")).await;
    assert!(echoed.starts_with("HTTP/1.1 307 ") && !echoed.contains("location"), "{echoed}");
    assert_eq!(host.count(), 3, "nobody follows but the program");
}

/// A host whose answers are encoded, one way or the other, and one that hides a secret where the encoding is named.
async fn encoding() -> Host {
    Host::new(|request| match request.split(' ').nth(1) {
        Some("/content") => ok("content-encoding: gzip\r\n", "pretended sk-0123456789"),
        Some("/named") => ok(&format!("content-encoding: {SECRET}\r\n"), "any"),
        Some("/empty") => b"HTTP/1.1 304 Not Modified\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n".to_vec(),
        _ => {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\nconnection: close\r\n\r\n";
            format!("{head}d\r\nsk-0123456789\r\n0\r\n\r\n").into_bytes()
        }
    })
    .await
}

#[tokio::test]
async fn what_is_encoded_all_the_same_and_cannot_be_searched_is_not_passed_on_and_is_named() {
    let way = Way::open();
    let host = encoding().await;
    let local = way.local(target(host.at.port(), "")).await;
    for (path, word) in [("/content", "gzip"), ("/transfer", "gzip"), ("/named", "another encoding")] {
        let answer = ask(local, &get(path)).await;
        assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n") && answer.contains(word), "{path}: {answer}");
        assert!(!answer.contains(SECRET), "{path}: {answer}");
        assert!(matches!(way.outcomes().pop(), Some(Outcome::Failed { why }) if why.contains(word)), "{path}");
    }
    // There is nothing in it to be searched.
    let empty = ask(local, &get("/empty")).await;
    assert!(empty.starts_with("HTTP/1.1 304 Not Modified\r\n"), "{empty}");
    // What was asked without a secret is the program's as it is.
    let bare = Target::new(Scheme::Http, "127.0.0.1", host.at.port(), "", Vec::new()).expect("a target");
    let answer = ask(way.local(bare).await, &get("/content")).await;
    assert!(answer.contains("content-encoding: gzip\r\n") && answer.ends_with("pretended sk-0123456789"), "{answer}");
}

#[tokio::test]
async fn what_no_secret_stands_in_is_searched_for_in_no_answer() {
    let way = Way::open();
    let host = Host::new(|_| ok("x-version: 2\r\n", "2 of 22")).await;
    let value = SecretValue::new("2", &[]).expect("a value");
    let version = vec![(HeaderName::from_static("x-version"), value)];
    let bare = Target::new(Scheme::Http, "127.0.0.1", host.at.port(), "", version.clone()).expect("a target");
    let answer = ask(way.local(bare).await, &get("/")).await;
    assert!(host.last().contains("x-version: 2\r\n"), "it is sent: {}", host.last());
    assert!(answer.contains("x-version: 2\r\n") && answer.ends_with("2 of 22"), "{answer}");
    // Beside a header that has one too.
    let both = headers().into_iter().chain(version).collect();
    let both = Target::new(Scheme::Http, "127.0.0.1", host.at.port(), "", both).expect("a target");
    let answer = ask(way.local(both).await, &get("/")).await;
    assert!(host.last().contains(SECRET) && answer.ends_with("2 of 22"), "{answer}");
}

#[tokio::test]
async fn a_secret_is_not_cut_out_of_an_answer_by_asking_for_parts_of_it() {
    let way = Way::open();
    let host = Host::new(|request| ok("", request)).await;
    let local = way.local(target(host.at.port(), "")).await;
    let parts = "GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\nRange: bytes=0-5\r\nIf-Range: \"a\"\r\n\r\n";
    let answer = ask(local, parts).await;
    let heard = host.last();
    assert!(heard.contains(SECRET) && !heard.contains("range"), "{heard}");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && !answer.contains(SECRET), "{answer}");
}

#[tokio::test]
async fn only_what_is_below_the_path_is_asked() {
    let way = Way::open();
    let host = Host::new(|_| ok("", "asked")).await;
    let local = way.local(target(host.at.port(), "/v1")).await;
    let beside =
        ["/", "/v10", "/v1/../admin", "/v1/%2e%2e/admin", "/v1/..%2fadmin", "/v1/..;/admin", "/v1/..%3b/admin"];
    for path in beside {
        let answer = ask(local, &get(path)).await;
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n") && answer.contains("/v1"), "{path}: {answer}");
        assert!(matches!(way.outcomes().pop(), Some(Outcome::Failed { why }) if why.contains("/v1")), "{path}");
    }
    assert_eq!(host.count(), 0);
    assert!(ask(local, &get("/v1/chat")).await.ends_with("asked"));
    assert_eq!(host.count(), 1);
}

#[tokio::test]
async fn a_local_address_is_no_proxy_and_reaches_nothing_that_is_not_excepted() {
    let way = Way::open();
    let host = Host::new(|_| ok("", "asked")).await;
    let local = way.local(target(host.at.port(), "")).await;
    for request in [
        get(&format!("http://{}/", host.at)),
        "CONNECT named.example:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(),
    ] {
        let answer = ask(local, &request).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n") && answer.contains("no proxy"), "{answer}");
    }
    // The owner named this machine's address; what a name leads to was not named.
    let guarded = Way::new(&[], Bounds::default());
    let local = guarded.local(target(host.at.port(), "")).await;
    assert!(ask(local, &get("/")).await.ends_with("asked"));
    assert_eq!(host.count(), 1);
    guarded.names.answer("inside.example", "127.0.0.1");
    let named = Target::new(Scheme::Https, "inside.example", 443, "", headers()).expect("a target");
    let local = guarded.local(named).await;
    let answer = ask(local, &get("/")).await;
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n") && answer.contains("loopback"), "{answer}");
    assert_eq!(host.count(), 1);
    assert!(!format!("{:?} {answer}", guarded.events()).contains(SECRET));
}

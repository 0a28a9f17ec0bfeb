//! HTTP/2 and protobuf as an attacker writes them: refused, and everybody else is served on.

use althing_conformance::gateway::Gateway;
use althing_conformance::mesh::{Node, file, store};
use althing_simnet::{LinkConfig, SimNet};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types of frames (RFC 9113 §6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

struct Scene {
    gateway: Gateway,
    _node: Node,
}

impl Scene {
    async fn start() -> Scene {
        let net = SimNet::new(1, LinkConfig::default());
        let node = Node::start(&net, 1, 100, &[], store()).await;
        node.host(&file("echo", "Says it again", "echo.say", "say", "it")).await;
        Scene { gateway: Gateway::start(&node, None).await, _node: node }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.gateway.host).await.expect("it listens")
    }

    /// A connection of HTTP/2, its settings said.
    async fn http2(&self) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.expect("it listens");
        stream
    }

    /// A request for nothing but that the gateway is well.
    fn request(&self) -> Vec<u8> {
        let host = self.gateway.host.as_bytes();
        let length = u8::try_from(host.len()).expect("a short host");
        // HPACK's static table: GET, http, the path /; and a host that is spelled out.
        [&[0x82, 0x86, 0x84, 0x01, length], host].concat()
    }

    async fn is_well(&self) {
        assert_eq!(self.gateway.get("/healthz").await.status, 200, "others are served on");
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Reads frames until the server says that it goes away, with the code, or until it has gone.
async fn goes_away(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Option<u32> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("a frame")];
        stream.read_exact(&mut payload).await.ok()?;
        if head[3] == GOAWAY {
            return Some(u32::from_be_bytes([payload[4], payload[5], payload[6], payload[7]]));
        }
    }
}

/// Rapid reset (CVE-2023-44487): requests that are taken back at once, without end.
#[tokio::test]
async fn requests_that_are_reset_without_end_end_the_connection() {
    let scene = Scene::start().await;
    let (mut reading, mut writing) = scene.http2().await.into_split();
    let request = scene.request();
    let flood = tokio::spawn(async move {
        for number in 0..100_000u32 {
            let stream = 2 * number + 1;
            let opened = frame(HEADERS, END_HEADERS | END_STREAM, stream, &request);
            let reset = frame(RST_STREAM, 0, stream, &8u32.to_be_bytes());
            if writing.write_all(&[opened, reset].concat()).await.is_err() {
                return number;
            }
        }
        100_000
    });
    if let Some(code) = goes_away(&mut reading).await {
        assert_eq!(code, 0xb, "ENHANCE_YOUR_CALM");
    }
    drop(reading);
    assert!(flood.await.expect("it ends") < 100_000, "the connection ends before the flood does");
    scene.is_well().await;
}

/// Headers of one request in frames without end (CVE-2024-27316).
#[tokio::test]
async fn headers_without_end_end_the_connection() {
    let scene = Scene::start().await;
    let (mut reading, mut writing) = scene.http2().await.into_split();
    let request = scene.request();
    let flood = tokio::spawn(async move {
        // A header of 16,000 bytes without indexing, its name and its value spelled out.
        let more = [&[0x00, 0x01, b'x', 0x7f, 0x81, 0x7c][..], &[b'a'; 16_000]].concat();
        if writing.write_all(&frame(HEADERS, END_STREAM, 1, &request)).await.is_err() {
            return 0;
        }
        for number in 0..10_000 {
            if writing.write_all(&frame(CONTINUATION, 0, 1, &more)).await.is_err() {
                return number;
            }
        }
        10_000
    });
    let _ = goes_away(&mut reading).await;
    drop(reading);
    assert!(flood.await.expect("it ends") < 10_000, "160 MB of headers are not read");
    scene.is_well().await;
}

#[tokio::test]
async fn a_flood_of_headers_of_http_1_is_refused() {
    let scene = Scene::start().await;
    let mut stream = scene.connect().await;
    let host = &scene.gateway.host;
    let headers: String = (0..10_000).map(|number| format!("x-{number}: a\r\n")).collect();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
    // It may close before all is written.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    scene.is_well().await;
}

/// A message of gRPC with its prefix.
fn prefixed(flag: u8, length: u32, message: &[u8]) -> Vec<u8> {
    [&[flag], &length.to_be_bytes()[..], message].concat()
}

/// Field 1 within field 1 within field 1 …: lists in a `google.protobuf.Value`.
fn nested(depth: usize) -> Vec<u8> {
    let field = |number: u8, inner: &[u8]| {
        let mut length = inner.len();
        let mut bytes = vec![number << 3 | 2];
        while length >= 0x80 {
            bytes.push(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
            length >>= 7;
        }
        bytes.push(u8::try_from(length).expect("seven bits"));
        bytes.extend_from_slice(inner);
        bytes
    };
    // Value { list_value (6): ListValue { values (1): Value … } }
    let mut value = Vec::new();
    for _ in 0..depth {
        value = field(6, &field(1, &value));
    }
    // SendMessageRequest { tenant (1), message (2): Message { parts (5): Part { data (4): Value } } }
    let message = field(5, &field(4, &value));
    [field(1, b"echo"), field(2, &message)].concat()
}

#[tokio::test]
async fn protobuf_that_explodes_is_refused() {
    let scene = Scene::start().await;
    let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().expect("a client");
    let status = async |body: Vec<u8>| {
        let request = client
            .post(format!("http://{}/lf.a2a.v1.A2AService/SendMessage", scene.gateway.host))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("a2a-version", "1.0")
            .body(body);
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let status = answer.headers().get("grpc-status").map(|status| status.to_str().expect("text").to_owned());
        status.unwrap_or_default()
    };
    for depth in [200, 10_000] {
        let bomb = nested(depth);
        let length = u32::try_from(bomb.len()).expect("below a megabyte");
        assert!(["3", "13"].contains(&status(prefixed(0, length, &bomb)).await.as_str()), "nested {depth} deep");
    }
    let cases = [
        ("a length of 4 GiB", prefixed(0, u32::MAX, b"x")),
        ("compressed by nothing that was named", prefixed(1, 4, &[0; 4])),
        ("fields of which none is known, a megabyte of them", prefixed(0, 1 << 20, &[0x78; 1 << 20])),
        ("more bytes than the length says", prefixed(0, 1, &[0; 100])),
        ("nothing", Vec::new()),
    ];
    for (what, body) in cases {
        let status = status(body).await;
        assert!(!["", "0"].contains(&status.as_str()), "{what}: {status:?}");
    }
    scene.is_well().await;
}

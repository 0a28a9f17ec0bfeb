//! A narrow link that delay-tolerant answers saturate: the latency of urgent and interactive calls on it (T8).

use std::sync::Arc;
use std::time::{Duration, Instant};

use althing_communication::{Answer, Caller, Inbound, Priority, Request, StreamLimits};
use althing_protocol::PublicKey;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::calls::{PROTOCOL, child, communication};
use crate::figures::{Goals, percentile, us};

/// The link's rate, bytes a second in each direction.
const BYTES_A_SECOND: usize = 1_000_000;
/// What it carries at once, and what waits in it.
const SLICE: usize = 4 << 10;
const QUEUE: u32 = 16 << 10;
/// Bytes of one event of the delay-tolerant answer.
const EVENT: usize = 256 << 10;
/// Delay-tolerant answers at once.
const BULK: usize = 4;
const CALLS: usize = 250;
/// Between two calls: they take a part of the link, not all of it.
const EVERY: Duration = Duration::from_millis(20);
/// A call beside delay-tolerant answers, milliseconds: at most 1.2 times the documented figure. The link's rate is
/// fixed, so these hardly depend on the machine.
const P50_MS_MAX: f64 = 7.44;
const URGENT_P99_MS_MAX: f64 = 55.2;
const INTERACTIVE_P99_MS_MAX: f64 = 54.0;
/// What the delay-tolerant answers still carry, kB a second: at least 0.8 times the documented figure.
const FILLED_KB_A_SECOND_MIN: f64 = 471.0;

/// Answers with the priority that the operation names.
struct ByName;

impl Inbound for ByName {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let answer = if request.operation.starts_with("endless") {
            Answer::Events(futures::stream::repeat_with(|| Ok(vec![7; EVENT])).boxed())
        } else {
            Answer::Response(request.body)
        };
        futures::future::ready(answer).boxed()
    }

    fn priority(&self, request: &Request) -> Priority {
        match request.operation.as_str() {
            "urgent" => Priority::Urgent,
            "endless bulk" => Priority::Bulk,
            _ => Priority::Interactive,
        }
    }
}

/// Child: answers until it is killed.
pub async fn peer() {
    let (communication, key) = communication().await;
    communication.serve(PROTOCOL, StreamLimits::default(), Arc::new(ByName)).expect("nobody else serves it");
    println!("{} {}", key.did(), communication.network().listening()[0]);
    std::future::pending::<()>().await;
}

/// A link to `port` of this machine; the port that it begins at.
async fn narrow(port: u16) -> u16 {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(QUEUE).expect("an option of TCP");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let listener = socket.listen(8).expect("a port");
    let begins = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.set_recv_buffer_size(QUEUE).expect("an option of TCP");
            let far: TcpStream =
                socket.connect(([127, 0, 0, 1], port).into()).await.expect("the other side of the link");
            near.set_nodelay(true).and(far.set_nodelay(true)).expect("an option of TCP");
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            tokio::spawn(carry(near_in, far_out));
            tokio::spawn(carry(far_in, near_out));
        }
    });
    begins
}

/// Carries bytes at the link's rate.
async fn carry(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let mut slice = vec![0; SLICE];
    let mut free = Instant::now();
    while let Ok(n @ 1..) = from.read(&mut slice).await {
        if to.write_all(&slice[..n]).await.is_err() {
            return;
        }
        let takes = Duration::from_secs_f64(n as f64 / BYTES_A_SECOND as f64);
        // An idle link accumulates no credit.
        free = free.max(Instant::now()) + takes;
        tokio::time::sleep_until(free.into()).await;
    }
}

/// What calls of one priority take.
async fn calls(at: &At, operation: &'static str) -> Vec<Duration> {
    let (mut times, mut next) = (Vec::with_capacity(CALLS), Instant::now());
    for _ in 0..CALLS {
        next += EVERY;
        tokio::time::sleep_until(next.into()).await;
        let begun = Instant::now();
        let request = Request::new(operation, vec![7; 256]);
        at.communication.call(at.peer, PROTOCOL, request).await.expect("an answer");
        times.push(begun.elapsed());
        next = next.max(Instant::now());
    }
    times
}

/// The other side, and the way to it.
#[derive(Clone)]
struct At {
    communication: althing_communication::Communication,
    peer: PublicKey,
}

/// Both kinds of calls while `operation` fills the link; the rate of what fills it, bytes a second.
async fn beside(at: &At, operation: Option<&'static str>) -> (Vec<Duration>, Vec<Duration>, f64) {
    let bytes = Arc::<std::sync::atomic::AtomicUsize>::default();
    let filling = operation.map(|operation| {
        let all = (0..BULK).map(|_| {
            let (at, bytes) = (at.clone(), bytes.clone());
            async move {
                let asked = at.communication.stream(at.peer, PROTOCOL, Request::new(operation, Vec::new())).await;
                let mut events = asked.expect("an answer");
                while let Ok(Some(event)) = events.next().await {
                    bytes.fetch_add(event.len(), std::sync::atomic::Ordering::Relaxed);
                }
            }
        });
        tokio::spawn(futures::future::join_all(all.collect::<Vec<_>>()))
    });
    let begun = Instant::now();
    let both = async { tokio::join!(calls(at, "urgent"), calls(at, "interactive")) };
    let (urgent, interactive) = both.await;
    let rate = bytes.load(std::sync::atomic::Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    if let Some(filling) = filling {
        filling.abort();
        let _ = filling.await;
    }
    (urgent, interactive, rate)
}

/// The median and the slowest in a hundred of both kinds of calls, milliseconds; what filled the link, kB a second.
struct Row {
    urgent: [f64; 2],
    interactive: [f64; 2],
    filled: f64,
}

/// Measures on a connection of its own: nothing waits in it from before.
async fn row(operation: Option<&'static str>) -> Row {
    let (_child, did, address) = child("peer-link").await;
    let port = address.rsplit('/').next().and_then(|port| port.parse().ok()).expect("a port");
    let link = narrow(port).await;
    let (communication, _) = communication().await;
    let peer = PublicKey::from_did(&did).expect("a DID");
    let addresses = vec![format!("/ip4/127.0.0.1/tcp/{link}")];
    communication.network().dial(Some(peer), addresses).await.expect("a connection");
    let (urgent, interactive, rate) = beside(&At { communication, peer }, operation).await;
    let ms = |mut times: Vec<Duration>| [0.5, 0.99].map(|at| us(percentile(&mut times, at)) / 1e3);
    Row { urgent: ms(urgent), interactive: ms(interactive), filled: rate / 1e3 }
}

/// Prints the latencies; true if those beside delay-tolerant answers meet their goals.
pub async fn run() -> bool {
    println!(
        "a link of {} kB/s, filled by {BULK} answers at once; calls of 256 bytes, two each {} ms (T8)",
        BYTES_A_SECOND / 1_000,
        EVERY.as_millis()
    );
    let mut goals = Goals::default();
    let rows =
        [("quiet", None), ("filled by delay-tolerant", Some("endless bulk")), ("filled by equals", Some("endless"))];
    for (name, operation) in rows {
        let Row { urgent, interactive, filled } = row(operation).await;
        if operation != Some("endless bulk") {
            println!(
                "  {name:<25} urgent p50 {:.1} p99 {:.1} ms, interactive p50 {:.1} p99 {:.1} ms, what fills it {filled:.0} kB/s",
                urgent[0], urgent[1], interactive[0], interactive[1]
            );
            continue;
        }
        println!("  {name}");
        for (what, [p50, p99], p99_max) in
            [("urgent", urgent, URGENT_P99_MS_MAX), ("interactive", interactive, INTERACTIVE_P99_MS_MAX)]
        {
            let (half, most) = (goals.at_most(p50, P50_MS_MAX), goals.at_most(p99, p99_max));
            println!("    {what:<23} p50 {p50:.1} ms {half}, p99 {p99:.1} ms {most}");
        }
        println!("    what fills it           {filled:.0} kB/s {}", goals.at_least(filled, FILLED_KB_A_SECOND_MIN));
    }
    goals.are_met()
}

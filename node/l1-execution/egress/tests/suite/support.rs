//! A name server, hosts, and a program that speaks HTTP by hand.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use althing_egress::{Admission, Attempt, Bounds, Egress, Event, Login, Outcome, Rules, Target};
use althing_fetch::{Fetch, Net, Resolve};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A name server that counts how often it is asked.
#[derive(Default)]
pub struct Names {
    answers: Mutex<BTreeMap<String, Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Names {
    pub fn answer(&self, name: &str, address: &str) {
        let address = address.parse().expect("an address");
        self.answers.lock().expect("whole").insert(name.to_owned(), vec![address]);
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let found = self.answers.lock().expect("whole").get(name).cloned();
        async move { found.ok_or_else(|| "no such name".to_owned()) }.boxed()
    }
}

/// Admits everything but one host; keeps what it was asked.
pub struct AllBut {
    pub host: &'static str,
    pub asked: Mutex<Vec<(String, u16, Option<String>)>>,
    /// The patterns by which these hosts were named.
    pub patterns: Mutex<Vec<Option<String>>>,
}

impl Admission for AllBut {
    fn admit<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<(), String>> {
        let Attempt { host, port, method, pattern } = attempt;
        self.patterns.lock().expect("whole").push(pattern.map(str::to_owned));
        self.asked.lock().expect("whole").push((host.to_owned(), port, method.map(str::to_owned)));
        let is_closed = host == self.host;
        async move { if is_closed { Err("the rule \"closed\" forbids it".to_owned()) } else { Ok(()) } }.boxed()
    }
}

/// One program's way out, and what was told of it.
pub struct Way {
    pub names: Arc<Names>,
    pub egress: Egress,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Way {
    /// With nets that the operator excepted.
    pub fn new(exceptions: &[&str], bounds: Bounds) -> Way {
        // Another test may have chosen it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (names, events) = (Arc::<Names>::default(), Arc::<Mutex<Vec<Event>>>::default());
        let nets = exceptions.iter().map(|net| net.parse::<Net>().expect("a net")).collect();
        let fetch = Fetch::new(nets, names.clone()).expect("a client");
        let told = events.clone();
        let told = Arc::new(move |event| told.lock().expect("whole").push(event));
        Way { names, egress: Egress::new(fetch, told, bounds), events }
    }

    /// One on which hosts of this machine are reached, with the usual bounds.
    pub fn open() -> Way {
        Way::new(&["127.0.0.1"], Bounds::default())
    }

    /// The same, with somebody who decides.
    pub fn asking(mut self, admission: Arc<dyn Admission>) -> Way {
        self.egress = self.egress.asking(admission);
        self
    }

    /// A proxy to these hosts.
    pub async fn proxy(&self, hosts: &[&str]) -> (SocketAddr, JoinHandle<()>) {
        self.proxy_to(hosts, None).await
    }

    /// The same, to whoever has this login.
    pub async fn proxy_to(&self, hosts: &[&str], login: Option<Login>) -> (SocketAddr, JoinHandle<()>) {
        let (listener, at) = listen().await;
        let rules = Rules::read(hosts.iter().copied()).expect("hosts");
        (at, tokio::spawn(self.egress.clone().serve(listener, rules, login)))
    }

    /// The local address of a host.
    pub async fn local(&self, target: Target) -> SocketAddr {
        let (listener, at) = listen().await;
        tokio::spawn(self.egress.clone().serve_host(listener, target));
        at
    }

    /// What was told so far, of hosts alone.
    pub fn outcomes(&self) -> Vec<Outcome> {
        self.events().into_iter().map(|event| event.outcome).collect()
    }

    pub fn events(&self) -> Vec<Event> {
        self.events.lock().expect("whole").clone()
    }
}

pub async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((HERE, 0)).await.expect("a port of loopback");
    let at = listener.local_addr().expect("bound");
    (listener, at)
}

/// A host that answers each request by its head and its body, once, and keeps what it was asked.
pub struct Host {
    pub at: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Host {
    pub async fn new(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Host {
        let (listener, at) = listen().await;
        let (asked, answer) = (Arc::<Mutex<Vec<String>>>::default(), Arc::new(answer));
        let kept = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (kept, answer) = (kept.clone(), answer.clone());
                tokio::spawn(async move {
                    let request = request(&mut stream).await;
                    kept.lock().expect("whole").push(request.clone());
                    // Whoever asked may have gone.
                    drop(stream.write_all(&answer(&request)).await);
                });
            }
        });
        Host { at, asked }
    }

    /// What it was asked, the last time.
    pub fn last(&self) -> String {
        self.asked.lock().expect("whole").last().cloned().expect("it was asked")
    }

    pub fn count(&self) -> usize {
        self.asked.lock().expect("whole").len()
    }
}

/// A head, and as much of a body as it says, or chunks until the last.
async fn request(stream: &mut TcpStream) -> String {
    let mut all = head(stream).await;
    let lower = all.to_lowercase();
    let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("a body");
    all.push_str(std::str::from_utf8(&body).expect("text"));
    if lower.contains("transfer-encoding: chunked") {
        while !all.ends_with("0\r\n\r\n") {
            all.push(stream.read_u8().await.expect("chunks").into());
        }
    }
    all
}

/// A head of a message, to the empty line.
pub async fn head(stream: &mut TcpStream) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a head").into());
    }
    head
}

/// An answer whose body has a length.
pub fn ok(headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Says something to whoever listens there, and hears all of the answer.
pub async fn ask(at: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(at).await.expect("somebody listens");
    let mut said = Vec::new();
    // Whoever hears too much need not hear all of it; and what was said before the connection was cut counts too.
    drop(stream.write_all(text.as_bytes()).await);
    drop(stream.read_to_end(&mut said).await);
    String::from_utf8(said).expect("text")
}

/// A tunnel through a proxy, with the head of the answer.
pub async fn tunnel(proxy: SocketAddr, to: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(proxy).await.expect("somebody listens");
    let asked = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    stream.write_all(asked.as_bytes()).await.expect("it is heard");
    let head = head(&mut stream).await;
    (stream, head)
}

//! A name server and a web server, of this test program.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use althing_fetch::{Fetch, Net, Resolve, Url};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A name server that answers as it is told, and differently the next time; the last answer stays.
#[derive(Default)]
pub struct Names {
    answers: Mutex<BTreeMap<String, VecDeque<Vec<IpAddr>>>>,
    pub asked: AtomicUsize,
}

impl Names {
    pub fn answer(&self, name: &str, answers: &[&[&str]]) {
        let read = |all: &&[&str]| all.iter().map(|one| one.parse().expect("an address")).collect();
        let answers = answers.iter().map(read).collect();
        self.answers.lock().expect("whole").insert(name.to_owned(), answers);
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut all = self.answers.lock().expect("whole");
        let answer = match all.get_mut(name.trim_end_matches('.')) {
            Some(answers) if answers.len() > 1 => answers.pop_front().ok_or("none"),
            Some(answers) => answers.front().cloned().ok_or("none"),
            None => Err("no such name"),
        };
        async move { answer.map_err(str::to_owned) }.boxed()
    }
}

/// A web server that counts who connects.
pub struct Site {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Site {
    /// Answers each path as `answer` says; nothing at all where it says nothing.
    pub async fn at(ip: Ipv4Addr, answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Site {
        let listener = TcpListener::bind((ip, 0)).await.expect("a port of loopback");
        let (address, connections) = (listener.local_addr().expect("bound"), Arc::<AtomicUsize>::default());
        let (counted, answer) = (connections.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let answer = answer.clone();
                tokio::spawn(async move {
                    let mut request = [0; 2_048];
                    let read = stream.read(&mut request).await.unwrap_or(0);
                    let request = String::from_utf8_lossy(&request[..read]).into_owned();
                    match answer(request.split(' ').nth(1).unwrap_or_default()) {
                        // Whoever asked may have gone.
                        Some(answer) => drop(stream.write_all(answer.as_bytes()).await),
                        None => std::future::pending().await,
                    }
                });
            }
        });
        Site { address, connections }
    }

    pub fn seen(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub fn url(&self, path: &str) -> Url {
        url(&format!("http://{}{path}", self.address))
    }
}

pub fn url(text: &str) -> Url {
    Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub fn fetch(exceptions: &[&str], names: &Arc<Names>) -> Fetch {
    // Another test may have chosen it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let nets = exceptions.iter().map(|net| net.parse::<Net>().expect("a net")).collect();
    Fetch::new(nets, names.clone()).expect("a client")
}

pub const ONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
pub const TWO: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

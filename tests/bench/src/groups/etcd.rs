//! Three processes of `etcd`, and a client of its gRPC.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::process::{Child, Command};

use super::{VALUE, Write, boxed};

const MEMBERS: usize = 3;

/// A cluster.
pub struct Cluster {
    folder: PathBuf,
    /// Ports for clients and for other members.
    ports: Vec<(u16, u16)>,
    members: Vec<Option<Child>>,
    http: reqwest::Client,
    /// Whom the writer asks first.
    first: Arc<AtomicUsize>,
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

/// A protobuf field of bytes; all lengths here are below 16,384.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).expect("short");
    let mut out = vec![number << 3 | 2];
    if len < 128 {
        out.push(u8::try_from(len).expect("short"));
    } else {
        out.extend([u8::try_from(len & 0x7f).expect("seven bits") | 0x80, u8::try_from(len >> 7).expect("short")]);
    }
    out.extend(bytes);
    out
}

/// Calls a method; the message of the answer, if it succeeded.
async fn call(http: &reqwest::Client, port: u16, method: &str, message: &[u8], limit: Duration) -> Option<Vec<u8>> {
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).expect("short").to_be_bytes());
    body.extend(message);
    let request = http
        .post(format!("http://127.0.0.1:{port}/etcdserverpb.{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .timeout(limit)
        .body(body);
    let response = request.send().await.ok()?;
    // A call that fails has its status in the headers and no message.
    let bytes = response.bytes().await.ok()?;
    bytes.get(5..).map(<[u8]>::to_vec)
}

impl Cluster {
    /// Starts it, and waits until it leads.
    ///
    /// # Errors
    /// There is no `etcd` here, or it does not start.
    pub async fn start(folder: &Path) -> Result<Cluster, String> {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let ports = (0..MEMBERS).map(|_| (free_port(), free_port())).collect();
        let http = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build();
        let http = http.map_err(|error| error.to_string())?;
        let members = (0..MEMBERS).map(|_| None).collect();
        let mut cluster = Cluster { folder: folder.to_owned(), ports, members, http, first: Arc::default() };
        for at in 0..MEMBERS {
            cluster.spawn(at)?;
        }
        let writer = cluster.writer();
        for _ in 0..200 {
            if writer(0).await {
                cluster.first.store(cluster.leader().await, Ordering::Relaxed);
                return Ok(cluster);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("it does not lead within 10 s".to_owned())
    }

    fn spawn(&mut self, at: usize) -> Result<(), String> {
        let (client, peer) = self.ports[at];
        let all = self.ports.iter().enumerate().map(|(at, (_, peer))| format!("m{at}=http://127.0.0.1:{peer}"));
        let [clients, peers] = [client, peer].map(|port| format!("http://127.0.0.1:{port}"));
        let child = Command::new("etcd")
            .args(["--name", &format!("m{at}"), "--data-dir"])
            .arg(self.folder.join(format!("m{at}")))
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &all.collect::<Vec<_>>().join(","), "--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        self.members[at] = Some(child.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// The member that leads: it says its own id as the leader's.
    async fn leader(&self) -> usize {
        loop {
            for (at, (port, _)) in self.ports.iter().enumerate() {
                if self.members[at].is_none() {
                    continue;
                }
                let limit = Duration::from_millis(500);
                let status = call(&self.http, *port, "Maintenance/Status", &[], limit).await;
                if status.is_some_and(|status| leads(&status)) {
                    return at;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Puts values, by the leader as far as it is known.
    pub fn writer(&self) -> Write {
        let (http, first) = (self.http.clone(), self.first.clone());
        let ports: Vec<u16> = self.ports.iter().map(|(port, _)| *port).collect();
        Arc::new(move |number| {
            let (http, first, ports) = (http.clone(), first.clone(), ports.clone());
            boxed(async move {
                let key = field(1, format!("k{}", number >> 32).as_bytes());
                let put = [key, field(2, &[7; VALUE])].concat();
                let at = first.load(Ordering::Relaxed);
                // As long as a leader that is there takes; one that is gone refuses the connection.
                if call(&http, ports[at], "KV/Put", &put, Duration::from_millis(500)).await.is_some() {
                    return true;
                }
                first.store((at + 1) % MEMBERS, Ordering::Relaxed);
                false
            })
        })
    }

    /// Kills the leader.
    pub async fn kill_leader(&mut self) -> usize {
        let leader = self.leader().await;
        if let Some(mut child) = self.members[leader].take() {
            child.kill().await.expect("it is killed");
        }
        self.first.store((leader + 1) % MEMBERS, Ordering::Relaxed);
        leader
    }

    /// Starts a member again, and waits until it answers.
    pub async fn restart(&mut self, at: usize) {
        self.spawn(at).expect("it starts");
        let (port, _) = self.ports[at];
        while call(&self.http, port, "Maintenance/Status", &[], Duration::from_millis(500)).await.is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Whether a status says that its own member leads: `header.member_id` (1.2) is `leader` (4).
fn leads(status: &[u8]) -> bool {
    let top = fields(status);
    let header = top.iter().find(|(number, _)| *number == 1).map(|(_, value)| fields(&value.1)).unwrap_or_default();
    let member = header.iter().find(|(number, _)| *number == 2).map(|(_, value)| value.0);
    let leader = top.iter().find(|(number, _)| *number == 4).map(|(_, value)| value.0);
    leader.is_some_and(|leader| leader != 0 && member == Some(leader))
}

/// The fields of a message: numbers and bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, (u64, Vec<u8>))> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => (varint(&mut bytes), Vec::new()),
            2 => {
                let len = usize::try_from(varint(&mut bytes)).unwrap_or(usize::MAX).min(bytes.len());
                let (inside, rest) = bytes.split_at(len);
                bytes = rest;
                (0, inside.to_vec())
            }
            _ => return found,
        };
        found.push((tag >> 3, value));
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let Some((first, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        shift += 7;
        if first & 0x80 == 0 || shift > 63 {
            break;
        }
    }
    value
}

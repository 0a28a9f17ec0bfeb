//! An idle node: how soon its gateway answers and how much memory it holds, beside a process with an empty RocksDB and
//! tokio.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use althing_store::{Family, RocksStore, StoreConfig};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::figures::{Goals, median, percentile};

const ROUNDS: usize = 9;
/// How long a node idles before its memory is read: a few heartbeats.
const IDLE: Duration = Duration::from_secs(5);
/// How soon its gateway answers, milliseconds.
const READY_MS_MAX: f64 = 300.0;
/// What an idle node may hold, MiB.
const RESIDENT_MIB_MAX: f64 = 44.0;

/// Child: opens an empty store and waits.
pub async fn empty() {
    let folder = std::env::args().nth(2).expect("a folder");
    let families = [Family("a"), Family("b"), Family("c"), Family("d")];
    let _store = RocksStore::open(Path::new(&folder), &families, StoreConfig::default()).expect("a store");
    println!("ready");
    std::future::pending::<()>().await;
}

/// Resident memory, MiB.
pub fn resident(child: &Child) -> f64 {
    resident_of(child.id().expect("it runs"))
}

/// The same of a process by its id.
pub fn resident_of(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kib / 1_024.0
}

async fn first_line(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    lines.next_line().await.expect("a line").expect("a line")
}

/// A node, and the time until its gateway answered.
async fn node(program: &Path, folder: &Path) -> (Child, Duration) {
    let (child, took, _) = node_saying(program, folder, &[]).await;
    (child, took)
}

/// The same with these flags, and with what it printed when it started.
pub async fn node_saying(program: &Path, folder: &Path, flags: &[&str]) -> (Child, Duration, serde_json::Value) {
    let begun = Instant::now();
    let mut child = Command::new(program)
        .args(["--json", "--data"])
        .arg(folder.join("data"))
        .args(["up", "--gateway", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"])
        .args(flags)
        .env("XDG_CONFIG_HOME", folder)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("a node");
    let said: serde_json::Value = serde_json::from_str(&first_line(&mut child).await).expect("JSON");
    let gateway = said["gateway"].as_str().and_then(|url| url.strip_prefix("http://")).expect("an address");
    let mut stream = TcpStream::connect(gateway).await.expect("a connection");
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {gateway}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a write");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    (child, begun.elapsed(), said)
}

async fn floor(folder: &Path) -> (Child, Duration) {
    let begun = Instant::now();
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .arg("empty")
        .arg(folder.join("empty"))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("a process");
    first_line(&mut child).await;
    (child, begun.elapsed())
}

/// Waits for the end of a process that is killed, so that the next one finds its files free; the time that it took to start.
async fn stopped((mut child, took): (Child, Duration)) -> Duration {
    child.kill().await.expect("it ends");
    took
}

/// Prints both times and both sizes; false if the node is ready too late, or holds more than it may.
pub async fn run() -> bool {
    let mut program: PathBuf = std::env::current_exe().expect("this program");
    program.set_file_name("althing");
    let (mut ready, mut floor_ready) = (Vec::new(), Vec::new());
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().expect("a folder");
        first.push(stopped(node(&program, folder.path()).await).await);
        // The second start finds keys and database.
        again.push(stopped(node(&program, folder.path()).await).await);
        floor_ready.push(stopped(floor(folder.path()).await).await);
    }
    ready.extend(again.iter().copied());
    let folder = tempfile::tempdir().expect("a folder");
    let (running, _) = node(&program, folder.path()).await;
    let (empty, _) = floor(folder.path()).await;
    tokio::time::sleep(IDLE).await;
    let (ours, theirs) = (resident(&running), resident(&empty));
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("idle node, beside a process with an empty RocksDB and tokio");
    // Of one round each: percentiles sort.
    let ratios = ready.iter().zip(&floor_ready).map(|(a, b)| ms(*a) / ms(*b)).collect();
    let (at_first, later) = (ms(percentile(&mut first, 0.5)), ms(percentile(&mut ready, 0.5)));
    let mut goals = Goals::default();
    println!(
        "  ready (gateway answers): first start {at_first:.0} ms, later {later:.0} ms {}; empty process {:.0} ms; ratio {:.1}",
        goals.at_most(at_first.max(later), READY_MS_MAX),
        ms(percentile(&mut floor_ready, 0.5)),
        median(ratios),
    );
    println!(
        "  resident: {ours:.1} MiB {}; empty process {theirs:.1} MiB; ratio {:.1}",
        goals.at_most(ours, RESIDENT_MIB_MAX),
        ours / theirs
    );
    goals.are_met()
}

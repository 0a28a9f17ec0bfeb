//! The program `althing-registry` as a process, with the tokens that its operator makes.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::data::{id, thing};
use super::http::Client;

/// Things that one writer may have.
const OF_ONE_WRITER: usize = 90_000;
/// Clients that fill it.
const LOADERS: usize = 64;

/// A running registry; it is killed when this is dropped.
pub struct Ours {
    data: PathBuf,
    /// What it is started with.
    flags: Vec<String>,
    child: Child,
    pub address: String,
    /// One for each writer.
    pub tokens: Vec<String>,
    /// It says more: the pipe stays open.
    _said: Lines<BufReader<ChildStdout>>,
}

fn program() -> PathBuf {
    std::env::current_exe().expect("this program").with_file_name("althing-registry")
}

async fn spawn(data: &Path, flags: &[String]) -> (Child, String, Lines<BufReader<ChildStdout>>) {
    let mut command = Command::new(program());
    command.arg("--data").arg(data).args(flags);
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn();
    let mut child = spawned.expect("`cargo build --release --workspace` builds it");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    loop {
        let line = said.next_line().await.expect("a line").expect("it says where it listens");
        if let Some(address) = line.strip_prefix("at").and_then(|rest| rest.trim().strip_prefix("http://")) {
            return (child, address.to_owned(), said);
        }
    }
}

impl Ours {
    /// Starts it, open to anyone, with tokens for so many Things.
    pub async fn start(data: &Path, things: usize) -> Ours {
        Ours::start_with(data, things, &["--listen", "127.0.0.1:0", "--anyone"]).await
    }

    /// The same with these flags.
    pub async fn start_with(data: &Path, things: usize, flags: &[&str]) -> Ours {
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let (child, address, said) = spawn(data, &flags).await;
        let mut tokens = Vec::new();
        for number in 0..=things / OF_ONE_WRITER {
            let words = ["token", "add", &format!("writer-{number}"), "--data"];
            let made = Command::new(program()).args(words).arg(data).output().await.expect("it runs");
            assert!(made.status.success(), "{made:?}");
            tokens.push(String::from_utf8(made.stdout).expect("text").trim().to_owned());
        }
        Ours { data: data.to_owned(), flags, child, address, tokens, _said: said }
    }

    /// A client that writes.
    pub fn client(&self) -> Client {
        Client::new(&self.address, self.tokens.last().map(String::as_str))
    }

    /// Kills it, and starts it again; the time until it answers.
    pub async fn restart(&mut self) -> Duration {
        self.child.kill().await.expect("it is killed");
        let begun = Instant::now();
        (self.child, self.address, self._said) = spawn(&self.data, &self.flags).await;
        Client::new(&self.address, None).get(&format!("/things/{}", id(0))).await;
        begun.elapsed()
    }

    /// Resident memory and its own part of it, MiB.
    pub fn memory(&self) -> (f64, f64) {
        let pid = self.child.id().expect("it runs");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("its memory");
            let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
            kib / 1_024.0
        };
        (of("VmRSS:"), of("RssAnon:"))
    }
}

/// Puts all Things into a server of which that is the address; Things a second.
pub async fn load(address: &str, tokens: &[String], place: &str, things: usize) -> f64 {
    let begun = Instant::now();
    let loaders = (0..LOADERS).map(|loader| {
        let (address, tokens, place) = (address.to_owned(), tokens.to_owned(), place.to_owned());
        tokio::spawn(async move {
            let mut clients: Vec<Client> = tokens.iter().map(|token| Client::new(&address, Some(token))).collect();
            let writers = clients.len();
            for number in (loader..things).step_by(LOADERS) {
                let client = &mut clients[(number / OF_ONE_WRITER).min(writers - 1)];
                client.put(&place, &id(number), &thing(number, things)).await;
            }
        })
    });
    for loader in loaders.collect::<Vec<_>>() {
        loader.await.expect("it ends");
    }
    f64::from(u32::try_from(things).expect("few")) / begun.elapsed().as_secs_f64()
}

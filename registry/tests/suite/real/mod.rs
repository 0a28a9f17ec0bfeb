//! The registry's program, as a process that tests kill.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use althing_fetch::{Fetch, SystemResolver};
use althing_registry_client::RegistryClient;

use crate::party::Party;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_althing-registry");
/// The network of the program by default.
pub const NETWORK: &str = "althing";

/// A running registry; it is killed when this is dropped.
pub struct Running {
    child: Child,
    pub url: String,
    key: String,
    /// It says more: the pipe stays open.
    _said: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub fn start(data: &Path) -> Running {
        Running::start_with(data, &["--anyone"])
    }

    /// The same with these flags, and no others.
    pub fn start_with(data: &Path, flags: &[&str]) -> Running {
        let mut command = Command::new(PROGRAM);
        command.arg("--data").arg(data).args(flags);
        if !flags.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut word = |name: &str| {
            let found = said.by_ref().map_while(Result::ok).find_map(|line| Some(line.strip_prefix(name)?.to_owned()));
            found.expect("it says so").trim().to_owned()
        };
        let (url, key) = (word("at"), word("key"));
        Running { child, url, key, _said: said }
    }

    /// The time of the registry, which is the real one.
    pub async fn now_ms(&self) -> u64 {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let answer = reqwest::get(&self.url).await.expect("an answer");
        let now = answer.headers()["date"].to_str().expect("text");
        let now = chrono::DateTime::parse_from_rfc2822(now).expect("a date").timestamp_millis();
        u64::try_from(now).expect("after 1970")
    }

    /// A client that nobody signed in with.
    pub fn client(&self) -> RegistryClient {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let fetch = Fetch::new(Vec::new(), Arc::new(SystemResolver)).expect("a client");
        RegistryClient::new(fetch, &self.url, self.key.parse().expect("a key")).expect("an address")
    }

    /// A client of the publisher's, who signed in.
    pub async fn visit(&self, party: &Party) -> RegistryClient {
        let client = self.client();
        client.sign_in(NETWORK, (&party.key, &party.log), self.now_ms().await).await.expect("it signs in")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
    }
}

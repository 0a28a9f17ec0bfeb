//! A node as a child process with data of its own; the demo and the benchmarks run these.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::client::{Client, socket};
use crate::error::{ClientError, NodeProcessError};

/// How long a node may take to be ready.
const READY: Duration = Duration::from_secs(10);

/// A node in a process of its own; the process ends when this is dropped.
pub struct NodeProcess {
    /// Its name.
    pub name: String,
    child: Child,
    data: PathBuf,
    /// What it printed when it was ready.
    pub announced: Value,
}

impl NodeProcess {
    /// Starts `program` as a node on `network` and waits until it is ready. Its data lie in `folder/name`, its owner's keys in
    /// `folder/owner`.
    ///
    /// # Errors
    /// See [`NodeProcessError`].
    pub async fn start(
        program: &Path,
        folder: &Path,
        name: &str,
        owner: &str,
        network: &str,
    ) -> Result<NodeProcess, NodeProcessError> {
        NodeProcess::start_with(program, folder, name, owner, network, &[]).await
    }

    /// The same, with further flags of `althing up`.
    ///
    /// # Errors
    /// See [`NodeProcessError`].
    pub async fn start_with(
        program: &Path,
        folder: &Path,
        name: &str,
        owner: &str,
        network: &str,
        flags: &[&str],
    ) -> Result<NodeProcess, NodeProcessError> {
        let failed = |error| NodeProcessError::Start { name: name.to_owned(), error };
        let (data, home) = (folder.join(name), folder.join(owner));
        let config = folder.join(format!("{name}.toml"));
        std::fs::create_dir_all(&home).map_err(failed)?;
        // A network of its own: nodes of the user, or of another demo on this LAN, do not join it.
        std::fs::write(&config, format!("network = \"{network}\"\n")).map_err(failed)?;
        let mut child = Command::new(program)
            .args(["--json", "--name", name, "--data"])
            .arg(&data)
            .arg("--config")
            .arg(&config)
            .args(["up", "--gateway", "127.0.0.1:0", "--listen", "/ip4/0.0.0.0/tcp/0"])
            .args(flags)
            .env("XDG_CONFIG_HOME", &home)
            // Whoever runs it shows refusals itself.
            .env("ALTHING_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let stdout = child.stdout.take().ok_or(NodeProcessError::NoOutput)?;
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(READY, lines.next_line()).await;
        let line = first.map_err(|_| NodeProcessError::NotReady(name.to_owned()))?.map_err(failed)?;
        let line = line.ok_or_else(|| NodeProcessError::Ended(name.to_owned()))?;
        let announced = serde_json::from_str(&line);
        let announced =
            announced.map_err(|error| NodeProcessError::Unreadable { name: name.to_owned(), line, error })?;
        Ok(NodeProcess { name: name.to_owned(), child, data, announced })
    }

    /// A new connection to its control socket.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn client(&self) -> Result<Client, ClientError> {
        let flags = format!(" --name {} --data {}", self.name, self.data.display());
        Client::connect(&socket(&self.data), flags).await
    }

    /// A member of what it printed when it was ready.
    #[must_use]
    pub fn announced(&self, member: &str) -> &str {
        self.announced[member].as_str().unwrap_or_default()
    }

    /// Where it can be dialled on this machine.
    #[must_use]
    pub fn address(&self) -> Option<String> {
        let listening = self.announced["listening"].as_array()?;
        listening.iter().find_map(|address| address.as_str()).map(str::to_owned)
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// [`NodeProcessError::Kill`].
    pub async fn kill(&mut self) -> Result<(), NodeProcessError> {
        self.child.kill().await.map_err(|error| NodeProcessError::Kill { name: self.name.clone(), error })
    }

    /// Freezes it with SIGSTOP.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on with SIGCONT.
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            // An error means that it has ended already.
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
        }
    }

    /// Stops it with SIGTERM, and with SIGKILL if it does not end.
    pub async fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        if tokio::time::timeout(Duration::from_secs(5), self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

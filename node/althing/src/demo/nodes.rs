//! The demo's nodes: real processes of this program, each with its own data, all gone when the demo ends.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::client::Client;
use crate::exit::Failure;
use crate::paths::Paths;

/// How long a node may take to be ready.
const READY: Duration = Duration::from_secs(10);

/// A node that runs for the demo.
pub struct DemoNode {
    /// Its name.
    pub name: String,
    child: Child,
    paths: Paths,
    /// What it said when it was ready.
    pub said: Value,
}

impl DemoNode {
    /// Starts a node of the owner whose keys lie in `owner`, and waits until it is ready.
    pub async fn start(folder: &Path, name: &str, owner: &str, network: &str) -> Result<DemoNode, Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("cannot start {name}: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let (data, home) = (folder.join(name), folder.join(owner));
        let config = folder.join(format!("{name}.toml"));
        std::fs::create_dir_all(&home).map_err(failed)?;
        // A network of its own, so that nodes of the user, or of a demo next door, are not drawn in.
        std::fs::write(&config, format!("network = \"{network}\"\n")).map_err(failed)?;
        let mut child = Command::new(program)
            .args(["--json", "--name", name, "--data"])
            .arg(&data)
            .arg("--config")
            .arg(&config)
            .args(["up", "--gateway", "127.0.0.1:0", "--listen", "/ip4/0.0.0.0/tcp/0"])
            .env("XDG_CONFIG_HOME", &home)
            // The demo shows refusals itself.
            .env("ALTHING_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let stdout = child.stdout.take().ok_or_else(|| Failure::failed("a node without output"))?;
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(READY, lines.next_line()).await;
        let line = first.map_err(|_| Failure::failed(format!("{name} was not ready in time")))?.map_err(failed)?;
        let line = line.ok_or_else(|| Failure::failed(format!("{name} ended before it was ready")))?;
        let said =
            serde_json::from_str(&line).map_err(|error| Failure::failed(format!("{name} said {line}: {error}")))?;
        let paths = Paths {
            name: name.to_owned(),
            data,
            data_named: true,
            owner: home.join("althing"),
            config,
            config_named: true,
        };
        Ok(DemoNode { name: name.to_owned(), child, paths, said })
    }

    /// A new connection to its control socket.
    pub async fn client(&self) -> Result<Client, Failure> {
        Client::connect(&self.paths).await
    }

    /// A member of what it said when it was ready.
    pub fn said(&self, member: &str) -> &str {
        self.said[member].as_str().unwrap_or_default()
    }

    /// Where it can be dialled on this machine.
    pub fn address(&self) -> Option<String> {
        let listening = self.said["listening"].as_array()?;
        listening.iter().find_map(|address| address.as_str()).map(str::to_owned)
    }

    /// Kills it without a word, as a power cut does.
    pub async fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill().await.map_err(|error| Failure::failed(format!("cannot kill {}: {error}", self.name)))
    }

    /// Ends it politely.
    pub async fn stop(&mut self) {
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            // An error means that it is gone.
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
        }
        if tokio::time::timeout(Duration::from_secs(5), self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

//! How strongly this machine encloses programs, as one of them shows that does nothing.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use althing_keeper::channel::send_job;
use althing_keeper::job::Told;
use althing_keeper::{Level, NAME, executable};
use althing_td::{OwnFolder, Sandbox};

use super::ProcessConfig;
use super::accounts::ProgramOf;
use super::containment::{ProgramSpec, job};
use super::program::variables;
use super::socket::Folder;

/// The program, wherever the `PATH` finds it.
const IDLE: &str = "true";
/// Its own name in what it has of the node, beside agents' programs and tools.
const OFFER: &str = "offer";
/// How long its keeper may say nothing.
const TOLD_MAX: Duration = Duration::from_secs(10);
/// What its keeper may say in all, bytes.
const TOLD_BYTES_MAX: u64 = 1 << 20;

/// Finds out how strongly the machine encloses programs whose files leave that to it; none where that does not show. A program may be
/// started for that: not on a thread on which others wait.
pub type FindLevel = Arc<dyn Fn() -> Option<Level> + Send + Sync>;

/// Finds that out for programs of such a node, when it is asked first.
#[must_use]
pub fn machine_level(config: ProcessConfig) -> FindLevel {
    let found = OnceLock::new();
    Arc::new(move || {
        if let Some(level) = found.get() {
            return Some(*level);
        }
        match level_of(IDLE, &config) {
            Ok(level) => Some(*found.get_or_init(|| level)),
            Err(error) => {
                tracing::warn!(%error, "how this machine contains programs is not known; none of them counts as bounded");
                None
            }
        }
    })
}

/// How strongly a program of that name is enclosed, which ends by itself.
fn level_of(program: &str, config: &ProcessConfig) -> io::Result<Level> {
    let own = Folder::new(config.sockets.as_deref())?;
    let (command, environment) = ([program.to_owned()], variables(&BTreeMap::new()));
    let sandbox = Sandbox { folder: OwnFolder::Read, ..Sandbox::default() };
    let root = Path::new("/");
    let spec = ProgramSpec { command: &command, folder: root, cwd: root, environment: &environment, sandbox: &sandbox };
    // It is no agent's, so that its account is free again when it ends.
    let of = ProgramOf { agent: "", program: OFFER };
    let made = job(of, &spec, (&config.guarded, &config.accounts, &config.agent_files), &own);
    let (job, _account) = made.map_err(io::Error::other)?;
    let (orders, theirs) = UnixStream::pair()?;
    let mut keeper = Command::new(executable()?)
        .arg0(NAME)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()?;
    let told = send_job(&orders, &job, &[]).and_then(|()| told_level(&orders));
    if told.is_err() {
        // An error means that it is gone.
        let _ = keeper.kill();
    }
    keeper.wait()?;
    told
}

/// Reads what a keeper tells until it is gone.
fn told_level(orders: &UnixStream) -> io::Result<Level> {
    orders.set_read_timeout(Some(TOLD_MAX))?;
    let mut level = None;
    for line in BufReader::new(orders.take(TOLD_BYTES_MAX)).lines() {
        let told: Told = serde_json::from_str(&line?)?;
        match told {
            Told::Started { level: found, .. } => level = Some(found),
            Told::Failed { step, why } => return Err(io::Error::other(format!("cannot {step}: {why}"))),
            Told::Refused(_) | Told::MoreRefused | Told::RanOut | Told::Ended { .. } => {}
        }
    }
    level.ok_or_else(|| io::Error::other("its keeper ended without a word"))
}

#[cfg(test)]
mod tests {
    use althing_testing::{remedy, skip};

    use super::super::{Errand, run_errand};
    use super::*;

    #[test]
    fn what_does_not_start_shows_nothing() {
        let missing = level_of("/nowhere/idle", &ProcessConfig::default()).expect_err("it is not there");
        assert!(missing.to_string().contains("/nowhere/idle"), "{missing}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_level_of_the_machine_is_that_of_its_programs() {
        let find = machine_level(ProcessConfig::default());
        let level = find().expect("a program starts");
        assert_eq!(find(), Some(level));
        if level != Level::Namespaces {
            return skip("this machine gives programs no namespaces", remedy::NAMESPACES);
        }
        let apart = Errand {
            command: ["/bin/sh", "-c", "test \"$(uname -n)\" = localhost"].map(str::to_owned).to_vec(),
            environment: variables(&BTreeMap::new()),
            sandbox: Sandbox::default(),
            asked: Vec::new(),
            input: Vec::new(),
        };
        run_errand(apart, &ProcessConfig::default()).await.expect("its host has a name of its own");
    }
}

//! The registry's program.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Machine, Running, binary};

const STARTS: Duration = Duration::from_secs(20);

/// A registry that runs, on a free port of loopback unless it is told another.
pub struct RegistryProcess {
    pub running: Running,
    /// `http://127.0.0.1:PORT`
    pub at: String,
    /// The key of its log.
    pub key: String,
}

impl RegistryProcess {
    /// Starts one with that folder of data.
    pub fn start(machine: &Machine, data: &Path, flags: &[&str]) -> RegistryProcess {
        RegistryProcess::start_as(machine, &program(), data, flags)
    }

    /// The same, by a program that starts it.
    pub fn start_as(machine: &Machine, program: &Path, data: &Path, flags: &[&str]) -> RegistryProcess {
        let mut command = machine.command(program);
        command.arg("--data").arg(data);
        if !flags.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let mut running = Running::start(command.args(flags));
        let mut said = Vec::new();
        while said.len() < 4 {
            let Some(line) = running.line(STARTS) else { panic!("no registry: {:?}", running.end(STARTS)) };
            said.push(line);
        }
        let word = |name: &str| {
            let line = said.iter().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("it does not say its {name}: {said:?}")).trim().to_owned()
        };
        RegistryProcess { at: word("at"), key: word("key"), running }
    }

    /// Where it listens, such as `127.0.0.1:7480`.
    pub fn listens(&self) -> &str {
        self.at.rsplit('/').next().expect("an address")
    }
}

/// A witness that runs.
pub struct WitnessProcess {
    pub running: Running,
    /// `http://127.0.0.1:PORT`
    pub at: String,
    /// The key of its signatures.
    pub key: String,
    /// What it says of the first log: its name, and how many entries it signed.
    pub log: String,
}

impl WitnessProcess {
    /// Starts one of that log, with that folder of data.
    pub fn start(machine: &Machine, data: &Path, log: &str, listen: &str) -> WitnessProcess {
        let mut command = machine.command(&program());
        command.arg("witness").arg("--data").arg(data).args(["--log", log, "--listen", listen]);
        let mut running = Running::start(&mut command);
        let mut said = Vec::new();
        while said.len() < 4 {
            let Some(line) = running.line(STARTS) else { panic!("no witness: {:?}", running.end(STARTS)) };
            said.push(line);
        }
        let word = |name: &str| {
            let line = said.iter().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("it does not say its {name}: {said:?}")).trim().to_owned()
        };
        WitnessProcess { at: word("at"), key: word("key"), log: word("log"), running }
    }

    /// Where it listens, such as `127.0.0.1:7481`.
    pub fn listens(&self) -> String {
        self.at.rsplit('/').next().expect("an address").to_owned()
    }
}

/// The program, which lies beside `althing`.
pub fn program() -> PathBuf {
    let path = binary().with_file_name("althing-registry");
    assert!(path.exists(), "{} is not built: run `make build` first", path.display());
    path
}

//! The programs of an agent file, and what of them another file changes. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use althing_protocol::{digest, hex};
use serde::{Deserialize, Serialize};

use crate::agent_file::{AgentFile, Demand, Egress, OwnFolder, RuntimeSpec, Sandbox, ToolServerSpec};
use crate::rights_change::{RightsChange, change, line};

/// What is said of a program without a sandbox.
pub(crate) const UNBOUNDED: &str = "none: it reaches whatever your account does";
/// How the agent's own program is called; a server of tools is `tools.NAME`.
const OWN: &str = "runtime";
/// Variables whose values say where code, certificates or the home of a program are, which it then reads.
const PLACES: [&str; 10] = [
    "HOME",
    "LD_LIBRARY_PATH",
    "NODE_EXTRA_CA_CERTS",
    "NODE_PATH",
    "PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// The programs of an agent file, by what they are called. No value of a variable is in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Programs(BTreeMap<String, Program>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Program {
    command: Vec<String>,
    cwd: Option<PathBuf>,
    /// The digest of each variable's value.
    env: BTreeMap<String, String>,
    /// The secret of each variable that has one.
    env_secrets: BTreeMap<String, String>,
    /// Whether every account of the machine may connect to it.
    on_port: bool,
    sandbox: Sandbox,
}

impl Programs {
    /// Those of an agent file.
    pub(crate) fn of(file: &AgentFile) -> Programs {
        let mut all = BTreeMap::new();
        if let RuntimeSpec::Process { command, cwd, env, port, sandbox, .. } = &file.runtime {
            let program = Program {
                command: command.clone(),
                cwd: cwd.clone(),
                env: digests(env),
                env_secrets: BTreeMap::new(),
                on_port: port.is_some(),
                sandbox: sandbox.clone(),
            };
            all.insert(OWN.to_owned(), program);
        }
        for (name, server) in &file.tools {
            if let ToolServerSpec::Command { command, cwd, env, env_secrets, sandbox } = server {
                let program = Program {
                    command: command.clone(),
                    cwd: cwd.clone(),
                    env: digests(env),
                    env_secrets: env_secrets.clone(),
                    on_port: false,
                    sandbox: sandbox.clone(),
                };
                all.insert(format!("tools.{name}"), program);
            }
        }
        Programs(all)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What those without a sandbox are called.
    pub(crate) fn unbounded(&self) -> BTreeSet<&str> {
        let all = self.0.iter().filter(|(_, program)| program.sandbox.demand == Demand::None);
        all.map(|(name, _)| name.as_str()).collect()
    }

    /// What is another in those programs.
    pub(crate) fn changes_to(&self, now: &Programs) -> Vec<RightsChange> {
        let names: BTreeSet<&String> = self.0.keys().chain(now.0.keys()).collect();
        let of = |name: &String| match (self.0.get(name), now.0.get(name)) {
            (Some(before), Some(now)) => before.changes_to(now),
            (None, Some(now)) => vec![change("program", "", &words(&now.command), true)]
                .into_iter()
                .chain(Program::none().changes_to(now).into_iter().filter(|change| change.what != "command"))
                .collect(),
            (Some(before), None) => vec![change("program", &words(&before.command), "", false)],
            (None, None) => Vec::new(),
        };
        let named = |name: &String| {
            let all = of(name).into_iter();
            let name = line(name);
            all.map(move |one| RightsChange { what: format!("{name}: {}", one.what), ..one }).collect::<Vec<_>>()
        };
        names.into_iter().flat_map(named).collect()
    }
}

impl Program {
    /// One that has nothing.
    fn none() -> Program {
        Program {
            command: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            env_secrets: BTreeMap::new(),
            on_port: false,
            sandbox: Sandbox::default(),
        }
    }

    fn changes_to(&self, now: &Program) -> Vec<RightsChange> {
        let mut all = sandbox(&self.sandbox, &now.sandbox);
        if self.command != now.command {
            // Any word may name what it reads or runs then, and one that is gone may have kept it from something.
            all.push(change("command", &words(&self.command), &words(&now.command), true));
        }
        if self.cwd != now.cwd {
            let shown = |cwd: Option<&Path>| cwd.map(|cwd| cwd.display().to_string()).unwrap_or_default();
            // Where it starts it reads, and what lies below where it started may be a link to anywhere.
            let before = self.cwd.as_deref();
            let wider = now.cwd.as_deref().is_some_and(|cwd| cwd != Path::new("."));
            all.push(change("cwd", &shown(before), &shown(now.cwd.as_deref()), wider));
        }
        let names: BTreeSet<&String> = self.env.keys().chain(now.env.keys()).collect();
        for name in names.into_iter().filter(|name| self.env.get(*name) != now.env.get(*name)) {
            let (old, new) = match (self.env.contains_key(name), now.env.contains_key(name)) {
                (true, true) => ("a value", "another value"),
                (true, false) => ("a value", ""),
                (false, _) => ("", "a value"),
            };
            // Of one without a sandbox any value may say what it runs.
            let is_place = PLACES.contains(&name.as_str()) || now.sandbox.demand == Demand::None;
            let wider = !new.is_empty() && (old.is_empty() || is_place);
            all.push(change(&format!("env {}", line(name)), old, new, wider));
        }
        let names: BTreeSet<&String> = self.env_secrets.keys().chain(now.env_secrets.keys()).collect();
        for name in names.into_iter().filter(|name| self.env_secrets.get(*name) != now.env_secrets.get(*name)) {
            let said =
                |secret: Option<&String>| secret.map_or_else(String::new, |secret| format!("the secret {secret}"));
            let (old, new) = (said(self.env_secrets.get(name)), said(now.env_secrets.get(name)));
            let known: BTreeSet<&String> = self.env_secrets.values().collect();
            let wider = now.env_secrets.get(name).is_some_and(|secret| !known.contains(secret));
            all.push(change(&format!("env {}", line(name)), &old, &new, wider));
        }
        if self.on_port != now.on_port {
            let said = |on_port: bool| if on_port { "tcp, for every account of the machine" } else { "" };
            all.push(change("port", said(self.on_port), said(now.on_port), now.on_port));
        }
        all
    }
}

/// What is another in a sandbox, a change for each kind.
fn sandbox(before: &Sandbox, now: &Sandbox) -> Vec<RightsChange> {
    if now.demand == Demand::None || before.demand == Demand::None {
        let said = |sandbox: &Sandbox| match sandbox.demand {
            Demand::None => UNBOUNDED,
            Demand::Best => "as well as this machine can",
            Demand::Required => "required",
        };
        // Of one without a sandbox nothing else matters; but no secret was added to what it asks.
        let is_same = now.demand == before.demand;
        let wider = now.demand == Demand::None || !now.secrets().is_empty();
        let one = || change("sandbox", said(before), said(now), wider);
        return if is_same { Vec::new() } else { vec![one()] };
    }
    let mut all = Vec::new();
    if before.demand != now.demand {
        let said = |sandbox: &Sandbox| if sandbox.demand == Demand::Required { "true" } else { "false" };
        all.push(change("sandbox required", said(before), said(now), now.demand != Demand::Required));
    }
    if before.folder != now.folder {
        let said = |sandbox: &Sandbox| if sandbox.folder == OwnFolder::Write { "write" } else { "read" };
        all.push(change("sandbox folder", said(before), said(now), now.folder == OwnFolder::Write));
    }
    // As they are written: what lies below a folder that is known may be a link to anywhere.
    let writes = |path: &PathBuf| before.write.contains(path);
    let reads = |path: &PathBuf| writes(path) || before.read.contains(path);
    if before.read != now.read {
        let wider = now.read.iter().any(|path| !reads(path));
        all.push(change("sandbox read", &paths(&before.read), &paths(&now.read), wider));
    }
    if before.write != now.write {
        let wider = now.write.iter().any(|path| !writes(path));
        all.push(change("sandbox write", &paths(&before.write), &paths(&now.write), wider));
    }
    if before.egress != now.egress {
        let wider = now.egress.iter().any(|egress| !before.egress.iter().any(|known| covers(known, egress)));
        all.push(change("sandbox egress", &hosts(&before.egress), &hosts(&now.egress), wider));
    }
    all
}

/// Whether whoever may reach the first reaches the second by that, as it is written.
fn covers(known: &Egress, egress: &Egress) -> bool {
    let is_plain = |egress: &Egress| egress.variable.is_none() && egress.headers.is_empty();
    let below = known.host.strip_prefix('*').filter(|_| is_plain(known) && is_plain(egress));
    known == egress || below.is_some_and(|below| egress.host.len() > below.len() && egress.host.ends_with(below))
}

fn digests(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    env.iter().map(|(name, value)| (name.clone(), hex(&digest(value.as_bytes())))).collect()
}

fn words(command: &[String]) -> String {
    command.join(" ")
}

fn paths(all: &[PathBuf]) -> String {
    all.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn hosts(all: &[Egress]) -> String {
    let one = |egress: &Egress| {
        let secrets: Vec<&str> = egress.secrets().into_iter().collect();
        let with =
            if secrets.is_empty() { String::new() } else { format!(" with the secret {}", secrets.join(" and ")) };
        let by = egress.variable.as_ref().map(|name| format!(" by {name}")).unwrap_or_default();
        format!("{}{}{by}{with}", egress.host, egress.path.as_deref().unwrap_or_default())
    };
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "programs_tests.rs"]
mod tests;

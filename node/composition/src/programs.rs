//! What the programs of an agent file may do, as its owner agreed to it, and what another file of that name changes. Pure.
//!
//! A program that may write where its agent file lies could change that file, and would have what it wrote there once its owner adds the
//! agent again: so it is asked where that is more than it had.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use althing_protocol::{digest, hex};
use althing_td::{AgentFile, Demand, Egress, OwnFolder, RuntimeSpec, Sandbox, ToolServerSpec, visible};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Characters that are shown of a command, or of a list.
const SHOWN_CHARS_MAX: usize = 160;
/// Changes that are shown.
const SHOWN_MAX: usize = 64;
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
pub struct Programs(BTreeMap<String, Program>);

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

/// What the programs of an agent file change of what their owner agreed to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ProgramChanges {
    /// Each of them; what widens comes first.
    pub changes: Vec<ProgramChange>,
    /// Whether a program reaches more by one of them.
    pub wider: bool,
    /// The digest of all of it: whoever agrees to it agrees to exactly that.
    pub digest: String,
}

/// One change of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgramChange {
    /// What: `runtime: command`, `tools.maps: sandbox`.
    pub what: String,
    /// What it was, on one line; empty if there was none.
    pub old: String,
    /// What it is; empty if there is none.
    pub new: String,
    /// Whether the program reaches more by it.
    pub wider: bool,
}

impl Programs {
    /// Those of an agent file.
    #[must_use]
    pub fn of(file: &AgentFile) -> Programs {
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

    /// What is another in those programs.
    #[must_use]
    pub fn changes_to(&self, now: &Programs) -> ProgramChanges {
        let changes = self.each_to(now);
        let wider = changes.iter().any(|change| change.wider);
        let digest = hex(&digest(json!({ "before": self, "now": now }).to_string().as_bytes()));
        ProgramChanges { changes, wider, digest }
    }

    fn each_to(&self, now: &Programs) -> Vec<ProgramChange> {
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
            all.map(move |one| ProgramChange { what: format!("{name}: {}", one.what), ..one }).collect::<Vec<_>>()
        };
        let mut all: Vec<ProgramChange> = names.into_iter().flat_map(named).collect();
        all.sort_by_key(|change| !change.wider);
        let more = all.len().saturating_sub(SHOWN_MAX);
        let wider = all.iter().skip(SHOWN_MAX).any(|change| change.wider);
        all.truncate(SHOWN_MAX);
        if more > 0 {
            all.push(change(&format!("{more} changes more"), "", "not shown", wider));
        }
        all
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

    fn changes_to(&self, now: &Program) -> Vec<ProgramChange> {
        let mut all = sandbox(&self.sandbox, &now.sandbox);
        if self.command != now.command {
            // What it is told by its path it may read, of a file with what lies beside it; and so the program itself.
            let told = |command: &[String]| -> BTreeSet<String> {
                command.iter().filter(|word| word.contains('/') || word.starts_with('.')).cloned().collect()
            };
            let wider = !told(&now.command).is_subset(&told(&self.command));
            all.push(change("command", &words(&self.command), &words(&now.command), wider));
        }
        if self.cwd != now.cwd {
            let shown = |cwd: Option<&Path>| cwd.map(|cwd| cwd.display().to_string()).unwrap_or_default();
            // Where it starts it reads.
            let before = self.cwd.as_deref();
            let is_known = |cwd: &Path| cwd == Path::new(".") || before.is_some_and(|before| cwd.starts_with(before));
            let wider = now.cwd.as_deref().is_some_and(|cwd| !is_known(cwd));
            all.push(change("cwd", &shown(before), &shown(now.cwd.as_deref()), wider));
        }
        let names: BTreeSet<&String> = self.env.keys().chain(now.env.keys()).collect();
        for name in names.into_iter().filter(|name| self.env.get(*name) != now.env.get(*name)) {
            let (old, new) = match (self.env.contains_key(name), now.env.contains_key(name)) {
                (true, true) => ("a value", "another value"),
                (true, false) => ("a value", ""),
                (false, _) => ("", "a value"),
            };
            let wider = PLACES.contains(&name.as_str()) && !new.is_empty();
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
fn sandbox(before: &Sandbox, now: &Sandbox) -> Vec<ProgramChange> {
    if now.demand == Demand::None || before.demand == Demand::None {
        let said = |sandbox: &Sandbox| match sandbox.demand {
            Demand::None => "none: it reaches whatever your account does",
            Demand::Best => "as well as this machine can",
            Demand::Required => "required",
        };
        // Of one without a sandbox nothing else matters.
        let is_same = now.demand == before.demand;
        let one = || change("sandbox", said(before), said(now), now.demand == Demand::None);
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
    let writes = |path: &Path| before.write.iter().any(|at| path.starts_with(at));
    let reads = |path: &Path| writes(path) || before.read.iter().any(|at| path.starts_with(at));
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
    let below = known.host.strip_prefix('*').filter(|_| known.variable.is_none() && egress.variable.is_none());
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

fn change(what: &str, old: &str, new: &str, wider: bool) -> ProgramChange {
    ProgramChange { what: what.to_owned(), old: line(old), new: line(new), wider }
}

/// A text on one line, in which nothing is invisible, cut where it is long.
fn line(text: &str) -> String {
    let mut rest = visible(text).map(|c| if c.is_whitespace() { ' ' } else { c });
    let shown: String = rest.by_ref().take(SHOWN_CHARS_MAX).collect();
    let end = if rest.next().is_some() { "…" } else { "" };
    format!("{shown}{end}")
}

#[cfg(test)]
#[path = "programs_tests.rs"]
mod tests;

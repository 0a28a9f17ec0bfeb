//! What a program needs beyond what it is granted, as people are told and as a file would have it.

use std::fmt;
use std::path::{Path, PathBuf};

use althing_keeper::Refusal;
use althing_td::{Egress, Sandbox};

/// A refusal, with what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// What was refused.
    pub refusal: Refusal,
    /// What the file would grant, alone; or why that is nothing, as a person reads it.
    pub remedy: Result<Needs, String>,
}

impl Advice {
    /// What was refused, and why nothing grants it if nothing does, on one line.
    #[must_use]
    pub fn words(&self) -> String {
        match &self.remedy {
            Ok(_) => self.refusal.to_string(),
            Err(why) => format!("{} ({why})", self.refusal),
        }
    }

    /// The block that grants it; none if nothing does.
    #[must_use]
    pub fn block(&self) -> Option<String> {
        self.remedy.as_ref().ok().map(Needs::to_string)
    }
}

/// What was refused, and what to do about it: `read /srv/map (sandbox: { read: [/srv/map] })`.
impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.remedy {
            Ok(needs) => write!(f, "{} ({needs})", self.refusal),
            Err(_) => f.write_str(&self.words()),
        }
    }
}

/// What a file would grant beside what it grants already; in order, and nothing twice. Its text is a block of that file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// Paths to read, as a file names them: absolute, or below the home (`~/…`).
    pub read: Vec<PathBuf>,
    /// Paths to write.
    pub write: Vec<PathBuf>,
    /// Hosts to reach.
    pub hosts: Vec<String>,
}

impl Needs {
    /// Whether that is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.write.is_empty() && self.hosts.is_empty()
    }

    /// In words, one for each kind: `reads /srv/map, ~/notes`.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let paths = |paths: &[PathBuf]| paths.iter().map(|path| item(&path.to_string_lossy())).collect::<Vec<_>>();
        let kinds = [("reads", paths(&self.read)), ("writes", paths(&self.write)), ("reaches", self.hosts.clone())];
        let some = kinds.into_iter().filter(|(_, all)| !all.is_empty());
        some.map(|(verb, all)| format!("{verb} {}", all.join(", "))).collect()
    }

    /// What a file grants already, and this. What it grants stays as it is written, but for what a wider grant has now.
    #[must_use]
    pub fn added_to(&self, sandbox: &Sandbox) -> Sandbox {
        let has = |paths: &[PathBuf], path: &Path| paths.iter().any(|at| path.starts_with(at));
        let mut all = sandbox.clone();
        for path in &self.write {
            if !has(&all.write, path) {
                all.write.retain(|at| !at.starts_with(path));
                all.read.retain(|at| !at.starts_with(path));
                all.write.push(path.clone());
            }
        }
        for path in &self.read {
            if !has(&all.read, path) && !has(&all.write, path) {
                all.read.retain(|at| !at.starts_with(path));
                all.read.push(path.clone());
            }
        }
        for host in &self.hosts {
            let is_there = all.egress.iter().any(|egress| egress.variable.is_none() && egress.host == *host);
            all.egress.extend(host.parse::<Egress>().ok().filter(|_| !is_there));
        }
        all
    }
}

/// A block of an agent file, on one line: `sandbox: { read: [/srv/map], egress: [api.example.org] }`.
impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = |paths: &[PathBuf]| paths.iter().map(|path| item(&path.to_string_lossy())).collect();
        let hosts = self.hosts.iter().map(|host| item(host)).collect();
        let lists: [(&str, Vec<String>); 3] =
            [("read", paths(&self.read)), ("write", paths(&self.write)), ("egress", hosts)];
        let some = lists.iter().filter(|(_, all)| !all.is_empty());
        let some: Vec<String> = some.map(|(key, all)| format!("{key}: [{}]", all.join(", "))).collect();
        write!(f, "sandbox: {{ {} }}", some.join(", "))
    }
}

/// A text as it stands in a list of an agent file.
fn item(text: &str) -> String {
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || "/._-+@~:".contains(c)) && !text.ends_with(':');
    // What is a text in JSON is one in YAML.
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_agreed_to_is_added_to_what_a_file_grants_already() {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let sandbox = |read: &[&str], write: &[&str], hosts: &[&str]| Sandbox {
            read: paths(read),
            write: paths(write),
            egress: hosts.iter().map(|host| host.parse().expect("a host")).collect(),
            ..Sandbox::default()
        };
        let needs = |read: &[&str], write: &[&str], hosts: &[&str]| Needs {
            read: paths(read),
            write: paths(write),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        };
        let before = sandbox(&["/srv", "~/.npm"], &["data"], &["a.b"]);
        let same = needs(&["/srv/x", "data/y"], &["data/z"], &["a.b"]);
        assert_eq!(same.added_to(&before), before, "it has that");
        let more = needs(&["/opt/x"], &["~/.npm"], &["c.d:8443"]);
        let after = sandbox(&["/srv", "/opt/x"], &["data", "~/.npm"], &["a.b", "c.d:8443"]);
        assert_eq!(more.added_to(&before), after);
        assert_eq!(more.added_to(&after), after, "nothing is added twice");
    }

    #[test]
    fn a_block_is_read_as_a_file_would_have_it() {
        let hard = Needs {
            read: ["/srv/a: b", "/srv/a:", "/srv/#x", "~/x, y"].map(PathBuf::from).to_vec(),
            write: Vec::new(),
            hosts: vec!["a.b:8443".to_owned(), "[::1]".to_owned()],
        };
        let text = format!("name: a\ndescription: b\nruntime: {{ process: {{ command: [c], {hard} }} }}\n");
        let file = althing_td::AgentFile::parse(&text).expect("a file");
        let althing_td::RuntimeSpec::Process { sandbox, .. } = file.runtime else { panic!("a process") };
        assert_eq!(sandbox, hard.added_to(&Sandbox::default()));
    }
}

//! What a program may reach, as its agent file and this machine's files say; and what people are told of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use althing_keeper::Grants;
use althing_keeper::job::{Account, Enclosure, Job, Limits};
use althing_td::Demand;

pub use super::machine::accounts::AccountRange;
use super::machine::accounts::Assignment;
use super::machine::needs::{Surroundings, is_common, needs};
pub use super::machine::{ContainmentError, Guarded, ProgramSpec};
use super::machine::{Files, HEAD_BYTES_MAX, Kind, NAMES_MAX, Reach, grant};
use super::socket::Folder;
use crate::containment::Refusals;

/// Processes and threads of a program at once: enough for a browser, or for a server with some threads for each processor,
/// and few enough that what forks without end leaves the machine to others.
const PROCESSES_MAX: u32 = 512;
/// Descriptors of each of its processes.
const FILES_MAX: u32 = 4_096;

/// The longest file of a program, GiB: one that is written without end ends before a usual disk is full.
pub const FILE_GIB_MAX: u64 = 64;

/// The files of this machine.
struct Disk;

impl Files for Disk {
    fn kind(&self, path: &Path) -> Kind {
        fs::symlink_metadata(path).map_or(Kind::Missing, |found| kind(found.file_type()))
    }

    fn target(&self, path: &Path) -> Option<PathBuf> {
        fs::read_link(path).ok()
    }

    fn head(&self, path: &Path) -> Vec<u8> {
        let mut head = Vec::new();
        let read = File::open(path).and_then(|file| file.take(HEAD_BYTES_MAX as u64).read_to_end(&mut head));
        // What cannot be read is no script.
        if read.is_err() {
            head.clear();
        }
        head
    }

    fn names(&self, folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().take(NAMES_MAX);
        let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    fn entries(&self, folder: &Path, most: usize) -> Vec<(PathBuf, Kind)> {
        let entries = fs::read_dir(folder).into_iter().flatten().take(most).flatten();
        // What is gone by now is missing.
        let entry = |entry: fs::DirEntry| (entry.path(), entry.file_type().map_or(Kind::Missing, kind));
        entries.map(entry).collect()
    }
}

fn kind(of: fs::FileType) -> Kind {
    if of.is_symlink() {
        Kind::Link
    } else if of.is_dir() {
        Kind::Folder
    } else if of.is_file() {
        Kind::File
    } else if of.is_socket() {
        Kind::Socket
    } else {
        Kind::Other
    }
}

/// What a program may reach, and may write in the folders of `own`, its sockets; none where its sandbox is off, and it reaches
/// whatever the account does.
///
/// A link in `read` is to be made again as it is, and grants nothing of what it leads to.
///
/// # Errors
/// The program or its interpreter is not there, or its file grants what is not there or what is the node's own.
fn reach(spec: &ProgramSpec<'_>, guarded: &Guarded, own: &[PathBuf]) -> Result<Option<Reach>, ContainmentError> {
    if spec.sandbox.demand == Demand::None {
        return Ok(None);
    }
    grant::reach(&Disk, home().as_deref(), spec, guarded, own).map(Some)
}

/// Which accounts a node's programs have where nothing else contains them; copies assign the same.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    range: AccountRange,
    node: String,
    assigned: Arc<Mutex<Assignment>>,
}

impl Accounts {
    /// Those of a node, of whose data this is the folder.
    #[must_use]
    pub fn of(range: AccountRange, node: &Path) -> Accounts {
        Accounts { range, node: node.to_string_lossy().into_owned(), assigned: Arc::default() }
    }

    fn number(&self, agent: &str) -> u32 {
        self.assigned.lock().expect("no holder of the accounts panics").of(self.range, &self.node, agent)
    }
}

/// The account's home.
fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

/// The refusals of a program to whose environment its file adds these variables. What can be done about them depends on what is on
/// this machine then.
#[must_use]
pub fn refusals(guarded: &Guarded, variables: &BTreeMap<String, String>) -> Refusals {
    let around = Surroundings::of(home(), &guarded.hidden, variables);
    Refusals::judged(move |refused| needs(refused, &Disk, &around))
}

/// Whether a folder belongs to many, or holds one of these, which are the node's own: then a program is not granted it although its
/// file lies there.
#[must_use]
pub fn holds_more(folder: &Path, hidden: &[PathBuf]) -> bool {
    is_common(folder, &Disk, &Surroundings::of(home(), hidden, &BTreeMap::new()))
}

/// Why there is no job for a program.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// It cannot be said what it may reach.
    #[error(transparent)]
    Containment(#[from] ContainmentError),
    /// A folder that it needs cannot be made.
    #[error("its folder for temporary files: {0}")]
    Folder(#[from] std::io::Error),
}

/// The job of an agent's program that is contained as its file says, without descriptors; `own` is the folder of its sockets. Looks
/// at files of the machine, and makes a folder: not for a thread on which others wait.
///
/// # Errors
/// See [`JobError`].
pub fn job(
    agent: &str,
    spec: &ProgramSpec<'_>,
    (guarded, accounts): (&Guarded, &Accounts),
    own: &Folder,
) -> Result<Job, JobError> {
    let enclosure = match reach(spec, guarded, &own.own())? {
        None => None,
        Some(Reach { read, write, private, hidden, links, needed, stated, sockets }) => Some(Enclosure {
            required: spec.sandbox.demand == Demand::Required,
            grants: Grants { read: read.into_iter().chain(links).collect(), write, private, hidden, sockets },
            temporary: own.temporary()?,
            ports: Vec::new(),
            listen: Vec::new(),
            account: Some(Account { id: accounts.number(agent), needed, written: stated }),
        }),
    };
    Ok(Job {
        command: spec.command.to_vec(),
        folder: spec.cwd.to_owned(),
        environment: spec.environment.clone(),
        descriptors: Vec::new(),
        orphan_ms: 0,
        limits: Limits {
            processes: PROCESSES_MAX,
            files: FILES_MAX,
            file_kib: FILE_GIB_MAX << 20,
            ..Limits::default()
        },
        bridge: None,
        enclosure,
    })
}

#[cfg(test)]
mod tests {
    use althing_keeper::job::Bounds;
    use althing_keeper::{Access, Lack, Level, Refusal};
    use althing_td::Sandbox;

    use super::*;
    use crate::containment::{Containment, Enclosed};

    #[test]
    fn a_program_on_this_machine_is_granted_its_folder_and_not_the_nodes() {
        let place = tempfile::tempdir().expect("a folder");
        let place = place.path().canonicalize().expect("it is there");
        let (folder, data) = (place.join("agent"), place.join("data"));
        fs::create_dir_all(&folder).expect("a folder");
        fs::create_dir_all(data.join("run/1")).expect("a folder");
        fs::write(folder.join("agent.sh"), "#!/usr/bin/env sh\nexit 0\n").expect("a script");
        let command = ["./agent.sh".to_owned()];
        let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let sockets = [data.join("run/1")];
        let off = Sandbox { demand: Demand::None, ..Sandbox::default() };
        let best = Sandbox::default();
        let spec =
            ProgramSpec { command: &command, folder: &folder, cwd: &folder, environment: &environment, sandbox: &best };
        let guarded = Guarded { hidden: vec![data.clone()] };
        let granted = reach(&spec, &guarded, &sockets).expect("it is there").expect("it is contained");
        assert_eq!(granted.write, [folder.clone(), data.join("run/1")]);
        assert_eq!(granted.hidden, [data]);
        assert!(granted.read.contains(&PathBuf::from("/usr")), "{:?}", granted.read);
        assert_eq!(reach(&ProgramSpec { sandbox: &off, ..spec }, &guarded, &sockets), Ok(None));
        let accounts = Accounts::default();
        let own = Folder::new(Some(&place.join("run"))).expect("a folder");
        let job = |agent: &str| job(agent, &spec, (&guarded, &accounts), &own).expect("a job");
        let enclosed = |agent: &str| job(agent).enclosure.expect("it is contained");
        let account = enclosed("a").account.expect("an account");
        assert!(account.needed.contains(&folder) && !account.needed.contains(&PathBuf::from("/usr")), "{account:?}");
        assert_eq!(enclosed("a").account.map(|again| again.id), Some(account.id));
        assert_ne!(enclosed("b").account.map(|other| other.id), Some(account.id));
    }

    #[test]
    fn what_it_lacks_is_told_on_one_line_with_one_block() {
        let refusals = refusals(&Guarded::default(), &BTreeMap::new());
        let lacks = || {
            let (level, why, bounds) = (Level::Namespaces, String::new(), Bounds::default());
            let enclosed = Enclosed { level, why, bounds, account: None };
            Containment::of(&Sandbox::default(), enclosed).with(&refusals).lacks
        };
        assert_eq!(lacks().told(8), None);
        let host = |name: &str| Refusal {
            access: Access::Connect,
            path: format!("{name}:443"),
            lack: Lack::Host(name.to_owned()),
        };
        for name in ["a.b", "c.d"] {
            refusals.add(host(name));
        }
        let told = |most| lacks().told(most);
        let both = "connect to a.b:443, connect to c.d:443; its file would grant it by sandbox: { egress: [a.b, c.d] }";
        assert_eq!(told(2).as_deref(), Some(both));
        let one = "connect to a.b:443, and more; its file would grant it by sandbox: { egress: [a.b, c.d] }";
        assert_eq!(told(1).as_deref(), Some(one));
        let own = Refusal { access: Access::Write, path: "/data".to_owned(), lack: Lack::NodesOwn };
        assert_eq!(refusals.told(&own), "write /data (the node's own: it cannot be granted)");
        assert_eq!(refusals.told(&host("a.b")), "connect to a.b:443 (sandbox: { egress: [a.b] })");
    }
}

//! What a program may reach, as its agent file and this machine's files say; and what people are told of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use althing_keeper::Grants;
use althing_keeper::job::{Enclosure, Job, Limits};
use althing_td::Demand;

use super::machine::needs::{Surroundings, is_common, needs};
pub use super::machine::{ContainmentError, Guarded, ProgramSpec};
use super::machine::{Files, HEAD_BYTES_MAX, Kind, NAMES_MAX, grant};
use super::socket::Folder;
use crate::containment::Refusals;

/// Processes and threads of a program at once: enough for a browser, or for a server with some threads for each processor,
/// and few enough that what forks without end leaves the machine to others.
const PROCESSES_MAX: u32 = 512;
/// Descriptors of each of its processes.
const FILES_MAX: u32 = 4_096;

/// The files of this machine.
struct Disk;

impl Files for Disk {
    fn kind(&self, path: &Path) -> Kind {
        let Ok(found) = fs::symlink_metadata(path) else { return Kind::Missing };
        match found.file_type() {
            kind if kind.is_symlink() => Kind::Link,
            kind if kind.is_dir() => Kind::Folder,
            kind if kind.is_file() => Kind::File,
            _ => Kind::Other,
        }
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
}

/// What a program may reach; none where its sandbox is off, and it reaches whatever the account does.
///
/// A link in `read` is to be made again as it is, and grants nothing of what it leads to.
///
/// # Errors
/// The program or its interpreter is not there, or its file grants what is not there or what is the node's own.
pub fn grants(spec: &ProgramSpec<'_>, guarded: &Guarded) -> Result<Option<Grants>, ContainmentError> {
    if spec.sandbox.demand == Demand::None {
        return Ok(None);
    }
    let reach = grant::reach(&Disk, home().as_deref(), spec, guarded)?;
    let read = reach.read.into_iter().chain(reach.links).collect();
    Ok(Some(Grants { read, write: reach.write, private: reach.private, hidden: reach.hidden }))
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

/// The job of a program that is contained as its file says, without descriptors; `own` is the folder of its sockets.
///
/// # Errors
/// See [`JobError`].
pub fn job(spec: &ProgramSpec<'_>, guarded: &Guarded, own: &Folder) -> Result<Job, JobError> {
    let spec = ProgramSpec { sockets: &own.own(), ..*spec };
    let enclosure = match grants(&spec, guarded)? {
        None => None,
        Some(grants) => Some(Enclosure {
            required: spec.sandbox.demand == Demand::Required,
            grants,
            temporary: own.temporary()?,
            ports: Vec::new(),
            listen: Vec::new(),
        }),
    };
    Ok(Job {
        command: spec.command.to_vec(),
        folder: spec.cwd.to_owned(),
        environment: spec.environment.clone(),
        descriptors: Vec::new(),
        orphan_ms: 0,
        limits: Limits { processes: PROCESSES_MAX, files: FILES_MAX, ..Limits::default() },
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
        let spec = ProgramSpec {
            command: &command,
            folder: &folder,
            cwd: &folder,
            environment: &environment,
            sandbox: &best,
            sockets: &sockets,
        };
        let guarded = Guarded { hidden: vec![data.clone()] };
        let granted = grants(&spec, &guarded).expect("it is there").expect("it is contained");
        assert_eq!(granted.write, [folder.clone(), data.join("run/1")]);
        assert_eq!(granted.hidden, [data]);
        assert!(granted.read.contains(&PathBuf::from("/usr")), "{:?}", granted.read);
        assert_eq!(grants(&ProgramSpec { sandbox: &off, ..spec }, &guarded), Ok(None));
    }

    #[test]
    fn what_it_lacks_is_told_on_one_line_with_one_block() {
        let refusals = refusals(&Guarded::default(), &BTreeMap::new());
        let lacks = || {
            let enclosed = Enclosed { level: Level::Namespaces, why: String::new(), bounds: Bounds::default() };
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

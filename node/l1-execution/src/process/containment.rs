//! What a program may reach, as its agent file and this machine's files say; and what people are told of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use althing_keeper::Grants;
use althing_keeper::job::{Account, Enclosure, Job, Limits};
use althing_store::file::open_regular;
use althing_td::Demand;

use super::accounts::{AccountHold, Accounts, ProgramOf};
use super::folders;
use super::machine::mounts::{OtherPaths, elsewhere};
use super::machine::needs::{Surroundings, is_common, needs};
use super::machine::way::Way;
pub use super::machine::{ContainmentError, Guarded, ProgramSpec};
use super::machine::{Files, HEAD_BYTES_MAX, Kind, MOUNTS_BYTES_MAX, MountsGap, NAMES_MAX, Reach, grant};
use super::socket::Folder;
use crate::containment::Refusals;

/// Processes and threads of a program at once: enough for a browser, or for a server with some threads for each processor,
/// and few enough that what forks without end leaves the machine to others.
const PROCESSES_MAX: u32 = 512;
/// Descriptors of each of its processes.
const FILES_MAX: u32 = 4_096;

/// The longest file of a program, GiB: one that is written without end ends before a usual disk is full.
pub const FILE_GIB_MAX: u64 = 64;

/// What is mounted where, as this process sees it.
const MOUNTS: &str = "/proc/self/mountinfo";

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
        // By now a program may have put a pipe there, which nobody writes.
        let file = open_regular(path);
        let is_read = file.is_ok_and(|file| file.take(HEAD_BYTES_MAX as u64).read_to_end(&mut head).is_ok());
        // What cannot be read is no script.
        if !is_read {
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

    fn list_folder(&self, folder: &Path, most: usize) -> (usize, Vec<(PathBuf, Kind)>) {
        folders::list_folder(folder, most)
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
/// The program or its interpreter is not there, or its file grants what is not there or what is the node's own; or it is to be contained,
/// and where the node's own shows is not known.
fn reach(spec: &ProgramSpec<'_>, known: &OwnPaths, own: &[PathBuf]) -> Result<Option<Reach>, ContainmentError> {
    match (spec.sandbox.demand, &known.gap) {
        (Demand::None, _) => Ok(None),
        (Demand::Required, Some(gap)) => Err(ContainmentError::Mounts(gap.clone())),
        _ => grant::reach(&Disk, home().as_deref(), spec, &known.guarded, own).map(Some),
    }
}

/// What is the node's own, by each path by which it is known to show now.
struct OwnPaths {
    guarded: Guarded,
    /// Why it may show by others.
    gap: Option<MountsGap>,
}

/// What is the node's own, also by the paths by which other mounts of the same file systems show it now, as a file says what is mounted.
fn everywhere(guarded: &Guarded, mounts: &Path) -> OwnPaths {
    let own: Vec<PathBuf> = guarded.hidden.iter().map(|path| Way::of(&Disk, path).end).collect();
    let OtherPaths { paths, gap } = match read_mounts(mounts) {
        Ok((text, is_whole)) => {
            let found = elsewhere(&Disk, &text, &own);
            let gap = if is_whole { found.gap } else { Some(MountsGap::TooLong) };
            OtherPaths { gap, ..found }
        }
        Err(error) => {
            let (at, why) = (mounts.to_owned(), error.to_string());
            OtherPaths { gap: Some(MountsGap::Unreadable { at, why }), ..OtherPaths::default() }
        }
    };
    let guarded = Guarded { hidden: guarded.hidden.iter().cloned().chain(paths).collect() };
    // What has nothing of its own hides nothing.
    OwnPaths { guarded, gap: gap.filter(|_| !own.is_empty()) }
}

/// What is mounted, and whether that is all of it.
fn read_mounts(at: &Path) -> io::Result<(Vec<u8>, bool)> {
    let mut text = Vec::new();
    File::open(at)?.take(MOUNTS_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    let is_whole = text.len() <= MOUNTS_BYTES_MAX;
    if !is_whole {
        // A line that is cut off would say something else.
        text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    }
    Ok((text, is_whole))
}

/// The files that the node reads when agents are added, by the names of these agents: where a program has files of its own, it does
/// not write them. Copies are of the same node.
#[derive(Debug, Clone, Default)]
pub struct AgentFiles(Arc<Mutex<BTreeMap<String, Vec<PathBuf>>>>);

impl AgentFiles {
    /// Notes the files of an agent; absolute. Programs that run already are not kept from them.
    pub fn set(&self, agent: &str, files: &[PathBuf]) {
        self.held().insert(agent.to_owned(), files.to_owned());
    }

    /// Forgets those of an agent.
    pub fn forget(&self, agent: &str) {
        self.held().remove(agent);
    }

    fn all(&self) -> Vec<PathBuf> {
        self.held().values().flatten().cloned().collect()
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, Vec<PathBuf>>> {
        self.0.lock().expect("no holder of the agent files panics")
    }
}

/// The account's home.
fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

/// The refusals of a program with this command, to whose environment its file adds these variables. What can be done about them depends
/// on what is on this machine then.
#[must_use]
pub fn refusals(guarded: &Guarded, command: &[String], variables: &BTreeMap<String, String>) -> Refusals {
    let known = everywhere(guarded, Path::new(MOUNTS)).guarded;
    let around = Surroundings::of(home(), &known.hidden, command, variables);
    Refusals::judged(move |refused| needs(refused, &Disk, &around))
}

/// Whether a folder belongs to many, or holds one of these, which are the node's own: then a program is not granted it although its
/// file lies there.
#[must_use]
pub fn holds_more(folder: &Path, hidden: &[PathBuf]) -> bool {
    is_common(folder, &Disk, &Surroundings::of(home(), hidden, &[], &BTreeMap::new()))
}

/// Why there is no job for a program.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// It cannot be said what it may reach.
    #[error(transparent)]
    Containment(#[from] ContainmentError),
    /// A folder that it needs cannot be made.
    #[error("its folder for temporary files: {0}")]
    Folder(#[from] io::Error),
}

/// The job of a program that is contained as its file says, without descriptors, and what it holds for as long as it runs; `own` is the
/// folder of its sockets, and the files of agents that it may write are only read by it where it has a root of its own. Looks at files of
/// the machine, and makes a folder: not for a thread on which others wait.
///
/// # Errors
/// See [`JobError`].
pub fn job(
    of: ProgramOf<'_>,
    spec: &ProgramSpec<'_>,
    (guarded, accounts, files): (&Guarded, &Accounts, &AgentFiles),
    own: &Folder,
) -> Result<(Job, Option<AccountHold>), JobError> {
    let known = everywhere(guarded, Path::new(MOUNTS));
    let (enclosure, held) = match reach(spec, &known, &own.own())? {
        None => (None, None),
        Some(reach) => {
            let fixed = grant::fixed(&Disk, &reach, &files.all());
            let Reach { read, write, private, hidden, links, needed, stated, sockets, withheld } = reach;
            // Where something else contains it, it needs none.
            let held = accounts.hold(of);
            let id = held.as_ref().map(|held| held.number).map_err(ToString::to_string);
            let read = read.into_iter().chain(links).chain(fixed).collect();
            let enclosure = Enclosure {
                required: spec.sandbox.demand == Demand::Required,
                grants: Grants { read, write, private, hidden, sockets, withheld },
                temporary: own.temporary()?,
                ports: Vec::new(),
                listen: Vec::new(),
                shared_environment: BTreeMap::new(),
                account: Some(Account { id, needed, written: stated }),
                unhidden: known.gap.as_ref().map(unhidden),
                apart: None,
            };
            (Some(enclosure), held.ok())
        }
    };
    let job = Job {
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
    };
    Ok((job, held))
}

/// What is said of a program from which the node's own may not be hidden wherever it shows.
fn unhidden(gap: &MountsGap) -> String {
    format!("the node's keys and data may show at paths that are not known to be hidden: {gap}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
        let known = everywhere(&guarded, Path::new(MOUNTS));
        let granted = reach(&spec, &known, &sockets).expect("it is there").expect("it is contained");
        assert_eq!(granted.write, [folder.clone(), data.join("run/1")]);
        assert!(granted.hidden.contains(&data), "{:?}", granted.hidden);
        assert!(granted.read.contains(&PathBuf::from("/usr")), "{:?}", granted.read);
        assert_eq!(reach(&ProgramSpec { sandbox: &off, ..spec }, &known, &sockets), Ok(None));
        let accounts = Accounts::default();
        let own = Folder::new(Some(&place.join("run"))).expect("a folder");
        let files = AgentFiles::default();
        let enclosed = |agent: &str, program: &str| {
            let of = ProgramOf { agent, program };
            let (job, held) = job(of, &spec, (&guarded, &accounts, &files), &own).expect("a job");
            (job.enclosure.expect("it is contained"), held)
        };
        let account = |agent: &str, program: &str| {
            let (enclosure, held) = enclosed(agent, program);
            (enclosure.account.expect("an account"), held)
        };
        let (first, _) = account("a", "runtime");
        assert!(first.needed.contains(&folder) && !first.needed.contains(&PathBuf::from("/usr")), "{first:?}");
        let id = |agent: &str, program: &str| account(agent, program).0.id.expect("a number");
        assert_eq!(Ok(id("a", "runtime")), first.id);
        let all = BTreeSet::from([id("a", "runtime"), id("a", "tools.x"), id("a", "tools.y"), id("b", "tools.x")]);
        assert_eq!(all.len(), 4, "each program has one of its own");
        // Who only looks, at two programs at once.
        let (one, other) = (account("", "tools."), account("", "tools."));
        assert_ne!(one.0.id, other.0.id);
        let number = one.0.id.clone();
        drop(one);
        assert_eq!(account("", "tools.").0.id, number, "it is free once it was looked at");
        // What the node reads when an agent is added no program writes, its own and any other.
        let script = folder.join("agent.sh");
        let is_fixed = || ["a", "b"].map(|agent| enclosed(agent, "runtime").0.grants.read.contains(&script));
        assert_eq!(is_fixed(), [false, false]);
        files.clone().set("a", std::slice::from_ref(&script));
        assert_eq!(is_fixed(), [true, true]);
        files.forget("a");
        assert_eq!(is_fixed(), [false, false]);
    }

    #[test]
    fn where_it_is_not_known_what_is_mounted_it_is_said_and_what_requires_containment_does_not_start() {
        let place = tempfile::tempdir().expect("a folder");
        let place = place.path().canonicalize().expect("it is there");
        let (folder, guarded) = (place.join("agent"), Guarded { hidden: vec![place.join("data")] });
        fs::create_dir_all(&folder).expect("a folder");
        fs::create_dir_all(place.join("data")).expect("a folder");
        let (whole, long, lost) = (place.join("whole"), place.join("long"), place.join("lost"));
        let root = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
        fs::write(&whole, root).expect("a file");
        fs::write(&long, root.repeat(MOUNTS_BYTES_MAX / root.len() + 1)).expect("a file");
        let command = ["/bin/sh".to_owned()];
        let environment = BTreeMap::new();
        let start = |demand: Demand, known: &OwnPaths| {
            let sandbox = Sandbox { demand, ..Sandbox::default() };
            let (folder, cwd) = (folder.as_path(), folder.as_path());
            let spec = ProgramSpec { command: &command, folder, cwd, environment: &environment, sandbox: &sandbox };
            reach(&spec, known, &[])
        };
        let known = everywhere(&guarded, &whole);
        assert_eq!(known.gap, None);
        assert!(start(Demand::Required, &known).is_ok());
        for (mounts, why) in [(&long, "4 MiB"), (&lost, "cannot be read"), (&place, "cannot be read")] {
            let known = everywhere(&guarded, mounts);
            let told = known.gap.as_ref().map(unhidden).expect("it is not known");
            assert!(told.contains(why), "{told}");
            assert_eq!(known.guarded.hidden, guarded.hidden, "what is known is hidden");
            let refused = start(Demand::Required, &known).expect_err("it is required").to_string();
            assert!(refused.contains("`sandbox: required`") && refused.contains(why), "{refused}");
            assert!(start(Demand::Best, &known).is_ok_and(|reach| reach.is_some()));
            assert_eq!(start(Demand::None, &known), Ok(None));
            assert_eq!(everywhere(&Guarded::default(), mounts).gap, None, "nothing is hidden");
        }
    }

    #[test]
    fn what_is_no_file_any_more_is_not_waited_for() {
        let place = tempfile::tempdir().expect("a folder");
        let pipe = place.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        assert!(Disk.head(&pipe).is_empty());
    }

    #[test]
    fn what_it_lacks_is_told_on_one_line_with_one_block() {
        let refusals = refusals(&Guarded::default(), &[], &BTreeMap::new());
        let lacks = || {
            let (level, why, bounds) = (Level::Namespaces, String::new(), Bounds::default());
            let enclosed = Enclosed { level, why, bounds, account: None, landlock: 0, withheld: Vec::new() };
            Containment::of(&Sandbox::default(), enclosed).with(&refusals).lacks
        };
        assert_eq!(lacks().summary(8), None);
        let host = |name: &str| Refusal {
            access: Access::Connect,
            path: format!("{name}:443"),
            lack: Lack::Host(name.to_owned()),
        };
        for name in ["a.b", "c.d"] {
            refusals.add(host(name));
        }
        let told = |most| lacks().summary(most);
        let both = "connect to a.b:443, connect to c.d:443; its file would grant it by sandbox: { egress: [a.b, c.d] }";
        assert_eq!(told(2).as_deref(), Some(both));
        let one = "connect to a.b:443, and more; its file would grant it by sandbox: { egress: [a.b, c.d] }";
        assert_eq!(told(1).as_deref(), Some(one));
        let own = Refusal { access: Access::Write, path: "/data".to_owned(), lack: Lack::NodesOwn };
        assert_eq!(refusals.advice(&own), "write /data (the node's own: it cannot be granted)");
        assert_eq!(refusals.advice(&host("a.b")), "connect to a.b:443 (sandbox: { egress: [a.b] })");
    }
}

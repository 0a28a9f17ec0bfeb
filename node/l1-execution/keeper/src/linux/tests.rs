//! Processes that are enclosed, and what they find. Each is forked twice, as a keeper does: what is asked is asked in
//! the first process of its namespaces.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs;
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use althing_testing::{remedy, skip};
use nix::errno::Errno;
use nix::libc;
use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::signal::kill;
use nix::sys::statvfs::statvfs;
use nix::sys::wait::waitpid;
use nix::unistd::{Gid, Pid, Uid, setgid, setgroups, setuid};

use super::namespaces::{NAMESPACES, enter};
use super::{Failure, lock, mounts, sys};
use crate::job::{Level, Listener};
use crate::machine::grants::Grants;
use crate::machine::rules::DEVICES;

const USERS: &str = "let accounts have user namespaces (sysctl user.max_user_namespaces above 0, and where there is AppArmor \
                     kernel.apparmor_restrict_unprivileged_userns=0), outside of containers that mask parts of /proc";
const NOBODY: u32 = 65_534;

/// How a process is enclosed.
struct Scene<'a> {
    level: Level,
    grants: &'a Grants,
    ports: &'a [u16],
    /// The account that it has, which root may change.
    account: Option<u32>,
    /// The memory that it may have, KiB; 0: any.
    memory_kib: u64,
}

impl Scene<'_> {
    /// One with nothing but a level, of the account of the tests.
    fn bare(level: Level) -> Scene<'static> {
        static NOTHING: Grants = Grants {
            read: Vec::new(),
            write: Vec::new(),
            private: Vec::new(),
            hidden: Vec::new(),
            sockets: Vec::new(),
            withheld: Vec::new(),
        };
        Scene { level, grants: &NOTHING, ports: &[], account: None, memory_kib: 0 }
    }
}

/// Asks an enclosed process, which is told the version of Landlock: what it says, or `None` where this machine lacks
/// what it takes, which is said.
#[track_caller]
fn asked(scene: &Scene<'_>, ask: impl FnOnce(u8) -> String) -> Option<String> {
    let (mut reader, writer) = io::pipe().expect("a pipe");
    let Some(child) = sys::fork(CloneFlags::empty()).expect("a child") else {
        drop(reader);
        first(scene, writer, ask)
    };
    drop(writer);
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("it says something");
    waitpid(child, None).expect("it ended");
    match said.split_once('\n') {
        Some(("found", found)) => Some(found.to_owned()),
        Some(("no namespaces", why)) => {
            skip(&format!("there are no namespaces: {why}"), USERS);
            None
        }
        Some(("no landlock", why)) => {
            skip(why, remedy::KERNEL);
            None
        }
        _ => panic!("{said}"),
    }
}

/// The first child, which makes the second.
fn first(scene: &Scene<'_>, mut writer: PipeWriter, ask: impl FnOnce(u8) -> String) -> ! {
    if let Some(id) = scene.account {
        setgroups(&[])
            .and_then(|()| setgid(Gid::from_raw(id)))
            .and_then(|()| setuid(Uid::from_raw(id)))
            .expect("root may");
        // A process that changed its account does not own its own /proc, until it becomes another program.
        prctl::set_dumpable(true).expect("it may");
    }
    let account = (Uid::effective(), Gid::effective());
    let of_its_own = scene.level == Level::Namespaces;
    let said = match sys::fork(if of_its_own { NAMESPACES } else { CloneFlags::empty() }) {
        Err(why) => format!("no namespaces\n{why}"),
        Ok(Some(child)) => {
            let _ = waitpid(child, None);
            String::new()
        }
        Ok(None) => {
            let enclosed = || -> Result<String, Failure> {
                if of_its_own {
                    enter(scene.grants, account, scene.memory_kib)?;
                }
                lock((scene.level, Listener::None), scene.grants, scene.ports).map(ask)
            };
            match catch_unwind(AssertUnwindSafe(enclosed)) {
                Ok(Ok(found)) => format!("found\n{found}"),
                Ok(Err(failure)) if failure.step == mounts::PROC => format!("no namespaces\n{failure}"),
                Ok(Err(failure)) if failure.why.contains("no Landlock") => format!("no landlock\n{failure}"),
                Ok(Err(failure)) => failure.to_string(),
                Err(_) => "it panicked".to_owned(),
            }
        }
    };
    let written = writer.write_all(said.as_bytes());
    sys::leave(i32::from(written.is_err()))
}

/// What came of something that was tried, in a word.
fn outcome<T: Debug>(tried: io::Result<T>) -> String {
    let error = match tried {
        Ok(value) => return format!("{value:?}"),
        Err(error) => error,
    };
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EACCES | Errno::EPERM | Errno::EROFS) => "refused".to_owned(),
        Some(Errno::ENOENT) => "absent".to_owned(),
        Some(other) => format!("{other:?}"),
        None => error.to_string(),
    }
}

fn read(path: impl AsRef<Path>) -> String {
    outcome(fs::read_to_string(path))
}

fn write(path: impl AsRef<Path>) -> String {
    outcome(fs::write(path, "w"))
}

fn list(path: impl AsRef<Path>) -> String {
    let names = fs::read_dir(path).map(|entries| {
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names.join(" ")
    });
    outcome(names)
}

/// A folder of the test's, in which anybody may do anything.
struct Place {
    _folder: tempfile::TempDir,
    at: PathBuf,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("it is there");
        let place = Place { _folder: folder, at };
        place.open("");
        place
    }

    /// A file with that text, and the folders above it.
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.at.join(name);
        let above = Path::new(name).ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        above.for_each(|above| self.open(above));
        fs::write(&path, text).expect("a file");
        self.open(name);
        path
    }

    fn open(&self, name: impl AsRef<Path>) {
        let everybody = fs::Permissions::from_mode(0o777);
        fs::set_permissions(self.at.join(name), everybody).expect("it is ours");
    }
}

/// What a program finds of files that are granted, hidden, private and none of that.
fn finds_its_files(account: Option<u32>) {
    let place = Place::new();
    let at = place.at.clone();
    let other = place.file("other/file", "o");
    let (file, secret) = (place.file("read/file", "r"), place.file("read/secret", "s"));
    let key = place.file("read/keys/node.key", "k");
    let (own, inner) = (place.file("read/keys/run/own/sock", "a"), place.file("write/inner/file", "i"));
    let grants = Grants {
        read: vec![at.join("read"), at.join("write/inner"), at.join("none")],
        write: vec![at.join("write"), at.join("read/keys/run/own")],
        private: vec![PathBuf::from("/tmp"), PathBuf::from("/home-of-nobody")],
        hidden: vec![at.join("read/keys"), secret.clone()],
        sockets: Vec::new(),
        withheld: Vec::new(),
    };
    let scene = Scene { level: Level::Namespaces, grants: &grants, ports: &[], account, memory_kib: 0 };
    let found = asked(&scene, |_| {
        let said = [
            read(&file),
            write(&file),
            write(at.join("read/new")),
            read(&other),
            read("/etc/passwd"),
            write(at.join("write/new")),
            read(&inner),
            write(&inner),
            list(at.join("read/keys")),
            read(&key),
            write(at.join("read/keys/new")),
            read(&secret),
            read(&own),
            write(&own),
            list("/home-of-nobody"),
            write("/home-of-nobody/new"),
            write("/tmp/of-the-program"),
            write("/new"),
            write("/dev/new"),
            write("/dev/null"),
            write("/proc/sys/kernel/core_pattern"),
            list("/dev"),
        ];
        said.join("\n")
    });
    let Some(found) = found else { return };
    let expected = [
        r#""r""#,
        "refused",
        "refused",
        "absent",
        "absent",
        "()",
        r#""i""#,
        "refused",
        r#""run""#,
        "absent",
        "refused",
        "absent",
        r#""a""#,
        "()",
        r#""""#,
        "()",
        "()",
        "refused",
        "refused",
        "()",
        "refused",
        r#""fd full null random shm stderr stdin stdout urandom zero""#,
    ];
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    let outside = |name: &str| fs::read_to_string(place.at.join(name)).expect("it is there");
    assert_eq!([outside("write/new"), outside("read/keys/run/own/sock")], ["w", "w"]);
    assert_eq!([outside("read/file"), outside("read/keys/node.key")], ["r", "k"]);
    assert!(!Path::new("/tmp/of-the-program").exists());
}

#[test]
fn a_program_finds_what_it_is_granted_and_nothing_else() {
    finds_its_files(None);
}

#[test]
fn root_can_be_enclosed_and_so_can_an_ordinary_account() {
    // Where the tests run as an ordinary account, the test above is of one.
    if Uid::effective().is_root() {
        finds_its_files(Some(NOBODY));
    }
}

#[test]
fn any_name_can_be_granted() {
    let place = Place::new();
    let names: [&[u8]; 3] = [b"a b", b"a\nb", b"\xff\xfe"];
    let folders = names.map(|name| place.at.join(OsStr::from_bytes(name)));
    folders.iter().for_each(|folder| fs::create_dir(folder).expect("a folder"));
    let grants = Grants { write: folders.to_vec(), ..Grants::default() };
    let scene = Scene { grants: &grants, ..Scene::bare(Level::Namespaces) };
    let ask = |_| folders.iter().map(|folder| write(folder.join("new"))).collect::<Vec<_>>().join(" ");
    let Some(found) = asked(&scene, ask) else { return };
    assert_eq!(found, "() () ()");
    assert!(folders.iter().all(|folder| folder.join("new").exists()));
}

/// What the owner of a device tries, which the account root is: to give it another mode, which here is the one that it has.
fn gives_mode(device: &str) -> String {
    let tried = fs::metadata(device).and_then(|found| fs::set_permissions(device, found.permissions()));
    // By a descriptor too, which is a way around paths.
    let open = fs::File::open(device).and_then(|open| open.set_permissions(open.metadata()?.permissions()));
    format!("{} {}", outcome(tried), outcome(open))
}

#[test]
fn a_device_of_the_machine_is_written_and_keeps_its_mode() {
    // Granted, beside those that every program has. Without a terminal nobody opens it, and its path alone is tried.
    let granted = Path::new("/dev/tty");
    let grants = Grants { write: vec![granted.to_owned()], ..Grants::default() };
    let scene = Scene { grants: &grants, ..Scene::bare(Level::Namespaces) };
    let found = asked(&scene, |_| {
        let mut said: Vec<String> = DEVICES.iter().map(|device| gives_mode(device)).collect();
        said.push(outcome(fs::set_permissions(granted, fs::Permissions::from_mode(0o666))));
        said.push(write("/dev/null"));
        said.join("\n")
    });
    let Some(found) = found else { return };
    let of_granted = if granted.exists() { "refused" } else { "absent" };
    let expected: Vec<&str> = DEVICES.iter().map(|_| "refused refused").chain([of_granted, "()"]).collect();
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_folder_of_devices_is_granted_and_nothing_is_made_in_it() {
    // The folder of the machine's file system of devices that is there everywhere, and memory that is mounted in it.
    let shared = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let grants = Grants { write: vec![PathBuf::from("/dev"), shared.path().to_owned()], ..Grants::default() };
    let scene = Scene { grants: &grants, ..Scene::bare(Level::Namespaces) };
    let own = shared.path().join("own");
    let found = asked(&scene, |_| [write("/dev/.althing-made"), gives_mode("/dev/null"), write(&own)].join("\n"));
    let Some(found) = found else { return };
    assert_eq!(found.lines().collect::<Vec<_>>(), ["refused", "refused refused", "()"]);
    assert!(own.exists() && !Path::new("/dev/.althing-made").exists());
}

#[test]
fn a_program_takes_a_few_of_the_accounts_watches_and_not_all() {
    let file = Path::new("/proc/sys/user/max_inotify_instances");
    if !file.exists() {
        skip("this kernel does not count who watches files", remedy::KERNEL);
        return;
    }
    let scene = Scene::bare(Level::Namespaces);
    // More than this no account has, unless somebody raised that.
    let taken =
        asked(&scene, |_| (0..256).filter(|_| sys::call(libc::SYS_inotify_init1, [0; 4]).is_ok()).count().to_string());
    let Some(taken) = taken else { return };
    let taken: u32 = taken.parse().expect("a number");
    // Others of the account may have some meanwhile.
    assert!((1..=64).contains(&taken), "{taken}");
}

#[test]
fn a_folder_of_its_own_holds_no_more_than_the_memory_that_it_may_have() {
    let grants = Grants { private: vec![PathBuf::from("/tmp")], ..Grants::default() };
    for (memory_kib, most) in [(64, 64), (1 << 30, 512 << 10), (0, 512 << 10)] {
        let scene = Scene { grants: &grants, memory_kib, ..Scene::bare(Level::Namespaces) };
        let found = asked(&scene, |_| {
            let sizes = ["/tmp", "/dev/shm"].map(|folder| {
                statvfs(folder).map_or_else(
                    |why| why.to_string(),
                    |found| (found.blocks() * found.fragment_size() / 1_024).to_string(),
                )
            });
            sizes.join(" ")
        });
        let Some(found) = found else { return };
        assert_eq!(found, format!("{most} {most}"), "of {memory_kib} KiB");
    }
}

#[test]
fn a_program_is_alone_with_its_loopback_and_has_no_privilege() {
    let scene = Scene::bare(Level::Namespaces);
    let found = asked(&scene, |_| {
        let processes = list("/proc").replace('"', "");
        let processes: Vec<&str> = processes.split(' ').filter(|name| name.parse::<u32>().is_ok()).collect();
        let devices = fs::read_to_string("/proc/net/dev").unwrap_or_default();
        let devices: Vec<&str> = devices.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let connected = listener.and_then(|listener| TcpStream::connect(listener.local_addr()?)).map(drop);
        let beyond = TcpStream::connect((Ipv4Addr::new(192, 0, 2, 1), 80)).map(drop);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let held = ["Cap", "NoNewPrivs", "Seccomp:"];
        let status = status.lines().filter(|line| held.iter().any(|name| line.starts_with(name)));
        let status: Vec<String> = status.map(|line| line.split_whitespace().collect()).collect();
        let rest = [outcome(connected), outcome(beyond), read("/proc/sys/kernel/hostname")];
        [processes.join(" "), devices.join(" "), rest.join(" "), status.join(" ")].join("\n")
    });
    let Some(found) = found else { return };
    let sets = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:0000000000000000"));
    let status = format!("{} NoNewPrivs:1 Seccomp:2", sets.join(" "));
    let expected = ["1", "lo", r#"() ENETUNREACH "localhost\n""#, status.as_str()];
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_program_among_the_machines_files_has_its_grants_and_its_ports() {
    let place = Place::new();
    let at = place.at.clone();
    let (file, key) = (place.file("read/file", "r"), place.file("read/keys/node.key", "k"));
    let (other, new) = (place.file("other/file", "o"), place.file("write/file", "w").with_file_name("new"));
    let grants = Grants {
        read: vec![at.join("read")],
        write: vec![at.join("write")],
        private: vec![at.join("other")],
        hidden: vec![at.join("read/keys")],
        sockets: Vec::new(),
        withheld: Vec::new(),
    };
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let (granted, not) = (listen(), listen());
    let port = |listener: &TcpListener| listener.local_addr().expect("it listens").port();
    let (granted_port, other_port, parent) = (port(&granted), port(&not), std::process::id());
    let scene = Scene { grants: &grants, ports: &[granted_port], ..Scene::bare(Level::Landlock) };
    let found = asked(&scene, |version| {
        if version < 6 {
            return "old".to_owned();
        }
        let connect = |port| outcome(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map(drop));
        let parent_pid = Pid::from_raw(i32::try_from(parent).expect("a pid"));
        let said = [
            read(&file),
            read(&key),
            read(&other),
            write(&file),
            write(&new),
            connect(granted_port),
            connect(other_port),
            outcome(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map(drop)),
            outcome(fs::read(format!("/proc/{parent}/environ")).map(drop)),
            outcome(kill(parent_pid, None).map_err(io::Error::from)),
            write("/dev/null"),
        ];
        said.join(" ")
    });
    match found.as_deref() {
        None => {}
        Some("old") => skip("Landlock knows nothing of signals", remedy::KERNEL),
        Some(found) => {
            let expected = r#""r" refused refused refused () () refused EAFNOSUPPORT refused refused ()"#;
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn the_kernel_answers_as_the_filter_says() {
    let calls: [(libc::c_long, [libc::c_long; 4], &str); 11] = [
        (libc::SYS_getppid, [0; 4], "made"),
        // PTRACE_TRACEME, KEYCTL_GET_KEYRING_ID of the session, and an unshare of user namespaces: anybody may.
        (libc::SYS_ptrace, [0; 4], "EPERM"),
        (libc::SYS_keyctl, [0, -3, 0, 0], "EPERM"),
        (libc::SYS_unshare, [0x1000_0000, 0, 0, 0], "EPERM"),
        (libc::SYS_unshare, [libc::c_long::from(libc::CLONE_FS), 0, 0, 0], "made"),
        (libc::SYS_io_uring_setup, [1, 0, 0, 0], "EPERM"),
        (libc::SYS_clone3, [0; 4], "ENOSYS"),
        (libc::SYS_openat2, [0; 4], "ENOSYS"),
        // Without the filter it would be another error: nobody has the path.
        (libc::SYS_openat, [-1, 0, libc::c_long::from(libc::O_TMPFILE | libc::O_RDWR), 0o4755], "EPERM"),
        (libc::SYS_openat, [-1, 0, libc::c_long::from(libc::O_TMPFILE | libc::O_RDWR), 0o755], "EFAULT"),
        (libc::SYS_socket, [40, 1, 0, 0], "EAFNOSUPPORT"),
    ];
    for level in [Level::Namespaces, Level::Landlock] {
        let scene = Scene::bare(level);
        let answer = |(number, arguments, _): (libc::c_long, [libc::c_long; 4], &str)| {
            sys::call(number, arguments).map_or_else(|errno| format!("{errno:?}"), |_| "made".to_owned())
        };
        let Some(found) = asked(&scene, |_| calls.map(answer).join(" ")) else { continue };
        assert_eq!(found.split(' ').collect::<Vec<_>>(), calls.map(|(.., expected)| expected), "{level:?}");
    }
}

#[test]
fn whoever_is_not_enclosed_keeps_what_the_account_has() {
    let scene = Scene::bare(Level::None);
    let before = fs::read_to_string("/proc/self/status").expect("the status");
    let locks = |status: &str| -> Vec<String> {
        let names = ["Cap", "NoNewPrivs", "Seccomp"];
        status.lines().filter(|line| names.iter().any(|name| line.starts_with(name))).map(str::to_owned).collect()
    };
    let found = asked(&scene, |version| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        format!("{version}\n{}", locks(&status).join("\n"))
    });
    assert_eq!(found, Some(format!("0\n{}", locks(&before).join("\n"))));
}

//! Programs reach what their jobs grant, by the strongest level that the machine has.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use althing_keeper::channel::take_listeners;
use althing_keeper::job::{Descriptor, Enclosure, Job, Level, Order, Told};
use althing_keeper::{Gap, Grants, NAME, gaps, order};
use althing_testing::{remedy, skip};

use crate::support::{KEEPER, Kept, job, kept, kept_by, kept_with, runs};

/// What programs of any machine are made of.
fn base() -> Vec<PathBuf> {
    let all = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives"].map(PathBuf::from);
    all.into_iter().filter(|path| path.exists()).collect()
}

/// A program that may write one folder, and read what programs are made of.
pub fn enclosed(words: &[&str], folder: &Path) -> Job {
    let (write, private) = (vec![folder.to_owned()], vec!["/tmp".into()]);
    let grants = Grants { read: base(), write, private, ..Grants::default() };
    let temporary = folder.join("temporary");
    fs::create_dir_all(&temporary).expect("a folder");
    let (ports, listen) = (Vec::new(), Vec::new());
    let enclosure = Enclosure {
        required: false,
        grants,
        temporary,
        ports,
        listen,
        shared_environment: BTreeMap::new(),
        account: None,
        unhidden: None,
        apart: None,
    };
    Job { folder: folder.to_owned(), enclosure: Some(enclosure), ..job(words) }
}

/// A folder outside `/tmp`, of which programs have their own.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// A keeper where nobody makes namespaces: in a namespace of users that allows no further one.
pub fn without_namespaces() -> Command {
    let mut keeper = Command::new("unshare");
    let script = "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$0\"";
    keeper.args(["-Ur", "sh", "-c", script, KEEPER]);
    keeper
}

/// How it is enclosed; none, and a word about it, if this machine does not have that level.
pub fn level(kept: &mut Kept, wanted: Level) -> Option<String> {
    match kept.told() {
        Told::Started { level, why, .. } if level == wanted => Some(why),
        Told::Started { level, why, .. } => {
            skip(&format!("programs are enclosed by {level:?} here: {why}"), remedy::ROOT);
            None
        }
        told => panic!("{told:?}"),
    }
}

#[test]
fn a_program_reaches_its_folder_and_nothing_else() {
    let (own, other) = (folder(), folder());
    fs::write(own.path().join("mine"), "mine").expect("a file");
    let secret = other.path().join("secret");
    fs::write(&secret, "of somebody else").expect("a file");
    let temporary = format!("/tmp/t-{}", std::process::id());
    let says = format!(
        "cat mine; echo; cat $0 2>/dev/null || echo refused; echo written >made; echo t >{temporary} && cat {temporary}; \
         echo $TMPDIR; ls /proc | grep -c '^[0-9]'; cat /proc/net/dev | grep -c :; echo $$"
    );
    let mut kept = kept(&enclosed(&["sh", "-c", &says, &secret.to_string_lossy()], own.path()));
    let Some(why) = level(&mut kept, Level::Namespaces) else { return };
    assert_eq!(why, "");
    let mut said = String::new();
    kept.output.read_to_string(&mut said).expect("it is read");
    // Itself, the first process, `ls` and `grep`; `lo`; and its number there.
    assert_eq!(said, "mine\nrefused\nt\n/tmp\n4\n1\n2\n");
    // It is told what it was refused, too.
    let told: Vec<Told> =
        std::iter::repeat_with(|| kept.told()).take_while(|told| *told != Told::Ended { status: 0 }).collect();
    let is_secret = |told: &Told| matches!(told, Told::Refused(refusal) if refusal.path == secret.to_string_lossy());
    assert!(told.iter().any(is_secret), "{told:?}");
    assert_eq!(fs::read_to_string(own.path().join("made")).expect("it was written"), "written\n");
    assert!(!Path::new(&temporary).exists(), "its temporary files are its own");
}

#[test]
fn where_there_are_no_namespaces_landlock_holds_it() {
    let (own, other) = (folder(), folder());
    let secret = other.path().join("secret");
    fs::write(&secret, "of somebody else").expect("a file");
    let says = "cat $0 2>/dev/null || echo refused; echo written >made; echo t >$TMPDIR/t && cat $TMPDIR/t";
    let mut kept =
        kept_by(&enclosed(&["sh", "-c", says, &secret.to_string_lossy()], own.path()), &mut without_namespaces());
    let Some(why) = level(&mut kept, Level::Landlock) else { return };
    assert!(why.starts_with("cannot make namespaces: "), "{why}");
    assert!(kept.landlock > 0, "its version is told");
    let mut said = String::new();
    kept.output.read_to_string(&mut said).expect("it is read");
    assert_eq!(said, "refused\nt\n");
    assert!(own.path().join("made").exists());
}

#[test]
fn what_is_not_known_to_be_hidden_is_told_of_a_program_that_has_files_by_their_paths() {
    let own = folder();
    let mut job = enclosed(&["true"], own.path());
    job.enclosure.as_mut().expect("it is enclosed").unhidden = Some("nobody knows what is mounted".to_owned());
    if let Some(why) = level(&mut kept(&job), Level::Namespaces) {
        assert_eq!(why, "nobody knows what is mounted");
    }
    if let Some(why) = level(&mut kept_by(&job, &mut without_namespaces()), Level::Landlock) {
        assert!(why.ends_with("; nobody knows what is mounted"), "{why}");
    }
}

#[test]
fn what_others_would_reach_as_it_does_it_is_told_by_other_variables() {
    let own = folder();
    let mut job = enclosed(&["sh", "-c", "echo $AT"], own.path());
    job.environment.insert("AT".to_owned(), "alone".to_owned());
    let shared = BTreeMap::from([("AT".to_owned(), "among others".to_owned())]);
    job.enclosure.as_mut().expect("it is enclosed").shared_environment = shared;
    let mut apart = kept(&job);
    if level(&mut apart, Level::Namespaces).is_some() {
        assert_eq!(apart.line(), "alone");
    }
    let mut beside = kept_by(&job, &mut without_namespaces());
    if level(&mut beside, Level::Landlock).is_some() {
        assert_eq!(beside.line(), "among others");
    }
}

#[test]
fn a_landlock_that_leaves_files_or_the_network_open_is_not_enough_where_containment_is_required() {
    let own = folder();
    let mut job = enclosed(&["true"], own.path());
    job.enclosure.as_mut().expect("it is enclosed").required = true;
    let mut kept = kept_by(&job, &mut without_namespaces());
    match kept.told() {
        // The machine's kernel decides which of the two it is.
        Told::Started { level: Level::Landlock, landlock, .. } => {
            let open = gaps(landlock);
            assert!(!open.contains(&Gap::Network) && !open.contains(&Gap::Truncation), "version {landlock}");
        }
        Told::Failed { step, why } => {
            assert!(step.starts_with("contain it") && why.contains("Landlock"), "{step}: {why}");
        }
        Told::Started { level, why, .. } => {
            skip(&format!("programs are enclosed by {level:?} here: {why}"), remedy::ROOT)
        }
        told => panic!("{told:?}"),
    }
}

/// Listens without having asked for a port, and says at which, or that it is refused.
const LISTENS: &str = "import socket
own = socket.socket()
try:
    own.listen()
    print(own.getsockname()[1], flush=True)
except PermissionError:
    print('refused', flush=True)
";
/// As a library does it, asks the socket that it is handed to listen, and a new one too; says at which port that is, and answers once.
const IS_HANDED: &str = "import socket
handed, own = socket.socket(fileno=3), socket.socket()
handed.listen()
own.listen()
print(own.getsockname()[1], flush=True)
handed.accept()[0].sendall(b'answered')
";
/// Listens at the port of its argument, and says so.
const SERVES: &str = "import socket, sys
socket.create_server(('127.0.0.1', int(sys.argv[1])))
print('listens', flush=True)
";

#[test]
fn with_landlock_alone_a_program_listens_at_no_port_that_it_was_not_given() {
    let own = folder();
    let mut job = enclosed(&["/usr/bin/python3", "-c", LISTENS], own.path());
    let mut kept = kept_by(&job, &mut without_namespaces());
    if level(&mut kept, Level::Landlock).is_none() {
        return;
    }
    assert_eq!(kept.line(), "refused");

    let listener = UnixListener::bind(own.path().join("socket")).expect("a socket");
    job = enclosed(&["/usr/bin/python3", "-c", IS_HANDED], own.path());
    job.descriptors.push(Descriptor::Socket);
    let mut kept = kept_with(&job, &mut without_namespaces(), &[listener.as_fd()]);
    assert!(level(&mut kept, Level::Landlock).is_some_and(|why| !why.contains("listens")));
    assert_eq!(kept.line(), "0", "at no port");
    let (mut asks, mut said) = (UnixStream::connect(own.path().join("socket")).expect("it listens"), String::new());
    asks.read_to_string(&mut said).expect("until the end");
    assert_eq!(said, "answered");
}

#[test]
fn with_landlock_alone_it_is_said_of_a_program_with_a_port_that_it_may_listen_at_others() {
    let own = folder();
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr()).expect("a port").port();
    let bridge = UnixListener::bind(own.path().join("bridge")).expect("a socket");
    let port = free.to_string();
    let mut job = enclosed(&["/usr/bin/python3", "-c", SERVES, &port], own.path());
    job.descriptors.push(Descriptor::Bridge);
    job.bridge = Some(free);
    job.enclosure.as_mut().expect("it is enclosed").ports = vec![free];
    let mut kept = kept_with(&job, &mut without_namespaces(), &[bridge.as_fd()]);
    let Some(why) = level(&mut kept, Level::Landlock) else { return };
    assert!(why.contains("other free ports of this machine"), "{why}");
    assert_eq!(kept.line(), "listens");
    // Whoever must be contained is not by that.
    job.enclosure.as_mut().expect("it is enclosed").required = true;
    let told = kept_with(&job, &mut without_namespaces(), &[bridge.as_fd()]).told();
    let Told::Failed { step, why } = told else { panic!("{told:?}") };
    assert!(step.starts_with("contain it") && why.contains("Landlock"), "{step}: {why}");
}

#[test]
fn a_program_that_is_to_have_a_network_of_its_own_does_not_run_without_one() {
    let own = folder();
    let mut job = enclosed(&["touch", "ran"], own.path());
    job.enclosure.as_mut().expect("it is enclosed").apart = Some("others could ask as it does".to_owned());
    let told = kept_by(&job, &mut without_namespaces()).told();
    let Told::Failed { step, why } = told else { panic!("{told:?}") };
    assert_eq!(step, "start it without a network of its own");
    assert!(why.starts_with("others could ask as it does (cannot make namespaces: "), "{why}");
    assert!(!own.path().join("ran").exists());
}

#[test]
fn what_is_enclosed_ends_with_all_that_it_started() {
    let own = folder();
    let stubborn = "trap '' TERM; setsid sleep 300 & echo started; while :; do wait; done";
    let mut kept = kept(&enclosed(&["sh", "-c", stubborn], own.path()));
    if level(&mut kept, Level::Namespaces).is_none() {
        return;
    }
    assert_eq!(kept.line(), "started");
    let keeper = kept.keeper.id().to_string();
    let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).expect("it has one");
    let first = children.trim().to_owned();
    assert!(runs(&first), "{first}");
    order(&kept.channel, &Order::End { grace_ms: 50 }).expect("the keeper hears it");
    assert_eq!(kept.outcome(), Told::Ended { status: 137 });
    assert!(!runs(&first));
    // All holders of its output are gone.
    kept.output.read_to_string(&mut String::new()).expect("the end");
}

#[test]
fn a_program_that_cannot_be_started_is_told_as_such_and_not_as_a_matter_of_its_enclosure() {
    let own = folder();
    let told = kept(&enclosed(&["no-such-program"], own.path())).told();
    let Told::Failed { step, why } = told else { panic!("{told:?}") };
    assert_eq!(format!("{step}: {why}"), "start \"no-such-program\": No such file or directory");
}

#[test]
fn what_a_level_cannot_hold_is_not_started_with_less() {
    let own = folder();
    let mut wide_job = enclosed(&["true"], own.path());
    let enclosure = wide_job.enclosure.as_mut().expect("it is enclosed");
    // More rules than Landlock is given: a folder with as many children beside a hidden one.
    let wide = own.path().join("wide");
    for n in 0..5_000 {
        fs::create_dir_all(wide.join(n.to_string())).expect("a folder");
    }
    enclosure.grants.write.push(wide.clone());
    enclosure.grants.hidden.push(wide.join("0"));
    let told = kept_by(&wide_job, &mut without_namespaces()).told();
    let Told::Failed { step, why } = told else { panic!("{told:?}") };
    assert!(step.contains("Landlock") && why.contains("4096 rules"), "{step}: {why}");
}

#[test]
fn the_node_listens_in_the_loopback_of_a_program_and_reaches_its_port() {
    let own = folder();
    let (ours, theirs) = UnixStream::pair().expect("a stream");
    let bridge = own.path().join("bridge");
    let listener = UnixListener::bind(&bridge).expect("a socket");
    let serve = "import socket, sys\n\
        s = socket.create_server(('127.0.0.1', 7000))\n\
        print('listens', flush=True)\n\
        c, _ = s.accept()\n\
        out = socket.create_connection(('127.0.0.1', 9000))\n\
        out.sendall(c.recv(100).upper())\n";
    let mut job = enclosed(&["/usr/bin/python3", "-c", serve], own.path());
    job.descriptors.extend([Descriptor::Bridge, Descriptor::Listeners]);
    job.bridge = Some(7000);
    let enclosure = job.enclosure.as_mut().expect("it is enclosed");
    (enclosure.ports, enclosure.listen) = (vec![7000], vec![9000]);
    let mut kept = kept_with(&job, Command::new(KEEPER).arg0(NAME), &[listener.as_fd(), theirs.as_fd()]);
    if level(&mut kept, Level::Namespaces).is_none() {
        return;
    }
    let listeners = take_listeners(&ours).expect("they are handed over");
    let [inside] = listeners.as_slice() else { panic!("{listeners:?}") };
    assert_eq!(kept.line(), "listens");
    UnixStream::connect(&bridge).expect("it is led there").write_all(b"asked").expect("it is taken");
    let mut said = String::new();
    inside.accept().expect("a connection").0.read_to_string(&mut said).expect("until the end");
    assert_eq!(said, "ASKED");
}

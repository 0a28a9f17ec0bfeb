//! Tables of what programs try, with what is named of it.

use Access::{Connect, Execute, Read, Write};

use super::super::facts::world::World;
use super::*;

/// A machine, what of it the program finds, and what its account may not.
struct Scene {
    world: World,
    found: Vec<&'static str>,
    forbidden: Vec<&'static str>,
    /// Ports at which somebody listens, whom the program does not reach.
    missed: Vec<u16>,
}

impl Facts for Scene {
    fn kind(&self, path: &Path) -> Kind {
        self.world.kind(path)
    }

    fn list_folder(&self, folder: &Path, most: usize) -> Vec<PathBuf> {
        self.world.list_folder(folder, most)
    }
}

impl Outlook for Scene {
    fn may(&self, path: &Path, _: Access) -> bool {
        !self.forbidden.iter().any(|forbidden| path.starts_with(forbidden))
    }

    fn finds(&self, path: &Path) -> bool {
        self.found.iter().any(|found| path == Path::new(found))
    }

    fn misses(&self, port: u16) -> bool {
        self.missed.contains(&port)
    }
}

fn scene() -> Scene {
    let files = [
        "/usr/bin/cat",
        "/usr/lib/python3/__pycache__/",
        "/bin -> usr/bin",
        "/etc/hosts",
        "/etc/app.conf",
        "/etc/shadow",
        "/srv/agent/notes",
        "/srv/agent/models -> /srv/models/big",
        "/srv/models/big/weights",
        "/srv/a b",
        "/home/a/.aws/credentials",
        "/home/a/tool",
        "/data/node.key",
        "/data/run/1/own.sock",
        "/tmp/made",
        "/tmp/others",
        "/run/app.sock",
        "/run/nscd/socket",
        "/dev/null",
        "/dev/dri",
        "/dev/tty",
        "/proc/1/environ",
    ];
    let found = vec!["/", "/srv", "/home", "/home/a", "/data", "/data/run", "/tmp", "/tmp/made"];
    Scene { world: World::of(&files), found, forbidden: vec!["/etc/shadow"], missed: vec![5432, 53] }
}

fn grants() -> Grants {
    let paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect();
    Grants {
        read: paths(&["/usr", "/bin", "/etc/hosts"]),
        write: paths(&["/srv/agent", "/data/run/1"]),
        private: paths(&["/tmp", "/home/a", "/run"]),
        hidden: paths(&["/data"]),
        sockets: Vec::new(),
        withheld: Vec::new(),
    }
}

fn reach(level: Level, version: u8) -> Reach {
    Reach::of(level, &grants(), &[7_000], &scene()).expect("it is enclosed").by_version(version)
}

fn shown(reach: &Reach, access: Access, path: &str) -> String {
    let creates = path.strip_suffix(" (made)");
    let tried = Tried::File { path: creates.unwrap_or(path).into(), access, creates: creates.is_some() };
    reach.refusal(&tried, &scene()).as_ref().map_or_else(|| "nothing".to_owned(), words)
}

/// A refusal, and what is lacking.
fn words(refusal: &Refusal) -> String {
    let lack = match &refusal.lack {
        Lack::Read => "read",
        Lack::Write => "write",
        Lack::Service(service) => service,
        Lack::Proxy => "the proxy",
        Lack::NodesOwn => "the node's own",
        other => panic!("no keeper tells {other:?}"),
    };
    format!("{refusal} ({lack})")
}

#[track_caller]
fn names(reach: &Reach, cases: &[(Access, &str, &str)]) {
    for (access, path, expected) in cases {
        assert_eq!(shown(reach, *access, path), *expected, "{access} {path}");
    }
}

/// What is named by both levels.
const ANYWHERE: [(Access, &str, &str); 18] = [
    (Read, "/etc/app.conf", "read /etc/app.conf (read)"),
    (Read, "/srv/agent/../models/big/weights", "read /srv/models/big/weights (read)"),
    (Read, "/srv/agent/models/weights", "read /srv/models/big/weights (read)"),
    (Read, "/home/a/.aws/credentials", "read /home/a/.aws/credentials (read)"),
    (Read, "/srv/a b", "read /srv/a b (read)"),
    (Execute, "/home/a/tool", "execute /home/a/tool (read)"),
    (Write, "/etc/hosts", "write /etc/hosts (write)"),
    (Write, "/srv/models/new (made)", "write /srv/models (write)"),
    (Read, "/srv/models/new (made)", "write /srv/models (write)"),
    (Read, "/data/node.key", "read /data/node.key (the node's own)"),
    (Write, "/data/new (made)", "write /data (the node's own)"),
    (Read, "/bin/cat", "nothing"),
    (Write, "/srv/agent/notes", "nothing"),
    (Write, "/srv/agent/new (made)", "nothing"),
    (Connect, "/data/run/1/own.sock", "nothing"),
    (Read, "/etc/shadow", "nothing"),
    (Read, "/etc/none", "nothing"),
    (Read, "/srv", "nothing"),
];

/// What programs do by habit.
const HABITUAL: [(Access, &str, &str); 7] = [
    (Read, "/proc/1/environ", "nothing"),
    (Write, "/dev/tty", "nothing"),
    (Write, "/dev/null", "nothing"),
    (Connect, "/run/nscd/socket", "nothing"),
    (Write, "/usr/lib/python3/__pycache__/a.pyc (made)", "nothing"),
    (Write, "/etc", "nothing"),
    (Execute, "/usr", "nothing"),
];

#[test]
fn in_a_root_of_its_own_a_program_is_refused_what_it_does_not_find() {
    let reach = reach(Level::Namespaces, 0);
    names(&reach, &ANYWHERE);
    names(&reach, &HABITUAL);
    let cases = [
        (Connect, "/run/app.sock", "connect to /run/app.sock (write)"),
        (Read, "/dev/dri", "read /dev/dri (read)"),
        // It made one of that name itself; and what it makes in a folder of its own is its own.
        (Read, "/tmp/made", "nothing"),
        (Read, "/tmp/others", "read /tmp/others (read)"),
        (Write, "/tmp/new (made)", "nothing"),
        (Write, "/home/a/.cache (made)", "nothing"),
        (Read, "/home", "nothing"),
    ];
    names(&reach, &cases);
}

#[test]
fn what_lies_beside_what_is_hidden_is_named_as_what_it_is() {
    let files = ["/srv/app/notes", "/srv/app/app.toml", "/srv/app/app.sock", "/srv/app/later"];
    let paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect();
    let grants = Grants {
        read: paths(&["/srv/app"]),
        hidden: paths(&["/srv/app/app.toml"]),
        sockets: paths(&["/srv/app/app.sock"]),
        ..Grants::default()
    };
    // What came since the start is not found, as what is kept from it is not.
    let at_start = World::of(&files[..3]);
    let reach = Reach::of(Level::Namespaces, &grants, &[], &at_start).expect("it is enclosed");
    let found = vec!["/srv/app", "/srv/app/notes"];
    let scene = Scene { world: World::of(&files), found, forbidden: Vec::new(), missed: Vec::new() };
    let said = |access, path: &str| {
        let tried = Tried::File { path: path.into(), access, creates: false };
        reach.refusal(&tried, &scene).as_ref().map_or_else(|| "nothing".to_owned(), words)
    };
    assert_eq!(said(Read, "/srv/app"), "nothing");
    assert_eq!(said(Read, "/srv/app/notes"), "nothing");
    assert_eq!(said(Read, "/srv/app/app.toml"), "read /srv/app/app.toml (the node's own)");
    assert_eq!(said(Connect, "/srv/app/app.sock"), "connect to /srv/app/app.sock (write)");
    assert_eq!(said(Read, "/srv/app/later"), "read /srv/app/later (read)");
}

#[test]
fn among_the_machines_files_a_program_is_refused_what_it_is_not_granted() {
    let old = reach(Level::Landlock, 8);
    names(&old, &ANYWHERE);
    names(&old, &HABITUAL);
    let cases = [
        // Until then it connects to whatever the account connects to.
        (Connect, "/run/app.sock", "nothing"),
        (Read, "/tmp/made", "read /tmp/made (read)"),
        (Write, "/tmp/new (made)", "write /tmp (write)"),
        (Read, "/run", "read /run (read)"),
    ];
    names(&old, &cases);
    let newer = "connect to /run/app.sock (write)";
    assert_eq!(shown(&reach(Level::Landlock, 9), Connect, "/run/app.sock"), newer);
}

#[test]
fn hosts_are_named_and_of_the_loopback_only_services_of_the_machine() {
    let named = |reach: &Reach, text: &str| {
        let tried = Tried::Host(text.parse().expect("an address"));
        reach.refusal(&tried, &scene()).as_ref().map(words)
    };
    let hosts = |reach: &Reach| {
        let all = [
            "192.0.2.1:443",
            "[2001:db8::1]:80",
            "127.0.0.1:5432",
            "[::1]:5432",
            "0.0.0.0:80",
            "127.0.0.53:53",
            "192.0.2.1:7000",
            "127.0.0.1:7000",
        ];
        all.map(|text| named(reach, text).is_some())
    };
    let apart = reach(Level::Namespaces, 0);
    assert_eq!(hosts(&apart), [true, true, true, true, false, true, true, false]);
    assert_eq!(hosts(&reach(Level::Landlock, 4)), [true, true, true, true, false, false, false, false]);
    assert_eq!(hosts(&reach(Level::Landlock, 3)), [false; 8]);
    for (address, expected) in [
        ("192.0.2.1:443", "connect to 192.0.2.1:443 (the proxy)"),
        ("127.0.0.53:53", "connect to 127.0.0.53:53 (the proxy)"),
        ("127.0.0.1:5432", "connect to 127.0.0.1:5432 (127.0.0.1:5432)"),
        ("0.0.0.0:5432", "connect to 127.0.0.1:5432 (127.0.0.1:5432)"),
    ] {
        assert_eq!(named(&apart, address).as_deref(), Some(expected));
    }
    assert_eq!(named(&apart, "192.0.2.1:0"), None);
}

#[test]
fn flags_say_what_a_file_is_opened_for() {
    let flags = |flags: libc::c_int| opening(u64::from(flags.unsigned_abs()));
    assert_eq!(flags(libc::O_RDONLY | libc::O_CLOEXEC), Some((Read, false)));
    assert_eq!(flags(libc::O_RDONLY | libc::O_CREAT), Some((Read, true)));
    assert_eq!(flags(libc::O_RDONLY | libc::O_TRUNC), Some((Write, false)));
    assert_eq!(flags(libc::O_WRONLY | libc::O_APPEND), Some((Write, false)));
    assert_eq!(flags(libc::O_RDWR | libc::O_CREAT), Some((Write, true)));
    assert_eq!(flags(libc::O_PATH), None);
}

#[test]
fn addresses_are_read_as_far_as_they_go() {
    let of = |family: libc::c_int, rest: &[u8]| {
        let family = u16::try_from(family).expect("a family").to_ne_bytes();
        address(&[family.as_slice(), rest].concat())
    };
    let host = |text: &str| Some(Address::Host(text.parse().expect("an address")));
    assert_eq!(of(libc::AF_UNIX, b"/run/a.sock\0more"), Some(Address::Path("/run/a.sock".into())));
    assert_eq!(of(libc::AF_UNIX, b"a.sock"), Some(Address::Path("a.sock".into())));
    assert_eq!((of(libc::AF_UNIX, b"\0abstract"), of(libc::AF_UNIX, b"")), (None, None));
    assert_eq!(of(libc::AF_INET, &[1, 187, 192, 0, 2, 1, 0, 0]), host("192.0.2.1:443"));
    let mut six = vec![0, 80, 0, 0, 0, 0];
    six.extend(Ipv6Addr::LOCALHOST.octets());
    assert_eq!(of(libc::AF_INET6, &six), host("[::1]:80"));
    six.truncate(6);
    six.extend(Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets());
    assert_eq!(of(libc::AF_INET6, &six), host("192.0.2.1:80"));
    assert_eq!((of(libc::AF_INET, &[1, 187]), of(libc::AF_INET6, &six[..21])), (None, None));
    assert_eq!((of(libc::AF_UNSPEC, &six), address(&[1])), (None, None));
}

#[test]
fn who_listens_is_read_from_the_kernels_table() {
    let table = "  sl  local_address rem_address   st tx_queue rx_queue\n   0: 0100007F:1538 00000000:0000 0A 00000000:00000000\n   \
                 1: 0100007F:1539 0100007F:1538 01 00000000:00000000\n   2: 00000000000000000000000001000000:0050 0:0000 0A 0\n cut: 7F";
    assert_eq!([5432, 5433, 80, 0].map(|port| listens(table, port)), [true, false, true, false]);
    assert!(!listens("", 80));
}

fn refusal(path: String) -> Refusal {
    Refusal { access: Read, path, lack: Lack::Read }
}

#[test]
fn each_is_told_once_and_then_that_there_are_more() {
    let mut refusals = Refusals::default();
    let one = refusal("/0".to_owned());
    assert_eq!(refusals.report(one.clone()), Some(Told::Refused(one.clone())));
    assert_eq!(refusals.report(one.clone()), None);
    assert!(matches!(refusals.report(Refusal { access: Write, ..one }), Some(Told::Refused(_))));
    for n in 2..REFUSALS_MAX {
        assert!(matches!(refusals.report(refusal(format!("/{n}"))), Some(Told::Refused(_))), "{n}");
    }
    assert!(!refusals.is_full());
    assert_eq!(refusals.report(refusal("/more".to_owned())), Some(Told::MoreRefused));
    assert!(refusals.is_full());
    assert_eq!(refusals.report(refusal("/even more".to_owned())), None);
}

#[test]
fn what_is_told_is_bounded_in_bytes_whatever_the_names_hold() {
    let mut refusals = Refusals::default();
    let told =
        |refusals: &mut Refusals, name: u8| refusals.report(refusal(cut(&"\u{1}".repeat(9_999 + usize::from(name)))));
    assert!(
        matches!(told(&mut refusals, 0), Some(Told::Refused(Refusal { path, .. })) if path.len() == PATH_BYTES_MAX)
    );
    assert_eq!(told(&mut refusals, 1), None, "it is the same when it is cut");
    let other = refusal(cut(&"\u{2}".repeat(9_999)));
    assert_eq!(refusals.report(other), Some(Told::MoreRefused));
    assert_eq!(cut("ä".repeat(3_000).as_str()).len(), PATH_BYTES_MAX);
}

#[test]
fn what_was_tried_lately_is_not_judged_again() {
    let mut refusals = Refusals::default();
    let tried = |n: usize| Tried::File { path: format!("/{n}").into(), access: Read, creates: false };
    assert!(refusals.notes(&tried(0)) && !refusals.notes(&tried(0)));
    (1..=TRIED_MAX).for_each(|n| assert!(refusals.notes(&tried(n)), "{n}"));
    assert!(refusals.notes(&tried(0)), "others took its place");
    assert!(refusals.tried.len() <= TRIED_MAX);
}

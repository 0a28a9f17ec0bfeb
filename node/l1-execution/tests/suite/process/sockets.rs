//! What a program listens on: the socket that it is handed, which is nobody else's, or a port.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

use super::*;

/// The account that owns nothing.
const NOBODY: u32 = 65_534;

#[tokio::test]
async fn a_program_is_handed_a_socket_and_none_of_the_nodes_variables() {
    let scene = scene("tells");
    scene.noted("descriptor 3").await;
    let notes = scene.notes();
    let handed: BTreeSet<&str> = notes.lines().filter_map(|line| line.strip_prefix("variable ")).collect();
    let allowed = [
        "PATH",
        "HOME",
        "LANG",
        "TZ",
        "TMPDIR",
        "ALTHING_SOCKET",
        "LISTEN_FDS",
        "LISTEN_FDNAMES",
        "LISTEN_PID",
        // The shell's own, and what the agent file names.
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        BEHAVIOUR,
        NOTES,
    ];
    let more: Vec<&&str> = handed.iter().filter(|name| !allowed.contains(name)).collect();
    assert!(more.is_empty(), "{more:?}");
    // What is planted: cargo tells the tests of itself.
    assert!(std::env::vars_os().any(|(name, _)| !allowed.iter().any(|known| name == *known)), "nothing was kept back");
    assert!(handed.contains("ALTHING_SOCKET") && handed.contains("LISTEN_FDS") && handed.contains("PATH"), "{notes}");
    let told = notes.lines().find_map(|line| line.strip_prefix("pid ")).expect("its pid");
    let (pid, listen_pid) = told.split_once(" handed to ").expect("both");
    assert_eq!(pid, listen_pid);
    assert!(notes.contains("descriptor 3 is socket:"), "{notes}");
    scene.host.stop_all().await;
}

/// Connects to a socket, as another account where one is named: in a process of its own, after it became that account
/// and before it would run a program.
#[expect(unsafe_code, reason = "std offers no other way to do something as another account")]
fn connect(socket: &Path, uid: Option<u32>) -> std::io::Result<()> {
    let mut command = std::process::Command::new("/bin/true");
    if let Some(uid) = uid {
        command.uid(uid).gid(uid);
    }
    let socket = socket.to_owned();
    // SAFETY: between fork and exec it only calls socket, connect and close, and takes no lock and no memory.
    unsafe { command.pre_exec(move || UnixStream::connect(&socket).map(drop)) };
    command.status().map(drop)
}

/// The account `nobody` can connect, but not to that socket.
fn not_for_nobody(socket: &Path) {
    if !nix::unistd::geteuid().is_root() {
        return skip("who is not root cannot try a socket as another account", remedy::ROOT);
    }
    let open = tempfile::tempdir().expect("a folder");
    let everybody = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    everybody(open.path(), 0o755);
    let open_to_all = open.path().join("open.sock");
    let _listener = UnixListener::bind(&open_to_all).expect("a socket");
    everybody(&open_to_all, 0o777);
    if let Err(error) = connect(&open_to_all, Some(NOBODY)) {
        return skip(&format!("another account cannot be tried here: {error}"), remedy::ROOT);
    }
    let refused = connect(socket, Some(NOBODY)).expect_err("another account gets to it");
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "{refused}");
}

#[tokio::test]
async fn another_account_cannot_reach_a_program_on_its_socket() {
    let scene = scene("honest");
    scene.turn("hello", None).await.1.expect("it is reached by its node");
    let notes = scene.notes();
    let socket = PathBuf::from(notes.lines().find_map(|line| line.strip_prefix("socket ")).expect("its path"));
    let folder = socket.parent().expect("a folder");
    let mode = std::fs::metadata(folder).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else can enter {}", folder.display());
    connect(&socket, None).expect("its own account gets to it");
    not_for_nobody(&socket);
    scene.host.stop_all().await;
    assert!(!folder.exists(), "the folder goes with the agent");
}

#[tokio::test]
async fn a_program_that_can_only_listen_on_a_port_gets_one_where_its_file_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    provide();
    let mut ported = file(folder.path(), "honest", 20_000);
    if let althing_td::RuntimeSpec::Process { port, .. } = &mut ported.runtime {
        *port = Some(althing_td::ProgramPort::Tcp);
    }
    let scene = Scene { folder, host: Host::new(Builtins::new(), ProcessConfig::default()) };
    scene.host.start(&ported, scene.folder.path()).expect("it starts");
    let (made, ended) = scene.turn("hello", None).await;
    ended.expect("a turn");
    assert_eq!(texts(&made), ["hello"]);
    assert!(!scene.notes().contains("socket "), "{}", scene.notes());
    scene.host.stop_all().await;
}

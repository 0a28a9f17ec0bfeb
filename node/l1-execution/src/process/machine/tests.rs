use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use althing_td::{OwnFolder, Sandbox};

use super::grant::{fixed, reach};
use super::interpreter::interpreters;
use super::way::Way;
use super::{ContainmentError, Files, Guarded, Kind, ProgramSpec, Reach};

const HOME: &str = "/home/me";
const DATA: &str = "/home/me/.local/share/althing/node";
const PATH: &str = "/home/me/.nvm/versions/node/v20/bin:/home/me/.pyenv/shims:/home/me/.local/bin:/usr/bin:/bin";

/// Files in memory: each path with its content; `-> target` is a link, and `/` alone an empty folder.
pub(super) struct Tree(BTreeMap<PathBuf, &'static str>);

impl Files for Tree {
    fn kind(&self, path: &Path) -> Kind {
        match self.0.get(path) {
            Some(&"/") => Kind::Folder,
            Some(&"device") => Kind::Other,
            Some(&"socket") => Kind::Socket,
            Some(text) if text.starts_with("-> ") => Kind::Link,
            Some(_) => Kind::File,
            None if self.0.keys().any(|other| other.starts_with(path)) => Kind::Folder,
            None => Kind::Missing,
        }
    }

    fn target(&self, path: &Path) -> Option<PathBuf> {
        self.0.get(path)?.strip_prefix("-> ").map(PathBuf::from)
    }

    fn head(&self, path: &Path) -> Vec<u8> {
        self.0.get(path).map(|text| text.as_bytes().to_vec()).unwrap_or_default()
    }

    fn names(&self, folder: &Path) -> Vec<String> {
        let inside = self.0.keys().filter_map(|path| path.strip_prefix(folder).ok()?.iter().next()?.to_str());
        let mut names: Vec<String> = inside.map(str::to_owned).collect();
        names.dedup();
        names
    }

    fn entries(&self, folder: &Path, most: usize) -> Vec<(PathBuf, Kind)> {
        let paths = self.names(folder).into_iter().take(most).map(|name| folder.join(name));
        paths.map(|path| (path.clone(), self.kind(&path))).collect()
    }
}

/// A machine with Debian's Python and Node.js, with these files besides.
pub(super) fn tree(files: &[(&'static str, &'static str)]) -> Tree {
    let system = [
        ("/bin", "-> usr/bin"),
        ("/usr/bin/sh", "ELF"),
        ("/usr/bin/env", "ELF"),
        ("/usr/bin/bash", "ELF"),
        ("/usr/bin/python3", "-> python3.11"),
        ("/usr/bin/python3.11", "ELF"),
        ("/usr/bin/node", "-> /etc/alternatives/node"),
        ("/etc/alternatives/node", "-> /usr/bin/nodejs"),
        ("/usr/bin/nodejs", "ELF"),
        ("/usr/bin/npx", "-> ../share/nodejs/npm/bin/npx-cli.js"),
        ("/usr/share/nodejs/npm/bin/npx-cli.js", "#!/usr/bin/env node\n"),
        ("/usr/lib/python3.11/os.py", ""),
        ("/etc/shadow", "secret"),
        ("/tmp", "/"),
        ("/srv/agent/agent.yaml", ""),
        ("/home/me/.local/share/althing/node/node.key", "secret"),
        ("/home/me/.config/althing/owner.key", "secret"),
        ("/home/me/.ssh/id", "secret"),
    ];
    Tree(system.iter().chain(files).map(|(path, text)| (PathBuf::from(path), *text)).collect())
}

/// What is granted to a command in a folder.
struct Asked<'a> {
    folder: &'a str,
    cwd: &'a str,
    variables: &'a [(&'a str, &'a str)],
    sandbox: Sandbox,
}

impl Default for Asked<'_> {
    fn default() -> Self {
        Asked { folder: "/srv/agent", cwd: "/srv/agent", variables: &[], sandbox: Sandbox::default() }
    }
}

impl Asked<'_> {
    fn of(&self, tree: &Tree, command: &str) -> Result<Reach, ContainmentError> {
        let command: Vec<String> = command.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let base = [("HOME", HOME), ("PATH", PATH)];
        let all = base.iter().chain(self.variables).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let spec = ProgramSpec {
            command: &command,
            folder: Path::new(self.folder),
            cwd: Path::new(self.cwd),
            environment: &all.collect(),
            sandbox: &self.sandbox,
        };
        let guarded = Guarded { hidden: vec![PathBuf::from(DATA), PathBuf::from("/home/me/.config/althing")] };
        reach(tree, Some(Path::new(HOME)), &spec, &guarded, &[PathBuf::from(DATA).join("run/1")])
    }
}

/// What may be read but for what every program may, links last.
fn beyond(reach: &Reach) -> Vec<String> {
    let system = ["/usr", "/bin", "/etc/alternatives"];
    let all = reach.read.iter().chain(&reach.links).map(|path| path.display().to_string());
    all.filter(|path| !system.contains(&path.as_str())).collect()
}

fn written(reach: &Reach) -> Vec<String> {
    reach.write.iter().map(|path| path.display().to_string()).filter(|path| !path.starts_with(DATA)).collect()
}

/// A command, files, and what it may read.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

const CASES: &[Case] = &[
    // The system's own programs need nothing further.
    ("python3 agent.py", &[], &[]),
    ("/bin/python3 -m agent", &[], &[]),
    ("npx -y some-server", &[], &[]),
    // A binary in the folder, and one elsewhere.
    ("./server", &[("/srv/agent/server", "ELF")], &[]),
    ("/srv/server/server", &[("/srv/server/server", "ELF")], &["/srv/server"]),
    ("/home/me/.cargo/bin/server", &[("/home/me/.cargo/bin/server", "ELF")], &["/home/me/.cargo/bin/server"]),
    // A Python environment of the system's Python in the folder; one elsewhere.
    (
        ".venv/bin/python agent.py",
        &[("/srv/agent/.venv/bin/python", "-> /usr/bin/python3"), ("/srv/agent/.venv/pyvenv.cfg", "home = /usr/bin\n")],
        &[],
    ),
    (
        "/home/me/envs/a/bin/python",
        &[("/home/me/envs/a/bin/python", "-> /usr/bin/python3"), ("/home/me/envs/a/pyvenv.cfg", "home = /usr/bin\n")],
        &["/home/me/envs/a"],
    ),
    // One in the folder whose Python is pyenv's.
    (
        ".venv/bin/serve",
        &[
            ("/srv/agent/.venv/bin/serve", "#!/srv/agent/.venv/bin/python\n"),
            ("/srv/agent/.venv/bin/python", "-> python3"),
            ("/srv/agent/.venv/bin/python3", "-> /home/me/.pyenv/versions/3.12.1/bin/python3"),
            ("/home/me/.pyenv/versions/3.12.1/bin/python3", "-> python3.12"),
            ("/home/me/.pyenv/versions/3.12.1/bin/python3.12", "ELF"),
            ("/home/me/.pyenv/versions/3.12.1/lib/python3.12/os.py", ""),
        ],
        &["/home/me/.pyenv/versions/3.12.1"],
    ),
    // One that copied its Python, and needs the other's libraries.
    (
        ".venv/bin/python",
        &[
            ("/srv/agent/.venv/bin/python", "ELF"),
            ("/srv/agent/.venv/pyvenv.cfg", "home = /opt/python/bin\nversion = 3.12.1\n"),
            ("/opt/python/bin/python3", "ELF"),
            ("/opt/python/lib/python3.12/os.py", ""),
        ],
        &["/opt/python"],
    ),
    // pyenv's shims start pyenv.
    (
        "pip list",
        &[
            ("/home/me/.pyenv/shims/pip", "#!/usr/bin/env bash\nexec \"/home/me/.pyenv/libexec/pyenv\" exec\n"),
            ("/home/me/.pyenv/libexec/pyenv", "#!/usr/bin/env bash\n"),
        ],
        &["/home/me/.pyenv"],
    ),
    // nvm.
    (
        "npx -y some-server",
        &[
            ("/home/me/.nvm/versions/node/v20/bin/node", "ELF"),
            ("/home/me/.nvm/versions/node/v20/bin/npx", "-> ../lib/node_modules/npm/bin/npx-cli.js"),
            ("/home/me/.nvm/versions/node/v20/lib/node_modules/npm/bin/npx-cli.js", "#!/usr/bin/env node\n"),
        ],
        &["/home/me/.nvm/versions/node/v20"],
    ),
    // A package that npm installed for the account: its link stays a link, since Node.js resolves it.
    (
        "server-files /srv/docs",
        &[
            ("/home/me/.local/bin/server-files", "-> ../lib/node_modules/@some/files/dist/index.js"),
            ("/home/me/.local/lib/node_modules/@some/files/dist/index.js", "#!/usr/bin/env node\n"),
            ("/srv/docs/a.txt", ""),
        ],
        &["/home/me/.local/lib/node_modules", "/srv/docs", "/home/me/.local/bin/server-files"],
    ),
    // uv: the program, and a tool with the Python that uv brought.
    ("uvx some-server", &[("/home/me/.local/bin/uvx", "ELF")], &["/home/me/.local/bin/uvx"]),
    (
        "serve",
        &[
            ("/home/me/.local/bin/serve", "-> /home/me/.local/share/uv/tools/x/bin/serve"),
            ("/home/me/.local/share/uv/tools/x/bin/serve", "#!/home/me/.local/share/uv/tools/x/bin/python\n"),
            ("/home/me/.local/share/uv/tools/x/bin/python", "-> /home/me/.local/share/uv/python/c-3.12/bin/python3.12"),
            ("/home/me/.local/share/uv/tools/x/pyvenv.cfg", "home = /home/me/.local/share/uv/python/c-3.12/bin\n"),
            ("/home/me/.local/share/uv/python/c-3.12", "-> c-3.12.16"),
            ("/home/me/.local/share/uv/python/c-3.12.16/bin/python3.12", "ELF"),
            ("/home/me/.local/share/uv/python/c-3.12.16/lib/python3.12/os.py", ""),
        ],
        &[
            "/home/me/.local/share/uv/python/c-3.12.16",
            "/home/me/.local/share/uv/tools/x",
            "/home/me/.local/bin/serve",
            "/home/me/.local/share/uv/python/c-3.12",
        ],
    ),
    // pipx; conda; Nix.
    (
        "serve",
        &[
            ("/home/me/.local/bin/serve", "-> /home/me/.local/share/pipx/venvs/x/bin/serve"),
            ("/home/me/.local/share/pipx/venvs/x/bin/serve", "#!/home/me/.local/share/pipx/venvs/x/bin/python\n"),
            ("/home/me/.local/share/pipx/venvs/x/bin/python", "-> /usr/bin/python3"),
            ("/home/me/.local/share/pipx/venvs/x/pyvenv.cfg", "home = /usr/bin\n"),
        ],
        &["/home/me/.local/share/pipx/venvs/x", "/home/me/.local/bin/serve"],
    ),
    (
        "/opt/conda/envs/a/bin/python agent.py",
        &[("/opt/conda/envs/a/bin/python", "ELF"), ("/opt/conda/envs/a/conda-meta/history", "")],
        &["/opt/conda/envs/a"],
    ),
    (
        "/home/me/.nix-profile/bin/python3",
        &[("/home/me/.nix-profile", "-> /nix/store/a-profile"), ("/nix/store/a-profile/bin/python3", "ELF")],
        &["/nix/store", "/home/me/.nix-profile"],
    ),
    // A script elsewhere: its package, the libraries above it; without a package its folder; in a wide folder itself.
    ("node /srv/app/dist/index.js", &[("/srv/app/dist/index.js", ""), ("/srv/app/package.json", "{}")], &["/srv/app"]),
    (
        "node /srv/all/one/index.js",
        &[("/srv/all/one/index.js", ""), ("/srv/all/one/package.json", ""), ("/srv/all/node_modules/x/a.js", "")],
        &["/srv/all/node_modules", "/srv/all/one"],
    ),
    ("python3 /srv/app/serve.py", &[("/srv/app/serve.py", "")], &["/srv/app"]),
    ("python3 /srv/serve.py", &[("/srv/serve.py", "")], &["/srv/serve.py"]),
    // What is shown to whoever installs it: whole paths. No other argument leads out of its folder.
    ("cat --config=/etc/shadow ../me/.ssh/id /home/me/.ssh/id", &[("/usr/bin/cat", "ELF")], &["/home/me/.ssh/id"]),
    // What is too wide, a device, or the node's own is granted by no argument.
    ("cat /home/me / /etc /dev/sda", &[("/usr/bin/cat", "ELF"), ("/dev/sda", "device")], &[]),
    ("cat /home/me/.local/share/althing/node/node.key", &[("/usr/bin/cat", "ELF")], &[]),
];

#[test]
fn a_program_is_granted_its_interpreter_and_what_its_command_names() {
    for (command, files, expected) in CASES {
        let reach = Asked::default().of(&tree(files), command).expect(command);
        assert_eq!(beyond(&reach), *expected, "{command}");
        assert_eq!(written(&reach), ["/srv/agent"], "{command}");
        assert!(reach.private.contains(&PathBuf::from(HOME)), "{command}");
    }
}

#[test]
fn a_folder_that_holds_what_belongs_to_many_is_not_granted_but_what_is_named_in_it() {
    let files = tree(&[("/home/me/agent.py", ""), ("/home/me/.local/share/agent.py", "")]);
    for folder in [HOME, "/home/me/.local/share"] {
        let reach = Asked { folder, cwd: folder, ..Asked::default() }.of(&files, "python3 agent.py").expect(folder);
        assert_eq!(written(&reach), [""; 0]);
        assert_eq!(beyond(&reach), [format!("{folder}/agent.py")]);
        // It can start there nevertheless, in an empty folder.
        assert!(reach.private.contains(&PathBuf::from(folder)), "{:?}", reach.private);
    }
}

#[test]
fn an_agent_that_was_installed_has_its_folder_within_the_nodes_data() {
    let folder = "/home/me/.local/share/althing/node/installed/a";
    let files = tree(&[("/home/me/.local/share/althing/node/installed/a/agent.py", "")]);
    let reach = Asked { folder, cwd: folder, ..Asked::default() }.of(&files, "python3 agent.py").expect("it is there");
    assert_eq!(reach.write, [PathBuf::from(folder), PathBuf::from(DATA).join("run/1")]);
    assert!(reach.hidden.contains(&PathBuf::from(DATA)));
    let outside = Asked { folder, cwd: DATA, ..Asked::default() }.of(&files, "python3 agent.py");
    assert_eq!(outside, Err(ContainmentError::NodesOwn { key: "cwd", path: PathBuf::from(DATA) }));
}

#[test]
fn a_folder_that_is_to_be_read_only_is_not_written() {
    let installed = "/home/me/.local/share/althing/node/installed/a";
    let files = tree(&[
        ("/srv/agent/agent.py", ""),
        ("/srv/agent/out/x", ""),
        ("/home/me/.local/share/althing/node/installed/a/agent.py", ""),
    ]);
    let sockets = PathBuf::from(DATA).join("run/1");
    for folder in ["/srv/agent", installed] {
        let sandbox = Sandbox { folder: OwnFolder::Read, ..Sandbox::default() };
        let reach =
            Asked { folder, cwd: folder, sandbox, ..Asked::default() }.of(&files, "python3 agent.py").expect(folder);
        assert_eq!(reach.write, [sockets.as_path()], "{folder}");
        assert!(reach.read.contains(&PathBuf::from(folder)), "{:?}", reach.read);
    }
    let sandbox = Sandbox { folder: OwnFolder::Read, write: vec!["out".into()], ..Sandbox::default() };
    let reach = Asked { sandbox, ..Asked::default() }.of(&files, "python3 agent.py").expect("it is there");
    assert_eq!(written(&reach), ["/srv/agent/out"]);
    // One that belongs to many is not granted either way.
    let sandbox = Sandbox { folder: OwnFolder::Read, ..Sandbox::default() };
    let reach =
        Asked { folder: HOME, cwd: HOME, sandbox, ..Asked::default() }.of(&files, "python3").expect("it is there");
    assert!(!reach.read.contains(&PathBuf::from(HOME)), "{:?}", reach.read);
}

#[test]
fn what_the_program_may_write_decides_nothing() {
    // It laid links, a first line and settings, and is started again.
    let files = tree(&[
        ("/srv/agent/agent.py", "-> /home/me/.ssh/id"),
        ("/srv/agent/keys", "-> /home/me/.ssh"),
        ("/srv/agent/run", "#!/home/me/other/bin/tool\n"),
        ("/srv/agent/.venv/bin/python", "-> /home/me/other/bin/tool"),
        ("/srv/agent/.venv/pyvenv.cfg", "home = /home/me/other/bin\n"),
        ("/srv/agent/node_modules", "-> /home/me/other"),
        ("/srv/agent/agent.js", ""),
        ("/home/me/other/bin/tool", "ELF"),
        ("/home/me/other/lib/secret", ""),
    ]);
    for command in ["python3 agent.py", "cat keys", "./run", ".venv/bin/python", "node agent.js"] {
        let files = Tree(files.0.clone().into_iter().chain(tree(&[("/usr/bin/cat", "ELF")]).0).collect());
        let reach = Asked::default().of(&files, command).expect(command);
        assert_eq!(beyond(&reach), [""; 0], "{command}");
    }
    let stated = Asked { sandbox: Sandbox { read: vec!["keys".into()], ..Sandbox::default() }, ..Asked::default() };
    let (key, path, link) = ("read", PathBuf::from("/srv/agent/keys"), PathBuf::from("/srv/agent/keys"));
    assert_eq!(stated.of(&files, "python3"), Err(ContainmentError::OwnLink { key, path, link }));
    let cwd = Asked { cwd: "/srv/agent/keys", ..Asked::default() }.of(&files, "python3").expect("it starts there");
    assert_eq!(beyond(&cwd), [""; 0]);
}

#[test]
fn the_file_grants_more_but_never_the_nodes_own() {
    let files = tree(&[("/home/me/models/a", ""), ("/srv/maps/a", ""), ("/home/me/.npm/a", "")]);
    let grants = |read: &[&str], write: &[&str]| {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let sandbox = Sandbox { read: paths(read), write: paths(write), ..Sandbox::default() };
        Asked { sandbox, ..Asked::default() }.of(&files, "python3 agent.py")
    };
    let reach = grants(&["~/models", "../maps"], &["~/.npm"]).expect("all are there");
    assert_eq!(beyond(&reach), ["/home/me/models", "/srv/maps"]);
    assert_eq!(written(&reach), ["/home/me/.npm", "/srv/agent"]);
    // The whole home: not empty then, and the node's own stays hidden.
    let reach = grants(&["~"], &[]).expect("it is there");
    assert_eq!(beyond(&reach), [HOME]);
    assert!(!reach.private.contains(&PathBuf::from(HOME)));
    assert_eq!(reach.hidden, [PathBuf::from("/home/me/.config/althing"), PathBuf::from(DATA)]);
    let missing = ContainmentError::NotThere { key: "write", path: PathBuf::from("/home/me/.cache/uv") };
    assert_eq!(grants(&[], &["~/.cache/uv"]), Err(missing));
    let own = ContainmentError::NodesOwn { key: "sandbox: read", path: PathBuf::from(DATA).join("node.key") };
    assert_eq!(grants(&["~/.local/share/althing/node/node.key"], &[]), Err(own));
}

/// A command, paths that its file has it read and write, and the sockets in what it may read that are kept from it.
type SocketCase = (&'static str, &'static [&'static str], &'static [&'static str], &'static [&'static str]);

#[test]
fn sockets_in_what_may_be_read_are_kept_from_a_program() {
    let files = tree(&[
        ("/srv/app/serve.py", ""),
        ("/srv/app/run/app.sock", "socket"),
        ("/srv/app/run/other.sock", "socket"),
        ("/srv/agent/own.sock", "socket"),
        ("/home/me/.gnupg/S.gpg-agent", "socket"),
        ("/home/me/.config/althing/control.sock", "socket"),
        ("/usr/lib/x.sock", "socket"),
        ("/var/lib/db/db.sock", "socket"),
    ]);
    let cases: &[SocketCase] = &[
        ("python3 agent.py", &[], &[], &[]),
        // What its arguments name grants the folder.
        ("python3 /srv/app/serve.py", &[], &[], &["/srv/app/run/app.sock", "/srv/app/run/other.sock"]),
        ("python3 agent.py", &["/srv/app"], &["/srv/app/run/app.sock"], &["/srv/app/run/other.sock"]),
        ("python3 agent.py", &["/srv/app"], &["/srv/app/run"], &[]),
        // What is the node's own is hidden with its folder.
        ("python3 agent.py", &["~"], &[], &["/home/me/.gnupg/S.gpg-agent"]),
        ("python3 agent.py", &["/var"], &[], &["/var/lib/db/db.sock"]),
        // An argument that is a socket grants nothing.
        ("python3 agent.py /var/lib/db/db.sock", &[], &[], &[]),
    ];
    for (command, read, write, expected) in cases {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let sandbox = Sandbox { read: paths(read), write: paths(write), ..Sandbox::default() };
        let reach = Asked { sandbox, ..Asked::default() }.of(&files, command).expect(command);
        assert_eq!(reach.sockets, paths(expected), "{command} {read:?} {write:?}");
        assert!(!reach.read.iter().any(|path| path.ends_with("db.sock")), "{command}");
    }
}

#[test]
fn a_socket_and_the_folders_of_services_are_not_read() {
    let files = tree(&[
        ("/run/docker.sock", "socket"),
        ("/run/user/1000/bus", "socket"),
        ("/run/app/state", ""),
        ("/var/run", "-> /run"),
        ("/home/me/agent.sock", "socket"),
    ]);
    let asked = |read: &[&str], write: &[&str]| {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let sandbox = Sandbox { read: paths(read), write: paths(write), ..Sandbox::default() };
        Asked { sandbox, ..Asked::default() }.of(&files, "python3 agent.py")
    };
    let (docker, agent) = ("/run/docker.sock", "/home/me/agent.sock");
    for (socket, end) in [(docker, docker), ("/var/run/docker.sock", docker), (agent, agent)] {
        assert_eq!(asked(&[socket], &[]), Err(ContainmentError::Socket(socket.into())));
        assert!(asked(&[], &[socket]).expect(socket).write.contains(&PathBuf::from(end)), "{socket}");
    }
    for folder in ["/run", "/var/run", "/run/user", "/run/user/1000"] {
        let services = |key| Err(ContainmentError::Services { key, path: folder.into() });
        assert_eq!((asked(&[folder], &[]), asked(&[], &[folder])), (services("read"), services("write")));
    }
    assert_eq!(beyond(&asked(&["/run/app"], &[]).expect("it is there")), ["/run/app"]);
    // An argument that names such a folder grants nothing of it.
    for command in ["python3 agent.py /run/user/1000", "python3 agent.py /run/user"] {
        let reach = Asked::default().of(&files, command).expect("it is there");
        assert_eq!(beyond(&reach), [""; 0], "{command}");
    }
    // A variable that names code names no socket.
    let variables = [("PYTHONPATH", docker), ("SSL_CERT_FILE", docker)];
    let reach =
        Asked { variables: &variables, ..Asked::default() }.of(&files, "python3 agent.py").expect("it is there");
    assert_eq!(beyond(&reach), [""; 0]);
}

#[test]
fn folders_of_code_and_certificates_in_the_environment_are_granted() {
    let files = tree(&[("/srv/lib/a.py", ""), ("/srv/ca.pem", ""), ("/srv/agent/own/a.py", "")]);
    let variables = [("PYTHONPATH", "own:/srv/lib:/home:"), ("SSL_CERT_FILE", "/srv/ca.pem"), ("HOME", "/srv/agent")];
    let reach = Asked { variables: &variables, ..Asked::default() }.of(&files, "python3 -m a").expect("it is there");
    assert_eq!(beyond(&reach), ["/srv/ca.pem", "/srv/lib"]);
    // The home that its file gives it is its folder, and the account's is empty.
    assert_eq!(written(&reach), ["/srv/agent"]);
    assert!(reach.private.contains(&PathBuf::from(HOME)) && !reach.private.contains(&PathBuf::from("/srv/agent")));
}

#[test]
fn links_above_a_folder_are_made_again() {
    let files = tree(&[("/agents", "-> /srv/all"), ("/srv/all/one/agent.py", "")]);
    let asked = Asked { folder: "/agents/one", cwd: "/agents/one", ..Asked::default() };
    let reach = asked.of(&files, "python3 agent.py").expect("it is there");
    assert_eq!(written(&reach), ["/srv/all/one"]);
    assert_eq!(beyond(&reach), ["/agents"]);
}

#[test]
fn what_cannot_be_started_says_why() {
    let files = tree(&[
        ("/srv/agent/lost", "#!/usr/bin/env nonesuch\n"),
        ("/srv/agent/round", "#!/srv/agent/round\n"),
        ("/snap/bin/tool", "-> /usr/bin/snap"),
        ("/usr/bin/snap", "ELF"),
    ]);
    let refused = |command: &str| Asked::default().of(&files, command).expect_err(command);
    assert_eq!(refused(""), ContainmentError::NoCommand);
    assert_eq!(refused("nonesuch"), ContainmentError::NoProgram { name: "nonesuch".into(), looked: PATH.into() });
    assert_eq!(refused("./x"), ContainmentError::NoProgram { name: "./x".into(), looked: "/srv/agent".into() });
    let (script, interpreter) = (PathBuf::from("/srv/agent/lost"), "nonesuch".to_owned());
    assert_eq!(refused("./lost"), ContainmentError::NoInterpreter { script, interpreter });
    assert_eq!(refused("./round"), ContainmentError::Scripts("/srv/agent/round".into()));
    assert_eq!(refused("/snap/bin/tool"), ContainmentError::Snap { name: "/snap/bin/tool".into() });
    let nowhere = Asked { cwd: "/srv/nowhere", ..Asked::default() }.of(&files, "python3");
    assert_eq!(nowhere, Err(ContainmentError::NoFolder("/srv/nowhere".into())));
}

#[test]
fn interpreters_are_read_from_first_lines() {
    let cases: [(&str, &[&str]); 8] = [
        ("#!/usr/bin/python3\n", &["/usr/bin/python3"]),
        ("#! /usr/bin/python3 -I\n", &["/usr/bin/python3"]),
        ("#!/usr/bin/env node\r\n", &["/usr/bin/env", "node"]),
        ("#!/usr/bin/env -S A=1 uv run --script\n", &["/usr/bin/env", "uv"]),
        ("#!/bin/sh\n'''exec' \"/a b/python\" \"$0\" \"$@\"\n", &["/bin/sh", "/a b/python"]),
        ("#!/bin/sh\n'''exec' /a/python \"$0\" \"$@\"\n", &["/bin/sh", "/a/python"]),
        ("#!/bin/sh\necho\n", &["/bin/sh"]),
        ("\u{7f}ELF", &[]),
    ];
    for (head, expected) in cases {
        assert_eq!(interpreters(head.as_bytes()), expected, "{head}");
    }
}

#[test]
fn a_way_has_an_end_even_where_links_have_none() {
    let files = tree(&[("/a/round", "-> round"), ("/a/up", "-> ../b/./c"), ("/b/c", "-> /a"), ("/a/gone", "-> /x/y")]);
    let way = |path: &str| Way::of(&files, Path::new(path));
    assert_eq!(way("/a/round").kind, Kind::Missing);
    assert_eq!(way("/a/up/up/../up").end, PathBuf::from("/up"));
    let up = Way { links: vec!["/a/up".into(), "/b/c".into()], end: "/a".into(), kind: Kind::Folder };
    assert_eq!(way("/a/up"), up);
    let gone = way("/a/gone");
    assert_eq!((gone.end, gone.kind), (PathBuf::from("/x/y"), Kind::Missing));
}

#[test]
fn what_a_program_must_reach_is_its_own_and_not_what_every_program_has() {
    let tree = tree(&[
        ("/srv/agent/agent.py", ""),
        ("/srv/maps/a.db", ""),
        ("/srv/out/x", ""),
        ("/opt/python/bin/python3", "ELF"),
        ("/opt/python/lib/python3.12/os.py", ""),
    ]);
    let sandbox = Sandbox { read: vec!["/srv/maps".into()], write: vec!["/srv/out".into()], ..Sandbox::default() };
    let asked = Asked { sandbox, ..Asked::default() };
    let reach = asked.of(&tree, "/opt/python/bin/python3 agent.py").expect("all is there");
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    assert_eq!(reach.needed, paths(&["/opt/python", "/srv/agent", "/srv/maps", "/srv/out"]));
    assert_eq!(reach.stated, paths(&["/srv/out"]));
}

#[test]
fn what_the_node_reads_of_agents_is_only_read_where_a_program_may_write() {
    let tree = tree(&[
        ("/srv/agent/link.yaml", "-> agent.yaml"),
        ("/srv/agent/parts/more.yaml", ""),
        ("/srv/out/other.yaml", ""),
        ("/srv/maps/map.yaml", ""),
    ]);
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let files = paths(&[
        "/srv/agent/link.yaml",
        "/srv/agent/agent.yaml",
        "/srv/agent/parts",
        "/srv/agent/parts/more.yaml",
        "/srv/agent/gone.yaml",
        "/srv/out/other.yaml",
        "/srv/maps/map.yaml",
        "/srv/elsewhere.yaml",
        "/home/me/.config/althing/owner.key",
    ]);
    let of = |write: &[&str], folder: OwnFolder| {
        let sandbox = Sandbox { folder, read: paths(&["/srv/maps"]), write: paths(write), ..Sandbox::default() };
        let reach = Asked { sandbox, ..Asked::default() }.of(&tree, "python3").expect("all is there");
        fixed(&tree, &reach, &files)
    };
    // Each once, by the path without links; what else it only reads it does already.
    let own = ["/srv/agent/agent.yaml", "/srv/agent/parts/more.yaml"];
    assert_eq!(of(&[], OwnFolder::Write), paths(&own));
    assert_eq!(of(&["/srv/out"], OwnFolder::Write), paths(&[own[0], own[1], "/srv/out/other.yaml"]));
    assert_eq!(of(&[], OwnFolder::Read), paths(&[]));
    assert_eq!(of(&["/srv/agent/agent.yaml"], OwnFolder::Write), paths(&[own[1]]), "its owner says so");
}

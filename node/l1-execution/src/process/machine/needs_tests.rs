//! Tables of what programs are refused, with what is asked for therefore.

use althing_keeper::Access;

use super::super::tests::{Tree, tree};
use super::*;

const HOME: &str = "/home/me";
const DATA: &str = "/home/me/.local/share/althing/node";

fn machine() -> Tree {
    tree(&[
        ("/home/me/.npm/_cacache/index/ab", ""),
        ("/home/me/.npm/_logs/a.log", ""),
        ("/home/me/.cache/uv/.lock", ""),
        ("/home/me/.cache/tool/index", ""),
        ("/home/me/.cache/huggingface/hub/models--a/blobs/1", ""),
        ("/home/me/.local/share/althing/other/node.key", ""),
        ("/home/me/.local/bin/tool", ""),
        ("/home/me/.aws/credentials", ""),
        ("/home/me/.npmrc", ""),
        ("/home/me/.gitconfig", ""),
        ("/home/me/.bashrc", ""),
        ("/home/me/notes/a.md", ""),
        ("/home/you/a", ""),
        ("/srv/a b", ""),
        ("/srv/maps/a.db", ""),
        ("/srv/maps/b.db", ""),
        ("/srv/1", ""),
        ("/etc/app.conf", ""),
        ("/run/docker.sock", "socket"),
        ("/run/user/1000/bus", "socket"),
        ("/srv/app/app.sock", "socket"),
    ])
}

/// Of a program with these arguments.
fn around(arguments: &[&str]) -> Surroundings {
    let command: Vec<String> = ["server"].iter().chain(arguments).map(|word| (*word).to_owned()).collect();
    let hidden = [DATA, "/home/me/.local/share/althing", "/home/me/.config/althing"].map(PathBuf::from);
    Surroundings::of(Some(PathBuf::from(HOME)), &hidden, &command, &BTreeMap::new())
}

fn refusal(lack: Lack, path: &str) -> Refusal {
    Refusal { access: Access::Read, path: path.to_owned(), lack }
}

fn read(path: &str) -> Refusal {
    refusal(Lack::Read, path)
}

fn write(path: &str) -> Refusal {
    Refusal { access: Access::Write, ..refusal(Lack::Write, path) }
}

fn connect(lack: Lack, path: &str) -> Refusal {
    Refusal { access: Access::Connect, ..refusal(lack, path) }
}

/// The block of all refusals together, where the command line names the maps and the notes.
fn block(refused: &[Refusal]) -> String {
    needs(refused, &machine(), &around(&["/srv/maps", "--notes=/home/me/notes", "/srv/a b"])).1.to_string()
}

/// Why nothing grants it.
fn why(refusal: Refusal) -> String {
    let (advice, all) = needs(std::slice::from_ref(&refusal), &machine(), &around(&[]));
    assert!(all.is_empty(), "{refusal}: {all}");
    assert_eq!(advice[0].block(), None, "{refusal}");
    let words = advice[0].words();
    assert!(words.starts_with(&refusal.to_string()), "{words}");
    advice[0].remedy.clone().expect_err("nothing grants it")
}

#[test]
fn several_refusals_make_one_block() {
    let host = connect(Lack::Host("api.example.org".to_owned()), "api.example.org:443");
    let six = connect(Lack::Host("[2001:db8::7]:8443".to_owned()), "[2001:db8::7]:8443");
    for (refused, expected) in [
        (vec![read("/srv/maps/a.db")], "sandbox: { read: [/srv/maps] }"),
        (
            vec![host, read("/srv/maps/a.db"), read("/home/me/notes/a.md"), six],
            "sandbox: { read: [~/notes, /srv/maps], egress: [\"[2001:db8::7]:8443\", api.example.org] }",
        ),
        (vec![read("/srv/a b")], "sandbox: { read: [\"/srv/a b\"] }"),
        // Each once, and nothing that is written.
        (
            vec![read("/srv/maps/a.db"), write("/srv/maps/a.db"), read("/srv/maps/b.db")],
            "sandbox: { read: [/srv/maps] }",
        ),
        (
            vec![read("/home/me/.cache/huggingface/hub/models--a/blobs/1"), read("/srv/1")],
            "sandbox: { read: [~/.cache/huggingface/hub/models--a] }",
        ),
    ] {
        assert_eq!(block(&refused), expected);
    }
}

#[test]
fn nothing_is_offered_of_what_other_programs_run() {
    let npm = [read("/home/me/.npm/_cacache/index/ab"), write("/home/me/.npm/_logs/a.log"), write("/home/me/.npm")];
    let uv = [write("/home/me/.cache/uv/.lock"), read("/home/me/.cache/uv/gone"), read("/home/me/.cache/tool/index")];
    let host = connect(Lack::Host("registry.npmjs.org".to_owned()), "registry.npmjs.org:443");
    let refused = [npm.as_slice(), &uv, std::slice::from_ref(&host)].concat();
    let (advice, all) = needs(&refused, &machine(), &around(&["-y", "some-server"]));
    assert_eq!(all.to_string(), "sandbox: { egress: [registry.npmjs.org] }");
    // Each cache is told once.
    let told: Vec<&str> = advice.iter().map(|advice| advice.refusal.path.as_str()).collect();
    let caches = ["/home/me/.npm/_cacache/index/ab", "/home/me/.cache/uv/.lock", "/home/me/.cache/tool/index"];
    assert_eq!(told, [caches[0], caches[1], caches[2], "registry.npmjs.org:443"]);
    for advice in &advice[..3] {
        let why = advice.remedy.as_ref().expect_err("nothing grants it");
        assert!(why.contains("empty one of its own") && why.contains("npm_config_cache=FOLDER"), "{why}");
    }
    for path in ["/home/me/.local/bin/tool", "/home/me/notes/a.md", "/srv/maps/a.db", "/srv/maps", "/srv/1"] {
        let why = why(write(path));
        assert!(why.contains("--write PATH"), "{path}: {why}");
    }
    let named = needs(&[write("/srv/maps/a.db")], &machine(), &around(&["/srv/maps", "/srv/maps/a.db"])).1;
    assert!(named.is_empty(), "also where the command line names it: {named}");
}

#[test]
fn what_is_too_wide_or_not_its_own_is_never_asked_for() {
    let others = ["/etc", "/srv", "/tmp", "/run", "/run/user", "/run/user/1000", "/home", "/home/you"];
    for folder in ["/", HOME, "/home/me/.cache", "/home/me/.local/share"].into_iter().chain(others) {
        for refused in [read(folder), write(folder)] {
            let why = why(refused);
            assert!(why.contains("cannot be granted") || why.contains("not granted"), "{folder}: {why}");
        }
    }
    for (refused, part) in [
        (read("/home/me/.local/share/althing/node/node.key"), "node's own"),
        (read("/home/me/.local/share/althing/other/node.key"), "node's own"),
        (write("/home/me/.config/althing"), "node's own"),
        (refusal(Lack::NodesOwn, "/elsewhere/node.key"), "node's own"),
        (write("/etc/app.conf"), "--write PATH"),
        (write("/usr/lib/python3.11/os.py"), "--write PATH"),
        (read("/etc/shadow"), "--read PATH"),
        (read("/home/me/.aws/credentials"), "--read PATH"),
        (read("/home/me/.ssh/id"), "--read PATH"),
        (read("/home/me/.npmrc"), "--read PATH"),
        (write("/home/me/.bashrc"), "--write PATH"),
        (write("/home/me/.gitconfig"), "--write PATH"),
        (write("/home/me/.local/bin"), "--write PATH"),
        (read("/srv/maps/a.db"), "neither the command line names it"),
        (connect(Lack::Write, "/run/docker.sock"), "it is a socket"),
        (read("/srv/app/app.sock"), "it is a socket"),
        (connect(Lack::Write, "/srv/app/app.sock"), "it is a socket"),
        (connect(Lack::Write, "/run/user/1000/bus"), "it is a socket"),
        (read("/dev/sda"), "a device"),
        (read("/srv/gone"), "--read PATH"),
        (read("/srv/../etc/app.conf"), "cannot name"),
        (read("srv"), "cannot name"),
        (read("/srv/a\nb"), "cannot name"),
        (read("/srv/\u{202e}b"), "cannot name"),
        (read("/srv/\u{fffd}"), "cannot name"),
        (read(&format!("/{}", "x".repeat(PATH_BYTES_MAX))), "cannot name"),
        (connect(Lack::Host("Example.org/".to_owned()), "x"), "cannot name"),
        (connect(Lack::Answer("it does not answer".to_owned()), "a.b:443"), "it failed: it does not answer"),
        (connect(Lack::Service("127.0.0.1:5432".to_owned()), "127.0.0.1:5432"), "variable: NAME"),
        (connect(Lack::Proxy, "192.0.2.1:443"), "it connects by itself"),
        (connect(Lack::Proxy, "192.0.2.1:53"), "it looks names up by itself"),
        (connect(Lack::Proxy, "[2001:db8::1]:53"), "HTTPS_PROXY"),
        (connect(Lack::Proxy, "192.0.2.1:5353"), "it connects by itself"),
    ] {
        let said = why(refused);
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn advice_stands_beside_each_refusal_and_all_of_it_together() {
    let refused = [read("/srv/maps/a.db"), write("/etc"), read("/srv/maps/b.db")];
    let (advice, all) = needs(&refused, &machine(), &around(&["/srv/maps/a.db", "--more=/srv/maps/b.db"]));
    assert_eq!(all.to_string(), "sandbox: { read: [/srv/maps/a.db, /srv/maps/b.db] }");
    assert_eq!(all.words(), ["reads /srv/maps/a.db, /srv/maps/b.db"]);
    let words: Vec<String> = advice.iter().map(Advice::words).collect();
    assert_eq!((words[0].as_str(), words[2].as_str()), ("read /srv/maps/a.db", "read /srv/maps/b.db"));
    assert!(words[1].starts_with("write /etc (it holds what belongs to many"), "{}", words[1]);
    assert_eq!(advice[2].block().as_deref(), Some("sandbox: { read: [/srv/maps/b.db] }"));
    assert_eq!(advice[0].to_string(), "read /srv/maps/a.db (sandbox: { read: [/srv/maps/a.db] })");
    assert_eq!(needs(&[], &machine(), &around(&[])), (Vec::new(), Needs::default()));
}

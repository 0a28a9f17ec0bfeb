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
        ("/home/me/.cache/single", ""),
        ("/home/me/.local/share/uv/python/bin/python3", ""),
        ("/home/me/.local/share/app/db", ""),
        ("/home/me/.local/share/althing/other/node.key", ""),
        ("/home/me/.local/bin/tool", ""),
        ("/home/me/.aws/credentials", ""),
        ("/home/me/.npmrc", ""),
        ("/home/me/.gitconfig", ""),
        ("/home/me/.bashrc", ""),
        ("/home/me/notes/a.md", ""),
        ("/home/me/notes/b.md", ""),
        ("/home/me/notes/c.md", ""),
        ("/home/me/notes/d.md", ""),
        ("/home/you/a", ""),
        ("/srv/a b", ""),
        ("/srv/maps/a.db", ""),
        ("/srv/maps/b.db", ""),
        ("/srv/1", ""),
        ("/srv/2", ""),
        ("/srv/3", ""),
        ("/srv/4", ""),
        ("/srv/cache/pip/wheels/x", ""),
        ("/etc/app.conf", ""),
        ("/run/docker.sock", "socket"),
        ("/run/user/1000/bus", "socket"),
        ("/srv/app/app.sock", "socket"),
    ])
}

fn around(variables: &[(&str, &str)]) -> Surroundings {
    let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let hidden = [DATA, "/home/me/.local/share/althing", "/home/me/.config/althing"].map(PathBuf::from);
    Surroundings::of(Some(PathBuf::from(HOME)), &hidden, &environment)
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

/// The block of all refusals together.
fn block(refused: &[Refusal]) -> String {
    needs(refused, &machine(), &around(&[])).1.to_string()
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
        (vec![read("/srv/maps/a.db")], "sandbox: { read: [/srv/maps/a.db] }"),
        (
            vec![host, read("/srv/maps/a.db"), write("/home/me/notes/a.md"), six],
            "sandbox: { read: [/srv/maps/a.db], write: [~/notes/a.md], egress: [\"[2001:db8::7]:8443\", api.example.org] }",
        ),
        (vec![read("/srv/a b")], "sandbox: { read: [\"/srv/a b\"] }"),
        // Each once, and what may be written may be read.
        (
            vec![read("/srv/maps/a.db"), write("/srv/maps/a.db"), read("/srv/maps/a.db")],
            "sandbox: { write: [/srv/maps/a.db] }",
        ),
        (vec![read("/srv/maps/a.db"), write("/srv/maps")], "sandbox: { write: [/srv/maps] }"),
        (vec![read("/srv/maps"), write("/srv/maps/a.db")], "sandbox: { read: [/srv/maps], write: [/srv/maps/a.db] }"),
        (
            vec![read("/etc/app.conf"), read("/home/me/.local/bin/tool")],
            "sandbox: { read: [/etc/app.conf, ~/.local/bin/tool] }",
        ),
        (vec![read("/home/me/.gitconfig")], "sandbox: { read: [~/.gitconfig] }"),
        // Many files of one folder are that folder, unless that is many people's.
        (
            ["a", "b", "c", "d"].map(|name| read(&format!("/home/me/notes/{name}.md"))).into(),
            "sandbox: { read: [~/notes] }",
        ),
        (
            ["1", "2", "3", "4"].map(|name| read(&format!("/srv/{name}"))).into(),
            "sandbox: { read: [/srv/1, /srv/2, /srv/3, /srv/4] }",
        ),
    ] {
        assert_eq!(block(&refused), expected);
    }
}

#[test]
fn what_lies_in_a_cache_is_asked_for_as_that_cache() {
    for (refused, expected) in [
        (
            vec![read("/home/me/.npm/_cacache/index/ab"), write("/home/me/.npm/_logs/a.log")],
            "sandbox: { write: [~/.npm] }",
        ),
        (vec![read("/home/me/.npm/_cacache/index/ab")], "sandbox: { read: [~/.npm] }"),
        // What is gone by now was made by the cache itself.
        (vec![write("/home/me/.cache/uv/.lock"), read("/home/me/.cache/uv/gone")], "sandbox: { write: [~/.cache/uv] }"),
        (vec![read("/home/me/.cache/tool/index")], "sandbox: { read: [~/.cache/tool] }"),
        (vec![read("/home/me/.cache/single")], "sandbox: { read: [~/.cache/single] }"),
        // Others run what lies there: it is no cache.
        (
            vec![read("/home/me/.local/share/uv/python/bin/python3")],
            "sandbox: { read: [~/.local/share/uv/python/bin/python3] }",
        ),
        (vec![read("/home/me/.local/share/app/db")], "sandbox: { read: [~/.local/share/app/db] }"),
    ] {
        assert_eq!(block(&refused), expected);
    }
    let of = |variables: &[(&str, &str)]| {
        needs(&[read("/srv/cache/pip/wheels/x")], &machine(), &around(variables)).1.to_string()
    };
    assert_eq!(of(&[]), "sandbox: { read: [/srv/cache/pip/wheels/x] }");
    assert_eq!(of(&[("XDG_CACHE_HOME", "/srv/cache")]), "sandbox: { read: [/srv/cache/pip] }");
    assert_eq!(of(&[("PIP_CACHE_DIR", "/srv/cache")]), "sandbox: { read: [/srv/cache] }");
    for wide in [("PIP_CACHE_DIR", "/"), ("PIP_CACHE_DIR", "/srv"), ("XDG_CACHE_HOME", "/"), ("UV_CACHE_DIR", "cache")]
    {
        assert_eq!(of(&[wide]), "sandbox: { read: [/srv/cache/pip/wheels/x] }", "{wide:?}");
    }
}

#[test]
fn what_is_too_wide_or_not_its_own_is_never_asked_for() {
    let others = ["/etc", "/srv", "/tmp", "/run", "/run/user", "/run/user/1000", "/home", "/home/you"];
    for folder in ["/", HOME, "/home/me/.cache", "/home/me/.local/share"].into_iter().chain(others) {
        for refused in [read(folder), write(folder)] {
            let why = why(refused);
            assert!(
                why.contains("cannot be granted") || why.contains("not granted") || why.contains("system's"),
                "{folder}: {why}"
            );
        }
    }
    for (refused, part) in [
        (read("/home/me/.local/share/althing/node/node.key"), "node's own"),
        (read("/home/me/.local/share/althing/other/node.key"), "node's own"),
        (write("/home/me/.config/althing"), "node's own"),
        (refusal(Lack::NodesOwn, "/elsewhere/node.key"), "node's own"),
        (write("/etc/app.conf"), "the system's"),
        (write("/usr/lib/python3.11/os.py"), "the system's"),
        (read("/etc/shadow"), "opens more"),
        (read("/home/me/.aws/credentials"), "opens more"),
        (read("/home/me/.ssh/id"), "opens more"),
        (read("/home/me/.npmrc"), "opens more"),
        (write("/home/me/.bashrc"), "opens more"),
        (write("/home/me/.gitconfig"), "opens more"),
        (write("/home/me/.local/bin"), "opens more"),
        (connect(Lack::Write, "/run/docker.sock"), "opens more"),
        (read("/srv/app/app.sock"), "it is a socket"),
        (connect(Lack::Write, "/srv/app/app.sock"), "it is a socket"),
        (connect(Lack::Write, "/run/user/1000/bus"), "it is a socket"),
        (read("/dev/sda"), "a device"),
        (read("/srv/gone"), "not there"),
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
    let (advice, all) = needs(&refused, &machine(), &around(&[]));
    assert_eq!(all.to_string(), "sandbox: { read: [/srv/maps/a.db, /srv/maps/b.db] }");
    assert_eq!(all.words(), ["reads /srv/maps/a.db, /srv/maps/b.db"]);
    let words: Vec<String> = advice.iter().map(Advice::words).collect();
    assert_eq!((words[0].as_str(), words[2].as_str()), ("read /srv/maps/a.db", "read /srv/maps/b.db"));
    assert!(words[1].starts_with("write /etc (it holds what belongs to many"), "{}", words[1]);
    assert_eq!(advice[2].block().as_deref(), Some("sandbox: { read: [/srv/maps/b.db] }"));
    assert_eq!(advice[0].to_string(), "read /srv/maps/a.db (sandbox: { read: [/srv/maps/a.db] })");
    assert_eq!(needs(&[], &machine(), &around(&[])), (Vec::new(), Needs::default()));
}

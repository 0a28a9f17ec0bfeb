use clap::Parser as _;
use serde_json::json;

use super::*;
use crate::args::{Args, Command};

fn adopt(words: &[&str]) -> Adopt {
    let args = Args::try_parse_from([&["althing", "adopt"], words].concat()).expect("words");
    let Command::Adopt(adopt) = args.command else { panic!("adopt") };
    adopt
}

fn rounds(consent: Consent) -> Rounds {
    Rounds { consent, granted: Vec::new() }
}

fn lacking(path: &str, answers: bool) -> Value {
    let mut answer = json!({ "needs": {
        "sandbox": { "read": [path] },
        "block": format!("sandbox: {{ read: [{path}] }}"),
        "words": [format!("reads {path}")],
        "refused": [format!("read {path}")],
    } });
    if !answers {
        answer["unanswered"] = "its program ended".into();
    }
    answer
}

fn command(sandbox: &Sandbox) -> String {
    format!("althing adopt{} server", options(sandbox))
}

fn read(path: &str) -> Next {
    Next::Again(Box::new(Sandbox { read: vec![path.into()], ..Sandbox::default() }))
}

#[test]
fn without_anybody_to_ask_the_whole_command_line_is_told() {
    let failure = rounds(Consent::Absent).after(&lacking("/srv/a b", false), command).expect_err("nobody agrees");
    assert_eq!(failure.code, code::REFUSED);
    for part in [
        "its program ended",
        "needs    reads /srv/a b",
        "    althing adopt --read '/srv/a b' server\n",
        "--grant-needs",
    ] {
        assert!(failure.message.contains(part), "{part}: {}", failure.message);
    }
    assert_eq!(failure.offer.expect("scripts are given it")["needs"]["sandbox"]["read"][0], "/srv/a b");
    // One that answers needs nothing to start.
    assert_eq!(rounds(Consent::Absent).after(&lacking("/a", true), command).expect("it answers"), Next::Done);
    let fine = json!({ "kind": "MCP server" });
    assert_eq!(rounds(Consent::Absent).after(&fine, command).expect("nothing is lacking"), Next::Done);
}

#[test]
fn what_was_agreed_to_beforehand_is_granted_in_at_most_eight_rounds() {
    let mut rounds = rounds(Consent::Given);
    for n in 0..ROUNDS_MAX {
        let path = format!("/{n}");
        assert_eq!(rounds.after(&lacking(&path, n % 2 == 0), command).expect("it is granted"), read(&path));
    }
    let failure = rounds.after(&lacking("/more", false), command).expect_err("there is no end");
    assert!(failure.message.contains("after 8 rounds") && failure.message.contains("[/7]"), "{}", failure.message);
    let failure = rounds.failed(Failure::failed("it ended"));
    assert!(failure.message.ends_with("no more is found that could be granted: it ended"), "{}", failure.message);
    let mut answer = json!({});
    rounds.note(&mut answer);
    assert_eq!(answer["granted"].as_array().map(Vec::len), Some(ROUNDS_MAX));
    // One that answers is adopted then, with what it has.
    let mut answering = Rounds { granted: vec![String::new(); ROUNDS_MAX], ..self::rounds(Consent::Given) };
    assert_eq!(answering.after(&lacking("/more", true), command).expect("it answers"), Next::AsItIs);
    assert_eq!(answering.offers(), Offers::Never);
}

#[test]
fn who_decides_is_by_the_options() {
    let of = |words: &[&str]| Rounds::new(&adopt(words), &Out { json: true }).offers();
    assert_eq!(of(&["server"]), Offers::Unanswered);
    assert_eq!(of(&["--grant-needs", "server"]), Offers::Always);
    assert_eq!(of(&["--grant-needs", "--dry-run", "server"]), Offers::Always);
    assert_eq!(of(&["--yes", "server"]), Offers::Never);
    let both = Args::try_parse_from(["althing", "adopt", "--yes", "--grant-needs", "server"]);
    assert!(both.is_err(), "one of them is meant");
}

#[test]
fn a_command_line_is_written_so_that_a_shell_reads_it_and_without_values() {
    let sandbox: Sandbox = serde_json::from_value(json!({
        "required": true, "read": ["~/a b", "/srv/it's"], "write": ["~/.npm"], "egress": ["a.b:8443", "*.c.d"],
    }))
    .expect("a sandbox");
    let words = ["--as", "x", "--callers", "own", "--env", "KEY", "--env", "MODE=hush", "--", "npx", "--all", "a b"];
    assert_eq!(
        command_line(" --name p1", &adopt(&words), &sandbox),
        "althing --name p1 adopt --as x --callers own --env KEY --env MODE=… --sandbox required --read '~/a b' \
         --read '/srv/it'\\''s' --write ~/.npm --reach a.b:8443 --reach '*.c.d' -- npx --all 'a b'"
    );
    assert_eq!(command_line("", &adopt(&["server"]), &Sandbox::default()), "althing adopt server");
}

#[test]
fn what_an_adopted_program_lacks_is_noted_with_how_it_is_granted() {
    let mut adopted = lacking("/srv/a", true);
    adopted["file"] = json!({ "name": "box" });
    assert!(noted(&adopted).ends_with("; --read /srv/a would grant it, or --grant-needs"), "{}", noted(&adopted));
    adopted["added"] = json!({ "name": "box" });
    assert!(noted(&adopted).ends_with("`althing adopt --accept box --read /srv/a` grants it"), "{}", noted(&adopted));
    assert_eq!(noted(&json!({ "granted": ["sandbox: { read: [/a] }"] })), "\ngranted  sandbox: { read: [/a] }");
    assert_eq!(noted(&json!({})), "");
    let told = noted(&json!({ "refused": ["write /srv/a (not offered)"], "moreRefused": true }));
    assert_eq!(told, "\nrefused  write /srv/a (not offered)\nrefused  more\nit answers without");
}

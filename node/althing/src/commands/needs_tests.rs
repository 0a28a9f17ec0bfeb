use althing_api::{AgentAddition, AgentDraft};
use althing_td::AgentFile;
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

fn needs(path: &str) -> ProgramNeeds {
    ProgramNeeds {
        sandbox: Sandbox { read: vec![path.into()], ..Sandbox::default() },
        block: format!("sandbox: {{ read: [{path}] }}"),
        words: vec![format!("reads {path}")],
        refused: vec![format!("read {path}")],
        more_refused: false,
    }
}

fn file() -> AgentFile {
    let file = AgentFile::parse(
        "name: box\ndescription: Keeps things\nruntime: {native: {builtin: echo}}\ncontract: {class: {latency: srt}}\n",
    );
    file.expect("an agent file")
}

/// An agent of which nothing is said.
fn well() -> AgentAdoption {
    let draft = AgentDraft {
        kind: "MCP server".to_owned(),
        file: file(),
        reaches: Vec::new(),
        left_out: Vec::new(),
        digest: "9c0d".to_owned(),
        signature: None,
        requests: Vec::new(),
    };
    let (needs, refused) = (None, Vec::new());
    AgentAdoption { draft, taken: Some(false), added: None, needs, refused, more_refused: None }
}

fn lacking(path: &str, answers: bool) -> AdoptReply {
    let needs = needs(path);
    if answers {
        AdoptReply::Agent(Box::new(AgentAdoption { needs: Some(needs), ..well() }))
    } else {
        AdoptReply::Unanswered(UnansweredProgram { unanswered: "its program ended".to_owned(), needs })
    }
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
    assert_eq!(rounds(Consent::Absent).after(&well(), command).expect("nothing is lacking"), Next::Done);
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
    let told = json!(rounds.outcome(lacking("/a", false)));
    assert_eq!(told["granted"].as_array().map(Vec::len), Some(ROUNDS_MAX));
    assert_eq!(json!(self::rounds(Consent::Given).outcome(lacking("/a", true))), json!(lacking("/a", true)));
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
    let told = |adopted: &AgentAdoption, granted: &[String]| noted(&adopted.lack(), granted, "box");
    let mut adopted = AgentAdoption { needs: Some(needs("/srv/a")), ..well() };
    let only = told(&adopted, &[]);
    assert!(only.ends_with("; --read /srv/a would grant it, or --grant-needs"), "{only}");
    adopted.added = Some(AgentAddition { id: "urn:x".to_owned(), name: "box".to_owned(), card: None, status: None });
    let added = told(&adopted, &[]);
    assert!(added.ends_with("`althing adopt --accept box --read /srv/a` grants it"), "{added}");
    let granted = ["sandbox: { read: [/a] }".to_owned()];
    assert_eq!(told(&well(), &granted), "\ngranted  sandbox: { read: [/a] }");
    assert_eq!(told(&well(), &[]), "");
    let refused = vec!["write /srv/a (not offered)".to_owned()];
    let refused = AgentAdoption { refused, more_refused: Some(true), ..well() };
    assert_eq!(told(&refused, &[]), "\nrefused  write /srv/a (not offered)\nrefused  more\nit answers without");
}

//! What an operator does by the program, mostly while the registry runs; and what a folder keeps of its start.

use std::path::Path;
use std::process::Command;

use crate::party::{NETWORK, Party};
use crate::real::{self, PROGRAM, Running};
use crate::support::NOW;
use althing_protocol::PublisherId;
use althing_protocol::object::{self, Kind};
use althing_protocol::registry::{Audience, Submission};
use althing_registry_client::RegistryError;
use serde_json::Value;

/// What the program says of a command, which ends by itself; whether it was done.
fn ran<S: AsRef<str>>(words: &[S], data: &Path) -> (bool, String) {
    let words = words.iter().map(S::as_ref);
    let ran = Command::new(PROGRAM).args(words).arg("--data").arg(data).output().expect("it runs");
    (ran.status.success(), String::from_utf8([ran.stdout, ran.stderr].concat()).expect("text"))
}

/// A start that is refused.
fn refused(flags: &[&str], data: &Path) -> String {
    let (is_started, why) = ran(&[&["--listen", "127.0.0.1:0"][..], flags].concat(), data);
    assert!(!is_started, "{why}");
    why
}

async fn get(running: &Running, path: &str) -> (u16, Value) {
    // Another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let answer = reqwest::get(format!("{}{path}", running.url)).await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

/// A release of `billing`, signed for a network.
fn submission(party: &Party, network: &str, audience: Audience) -> Submission {
    let mut body = party.release("billing", "1.0.0", audience, b"the files of a bundle");
    let described = object::Description::new(party.agent("billing"), NOW, NOW, party.td("billing", "1.0.0"));
    let described = object::sign(described, network, "", &party.key).expect("a good description");
    body.description = described.digest();
    let signed = object::sign(body, network, "", &party.key).expect("a good release");
    party.submission(signed.bytes, vec![described.bytes])
}

#[tokio::test]
async fn a_folder_keeps_the_network_of_its_first_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("registry");
    drop(Running::start_with(&data, &["--network", "lab"]));
    assert_eq!(std::fs::read_to_string(data.join("network")).expect("it is kept"), "lab");
    let why = refused(&["--network", "althing"], &data);
    assert!(why.contains("\"lab\"") && why.contains("leave out --network") && why.contains("another folder"), "{why}");
    let organisation = PublisherId::from_digest([1; 32]).to_string();
    let domain = |word: &str, more: &[&str]| {
        let words = [&["domain", word, "example.org", organisation.as_str()][..], more].concat();
        ran(&words, &data)
    };
    let running = Running::start_with(&data, &[]);
    assert_eq!(get(&running, "/").await.1["network"], "lab");
    let (done, why) = domain("add", &["--network", "althing"]);
    assert!(!done && why.contains("\"lab\""), "{why}");
    let (done, why) = domain("add", &[]);
    assert!(done && why.contains("by the operator's word"), "while it runs: {why}");
    let (status, shown) = get(&running, "/names/example.org").await;
    assert_eq!(status, 200, "{shown}");
    drop(running);
    let (done, why) = domain("remove", &["--network", "althing"]);
    assert!(!done && why.contains("\"lab\""), "{why}");
    let (done, why) = domain("remove", &["--network", "lab"]);
    assert!(done && why.contains("is no longer"), "{why}");
    assert!(domain("add", &[]).0);
    drop(Running::start_with(&data, &["--network", "lab"]));
}

#[tokio::test]
async fn an_older_folder_is_told_that_its_network_is_another_and_not_that_it_is_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let party = Party::new(1);
    let running = Running::start_with(folder.path(), &["--network", NETWORK, "--anyone"]);
    let submitted = running.client().submit(&submission(&party, NETWORK, Audience::public()), &[Kind::Release]).await;
    submitted.expect("accepted");
    drop(running);
    let network = folder.path().join("network");
    std::fs::remove_file(&network).expect("it is there");
    let why = refused(&[], folder.path());
    assert!(why.contains("another network than \"althing\"") && why.contains("--network NAME"), "{why}");
    assert!(!why.contains("restore") && !network.exists(), "{why}");
    let id = party.id().to_string();
    let (done, why) = ran(&["domain", "add", "example.org", &id], folder.path());
    assert!(!done && why.contains("--network NAME"), "{why}");
    assert!(ran(&["domain", "add", "example.org", &id, "--network", NETWORK], folder.path()).0);
    assert_eq!(std::fs::read_to_string(&network).expect("it is kept from now on"), NETWORK);
    drop(Running::start_with(folder.path(), &[]));
}

#[tokio::test]
async fn publishers_are_admitted_and_taken_out_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let party = Party::new(1);
    let id = party.id().to_string();
    let running = Running::start_with(folder.path(), &[]);
    let submission = submission(&party, real::NETWORK, Audience::public());
    let submit = async || running.client().submit(&submission, &[Kind::Release]).await;
    let is_stranger = |outcome: Result<_, RegistryError>| match outcome {
        Err(RegistryError::Refused { status: 403, detail }) => detail.contains("publisher add"),
        _ => false,
    };
    assert!(is_stranger(submit().await));
    let (done, said) = ran(&["publisher", "add", &id], folder.path());
    assert!(done && said.contains("may publish"), "{said}");
    assert!(ran(&["publisher", "add", &id], folder.path()).1.contains("knew that"));
    submit().await.expect("it is admitted");
    let _client = running.visit(&party).await;
    assert_eq!(ran(&["publisher", "list"], folder.path()), (true, format!("{id}\n")));
    assert!(ran(&["publisher", "remove", &id], folder.path()).0);
    assert!(is_stranger(submit().await));
    let (done, why) = ran(&["publisher", "remove", &id], folder.path());
    assert!(!done && why.contains("--publisher"), "{why}");
    assert!(!ran(&["publisher", "add", "alice"], folder.path()).0);
    // Whom it was started with is not in the list, and stays; the list is there after a start.
    assert!(ran(&["publisher", "add", &Party::new(2).id().to_string()], folder.path()).0);
    drop(running);
    let running = Running::start_with(folder.path(), &["--publisher", &id]);
    running.client().submit(&submission, &[Kind::Release]).await.expect("it is no error again");
    running.visit(&Party::new(2)).await;
}

#[tokio::test]
async fn it_says_where_it_is_reached_and_that_it_is_well() {
    let folder = tempfile::tempdir().expect("a folder");
    // Another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let running = Running::start_with(folder.path(), &["--listen", "0.0.0.0:0", "--things-closed"]);
    let (host, port) = running.url.rsplit_once(':').expect("a port");
    assert!(host.starts_with("http://") && !host.contains("0.0.0.0"), "{}", running.url);
    // A closed directory is well too.
    let at_home = reqwest::get(format!("http://127.0.0.1:{port}/healthz")).await.expect("an answer");
    assert_eq!(at_home.status(), 200);
    let said: Value = at_home.json().await.expect("JSON");
    assert_eq!((&said["status"], &said["entries"]), (&"ok".into(), &0.into()), "{said}");
}

/// The commands of the blocks of a document, with lines that go on put together, as words.
fn commands(document: &str) -> Vec<Vec<String>> {
    let (mut commands, mut is_inside, mut before) = (Vec::new(), false, String::new());
    for line in document.lines() {
        if line.starts_with("```") {
            is_inside = !is_inside;
        } else if is_inside {
            before.push_str(line.trim_start_matches("$ ").trim_end_matches('\\'));
            if !line.ends_with('\\') {
                commands.push(words(&std::mem::take(&mut before)));
            }
        }
    }
    commands.retain(|command| command.first().is_some_and(|program| program == "althing-registry"));
    commands
}

/// The words of a line: quotes hold some together.
fn words(line: &str) -> Vec<String> {
    let quoted = line.split('"').enumerate();
    let parts = quoted.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    parts.collect()
}

/// Those that change something are run in their order while the registry runs; then that for which it is stopped. Of the
/// others, which serve, each option is known.
#[tokio::test]
async fn the_commands_of_the_documentation_do_what_they_say() {
    // Asked at run time: checkouts may share a build.
    let room = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is");
    let document = std::fs::read_to_string(Path::new(&room).join("../docs/registry.md")).expect("a document");
    let (folder, party) = (tempfile::tempdir().expect("a folder"), Party::new(1));
    let id = party.id().to_string();
    let running = Running::start(folder.path());
    let submission = submission(&party, real::NETWORK, Audience::listed([party.id()]));
    running.client().submit(&submission, &[Kind::Release]).await.expect("accepted");
    let filled_in = |word: &String| word.replace("urn:althing:zQm…", &id);
    let (mut done, mut purges) = (0, Vec::new());
    for command in commands(&document) {
        let data = command.iter().position(|word| word == "--data").expect("each has a folder");
        let mut rest: Vec<String> = command[1..].iter().map(filled_in).collect();
        rest.drain(data - 1..=data);
        match rest[0].as_str() {
            "token" | "publisher" | "domain" | "quarantine" => {
                let (is_done, said) = ran(&rest, folder.path());
                assert!(is_done, "{rest:?}: {said}");
                done += 1;
            }
            "purge" => purges.push(rest),
            first => {
                let words: &[&str] = if first == "witness" { &["witness", "--help"] } else { &["--help"] };
                let help = Command::new(PROGRAM).args(words).output().expect("it runs").stdout;
                let help = String::from_utf8(help).expect("text");
                for option in rest.iter().filter(|word| word.starts_with("--")) {
                    assert!(help.contains(option.as_str()), "{option} of {rest:?} is unknown");
                }
            }
        }
    }
    assert!(done >= 9 && purges.len() == 1, "{done} commands were found");
    let (is_done, why) = ran(&purges[0], folder.path());
    assert!(!is_done && why.contains("stop it first"), "{why}");
    drop(running);
    let (is_done, said) = ran(&purges[0], folder.path());
    assert!(is_done, "{said}");
}

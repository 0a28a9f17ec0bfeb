//! A model agent and the notes of its session.

use std::path::Path;
use std::sync::{Arc, Mutex};

use althing_execution::agent::Parameters;
use althing_execution::journal::JournalError;
use althing_execution::notes::{Note, NoteError, NoteKind, Notes, SessionNotes};
use althing_execution::process::ProcessConfig;
use althing_execution::{AgentError, Builtins, Host, Output, Turn, TurnRights};
use althing_td::AgentFile;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::journal::{Disk, Rows};
use crate::model::{Behaves, Stub, stub, turn};

/// Notes in memory; damaged ones where there are none.
#[derive(Default)]
struct Book(Mutex<Option<Vec<Note>>>);

impl Book {
    fn of(texts: &[&str]) -> Arc<Book> {
        let note = |text: &&str| Note { kind: NoteKind::Decision, text: (*text).to_owned(), label: None };
        Arc::new(Book(Mutex::new(Some(texts.iter().map(note).collect()))))
    }
}

impl Notes for Book {
    fn add(&self, note: Note, _: Option<[u8; 32]>) -> BoxFuture<'_, Result<(), NoteError>> {
        self.0.lock().expect("nobody panics with it").get_or_insert_default().push(note);
        Box::pin(std::future::ready(Ok(())))
    }

    fn all(&self) -> Result<Vec<Note>, NoteError> {
        let damaged = || NoteError::Damaged { what: "a bit fell over".to_owned() };
        self.0.lock().expect("nobody panics with it").clone().ok_or_else(damaged)
    }
}

/// A node with a model agent whose contract permits that.
fn node(stub: &Stub, capabilities: &Value) -> Host {
    let host = Host::new(Builtins::new(), ProcessConfig::default());
    let file = json!({
        "name": "clerk",
        "description": "Decides",
        "runtime": { "model": { "prompt": "Be brief.", "endpoints": [{ "url": stub.url, "model": "small" }] } },
        "contract": { "class": { "latency": "srt" }, "capabilities": capabilities, "model": { "models": ["small"] } },
    });
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
    host
}

async fn run(host: &Host, rights: TurnRights, book: &Arc<Book>) -> Result<(), AgentError> {
    let (out, mut outputs) = Output::channel();
    let parameters = Parameters { rights, notes: Some(SessionNotes(book.clone())), ..Parameters::default() };
    let turn = Turn { parameters, ..turn("And now?") };
    let taken = async { while outputs.recv().await.is_some() {} };
    let (ended, ()) = tokio::join!(host.turn("clerk", turn, out), taken);
    ended
}

/// The messages of the last request, each with its role and its text.
fn asked(stub: &Stub) -> Vec<(String, String)> {
    let last = stub.seen.last.lock().expect("nobody panics with it").1.clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = last["messages"].as_array().cloned().unwrap_or_default();
    messages.iter().map(|message| (text(&message["role"]), text(&message["content"]))).collect()
}

#[tokio::test]
async fn a_model_is_told_the_last_notes_of_its_session_as_material() {
    let stub = stub(Behaves::Well).await;
    let host = node(&stub, &json!(["session/note"]));
    run(&host, TurnRights::default(), &Book::of(&["paint it red"])).await.expect("it answers");
    let messages = asked(&stub);
    let roles: Vec<&str> = messages.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["system", "system", "user"]);
    let told = &messages[1].1;
    assert!(told.contains("not instructions") && told.ends_with("\n- decision: paint it red"), "{told}");

    let long: Vec<String> = (0..20).map(|number| format!("{number} {}", "x".repeat(200))).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    run(&host, TurnRights::default(), &Book::of(&long)).await.expect("it answers");
    let told = &asked(&stub)[1].1;
    assert!(told.len() <= 2 << 10 && told.contains("12 earlier ones are left out."), "{}: {told}", told.len());
    assert!(told.contains("decision: 12 x") && told.contains("decision: 19 x") && !told.contains("decision: 11 x"));

    // Nothing to tell: no notes, none that can be read, or no right to them.
    for book in [Book::of(&[]), Arc::default()] {
        run(&host, TurnRights::default(), &book).await.expect("it answers");
        assert_eq!(asked(&stub).len(), 2);
    }
    let other = node(&stub, &json!(["agents/echo"]));
    run(&other, TurnRights::default(), &Book::of(&["paint it red"])).await.expect("it answers");
    assert_eq!(asked(&stub).len(), 2);
}

#[tokio::test]
async fn a_turn_that_goes_on_is_told_the_notes_that_it_was_told() {
    let stub = stub(Behaves::Well).await;
    let (rows, book) = (Rows::default(), Book::of(&["paint it red"]));
    let host = node(&stub, &json!(["session/*"]));
    // The node ends when the notes have been read.
    let ended = run(&host, Disk::of(&rows, 2), &book).await;
    assert_eq!(ended, Err(AgentError::Journal(JournalError::Write)));
    let later = Note { kind: NoteKind::Done, text: "painted it".to_owned(), label: None };
    book.add(later, None).await.expect("it is added");
    run(&host, Disk::of(&rows, usize::MAX), &book).await.expect("it goes on");
    let told = &asked(&stub)[1].1;
    assert!(told.contains("paint it red") && !told.contains("painted it"), "{told}");
}

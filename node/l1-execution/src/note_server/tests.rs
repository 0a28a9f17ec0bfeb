use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use althing_protocol::contract::DataLabel;
use althing_protocol::{AnswerAttributes, Attributes};

use super::*;
use crate::context::{CALL_CONTEXT, CallContext, TurnAttributes};
use crate::notes::Notes;
use crate::ports::Ports;
use crate::tools::{ContractGate, ToolError};

/// Notes in memory.
#[derive(Default)]
struct Book(Mutex<Vec<Note>>);

impl Notes for Book {
    fn add(&self, note: Note, _: Option<[u8; 32]>) -> BoxFuture<'_, Result<(), NoteError>> {
        self.0.lock().expect("nobody panics with it").push(note);
        Box::pin(std::future::ready(Ok(())))
    }

    fn all(&self) -> Result<Vec<Note>, NoteError> {
        Ok(self.0.lock().expect("nobody panics with it").clone())
    }
}

fn tools(capability: &str) -> Tools {
    let contract = json!({ "class": { "latency": "srt" }, "capabilities": [capability] });
    let contract = Contract::from_value(&contract).expect("a contract");
    let server = NoteServer::of(&contract).map(|server| (SERVER.to_owned(), Arc::new(server) as Arc<dyn ToolServer>));
    let agent = Ports::none().agent_ref("clerk", "1.0.0").expect("a name");
    Tools::new(agent, server.into_iter().collect::<BTreeMap<_, _>>(), Arc::new(ContractGate::of(&contract)))
}

/// A call in a turn of a session with these notes, and the label of the turn's answer after it.
async fn call(
    tools: &Tools,
    book: &Arc<Book>,
    label: Option<Label>,
    (tool, arguments): (&str, Value),
) -> (Result<Value, ToolError>, Option<Label>) {
    let answer = AnswerAttributes::default();
    let attributes = TurnAttributes::of(&Attributes { label, ..Attributes::default() }, &answer);
    let notes = Some(SessionNotes(book.clone()));
    let turn = CallContext { notes, attributes, ..CallContext::default() };
    let (outcome, _) = CALL_CONTEXT.scope(turn, tools.invoke(tool, &arguments.to_string())).await;
    (outcome, answer.label())
}

#[tokio::test]
async fn notes_are_added_and_given_in_their_order_with_the_label_of_what_their_turn_knew() {
    let (tools, book) = (tools("session/*"), Arc::<Book>::default());
    assert_eq!(tools.listed().await.into_keys().collect::<Vec<_>>(), ["session__note", "session__notes"]);
    let secret = Label { level: DataLabel::Confidential, trusted: false };
    for (kind, label) in [("done", None), ("pitfall", Some(secret))] {
        let given = ("session__note", json!({ "kind": kind, "text": "the door\n\tis red" }));
        let (noted, _) = call(&tools, &book, label, given).await;
        assert_eq!(noted.expect("it is noted")["structuredContent"], json!({ "noted": kind }));
    }
    let (all, label) = call(&tools, &book, None, ("session/notes", json!({}))).await;
    let text = "the door\n\tis red";
    let notes = json!([{ "kind": "done", "text": text }, { "kind": "pitfall", "text": text }]);
    assert_eq!(all.expect("an answer")["structuredContent"]["notes"], notes);
    assert_eq!(label, Some(secret), "whoever is given a note is given what its turn knew");
}

#[tokio::test]
async fn what_is_no_note_is_refused_and_says_what_to_do() {
    let (tools, book) = (tools("session/note"), Arc::<Book>::default());
    let mut text = "x".repeat(NOTE_BYTES_MAX);
    let (noted, _) = call(&tools, &book, None, ("session/note", json!({ "kind": "done", "text": text }))).await;
    noted.expect("the longest note");
    text.push('x');
    for (given, why) in [
        (json!({ "kind": "done", "text": text }), "1025 bytes, and 1024 is the most"),
        (json!({ "kind": "done", "text": " \n" }), "no text"),
        (json!({ "kind": "done", "text": "a\u{7}b" }), "U+0007"),
        (json!({ "kind": "done", "text": "a\u{202e}b" }), "U+202E"),
        (json!({ "kind": "rumour", "text": "a" }), "rumour"),
        (json!({ "kind": "done" }), "text"),
        (json!({ "kind": "done", "text": "a", "more": 1 }), "more"),
    ] {
        let (refused, _) = call(&tools, &book, None, ("session/note", given.clone())).await;
        let error = refused.expect_err("it is refused").to_string();
        assert!(error.contains(why), "{given}: {error}");
    }
    assert_eq!(book.all().map(|all| all.len()), Ok(1));
    // The contract decides, and a turn without a session has no notes.
    let (denied, _) = call(&tools, &book, None, ("session/notes", json!({}))).await;
    assert!(matches!(denied, Err(ToolError::Denied(_))), "{denied:?}");
    let (outside, _) = tools.invoke("session/note", r#"{"kind": "done", "text": "a"}"#).await;
    assert!(outside.expect_err("no session").to_string().contains("no session"));
    let contract = json!({ "class": { "latency": "srt" }, "capabilities": ["agents/echo"] });
    assert!(NoteServer::of(&Contract::from_value(&contract).expect("a contract")).is_none());
}

//! Input and output of the `chat` action.

use serde_json::{Value, json};

use super::{ANSWER_BYTES_MAX, Answer, Chat, LMOS};

fn said(text: &str) -> Value {
    json!({ "messages": [{ "role": "user", "content": text }] })
}

#[test]
fn a_single_message_is_sent_and_nothing_beside_it() {
    let chat = Chat::parse(said("hello")).expect("a request");
    let wanted = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hello" }] } });
    assert_eq!(chat.params("m"), wanted);
}

#[test]
fn the_last_message_of_the_user_is_sent_with_the_rest_in_metadata() {
    let input = json!({
        "messages": [
            { "role": "user", "content": "one", "turnId": null },
            { "role": "assistant", "content": "two" },
            { "role": "user", "content": "three", "turnId": "t3" },
        ],
        "conversationContext": { "conversationId": "c1", "turnId": "t3" },
        "systemContext": [{ "key": "channel", "value": "web" }],
        "userContext": null,
    });
    let chat = Chat::parse(input).expect("a request");
    let message = chat.params("m")["message"].clone();
    assert_eq!(message["parts"], json!([{ "text": "three" }]));
    assert_eq!((&message["contextId"], chat.turn.as_deref()), (&json!("c1"), Some("t3")));
    let beside = &message["metadata"][LMOS];
    assert_eq!(beside["messages"].as_array().map(Vec::len), Some(2));
    assert_eq!(beside["systemContext"][0]["value"], "web");
    assert!(beside.get("userContext").is_none(), "null is absent");
}

#[test]
fn a_turn_that_names_a_task_continues_it() {
    for input in [
        json!({ "messages": [{ "role": "user", "content": "this one", "turnId": "task:7" }] }),
        json!({ "messages": [{ "role": "User", "content": "this one" }], "conversationContext": { "conversationId": "c", "turnId": "task:7" } }),
    ] {
        let chat = Chat::parse(input).expect("a request");
        let message = chat.params("m")["message"].clone();
        assert_eq!((&message["taskId"], &message["contextId"]), (&json!("7"), &Value::Null));
        assert_eq!(chat.turn, None);
    }
}

#[test]
fn formats_and_binary_data_become_parts() {
    let with = |format: &str, content: &str| {
        let input = json!({ "messages": [{ "role": "user", "content": content, "format": format }] });
        Chat::parse(input).expect("a request").params("m")["message"]["parts"][0].clone()
    };
    assert_eq!(with("text", "a"), json!({ "text": "a" }));
    assert_eq!(with("markdown", "*a*"), json!({ "text": "*a*", "mediaType": "text/markdown" }));
    assert_eq!(with("json", "{\"a\":1}"), json!({ "data": { "a": 1 } }));
    assert_eq!(with("json", "{"), json!({ "text": "{" }));
    assert_eq!(with("text/csv", "a,b"), json!({ "text": "a,b", "mediaType": "text/csv" }));
    let input = json!({ "messages": [{ "role": "user", "content": "", "binaryData": [
        { "mimeType": "image/png", "dataAsBase64": "AA==" },
        { "mimeType": "image/png", "source": "https://a.example/b.png" },
    ] }] });
    let wanted = json!([
        { "raw": "AA==", "mediaType": "image/png" },
        { "url": "https://a.example/b.png", "mediaType": "image/png" },
    ]);
    assert_eq!(Chat::parse(input).expect("a request").params("m")["message"]["parts"], wanted);
}

#[test]
fn what_cannot_be_sent_is_refused_with_its_place() {
    for (input, place) in [
        (json!("hello"), "messages"),
        (json!({}), "`messages`"),
        (json!({ "messages": "hello" }), "no list"),
        (json!({ "messages": [] }), "`user`"),
        (json!({ "messages": [{ "role": "assistant", "content": "x" }] }), "`user`"),
        (json!({ "messages": [{ "role": "user" }] }), "`messages[0]`"),
        (json!({ "messages": [{ "role": "user", "content": 7 }] }), "`messages[0]`"),
        (json!({ "messages": [{ "role": "user", "content": "" }] }), "neither"),
        (
            json!({ "messages": [{ "role": "user", "content": "", "binaryData": [{ "mimeType": "a/b" }] }] }),
            "binaryData[0]",
        ),
        (json!({ "messages": vec![json!({ "role": "user", "content": "x" }); 1_001] }), "1001"),
    ] {
        let refused = Chat::parse(input.clone()).expect_err("no request");
        assert!(refused.contains(place), "{input}: {refused}");
    }
}

fn after(events: &[Value]) -> (Answer, Vec<Value>) {
    let mut answer = Answer::default();
    let told = events.iter().map(|event| answer.take(event.to_string().as_bytes(), None).expect("an event"));
    let told = told.collect();
    (answer, told)
}

#[test]
fn artifacts_come_in_the_order_of_their_beginning_and_pieces_are_joined() {
    let piece = |id: &str, text: &str, append: bool| {
        json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "append": append,
            "artifact": { "artifactId": id, "parts": [{ "text": text }] } } })
    };
    let (answer, told) = after(&[
        json!({ "task": { "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_WORKING" } } }),
        piece("b", "one ", false),
        piece("a", "other", false),
        piece("b", "two", true),
        json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } } }),
    ]);
    assert!(!answer.is_running() && answer.failure().is_none());
    let output = answer.output(Some("mine"), 0.5);
    let contents: Vec<&Value> = output["messages"].as_array().expect("a list").iter().map(|m| &m["content"]).collect();
    assert_eq!(contents, [&json!("one two"), &json!("other")]);
    assert_eq!((&output["status"], &output["messages"][0]["turnId"]), (&json!("completed"), &json!("mine")));
    let kinds: Vec<&Value> = told.iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds, ["task", "artifactUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"]);
    let payload: Value = serde_json::from_str(told[4]["payload"].as_str().expect("text")).expect("JSON");
    assert_eq!(payload["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!((&told[4]["conversationId"], &told[4]["turnId"]), (&json!("c"), &json!("t")));
}

#[test]
fn a_question_names_the_task_that_waits() {
    let message = json!({ "parts": [{ "text": "which?" }] });
    let status = json!({ "state": "TASK_STATE_INPUT_REQUIRED", "message": message });
    let (answer, _) = after(&[json!({ "task": { "id": "t", "contextId": "c", "status": status } })]);
    let output = answer.output(Some("mine"), 0.0);
    assert_eq!(output["status"], "input-required");
    assert_eq!(
        (&output["messages"][0]["content"], &output["messages"][0]["turnId"]),
        (&json!("which?"), &json!("task:t"))
    );
}

#[test]
fn data_and_files_of_an_answer_are_kept() {
    let parts = json!([{ "text": "see" }, { "data": { "a": 1 } }, { "raw": "AA==", "mediaType": "image/png" }]);
    let (answer, _) = after(&[json!({ "message": { "contextId": "c", "parts": parts } })]);
    let output = answer.output(None, 0.0);
    assert_eq!(output["messages"][0]["binaryData"][0], json!({ "mimeType": "image/png", "dataAsBase64": "AA==" }));
    assert_eq!(
        (&output["messages"][1]["content"], &output["messages"][1]["format"]),
        (&json!("{\"a\":1}"), &json!("json"))
    );
    assert_eq!(answer.task, None);
}

#[test]
fn failures_are_told_apart_from_answers() {
    for (state, wanted) in [("FAILED", "failed"), ("REJECTED", "rejected"), ("CANCELED", "canceled")] {
        let status = json!({ "state": format!("TASK_STATE_{state}"), "message": { "parts": [{ "text": "why" }] } });
        let (answer, _) = after(&[json!({ "statusUpdate": { "taskId": "t", "status": status } })]);
        assert_eq!((answer.failure(), answer.last_words().as_str()), (Some(wanted), "why"));
    }
}

#[test]
fn what_is_no_event_is_refused_and_so_is_too_much() {
    let mut answer = Answer::default();
    for event in ["", "[]", "{}", "{\"other\":{}}", "{\"task\":{},\"message\":{}}"] {
        assert!(answer.take(event.as_bytes(), None).is_err(), "{event}");
    }
    let long = vec![b' '; ANSWER_BYTES_MAX];
    assert!(answer.take(&long, None).expect_err("too much").contains("bytes"));
}

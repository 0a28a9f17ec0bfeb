//! Answers, and the output of the `chat` action.

use serde_json::{Value, json};

use super::{ANSWER_BYTES_MAX, Answer, PARTS_MAX};

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
    let long = "x".repeat(ANSWER_BYTES_MAX / 4);
    let piece = |text: &str| {
        json!({ "artifactUpdate": { "taskId": "t", "append": true, "artifact": { "artifactId": "a", "parts": [{ "text": text }] } } })
            .to_string()
    };
    for _ in 0..3 {
        answer.take(piece(&long).as_bytes(), None).expect("room");
    }
    assert!(answer.bytes() > 3 * long.len() && answer.bytes() < ANSWER_BYTES_MAX);
    answer.take(piece("x").as_bytes(), None).expect("an envelope is not kept");
    assert!(answer.take(piece(&long).as_bytes(), None).expect_err("too much").contains("bytes"));
    answer.forget();
    assert_eq!(answer.bytes(), 0);
}

/// Threat: parts and artifacts of a few bytes each, which take many times their bytes in memory.
#[test]
fn many_small_parts_are_refused() {
    let task = |artifacts: Vec<Value>| json!({ "id": "t", "artifacts": artifacts }).to_string();
    let with = |parts: usize| json!({ "artifactId": "a", "parts": vec![json!({}); parts] });
    assert!(Answer::of_task(task(vec![with(PARTS_MAX)]).as_bytes()).is_ok());
    assert!(Answer::of_task(task(vec![with(PARTS_MAX + 1)]).as_bytes()).is_err());
    let each = |count: usize| (0..count).map(|id| json!({ "artifactId": id.to_string(), "parts": [{}] })).collect();
    assert!(Answer::of_task(task(each(PARTS_MAX)).as_bytes()).is_ok());
    assert!(Answer::of_task(task(each(PARTS_MAX + 1)).as_bytes()).is_err());
    assert!(Answer::of_task(br#"{"id":"t","artifacts":[{"parts":[{"text":7}]}]}"#).is_err());
    assert!(Answer::of_task(br#"{"id":"t","artifacts":[{"parts":[7]}]}"#).is_err());
}

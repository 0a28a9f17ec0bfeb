use std::sync::atomic::{AtomicUsize, Ordering};

use a2a::StreamResponse;

use super::super::omissions::OmissionKind::{Artifact as Made, Detail, LastWord, Message as Said};
use super::*;

fn omission(at: &str, kind: OmissionKind) -> Omission {
    Omission { at: at.to_owned(), kind, count: 1 }
}

/// The same result, with this member of its task.
fn task(member: &str, value: Value) -> Value {
    let mut task = json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } });
    task[member] = value;
    json!({ "task": task })
}

fn status(member: &str, value: Value) -> Value {
    let mut status = json!({ "state": "TASK_STATE_COMPLETED" });
    status[member] = value;
    task("status", status)
}

fn artifact(member: &str, value: Value) -> Value {
    let mut artifact = json!({ "artifactId": "a", "parts": [{ "text": "x" }] });
    artifact[member] = value;
    task("artifacts", json!([artifact]))
}

fn message(member: &str, value: Value) -> Value {
    let mut message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "x" }] });
    message[member] = value;
    json!({ "message": message })
}

fn update(member: &str, value: Value) -> Value {
    let artifact = json!({ "artifactId": "a", "parts": [{ "text": "x" }] });
    let mut update = json!({ "taskId": "t", "contextId": "c", "artifact": artifact });
    update[member] = value;
    json!({ "artifactUpdate": update })
}

fn event(result: &Value) -> Option<StreamResponse> {
    StreamResponse::deserialize(result).ok()
}

/// What is read of an event, and what is left out of it.
fn mended(mut result: Value) -> (Value, Vec<Omission>) {
    let ReadEvent { read, omissions, .. } = read_mended(&mut result, event);
    (json!(read.unwrap_or_else(|| panic!("it cannot be read: {result}"))), omissions)
}

/// An event that cannot be read, as far as it is mended.
fn unread(mut result: Value) -> Value {
    let read = read_mended(&mut result, event).read;
    assert_eq!(read, None, "{result}");
    result
}

/// The text of what is said beside an update.
fn beside(mut result: Value) -> Option<String> {
    read_mended(&mut result, event).beside.and_then(|message| message.text().map(str::to_owned))
}

#[test]
fn what_is_as_it_should_be_stays() {
    for event in [
        task("artifacts", json!([{ "artifactId": "a", "name": "n", "parts": [{ "data": null }, { "raw": "AAAA" }] }])),
        task("history", json!([message("extensions", json!(["https://a.example/x"]))["message"]])),
        status("timestamp", json!("2026-01-01T00:00:00Z")),
        status("message", message("metadata", json!({ "a": null }))["message"].clone()),
        message("referenceTaskIds", json!(["t"])),
        update("append", json!(true)),
    ] {
        let (read, omissions) = mended(event.clone());
        assert_eq!((read, omissions), (event, Vec::new()));
    }
}

#[test]
fn an_optional_member_that_is_odd_is_left_out_and_named() {
    for (event, without, at) in [
        (
            status("timestamp", json!("2026-01-01T00:00:00")),
            status("state", json!("TASK_STATE_COMPLETED")),
            "/task/status/timestamp",
        ),
        (
            status("timestamp", json!("2026-01-01 00:00")),
            status("state", json!("TASK_STATE_COMPLETED")),
            "/task/status/timestamp",
        ),
        (status("timestamp", json!(17)), status("state", json!("TASK_STATE_COMPLETED")), "/task/status/timestamp"),
        (status("timestamp", json!("")), status("state", json!("TASK_STATE_COMPLETED")), "/task/status/timestamp"),
        (task("metadata", json!("x")), task("id", json!("t")), "/task/metadata"),
        (task("history", json!("x")), task("id", json!("t")), "/task/history"),
        (artifact("metadata", json!([])), artifact("artifactId", json!("a")), "/task/artifacts/0/metadata"),
        (artifact("name", json!(1)), artifact("artifactId", json!("a")), "/task/artifacts/0/name"),
        (artifact("description", json!({})), artifact("artifactId", json!("a")), "/task/artifacts/0/description"),
        (artifact("extensions", json!("x")), artifact("artifactId", json!("a")), "/task/artifacts/0/extensions"),
        (message("extensions", json!([1])), message("messageId", json!("m")), "/message/extensions"),
        (message("referenceTaskIds", json!({})), message("messageId", json!("m")), "/message/referenceTaskIds"),
        (message("contextId", json!({})), message("messageId", json!("m")), "/message/contextId"),
        (update("lastChunk", json!("perhaps")), update("taskId", json!("t")), "/artifactUpdate/lastChunk"),
    ] {
        let story = event.to_string();
        assert_eq!(mended(event), (without, vec![omission(at, Detail)]), "{story}");
    }
    let (read, omissions) = mended(update("append", json!({})));
    assert_eq!((read, omissions), (update("taskId", json!("t")), vec![omission("/artifactUpdate/append", Made)]));
}

#[test]
fn what_is_null_is_not_there() {
    let mut nulls = task("artifacts", Value::Null);
    nulls["message"] = Value::Null;
    nulls["statusUpdate"] = Value::Null;
    nulls["task"]["history"] = Value::Null;
    nulls["task"]["metadata"] = Value::Null;
    nulls["task"]["status"]["message"] = Value::Null;
    nulls["task"]["status"]["timestamp"] = Value::Null;
    assert_eq!(mended(nulls), (task("id", json!("t")), Vec::new()));
    let parts = json!([{ "text": "x", "raw": null, "url": null, "data": null, "filename": null }]);
    assert_eq!(mended(message("parts", parts)), (message("messageId", json!("m")), Vec::new()));
    let (_, omissions) = mended(message("parts", json!([{ "text": null, "data": null }, { "text": "x" }])));
    assert_eq!(omissions, [omission("/message/parts/0", Said)], "it says nothing");
}

#[test]
fn parts_and_artifacts_are_read_one_by_one() {
    let good = json!([{ "text": "x" }]);
    for odd in [json!({ "txt": "y" }), json!(null), json!("y"), json!({ "text": 2 }), json!({ "raw": "no base64" })] {
        let parts = json!([odd, { "text": "x" }]);
        let (read, omissions) = mended(message("parts", parts.clone()));
        assert_eq!((&read["message"]["parts"], &omissions[..]), (&good, &[omission("/message/parts/0", Said)][..]));
        let (read, omissions) = mended(artifact("parts", parts.clone()));
        let all = &read["task"]["artifacts"][0]["parts"];
        assert_eq!((all, &omissions[..]), (&good, &[omission("/task/artifacts/0/parts/0", Made)][..]));
        let (read, omissions) = mended(update("artifact", json!({ "artifactId": "a", "parts": parts })));
        let all = &read["artifactUpdate"]["artifact"]["parts"];
        assert_eq!((all, &omissions[..]), (&good, &[omission("/artifactUpdate/artifact/parts/0", Made)][..]));
        let artifacts = json!([{ "artifactId": "b", "parts": [odd] }, { "artifactId": "a", "parts": good }]);
        let kept = task("artifacts", json!([{ "artifactId": "a", "parts": good }]));
        assert_eq!(mended(task("artifacts", artifacts)), (kept, vec![omission("/task/artifacts/0", Made)]), "{odd}");
    }
    for one in [json!({ "text": "x" }), json!([{ "text": "x", "media_type": 1 }])] {
        assert_eq!(mended(message("parts", one)).0, message("messageId", json!("m")));
    }
    let good = json!({ "artifactId": "a", "parts": [{ "text": "x" }] });
    for (artifacts, read, left) in [
        (json!([null, good]), json!([good]), vec![omission("/task/artifacts/0", Detail)]),
        (json!([7, good]), json!([good]), vec![omission("/task/artifacts/0", Made)]),
        (good.clone(), json!([good]), Vec::new()),
        (json!([{ "artifactId": "b" }]), json!([{ "artifactId": "b", "parts": [] }]), Vec::new()),
        (json!([{ "artifactId": "b", "parts": null }]), json!([{ "artifactId": "b", "parts": [] }]), Vec::new()),
        (json!({}), json!([]), Vec::new()),
        (json!({ "a": { "parts": [{ "text": "x" }] } }), json!([good]), Vec::new()),
        (json!({ "one": good }), json!([good]), Vec::new()),
        // What an artifact is made of may be in a member that nobody knows.
        (
            json!([{ "artifactId": "b", "content": "x" }, good]),
            json!([good]),
            vec![omission("/task/artifacts/0", Made)],
        ),
        (json!({ "artifactId": "b", "content": "x" }), json!([]), vec![omission("/task/artifacts/0", Made)]),
    ] {
        assert_eq!(mended(task("artifacts", artifacts)), (task("artifacts", read), left));
    }
    for odd in [json!("x"), json!({ "report": { "content": "x" } }), json!({ "report": good, "more": 7 })] {
        let (read, omissions) = mended(task("artifacts", odd));
        assert_eq!((read, omissions), (task("id", json!("t")), vec![omission("/task/artifacts", Made)]));
    }
}

#[test]
fn a_status_message_and_a_history_that_cannot_be_read_are_left_out() {
    let bare = || task("id", json!("t"));
    let unknown = json!({ "role": "ROLE_AGENT", "content": "x" });
    for odd in [json!(7), unknown, json!({ "role": "tool", "parts": [{ "text": "x" }] })] {
        let left = vec![omission("/task/status/message", LastWord)];
        assert_eq!(mended(status("message", odd.clone())), (bare(), left), "{odd}");
        let good = message("messageId", json!("m"))["message"].clone();
        let left = vec![omission("/task/history/0", Detail)];
        assert_eq!(mended(task("history", json!([odd, good]))), (task("history", json!([good])), left));
    }
    for (state, kind) in [
        ("TASK_STATE_INPUT_REQUIRED", LastWord),
        ("auth-required", LastWord),
        ("TASK_STATE_WORKING", Said),
        ("TASK_STATE_FAILED", Said),
    ] {
        let status = json!({ "state": state, "message": { "role": "agent", "parts": [{ "file": { "uri": "x" } }] } });
        let update = json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": status } });
        assert_eq!(mended(update).1, [omission("/statusUpdate/status/message", kind)], "{state}");
    }
    let (read, _) = mended(task("history", json!([{ "parts": [{ "text": "x" }] }])));
    assert_eq!(read["task"]["history"][0]["role"], "ROLE_UNSPECIFIED", "nobody knows whose it is");
}

#[test]
fn an_empty_message_is_no_word_that_was_lost_and_a_text_alone_is_one() {
    for empty in [json!({ "messageId": "m", "role": "ROLE_AGENT" }), json!({ "message_id": "m", "parts": null })] {
        let (read, omissions) = mended(status("message", empty));
        let message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [] });
        assert_eq!((read, omissions), (status("message", message), Vec::new()));
    }
    for (text, parts) in [("done", json!([{ "text": "done" }])), (" ", json!([]))] {
        let (read, omissions) = mended(status("message", json!(text)));
        let message = &read["task"]["status"]["message"];
        assert_eq!((&message["parts"], &message["role"], omissions), (&parts, &json!("ROLE_AGENT"), Vec::new()));
    }
}

#[test]
fn a_word_beside_a_task_hides_it_not() {
    let with = |mut event: Value, word: Value| {
        event["message"] = word;
        event
    };
    let said = || message("messageId", json!("m"))["message"].clone();
    let left = |kind| vec![omission("/message", kind)];
    assert_eq!(mended(with(task("id", json!("t")), json!(7))), (task("id", json!("t")), left(LastWord)));
    let working = || status("state", json!("TASK_STATE_WORKING"));
    assert_eq!(mended(with(working(), json!(7))), (working(), left(Said)));
    let empty = json!({ "messageId": "m", "role": "agent" });
    assert_eq!(mended(with(working(), empty)), (working(), Vec::new()), "it says nothing");
    let read = mended(with(task("id", json!("t")), json!("done"))).0;
    assert_eq!(read["task"]["status"]["message"]["parts"], json!([{ "text": "done" }]));
    // It is what the agent says with the status, where that says nothing.
    assert_eq!(mended(with(task("id", json!("t")), said())), (status("message", said()), Vec::new()));
    let (read, omissions) = mended(with(task("id", json!("t")), json!({ "parts": [{ "text": "x" }] })));
    assert_eq!((&read["task"]["status"]["message"]["parts"], omissions), (&json!([{ "text": "x" }]), Vec::new()));
    // Else it is one of its messages, unless it says the same.
    let mut asked = status("message", said());
    asked["task"]["status"]["message"]["messageId"] = json!("other");
    assert_eq!(mended(with(asked.clone(), said())), (asked.clone(), Vec::new()));
    for (id, own) in [("m", true), ("other", false)] {
        let mut more = message("parts", json!([{ "text": "REPORT" }]))["message"].clone();
        more["messageId"] = json!(id);
        let (read, omissions) = mended(with(asked.clone(), more));
        let told = &read["task"]["history"][0];
        assert_eq!((&told["parts"][0]["text"], omissions), (&json!("REPORT"), Vec::new()));
        assert_eq!(told["messageId"] == id, own, "it is not taken for the other: {told}");
    }
    let of_user = message("role", json!("ROLE_USER"))["message"].clone();
    assert_eq!(mended(with(task("id", json!("t")), of_user)), (task("id", json!("t")), left(Said)));
    let piece = update("append", json!(true));
    assert_eq!(mended(with(piece.clone(), said())), (piece.clone(), Vec::new()));
    assert_eq!(beside(with(piece.clone(), said())).as_deref(), Some("x"));
    assert_eq!(mended(with(piece.clone(), json!(7))), (piece, left(Said)));
    let mut working = json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": "working" } } });
    let read = mended(with(working.clone(), said())).0;
    working["statusUpdate"]["status"] = json!({ "state": "TASK_STATE_WORKING", "message": said() });
    assert_eq!(read, working);
    // What is no task hides no message.
    for odd in [json!({}), json!({ "id": "t" }), json!("t")] {
        let beside = with(json!({ "task": odd }), said());
        assert_eq!(mended(beside).0, message("messageId", json!("m")));
    }
}

#[test]
fn ids_are_made_from_what_is_there_and_stay_the_same() {
    let ids = |artifacts: Value| {
        let read = mended(task("artifacts", artifacts)).0;
        let all = read["task"]["artifacts"].as_array().cloned().expect("a list");
        all.iter().map(|one| one["artifactId"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let part = json!([{ "text": "x" }]);
    let artifacts = json!([
        { "parts": part }, { "artifactId": 7, "parts": part }, { "id": "i", "parts": part },
        { "name": "n", "parts": part }, { "name": "n", "parts": part }, { "artifactId": null, "parts": part },
    ]);
    assert_eq!(ids(artifacts), ["artifact-0", "7", "i", "n", "artifact-4", "artifact-5"]);
    // None has the id of another, wherever that stands.
    let taken = json!([{ "name": "report", "parts": part }, { "artifactId": "report", "parts": part }]);
    assert_eq!(ids(taken), ["artifact-0", "report"]);
    let taken = json!([{ "artifactId": "artifact-1", "parts": part }, { "parts": part }]);
    assert_eq!(ids(taken), ["artifact-1", "artifact-1-1"]);
    let taken = json!([{ "id": "i", "parts": part }, { "id": "i", "parts": part }, { "artifactId": "artifact-1", "parts": [] }]);
    assert_eq!(ids(taken), ["i", "artifact-1-1", "artifact-1"]);
    // A piece of one without an id could be of any.
    unread(update("artifact", json!({ "id": "i", "parts": part })));
    assert_eq!(mended(message("messageId", json!(5))).0, message("messageId", json!("5")));
    let (read, _) = mended(json!({ "task": { "id": 5, "contextId": 6, "status": { "state": "completed" } } }));
    assert_eq!((&read["task"]["id"], &read["task"]["contextId"]), (&json!("5"), &json!("6")));
}

#[test]
fn a_message_without_an_id_is_known_by_what_it_says() {
    let id = |said: Value| mended(json!({ "message": said })).0["message"]["messageId"].clone();
    let x = json!("message-b72b16aa3e69fef1");
    // Ids are kept: they are the same in each build.
    assert_eq!(id(json!({ "parts": [{ "text": "x" }] })), x);
    for (same, said) in [
        (true, json!({ "messageId": " ", "role": "agent", "parts": [{ "text": "x" }] })),
        (true, json!({ "contextId": "c", "metadata": { "at": 1 }, "seen": 2, "parts": [{ "text": "x" }] })),
        (true, json!({ "parts": [{ "text": "x", "metadata": { "at": 1 }, "kind": "text" }] })),
        (true, json!({ "parts": [{ "text": "x" }, { "elapsed": 17 }] })),
        (false, json!({ "role": "user", "parts": [{ "text": "x" }] })),
        (false, json!({ "parts": [{ "text": "y" }] })),
        (false, json!({ "parts": [{ "url": "x" }] })),
        (false, json!({ "parts": [{ "text": "x", "mediaType": "text/html" }] })),
        (false, json!({ "parts": [{ "text": "x" }, { "data": null }] })),
    ] {
        assert_eq!(id(said.clone()) == x, same, "{said}");
    }
    let data = |text: &str| json!({ "parts": [{ "data": serde_json::from_str::<Value>(text).expect("JSON") }] });
    assert_eq!(id(data(r#"{"a":1,"b":2}"#)), id(data(r#"{"b":2,"a":1}"#)), "members have no order");
}

#[test]
fn what_can_be_read_as_it_is_is_read_once() {
    static READS: AtomicUsize = AtomicUsize::new(0);
    let reads = |mut result: Value| {
        let counted: fn(&Value) -> Option<StreamResponse> = |result| {
            READS.fetch_add(1, Ordering::Relaxed);
            event(result)
        };
        READS.store(0, Ordering::Relaxed);
        assert!(read_mended(&mut result, counted).read.is_some(), "{result}");
        READS.load(Ordering::Relaxed)
    };
    for good in [
        artifact("name", json!("n")),
        status("state", json!("completed")),
        artifact("artifactId", Value::Null),
        task("metadata", json!("x")),
        update("append", json!("true")),
    ] {
        assert_eq!(reads(good.clone()), 1, "{good}");
    }
    for odd in
        [artifact("parts", json!([{ "txt": "x" }])), task("artifacts", json!([null])), message("messageId", json!(""))]
    {
        assert_eq!(reads(odd.clone()), 2, "{odd}");
    }
}

#[test]
fn words_and_names_are_read_as_others_write_them() {
    for (word, role) in [
        (json!("agent"), "ROLE_AGENT"),
        (json!("assistant"), "ROLE_AGENT"),
        (json!("USER"), "ROLE_USER"),
        (Value::Null, "ROLE_AGENT"),
    ] {
        assert_eq!(mended(message("role", word)).0, message("role", json!(role)));
    }
    assert_eq!(mended(status("state", json!("input-required"))).0, status("state", json!("TASK_STATE_INPUT_REQUIRED")));
    for (word, flag) in [(json!("true"), true), (json!("False"), false), (json!(1), true), (json!(0), false)] {
        assert_eq!(mended(update("append", word)), (update("append", json!(flag)), Vec::new()));
    }
    let snake = json!({ "artifactUpdate": {
        "task_id": "t", "context_id": "c", "append": true, "last_chunk": true,
        "artifact": { "artifact_id": "a", "parts": [{ "text": "x", "media_type": "text/plain" }] },
    } });
    let camel = json!({ "artifactUpdate": {
        "taskId": "t", "contextId": "c", "append": true, "lastChunk": true,
        "artifact": { "artifactId": "a", "parts": [{ "text": "x", "mediaType": "text/plain" }] },
    } });
    assert_eq!(mended(snake), (camel, Vec::new()));
    let said = json!({ "message_id": "m", "role": "agent", "parts": [{ "text": "x" }] });
    let status = json!({ "state": "working", "message": said });
    for name in ["statusUpdate", "status_update"] {
        let (read, _) = mended(json!({ name: { "task_id": "t", "context_id": "c", "status": status } }));
        assert_eq!(read["statusUpdate"]["status"]["message"], message("messageId", json!("m"))["message"]);
    }
    let piece = update("append", json!(true));
    assert_eq!(mended(json!({ "artifact_update": piece["artifactUpdate"] })), (piece, Vec::new()));
}

#[test]
fn what_stays_unreadable_is_named_by_its_place() {
    for (event, kind, told) in [
        (status("state", json!("paused\u{1b}[31m")), "task", "\"/task/status/state\" is \"paused[31m\""),
        (status("state", json!(3)), "task", "\"/task/status/state\" is no text"),
        (task("id", json!({})), "task", "\"/task/id\" is no text"),
        (message("role", json!("tool")), "message", "\"/message/role\" is \"tool\""),
        (message("parts", json!("x")), "message", "\"/message/parts\" is no list"),
        (json!({ "message": "x" }), "message", "\"/message\" is no object"),
        (
            message("parts", json!([{ "txt": "x" }])),
            "message",
            "\"/message/parts/0\" is no part of a kind that A2A 1.0 has",
        ),
        (
            update("artifact", json!({ "parts": [{ "txt": "x" }] })),
            "artifactUpdate",
            "\"/artifactUpdate/artifact/parts/0\" is no part of a kind that A2A 1.0 has",
        ),
    ] {
        assert_eq!(culprit(&unread(event), kind).as_deref(), Some(told));
    }
    let long = status("state", json!("x".repeat(1_000)));
    assert!(culprit(&long, "task").is_some_and(|told| told.len() < 100), "it is bounded");
}

#[test]
fn what_is_named_is_bounded_and_all_of_it_is_counted() {
    let mut parts = vec![json!(1); 10_000];
    parts.push(json!({ "text": "x" }));
    let left = vec![Omission { count: 10_000, ..omission("/message/parts/0", Said) }];
    assert_eq!(mended(message("parts", json!(parts))), (message("messageId", json!("m")), left));
    let named: Vec<Value> = (0..100).map(|n| json!({ "artifactId": n.to_string(), "parts": [], "name": 1 })).collect();
    let artifacts: Vec<Value> = named.into_iter().chain([json!(7)]).collect();
    let (_, omissions) = mended(task("artifacts", json!(artifacts)));
    let names = Omission { count: 100, ..omission("/task/artifacts/0/name", Detail) };
    assert_eq!(omissions, [names, omission("/task/artifacts/100", Made)]);
}

use a2a::TaskState;
use serde_json::json;

use super::*;

fn done() -> Value {
    let task = json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_COMPLETED" } });
    json!({ "jsonrpc": "2.0", "id": 1, "result": { "task": task } })
}

/// What an answer says, however it is cut into pieces.
fn read(bytes: &[u8]) -> Vec<AnswerItem> {
    let pieces = |size: usize| {
        let mut decoder = Decoder::default();
        let mut all = Vec::new();
        for piece in bytes.chunks(size) {
            all.extend(decoder.push(piece));
        }
        all.extend(decoder.end());
        all
    };
    let whole = pieces(bytes.len().max(1));
    for size in 1..8 {
        assert_eq!(pieces(size), whole, "in pieces of {size} bytes: {}", String::from_utf8_lossy(bytes));
    }
    whole
}

fn states(items: &[AnswerItem]) -> Vec<Option<TaskState>> {
    let state = |item: &AnswerItem| match item {
        AnswerItem::Event(event) => match &**event {
            StreamResponse::Task(task) => Some(task.status.state.clone()),
            _ => None,
        },
        _ => None,
    };
    items.iter().map(state).collect()
}

#[test]
fn what_frameworks_write_beside_events_is_passed_over() {
    let done = done().to_string();
    for (what, text) in [
        ("as it should be", format!("data: {done}\n\n")),
        ("a mark of byte order, and other line ends", format!("\u{feff}data: {done}\r\n\r\n")),
        ("no last line", format!("data: {done}")),
        ("keep-alive without data", format!("id: 0\ndata:\n\n:\n\ndata: {done}\n\n")),
        ("another name", format!("event: heartbeat\ndata: {{\"at\":1}}\n\ndata: {done}\n\n")),
        ("a mark of the end", format!("data: {done}\n\ndata: [DONE]\n\n")),
        ("no stream", done.clone()),
        ("no stream, after space", format!("\r\n \u{feff}{done}\n")),
    ] {
        assert_eq!(states(&read(text.as_bytes())), [Some(TaskState::Completed)], "{what}");
    }
    assert_eq!(read(b""), []);
    assert_eq!(read(b"\n\n: nothing\n\n"), []);
}

#[test]
fn what_is_cut_or_odd_is_no_event_and_named() {
    let done = done().to_string();
    for cut in 1..done.len() {
        let (stream, body) = (format!("data: {}", &done[..cut]), &done[..cut]);
        for items in [read(stream.as_bytes()), read(body.as_bytes())] {
            assert!(matches!(&items[..], [AnswerItem::Foreign(_)]), "{cut}: {items:?}");
        }
    }
    let told = |result: Value| match &read(json!({ "result": result }).to_string().as_bytes())[..] {
        [AnswerItem::Foreign(skipped)] => skipped.what.clone(),
        other => panic!("{other:?}"),
    };
    assert!(told(json!({ "kind": "task", "id": "t" })).contains("A2A 0.3"));
    assert_eq!(told(json!({ "task": { "id": "t", "status": {} } })), "\"task\" without \"status/state\"");
    assert_eq!(
        told(json!({ "kind": null, "message": null, "task": { "id": "t", "status": { "state": "paused" } } })),
        "\"task\", which is not as A2A 1.0 has it: \"/task/status/state\" is \"paused\""
    );
    assert!(told(json!({ "tasks": [] })).contains("neither a task"));
    assert!(
        matches!(&read(b"data: hello\n\n")[..], [AnswerItem::Foreign(skipped)] if skipped.what.contains("no JSON"))
    );
    assert!(
        matches!(&read(b"{}")[..], [AnswerItem::Foreign(skipped)] if skipped.what.contains("neither result nor error"))
    );
}

#[test]
fn null_is_nothing_and_a_context_may_be_left_out() {
    let task = json!({ "id": "t", "status": { "state": "TASK_STATE_WORKING" } });
    let text = json!({ "error": null, "result": { "task": task } }).to_string();
    assert_eq!(states(&read(text.as_bytes())), [Some(TaskState::Working)]);
    let wrapped = json!({ "task": task });
    for told in [task, wrapped] {
        assert_eq!(super::task(told).map(|told| told.task.status.state), Ok(TaskState::Working));
    }
    let refused = json!({ "error": { "code": -32_001, "message": "no such task" }, "result": null });
    assert!(matches!(&read(refused.to_string().as_bytes())[..], [AnswerItem::Refusal(AgentError::Refused { .. })]));
}

#[test]
fn an_endless_answer_is_refused() {
    for begin in [&b"data: x"[..], b"{"] {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(begin), []);
        let outcome =
            (0..=ANSWER_BYTES_MAX / 65_536).map(|_| decoder.push(&[b'x'; 65_536])).find(|all| !all.is_empty());
        assert!(matches!(outcome.as_deref(), Some([AnswerItem::Endless])), "{outcome:?}");
    }
    let long = format!("data: {}\n\ndata: {}", done(), "x".repeat(ANSWER_BYTES_MAX));
    let all = Decoder::default().push(long.as_bytes());
    assert!(matches!(&all[..], [AnswerItem::Event(_), AnswerItem::Endless]), "what came before is not lost: {all:?}");
}

#[test]
fn what_keeps_a_connection_says_nothing_and_what_may_be_a_piece_is_named() {
    for beat in ["{}", "[]", "null", "\"\"", "ping", "\"Keep-Alive\"", "{\"type\":\"heartbeat\",\"at\":1}"] {
        assert_eq!(read(format!("data: {beat}\n\n").as_bytes()), [], "{beat}");
    }
    let update = |part: Value| {
        let artifact = json!({ "artifactId": "a", "parts": [part] });
        json!({ "result": { "artifactUpdate": { "taskId": "t", "artifact": artifact } } }).to_string()
    };
    let (wrong, right) = (update(json!({ "txt": "two" })), update(json!({ "text": "two" })));
    let renamed = right.replace("artifactUpdate", "artifact-update");
    for (what, text, hint) in [
        ("a part of no kind", format!("data: {wrong}\n\n"), Hint::Artifact),
        ("a text that is none", format!("data: {}\n\n", update(json!({ "text": 2 }))), Hint::Artifact),
        ("another member", format!("data: {renamed}\n\n"), Hint::Artifact),
        ("no result", format!("data: {}\n\n", right.replace("result", "resultat")), Hint::Artifact),
        ("cut", format!("data: {}", &right[..right.len() - 9]), Hint::Artifact),
        ("no JSON", "data: two\n\n".to_owned(), Hint::Anything),
    ] {
        assert!(matches!(&read(text.as_bytes())[..], [AnswerItem::Foreign(skipped)] if skipped.hint == hint), "{what}");
    }
    for name in ["chunk", "ping"] {
        let items = read(format!("event: {name}\ndata: {right}\n\n").as_bytes());
        assert!(
            matches!(&items[..], [AnswerItem::Named(skipped)] if skipped.hint == Hint::Artifact),
            "{name}: {items:?}"
        );
    }
}

/// The texts of the artifacts of an event.
fn texts(item: &AnswerItem) -> Vec<String> {
    let AnswerItem::Event(event) = item else { return Vec::new() };
    let artifacts = match &**event {
        StreamResponse::Task(task) => task.artifacts.clone().unwrap_or_default(),
        StreamResponse::ArtifactUpdate(update) => vec![update.artifact.clone()],
        _ => Vec::new(),
    };
    artifacts.iter().flat_map(|one| &one.parts).filter_map(a2a::Part::as_text).map(str::to_owned).collect()
}

#[test]
fn a_finished_task_with_odd_members_is_read_and_what_is_left_out_is_named() {
    let artifact = json!({ "name": 1, "parts": [{ "kind": "odd" }, { "text": "one" }] });
    let status = json!({ "state": "completed", "timestamp": "2026-01-01T00:00:00" });
    let task = json!({ "id": 7, "context_id": null, "status": status, "artifacts": [artifact], "history": "none" });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "result": { "message": null, "task": task } }).to_string();
    for text in [body.clone(), format!("data: {body}\n\n")] {
        let items = read(text.as_bytes());
        assert_eq!((states(&items)[0].clone(), texts(&items[0])), (Some(TaskState::Completed), vec!["one".to_owned()]));
        let [_, AnswerItem::Piece(skipped), AnswerItem::Details(details)] = &items[..] else { panic!("{items:?}") };
        assert_eq!(skipped.what, "\"/task/artifacts/0/parts/0\", which is not as A2A 1.0 has it");
        assert_eq!(skipped.hint, Hint::Artifact);
        let at: Vec<&str> = details.iter().map(|one| one.at.as_str()).collect();
        assert_eq!(
            at,
            ["/task/status/timestamp", "/task/artifacts/0/name", "/task/history", "/task/artifacts/0/parts/0"]
        );
    }
    let ToldTask { task, gap, omissions } = super::task(task).expect("a task");
    assert_eq!((task.id.as_str(), task.status.state, omissions.len()), ("7", TaskState::Completed, 4));
    assert_eq!(gap, None, "there is something to read");
}

#[test]
fn a_stream_of_odd_events_is_read_whole() {
    let status = json!({ "state": "WORKING", "message": { "role": "assistant", "parts": { "text": "at it" } } });
    let piece = |text: &str| json!({ "artifact_id": "a", "parts": [{ "text": text, "metadata": [] }] });
    let stream: String = [
        json!({ "result": { "task": { "id": "t", "status": { "state": "submitted" }, "artifacts": null } } }),
        json!({ "result": { "statusUpdate": { "task_id": "t", "status": status }, "message": null } }),
        json!({ "result": { "artifactUpdate": { "task_id": "t", "artifact": piece("one "), "last_chunk": "false" } } }),
        json!({ "result": { "artifactUpdate": { "taskId": "t", "artifact": piece("two"), "append": "true" } } }),
        json!({ "result": { "statusUpdate": { "taskId": "t", "status": { "state": "Completed", "timestamp": "" } } } }),
    ]
    .iter()
    .map(|event| format!("data: {event}\n\n"))
    .collect();
    let items = read(stream.as_bytes());
    let events: Vec<&AnswerItem> = items.iter().filter(|item| matches!(item, AnswerItem::Event(_))).collect();
    assert_eq!(events.len(), 5, "{items:?}");
    assert!(
        !items.iter().any(|item| matches!(item, AnswerItem::Piece(_) | AnswerItem::Foreign(_) | AnswerItem::Named(_))),
        "{items:?}"
    );
    let said: Vec<String> = items.iter().flat_map(texts).collect();
    assert_eq!(said, ["one ", "two"]);
    let AnswerItem::Event(last) = events[4] else { panic!("{items:?}") };
    assert!(matches!(&**last, StreamResponse::StatusUpdate(update) if update.status.state == TaskState::Completed));
}

#[test]
fn what_writers_of_json_get_wrong_loses_no_answer() {
    let artifact = r#"{"artifactId":"a","parts":[{"text":"smile \ud83d"},{"data":{"mean":NaN}}]}"#;
    let task = format!(r#"{{"id":"t","status":{{"state":"TASK_STATE_COMPLETED"}},"artifacts":[{artifact}]}}"#);
    let body = format!(r#"{{"result":{{"task":{task}}}}}"#);
    let mut latin = body.clone().into_bytes();
    let at = body.find("smile").expect("it is there");
    latin[at] = 0xe9;
    for (text, said) in [(body.into_bytes(), "smile \u{fffd}"), (latin, "\u{fffd}mile \u{fffd}")] {
        for before in [&b""[..], b"data: "] {
            let items = read(&[before, &text[..]].concat());
            assert_eq!((items.len(), texts(&items[0])), (1, vec![said.to_owned()]), "{items:?}");
        }
    }
}

#[test]
fn a_completed_task_with_nothing_left_is_not_taken_for_all_that_was_made() {
    let artifact = json!({ "artifactId": "a", "parts": [{ "txt": "x" }] });
    let task = |state: &str| json!({ "id": "t", "status": { "state": state }, "artifacts": [artifact] });
    let items = read(json!({ "result": { "task": task("completed") } }).to_string().as_bytes());
    assert!(
        matches!(&items[..], [AnswerItem::Piece(skipped), AnswerItem::Event(_), AnswerItem::Details(_)] if skipped.what.contains("/task/artifacts/0")),
        "{items:?}"
    );
    let gap = |task: Value| super::task(task).expect("a task").gap;
    let lost =
        SkippedItem { what: "\"/task/artifacts/0\", which is not as A2A 1.0 has it".to_owned(), hint: Hint::Artifact };
    for state in ["completed", "input-required"] {
        assert_eq!(gap(task(state)), Some(lost.clone()), "nothing is left");
    }
    for state in ["working", "failed"] {
        assert_eq!(gap(task(state)), None, "it goes on, or made nothing: {state}");
    }
    // A word stands for none of what was made, and neither does what is empty.
    let mut said = task("completed");
    said["status"]["message"] = json!({ "role": "agent", "parts": [{ "text": "done" }] });
    said["artifacts"] = json!([artifact, { "artifactId": "b", "parts": [] }]);
    assert_eq!(gap(said.clone()), Some(lost));
    let items = read(json!({ "result": { "task": said } }).to_string().as_bytes());
    assert!(matches!(&items[..], [AnswerItem::Piece(_), AnswerItem::Event(_), AnswerItem::Details(_)]), "{items:?}");
    let why = super::task(json!({ "id": "t", "status": { "state": "paused" } })).expect_err("nobody knows that state");
    assert!(why.contains("\"/task/status/state\" is \"paused\""), "{why}");
}

#[test]
fn a_last_state_whose_word_is_lost_is_not_taken_for_all_that_was_said() {
    let status = |state: &str| {
        let message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "file": { "uri": "x" } }] });
        json!({ "state": format!("TASK_STATE_{state}"), "message": message })
    };
    let update = |state: &str| json!({ "statusUpdate": { "taskId": "t", "status": status(state) } });
    let task = |state: &str| json!({ "task": { "id": "t", "status": status(state) } });
    for state in ["INPUT_REQUIRED", "AUTH_REQUIRED", "COMPLETED"] {
        for (result, at) in [(update(state), "/statusUpdate"), (task(state), "/task")] {
            let items = read(json!({ "result": result }).to_string().as_bytes());
            let [AnswerItem::Piece(lost), AnswerItem::Event(_), AnswerItem::Details(_)] = &items[..] else {
                panic!("{items:?}")
            };
            assert!(lost.hint == Hint::LastWord && lost.what.contains(&format!("{at}/status/message")), "{lost:?}");
        }
        let gap = super::task(task(state)).expect("a task").gap;
        assert_eq!(gap.map(|gap| gap.hint), Some(Hint::LastWord), "{state}");
        // What was made is told without it, but says nothing of what its user is asked: it may be of a turn before.
        let mut made = task(state);
        made["task"]["artifacts"] = json!([{ "artifactId": "a", "parts": [{ "odd": 1 }, { "text": "x" }] }]);
        let gap = super::task(made.clone()).expect("a task").gap;
        let items = read(json!({ "result": made }).to_string().as_bytes());
        if state == "COMPLETED" {
            assert_eq!(gap, None);
            let [AnswerItem::Event(_), AnswerItem::Piece(lost), AnswerItem::Details(_)] = &items[..] else {
                panic!("{items:?}")
            };
            assert_eq!(lost.hint, Hint::ArtifactAndWord);
        } else {
            assert_eq!(gap.map(|gap| gap.hint), Some(Hint::LastWord), "{state}");
            let [AnswerItem::Piece(lost), AnswerItem::Event(_), AnswerItem::Details(_)] = &items[..] else {
                panic!("{items:?}")
            };
            assert_eq!(lost.hint, Hint::LastWord);
        }
    }
    for state in ["WORKING", "FAILED"] {
        let items = read(json!({ "result": update(state) }).to_string().as_bytes());
        assert!(matches!(&items[..], [AnswerItem::Event(_), AnswerItem::Details(_)]), "{items:?}");
    }
}

#[test]
fn a_finished_task_is_told_with_the_message_beside_it() {
    let artifact = json!({ "artifactId": "a", "parts": [{ "text": "REPORT" }] });
    let task = json!({ "id": "t", "status": { "state": "completed" }, "artifacts": [artifact] });
    let both = json!({ "result": { "message": { "parts": [{ "text": "ok" }] }, "task": task } });
    let items = read(both.to_string().as_bytes());
    let [AnswerItem::Event(event)] = &items[..] else { panic!("{items:?}") };
    let StreamResponse::Task(told) = &**event else { panic!("{event:?}") };
    assert_eq!((told.status.state.clone(), texts(&items[0])), (TaskState::Completed, vec!["REPORT".to_owned()]));
    assert_eq!(told.status.message.as_ref().and_then(Message::text), Some("ok"));
}

#[test]
fn a_message_beside_a_task_that_has_a_word_or_beside_an_update_is_told_too() {
    let said = || json!({ "role": "agent", "parts": [{ "text": "REPORT" }] });
    let done = json!({ "state": "completed", "message": { "role": "agent", "parts": [{ "text": "done" }] } });
    let task = json!({ "id": "t", "status": done });
    let in_history = |task: &Task| task.history.iter().flatten().filter_map(Message::text).collect::<Vec<_>>().concat();
    let items = super::event(json!({ "task": task, "message": said() }));
    let [AnswerItem::Event(event)] = &items[..] else { panic!("{items:?}") };
    let StreamResponse::Task(told) = &**event else { panic!("{event:?}") };
    assert_eq!(in_history(told), "REPORT");
    // Also by an agent that is asked for it.
    let told = super::task(json!({ "task": task, "message": said() })).expect("a task");
    assert_eq!((in_history(&told.task), told.gap), ("REPORT".to_owned(), None));
    let artifact = json!({ "artifactId": "a", "parts": [{ "text": "x" }] });
    for update in [
        json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": done }, "message": said() }),
        json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "artifact": artifact }, "message": said() }),
    ] {
        let items = super::event(update);
        let [AnswerItem::Event(before), AnswerItem::Event(_)] = &items[..] else { panic!("{items:?}") };
        let StreamResponse::Message(message) = &**before else { panic!("{before:?}") };
        let of = (message.task_id.as_deref(), message.context_id.as_deref());
        assert_eq!((message.text(), of), (Some("REPORT"), (Some("t"), Some("c"))));
    }
    // What cannot be read of it may be all that was said.
    let odd = super::task(json!({ "task": task, "message": { "content": "REPORT" } })).expect("a task");
    assert_eq!(odd.gap.map(|gap| gap.hint), Some(Hint::LastWord));
    // A question that can be read can be answered.
    let asks =
        json!({ "state": "input-required", "message": { "role": "agent", "parts": [{ "text": "which one?" }] } });
    let asking = json!({ "task": { "id": "t", "status": asks }, "message": 200 });
    assert_eq!(super::task(asking).map(|told| told.gap), Ok(None));
    let fault = super::task(json!({ "task": { "id": "t" }, "message": said() })).expect_err("it has no state");
    assert_eq!(fault, "\"task\" without \"status/state\"");
}

#[test]
fn what_was_left_out_is_counted_to_its_end() {
    let mut parts = vec![json!(7); 10_000];
    parts.push(json!({ "text": "x" }));
    let artifact = json!({ "artifactId": "a", "parts": parts });
    let task = json!({ "id": "t", "status": { "state": "completed" }, "artifacts": [artifact] });
    let items = super::event(json!({ "task": task }));
    let [AnswerItem::Event(_), AnswerItem::Piece(lost), AnswerItem::Details(_)] = &items[..] else {
        panic!("{items:?}")
    };
    assert_eq!(lost.what, "\"/task/artifacts/0/parts/0\" and 9999 more, which are not as A2A 1.0 has them");
}

#[test]
fn an_event_is_the_one_that_the_model_of_a2a_reads() {
    let task = || json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_WORKING" } });
    let message =
        || json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "data": { "a": 1 }, "metadata": {} }] });
    let status = || json!({ "taskId": "t", "contextId": "c", "status": { "state": "", "message": message() } });
    let artifact = || json!({ "taskId": "t", "contextId": "c", "artifact": { "artifactId": "a", "parts": [] } });
    for result in [
        json!({ "message": message() }),
        json!({ "task": task() }),
        json!({ "statusUpdate": status() }),
        json!({ "artifactUpdate": artifact() }),
        json!({ "task": task(), "message": message() }),
        json!({ "task": task(), "message": null }),
        json!({ "artifactUpdate": artifact(), "statusUpdate": status() }),
        json!({ "statusUpdate": status(), "task": {} }),
        json!({ "artifactUpdate": task() }),
        json!({ "tasks": [] }),
        json!([]),
        json!("task"),
        json!(null),
    ] {
        assert_eq!(as_event(&result), StreamResponse::deserialize(&result).ok(), "{result}");
    }
}

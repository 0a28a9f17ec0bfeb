//! What a server answers a call with, read member by member.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::block;

/// How often it is asked how a task goes, if the server says nothing.
const POLL: Duration = Duration::from_secs(2);
/// The shortest and the longest time between two questions.
const POLL_MIN: Duration = Duration::from_millis(250);
const POLL_MAX: Duration = Duration::from_secs(30);
/// Bytes of a task's id.
const TASK_ID_BYTES_MAX: usize = 256;

/// An answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A result of the tool.
    Result(Value),
    /// The server asks its client for something first.
    Asks(Value),
    /// The server works on, and tells later (tasks of MCP).
    Task(McpTask),
    /// None of these.
    Unreadable(&'static str),
}

/// A task of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpTask {
    pub id: String,
    /// How long to wait before the next question.
    pub poll: Duration,
}

/// How a task goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// It works; ask again after this time.
    Works(Duration),
    /// It is done, and its result is here.
    Done(Value),
    /// It is done, and its result is to be asked for.
    Ready,
    /// It failed; why.
    Failed(String),
    /// It waits for input.
    Asks,
}

/// What MCP knows of a result.
const MEMBERS: [&str; 5] = ["content", "structuredContent", "isError", "_meta", "resultType"];
const UNREADABLE: &str = "it answered with something else than a result of a tool";
const NOTHING_READABLE: &str = "no part of its answer can be read";

/// Reads an answer.
pub fn read(answer: &Value) -> Answer {
    if let Some(task) = begun(answer) {
        return Answer::Task(task);
    }
    match answer["resultType"].as_str() {
        Some("input_required") if answer.is_object() => Answer::Asks(answer.clone()),
        None | Some("complete") => result(answer).map_or_else(Answer::Unreadable, Answer::Result),
        Some(_) => Answer::Unreadable(UNREADABLE),
    }
}

/// An answer to a call with those members only that are a result's, for readers that would take it for something else.
pub fn readable(answer: Value) -> Value {
    match read(&answer) {
        Answer::Result(result) => result,
        Answer::Asks(_) | Answer::Task(_) | Answer::Unreadable(_) => answer,
    }
}

/// The task by which a call is answered, if its server works on. An answer that has something to read, or says that the tool
/// failed, is a result, whatever stands beside it.
pub fn begun(answer: &Value) -> Option<McpTask> {
    match answer["resultType"].as_str() {
        Some("task") => task(answer),
        None | Some("complete") => {
            let bare = || Some(answer).filter(|handle| status(handle).is_some()).and_then(task);
            task(&answer["task"]).or_else(bare).filter(|_| !has_result(answer))
        }
        Some(_) => None,
    }
}

fn has_result(answer: &Value) -> bool {
    let failed = answer.get("isError").is_some_and(is_failure);
    let has_content = || parts(&answer["content"]).iter().any(|part| block::read(part).is_some());
    failed || !answer["structuredContent"].is_null() || has_content()
}

/// The parts of an answer's content. Some write one block without a list.
fn parts(content: &Value) -> &[Value] {
    match content {
        Value::Null => &[],
        Value::Array(parts) => parts.as_slice(),
        part => std::slice::from_ref(part),
    }
}

/// Whatever is not plainly no error is one.
fn is_failure(said: &Value) -> bool {
    !said.is_null() && *said != json!(false)
}

/// The handle of a task.
fn task(handle: &Value) -> Option<McpTask> {
    let id = match &handle["taskId"] {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => return None,
    };
    (1..=TASK_ID_BYTES_MAX).contains(&id.len()).then(|| McpTask { id, poll: poll(handle) })
}

/// The word of MCP for how a task goes, in the spelling of whoever says it: that of A2A too.
fn status(handle: &Value) -> Option<&'static str> {
    let said = handle["status"].as_str()?.trim().to_ascii_lowercase().replace('-', "_");
    Some(match said.strip_prefix("task_state_").unwrap_or(&said) {
        "working" | "submitted" => "working",
        "completed" => "completed",
        "failed" => "failed",
        "cancelled" | "canceled" => "cancelled",
        "input_required" => "input_required",
        _ => return None,
    })
}

fn poll(handle: &Value) -> Duration {
    // Before 2026-07-28 it had another name.
    let said = handle["pollIntervalMs"].as_u64().or(handle["pollInterval"].as_u64());
    said.map_or(POLL, |ms| Duration::from_millis(ms).clamp(POLL_MIN, POLL_MAX))
}

/// Reads how a task goes.
///
/// # Errors
/// It is no task.
pub fn progress(told: &Value) -> Result<Progress, &'static str> {
    // In the newest version it stands in the answer, before it beside it; some put it into a member.
    let told = if told["status"].is_string() { told } else { &told["task"] };
    let said = || told["statusMessage"].as_str().map(str::to_owned);
    Ok(match status(told) {
        Some("working") => Progress::Works(poll(told)),
        Some("completed") if told["result"].is_object() => Progress::Done(told["result"].clone()),
        Some("completed") => Progress::Ready,
        Some("failed") => {
            let why = told["error"]["message"].as_str().map(str::to_owned);
            Progress::Failed(why.or_else(said).unwrap_or_else(|| "the tool failed".to_owned()))
        }
        Some("cancelled") => Progress::Failed(said().unwrap_or_else(|| "its server cancelled it".to_owned())),
        Some("input_required") => Progress::Asks,
        _ => return Err("it does not say how the task goes"),
    })
}

/// Whether an error says that a question about a task will never be answered: it is none that the server knows, or the task is
/// not there (JSON-RPC's codes, and MCP's for what cannot be found).
pub fn is_final(code: i32) -> bool {
    matches!(code, -32_600 | -32_601 | -32_602 | -32_002)
}

/// The members of a result that MCP knows. Content counts as far as it can be read, and structured content also without it. A
/// result of which nothing can be read is none, unless it says that the tool failed.
fn result(answer: &Value) -> Result<Value, &'static str> {
    let answer = answer.as_object().ok_or(UNREADABLE)?;
    let member = |name: &str| answer.get(name).filter(|value| !value.is_null());
    let structured = member("structuredContent");
    let failed = member("isError").is_some_and(is_failure);
    let says_nothing = member("content").is_none() && structured.is_none() && member("isError").is_none();
    // A tool may have nothing to say. But what is said under another name is not to be lost without a word.
    if says_nothing && answer.keys().any(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(UNREADABLE);
    }
    let parts: &[Value] = member("content").map(parts).unwrap_or_default();
    let mut read: Vec<Value> = parts.iter().filter_map(block::read).collect();
    let left_out = parts.len() - read.len();
    if left_out > 0 {
        if read.is_empty() && structured.is_none() && !failed {
            return Err(NOTHING_READABLE);
        }
        let said = format!("{left_out} of {} parts of the answer cannot be read, and are left out", parts.len());
        read.push(json!({ "type": "text", "text": said }));
    }
    let mut result =
        Map::from_iter([("content".to_owned(), Value::Array(read)), ("isError".to_owned(), json!(failed))]);
    let more = [("structuredContent", structured), ("_meta", member("_meta").filter(|meta| meta.is_object()))];
    for (name, value) in more {
        if let Some(value) = value {
            result.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(complete) = member("resultType") {
        result.insert("resultType".to_owned(), complete.clone());
    }
    Ok(Value::Object(result))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(answer: Value) -> Value {
        match read(&answer) {
            Answer::Result(result) => result,
            other => panic!("{answer}: {other:?}"),
        }
    }

    #[test]
    fn a_result_is_read_member_by_member() {
        let text = json!({ "type": "text", "text": "3" });
        assert_eq!(made(json!({ "content": [text] })), json!({ "content": [text], "isError": false }));
        let structured = made(json!({ "content": null, "structuredContent": { "n": 1 }, "isError": null, "_meta": 7 }));
        assert_eq!(structured, json!({ "content": [], "structuredContent": { "n": 1 }, "isError": false }));
        let picture = json!({ "type": "image", "data": "AAEC", "mimeType": "image/png" });
        let some = made(json!({ "content": [{ "type": "text" }, picture, 7, text], "resultType": "complete" }));
        assert_eq!((some["content"].as_array().map(Vec::len), &some["content"][1]), (Some(3), &text));
        let said = some["content"][2]["text"].as_str().expect("a text");
        assert!(said.starts_with("2 of 4 parts"), "{said}");
        assert_eq!(made(json!({ "content": text }))["content"], json!([text]));
    }

    #[test]
    fn a_result_of_which_nothing_can_be_read_is_a_failure() {
        let odd = json!({ "type": "text", "text": 42 });
        let none = [json!([odd]), json!(["ok"]), json!([{ "text": "ok" }]), odd, json!("done"), json!([[]])];
        for content in none {
            let none = json!({ "content": content, "isError": false });
            assert_eq!(read(&none), Answer::Unreadable(NOTHING_READABLE), "{none}");
            // What else is good stays, with a word of what is not.
            let structured = made(json!({ "content": content, "structuredContent": { "n": 1 } }));
            assert_eq!((&structured["structuredContent"], &structured["isError"]), (&json!({ "n": 1 }), &json!(false)));
            assert!(structured["content"][0]["text"].as_str().is_some_and(|said| said.starts_with("1 of 1 parts")));
            assert_eq!(made(json!({ "content": content, "isError": true }))["isError"], true);
        }
        assert_eq!(made(json!({ "content": [] }))["content"], json!([]), "a tool may have nothing to say");
    }

    #[test]
    fn what_can_be_read_beside_a_task_is_the_result() {
        let task = json!({ "taskId": "t", "status": "working" });
        let text = json!({ "type": "text", "text": "3" });
        for more in [
            json!({ "content": [text] }),
            json!({ "content": text }),
            json!({ "content": [], "structuredContent": { "n": 1 } }),
            json!({ "content": [], "isError": true }),
        ] {
            let mut both = more.clone();
            both["task"] = task.clone();
            assert!(matches!(read(&both), Answer::Result(_)), "{both}");
            assert_eq!(begun(&both), None);
        }
        for none in [json!({}), json!({ "content": [] }), json!({ "content": null, "isError": false })] {
            let mut alone = none.clone();
            alone["task"] = task.clone();
            assert!(matches!(read(&alone), Answer::Task(_)), "{alone}");
        }
    }

    #[test]
    fn what_is_not_plainly_no_error_is_one_and_nothing_to_say_is_an_empty_result() {
        for failed in [json!(true), json!("true"), json!("false"), json!(1), json!({})] {
            assert_eq!(made(json!({ "content": [], "isError": failed }))["isError"], true, "{failed}");
        }
        for empty in [
            json!({}),
            json!({ "content": null }),
            json!({ "content": null, "structuredContent": null }),
            json!({ "_meta": {} }),
            json!({ "resultType": "complete" }),
        ] {
            let read = made(empty.clone());
            assert_eq!((&read["content"], &read["isError"]), (&json!([]), &json!(false)), "{empty}");
        }
        for none in [
            json!(null),
            json!([]),
            json!("done"),
            json!({ "content": "done" }),
            json!({ "contents": [{ "type": "text", "text": "done" }] }),
            json!({ "resultType": "other", "content": [] }),
            json!({ "resultType": "task" }),
            json!({ "tools": [] }),
            json!({ "task": { "taskId": "" } }),
        ] {
            assert!(matches!(read(&none), Answer::Unreadable(_)), "{none}");
        }
    }

    #[test]
    fn handles_of_tasks_are_told_from_results_in_both_versions() {
        let new = json!({ "resultType": "task", "taskId": "t", "status": "working", "pollIntervalMs": 1_000 });
        let task = McpTask { id: "t".to_owned(), poll: Duration::from_secs(1) };
        assert_eq!(read(&new), Answer::Task(task.clone()));
        let old = json!({ "task": { "taskId": "t", "status": "working", "ttl": 1, "pollInterval": 1_000 } });
        assert_eq!(read(&old), Answer::Task(task));
        let hasty = json!({ "task": { "taskId": "t", "pollInterval": 0 } });
        assert_eq!(read(&hasty), Answer::Task(McpTask { id: "t".to_owned(), poll: POLL_MIN }));
        let numbered = McpTask { id: "7".to_owned(), poll: POLL };
        for bare in [json!({ "taskId": 7, "status": "TASK_STATE_WORKING" }), json!({ "task": { "taskId": 7 } })] {
            assert_eq!(read(&bare), Answer::Task(numbered.clone()), "{bare}");
        }
        for none in [json!({ "taskId": "t" }), json!({ "taskId": "t", "status": "odd" })] {
            assert!(matches!(read(&none), Answer::Unreadable(_)), "{none}");
        }
        let of = |status: &str| json!({ "taskId": "t", "status": status });
        for (spelled, progress_of_it) in [
            ("Working", Progress::Works(POLL)),
            ("TASK_STATE_SUBMITTED", Progress::Works(POLL)),
            ("COMPLETED", Progress::Ready),
            ("input-required", Progress::Asks),
            ("TASK_STATE_CANCELED", Progress::Failed("its server cancelled it".to_owned())),
            ("cancelled", Progress::Failed("its server cancelled it".to_owned())),
        ] {
            assert_eq!(progress(&of(spelled)), Ok(progress_of_it), "{spelled}");
        }
        assert_eq!(progress(&of("working")), Ok(Progress::Works(POLL)));
        assert_eq!(progress(&json!({ "task": of("working") })), Ok(Progress::Works(POLL)));
        assert_eq!(progress(&of("completed")), Ok(Progress::Ready));
        assert_eq!(progress(&of("input_required")), Ok(Progress::Asks));
        let done = json!({ "status": "completed", "result": { "content": [] } });
        assert_eq!(progress(&done), Ok(Progress::Done(json!({ "content": [] }))));
        let failed = json!({ "status": "failed", "error": { "code": 1, "message": "no" } });
        assert_eq!(progress(&failed), Ok(Progress::Failed("no".to_owned())));
        for none in [json!({}), json!({ "status": "odd" }), json!({ "content": [] }), json!(null)] {
            assert!(progress(&none).is_err(), "{none}");
        }
    }
}

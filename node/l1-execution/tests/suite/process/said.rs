//! What a program says in the history of its task, and with a task that is only submitted, is not lost.

use super::*;

/// Behaviours whose first word is this are acted here.
pub const HERE: &str = "says";

fn message(id: &str, role: &str, text: &str) -> Value {
    json!({ "messageId": id, "contextId": "theirs", "taskId": "t-1", "role": role, "parts": [{ "text": text }] })
}

/// A task that is over, with all that was said in it.
fn told_whole(question: &Value) -> Value {
    let mut done = task("TASK_STATE_COMPLETED", None);
    let agent = |id: &str, text: &str| message(id, "ROLE_AGENT", text);
    done["status"]["message"] = agent("m-4", "done");
    let (first, which, second) = (agent("m-1", "looking"), agent("m-2", "which?"), agent("m-3", "looking again"));
    let before = message("u-1", "ROLE_USER", "find it");
    done["history"] = json!([before, first, which, question, second, agent("m-4", "done")]);
    done
}

/// What the program does.
pub fn act(out: &mut dyn Write, behaviour: &str, request: &Value) {
    let status = |state: &str, metadata: Value| {
        json!({ "statusUpdate": {
            "taskId": "t-1", "contextId": "theirs", "status": { "state": state }, "metadata": metadata,
        } })
    };
    match behaviour {
        "says it whole" => events(out, &[json!({ "task": told_whole(&request["params"]["message"]) })]),
        "says it twice" => {
            let mut working = status("TASK_STATE_WORKING", Value::Null);
            working["statusUpdate"]["status"]["message"] = message("m-1", "ROLE_AGENT", "looking");
            let begun = json!({ "task": task("TASK_STATE_WORKING", None) });
            events(out, &[begun, working, json!({ "task": told_whole(&request["params"]["message"]) })]);
        }
        "says it when submitted" => {
            let mut waits = status("TASK_STATE_SUBMITTED", json!({ "of": "word" }));
            waits["statusUpdate"]["status"]["message"] = message("m-1", "ROLE_AGENT", "there are 3 before you");
            let only = status("TASK_STATE_SUBMITTED", json!({ "place": 3 }));
            let begun = json!({ "task": task("TASK_STATE_SUBMITTED", None) });
            events(out, &[begun, only, waits, status("TASK_STATE_COMPLETED", Value::Null)]);
        }
        other => panic!("no such behaviour: {other}"),
    }
}

/// The states that were told, with what was said with them.
fn words(made: &[Made]) -> Vec<(TaskState, &str)> {
    let state = |made: &Made| match made {
        Made::Status(state, _) => Some(state.clone()),
        _ => None,
    };
    made.iter().filter_map(|made| state(made).map(|state| (state, text_of(made)))).collect()
}

fn text_of(made: &Made) -> &str {
    match made {
        Made::Status(_, Some(said)) => said.text().unwrap_or_default(),
        _ => "",
    }
}

#[tokio::test]
async fn what_the_agent_said_in_its_tasks_history_is_told_before_how_it_ends() {
    let scene = scene("says it whole");
    let (made, ended) = scene.turn("that", None).await;
    ended.expect("a turn");
    let working = |text| (TaskState::Working, text);
    let all = ["looking", "which?", "looking again", ""].map(working);
    assert_eq!(words(&made), [&all[..], &[(TaskState::Completed, "done")]].concat());
    assert_eq!(made.last(), Some(&Made::Begun { state: TaskState::Completed, metadata: None }), "it begins with that");
    // What the node has of it already is not told again.
    let mut asked = turn("that", None);
    let question: Message = serde_json::from_value(message("m-2", "ROLE_AGENT", "which?")).expect("a message");
    let first: Message = serde_json::from_value(message("m-1", "ROLE_AGENT", "looking")).expect("a message");
    asked.history = vec![Message::new(Role::User, vec![Part::text("find it")]), first, question];
    let (out, made) = Output::channel();
    let (ended, made) = tokio::join!(scene.host.turn("program", asked, out), super::all(made));
    ended.expect("a turn");
    assert_eq!(words(&made), [working("looking again"), working(""), (TaskState::Completed, "done")]);
}

#[tokio::test]
async fn what_was_said_with_a_state_is_not_told_again_with_the_history() {
    let (made, ended) = scene("says it twice").turn("that", None).await;
    ended.expect("a turn");
    let working = |text| (TaskState::Working, text);
    let all = ["looking", "which?", "looking again", ""].map(working);
    assert_eq!(words(&made), [&all[..], &[(TaskState::Completed, "done")]].concat());
}

#[tokio::test]
async fn what_is_said_with_a_task_that_is_only_submitted_is_told_with_its_metadata() {
    let (made, ended) = scene("says it when submitted").turn("hello", None).await;
    ended.expect("a turn");
    let metadata = |name: &str, value: Value| Some([(name.to_owned(), value)].into());
    assert_eq!(made[1], Made::Begun { state: TaskState::Submitted, metadata: None });
    assert_eq!(made[2], Made::Begun { state: TaskState::Submitted, metadata: metadata("place", json!(3)) });
    let Made::Annotated(word, of) = &made[3] else { panic!("{made:?}") };
    assert_eq!((text_of(word), Some(of.clone())), ("there are 3 before you", metadata("of", json!("word"))));
    assert!(matches!(**word, Made::Status(TaskState::Working, _)), "{word:?}");
    assert_eq!(made[4..], [Made::Status(TaskState::Completed, None)]);
}

//! A program whose answer ends while its task goes on is asked for the task; and one whose card cannot be used is told of.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Behaviours whose first word is this are acted here.
pub const HERE: &str = "leaves";
/// Behaviours whose first word is this show another card.
pub const UNFIT: &str = "shows";
/// What such a failure says.
const ENDED: &str = "its answer ended while it worked";
/// How often a program is asked for its task until that is over.
const LOOKS: usize = 3;

/// What the program does.
pub fn act(out: &mut dyn Write, behaviour: &str, request: &Value) {
    static LOOKED: AtomicUsize = AtomicUsize::new(0);
    let answered = |out: &mut dyn Write, result: Value| {
        let text = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string();
        answer(out, "application/json", text.as_bytes());
    };
    let working = json!({ "task": task("TASK_STATE_WORKING", None) });
    match (request["method"].as_str().unwrap_or_default(), behaviour) {
        ("GetTask", "leaves and forgets") => {
            let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32_001, "message": "no such task" } });
            answer(out, "application/json", error.to_string().as_bytes());
        }
        ("GetTask", _) => {
            let is_over = LOOKED.fetch_add(1, Ordering::Relaxed) + 1 == LOOKS;
            let (state, text) = if is_over { ("COMPLETED", "both halves") } else { ("WORKING", "both") };
            answered(out, task(&format!("TASK_STATE_{state}"), Some(text)));
        }
        (_, "leaves nothing") => answer(out, "text/event-stream", b""),
        (_, "leaves without streams") => answered(out, working),
        (_, "leaves in the middle") => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            let event = format!("data: {}\n\ndata: {{", json!({ "jsonrpc": "2.0", "id": 1, "result": working }));
            // The size of the second chunk is none.
            let _ = out.write_all(format!("{head}{:x}\r\n{event}\r\nnone\r\n", event.len()).as_bytes());
        }
        _ => events(out, &[working]),
    }
}

/// The card that cannot be used.
pub fn show(out: &mut dyn Write, behaviour: &str) {
    match behaviour {
        "shows an old card" => {
            let card = json!({
                "name": "program", "description": "a program", "version": "1", "skills": [], "capabilities": {},
                "protocolVersion": "0.3.0", "url": "http://somewhere.example/rpc",
            });
            answer(out, "application/json", card.to_string().as_bytes());
        }
        other => answer(out, "text/html", format!("<html>{other}</html>").as_bytes()),
    }
}

#[tokio::test]
async fn an_answer_that_ends_before_its_task_is_followed_to_the_end() {
    for behaviour in ["leaves early", "leaves in the middle", "leaves without streams"] {
        let scene = scene(behaviour);
        let (made, ended) = scene.turn("hello", None).await;
        ended.unwrap_or_else(|error| panic!("{behaviour}: {error}"));
        assert_eq!((texts(&made).concat().as_str(), ending(&made)), ("both halves", Some(TaskState::Completed)));
        let notes = scene.notes();
        assert_eq!(notes.matches("GetTask").count(), LOOKS, "{behaviour}: {notes}");
        scene.host.stop_all().await;
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_followed_has_failed() {
    for (behaviour, remembered, told) in [
        ("leaves nothing", None, "named no task"),
        ("leaves and forgets", None, "does not know its task"),
        // What goes on in a task of before is asked for that task.
        ("leaves nothing", Some(json!({ "taskId": "t-1", "contextId": "theirs" }).to_string()), ""),
    ] {
        let is_known = remembered.is_some();
        let scene = scene(behaviour);
        let (made, ended) = scene.turn("hello", remembered).await;
        match ended {
            Ok(()) => assert!(is_known && ending(&made) == Some(TaskState::Completed), "{behaviour}: {made:?}"),
            Err(error) => {
                let said = error.to_string();
                assert!(!is_known && said.contains(ENDED) && said.contains(told), "{behaviour}: {said}");
                assert_ne!(ending(&made), Some(TaskState::Completed), "{behaviour}");
                tells_no_place(&error);
            }
        }
        scene.host.stop_all().await;
    }
}

#[tokio::test]
async fn a_turn_uses_the_time_that_it_has_and_cancels_what_goes_on() {
    let scene = scene("leaves early");
    until("it is ready", || scene.host.status()[0].state == AgentState::Ready).await;
    let mut asked = turn("hello", None);
    // Less than until the program would have been asked often enough.
    asked.parameters.within = Some(Duration::from_millis(500));
    let (out, made) = Output::channel();
    let (ended, _) = tokio::join!(scene.host.turn("program", asked, out), all(made));
    let said = ended.expect_err("its time is over").to_string();
    assert!(said.contains(ENDED) && said.contains("the time that its caller gave it is over"), "{said}");
    scene.noted("CancelTask").await;
    scene.host.stop_all().await;
}

#[tokio::test]
async fn a_card_that_cannot_be_used_is_told_of_at_once_and_seldom_read() {
    provide();
    for (behaviour, told) in [("shows an old card", "agent of A2A 0.3"), ("shows a page", "no agent card")] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = file(folder.path(), behaviour, 2_000);
        let scene = Scene { folder, host: Host::new(Builtins::new(), ProcessConfig::default()) };
        scene.host.start(&file, scene.folder.path()).expect("it starts");
        let state = || scene.host.status()[0].state.clone();
        let says = |state: &AgentState| match state {
            AgentState::Unreachable { why } | AgentState::Restarting { why, .. } => why.contains(told),
            _ => false,
        };
        until("its status says why", || says(&state())).await;
        until("it is started again", || matches!(state(), AgentState::Restarting { .. })).await;
        assert!(says(&state()), "{:?}", state());
        // Within two seconds at 0, 0.1, 0.3, 0.7 and 1.5 s; and when it is started again.
        let reads = scene.notes().matches("GET").count();
        assert!((1..=12).contains(&reads), "{behaviour}: {reads}");
        let (out, _made) = Output::channel();
        let down = scene.host.turn("program", turn("hello", None), out).await.expect_err("it takes no turns");
        tells_no_place(&down);
        scene.host.stop_all().await;
    }
}

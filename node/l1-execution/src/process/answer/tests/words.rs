//! What the agent says: told once, in its order, and missed where it cannot be read.

use super::*;

/// A task that is over, or waits, with a word that cannot be read.
fn unheard(state: &str) -> Value {
    let message = json!({ "messageId": "q", "role": "ROLE_AGENT", "parts": [{ "file": { "uri": "x" } }] });
    let mut task = task(OURS, state, "");
    task["status"]["message"] = message;
    task
}

#[tokio::test(start_paused = true)]
async fn a_last_state_without_its_word_is_told_with_that_word_or_has_failed() {
    let mut heard = unheard("INPUT_REQUIRED");
    heard["status"]["message"]["parts"] = json!([{ "text": "which one?" }]);
    for state in ["INPUT_REQUIRED", "COMPLETED"] {
        let update = json!({ "taskId": OURS, "contextId": "c", "status": unheard(state)["status"] });
        let results = [json!({ "statusUpdate": update }), json!({ "task": unheard(state) })];
        for result in results {
            let items = [Item::of(&result, Meaning::State(OURS, "INPUT_REQUIRED"))];
            let (made, ended) = streamed(&items, false, &[Told::Task(heard.clone())]).await;
            ended.expect("its task says what it asks");
            assert_eq!(end(&made).as_deref(), Some("INPUT_REQUIRED"));
            let word = |made: &Made| match made {
                Made::Status(_, said) => said.as_ref().and_then(Message::text).map(str::to_owned),
                _ => None,
            };
            assert_eq!(made.iter().filter_map(word).collect::<Vec<_>>(), ["which one?"]);
            // Neither a task that has lost the word too nor one that never had it says what was said.
            for told in [unheard(state), task(OURS, state, "")] {
                let (made, ended) = streamed(&items, false, &vec![Told::Task(told); 8]).await;
                let error = ended.expect_err("nobody knows what it said").to_string();
                assert!(error.contains("could not be read") && error.contains("/status/message"), "{error}");
                assert!(!made.iter().any(|made| matches!(made, Made::Status(..))), "{made:?}");
            }
        }
    }
    // A task that was asked for is not taken for all that was said either, nor asked for without end.
    let working = [Item::task(OURS, "WORKING", "")];
    let (_, ended) = streamed(&working, true, &vec![Told::Task(unheard("COMPLETED")); 8]).await;
    let error = ended.expect_err("nobody knows what it said").to_string();
    assert!(error.contains("could not be read") && error.contains("/task/status/message"), "{error}");
}

/// The texts of what the agent said, in the order in which they were told.
fn words(made: &[Made]) -> Vec<&str> {
    let said = made.iter().filter_map(|one| match one {
        Made::Status(_, said) => said.as_ref(),
        _ => None,
    });
    said.filter_map(Message::text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_streamed_answer_is_whole_without_its_last_word_where_nothing_else_is_missing() {
    let silent = vec![Told::Miss(Miss::Silent("no GetTask".to_owned())); 8];
    let last = |state: &'static str| {
        let update = json!({ "taskId": OURS, "contextId": "c", "status": unheard(state)["status"] });
        Item::of(&json!({ "statusUpdate": update }), Meaning::State(OURS, state))
    };
    let begun = || vec![Item::task(OURS, "WORKING", ""), Item::piece(OURS, "one "), Item::piece(OURS, "two")];
    let (made, ended) = streamed(&[begun(), vec![last("COMPLETED")]].concat(), false, &silent).await;
    ended.expect("all that was made was told");
    assert_eq!((text(&made).as_str(), end(&made).as_deref()), ("one two", Some("COMPLETED")));
    // A question is no such word, and neither is anything that may have been a piece.
    let lost = Item::piece(OURS, "lost").broken(&mut Dice(1));
    for rest in [vec![last("INPUT_REQUIRED")], vec![lost, last("COMPLETED")]] {
        let (_, ended) = streamed(&[begun(), rest].concat(), false, &silent).await;
        let error = ended.expect_err("something is missing").to_string();
        assert!(error.contains("could not be read"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_lost_is_not_made_up_for_by_what_was_made_before() {
    let mut asked = unheard("INPUT_REQUIRED");
    asked["artifacts"] = json!([{ "artifactId": "a", "parts": [{ "text": "of the first turn" }] }]);
    let mut heard = asked.clone();
    heard["status"]["message"]["parts"] = json!([{ "text": "which one?" }]);
    let item = || [Item::of(&json!({ "task": asked }), Meaning::State(OURS, "INPUT_REQUIRED"))];
    let working = || [Item::task(OURS, "WORKING", "")];
    for items in [item(), working()] {
        let told = [Told::Task(asked.clone()), Told::Task(heard.clone())];
        let (made, ended) = streamed(&items, false, &told).await;
        ended.expect("its task says what it asks");
        assert_eq!((words(&made), end(&made).as_deref()), (vec!["which one?"], Some("INPUT_REQUIRED")));
        let (made, ended) = streamed(&items, false, &vec![Told::Task(asked.clone()); 12]).await;
        ended.expect_err("nobody knows what it asks");
        assert!(!made.iter().any(|made| matches!(made, Made::Status(TaskState::InputRequired, _))), "{made:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_made_is_told_though_the_question_after_it_is_lost() {
    let mut asked = unheard("INPUT_REQUIRED");
    asked["artifacts"] = json!([
        { "artifactId": "a", "parts": [{ "text": "less" }] },
        { "artifactId": "b", "parts": [{ "text": "begun, and the rest" }] },
    ]);
    let whole = || Item::of(&json!({ "task": asked }), Meaning::State(OURS, "INPUT_REQUIRED"));
    let piece = |id: &str, text: &str| {
        let artifact = json!({ "artifactId": id, "parts": [{ "text": text }] });
        let update = json!({ "taskId": OURS, "contextId": "c", "artifact": artifact });
        Item::of(&json!({ "artifactUpdate": update }), Meaning::Piece(OURS, text.to_owned()))
    };
    let silent = || vec![Told::Miss(Miss::Silent("no GetTask".to_owned())); 8];
    let pieces = || vec![Item::task(OURS, "WORKING", ""), piece("a", "more than less"), piece("b", "begun")];
    for (items, told, right) in [
        (vec![whole()], silent(), vec!["less", "begun, and the rest"]),
        (
            vec![Item::task(OURS, "WORKING", "")],
            vec![Told::Task(asked.clone()); 12],
            vec!["less", "begun, and the rest"],
        ),
        // What was told is not replaced by less.
        ([pieces(), vec![whole()]].concat(), silent(), vec!["more than less", "begun", ", and the rest"]),
    ] {
        let (made, ended) = streamed(&items, false, &told).await;
        ended.expect_err("nobody knows what it asks");
        let texts = made.iter().filter_map(|one| match one {
            Made::Artifact { artifact, .. } => artifact.parts.first().and_then(Part::as_text),
            _ => None,
        });
        assert_eq!(texts.collect::<Vec<_>>(), right, "{items:?}");
        assert!(!made.iter().any(|made| matches!(made, Made::Status(TaskState::InputRequired, _))), "{made:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_that_comes_again_in_a_stream_is_told_again_and_is_known_in_a_history() {
    let said = ["the", " cat", "the"];
    let message = |number: usize| json!({ "metadata": { "at": number }, "parts": [{ "text": said[number] }] });
    let word = |number: usize| Item::of(&json!({ "message": message(number) }), Meaning::Word(OURS));
    let items = [Item::task(OURS, "WORKING", ""), word(0), word(1), word(2)];
    let mut done = task(OURS, "COMPLETED", MADE);
    let history: Vec<Value> = (0..3)
        .map(|number| {
            let mut message = message(number);
            message["role"] = json!("agent");
            message
        })
        .collect();
    done["history"] = json!(history);
    let (made, ended) = streamed(&items, false, &[Told::Task(done)]).await;
    ended.expect("it is complete");
    assert_eq!(words(&made), said);
}

#[tokio::test(start_paused = true)]
async fn a_report_beside_a_task_is_told_though_the_task_has_a_word_of_its_own() {
    let said = json!({ "role": "agent", "parts": [{ "text": "REPORT" }] });
    let mut done = task(OURS, "COMPLETED", "");
    done["status"]["message"] = json!({ "role": "agent", "parts": [{ "text": "done" }] });
    let update = json!({ "taskId": OURS, "contextId": "c", "status": done["status"] });
    let of = |event: Value| [Item::of(&event, Meaning::State(OURS, "COMPLETED"))];
    for (items, told) in [
        (of(json!({ "task": done, "message": said })), vec![]),
        (of(json!({ "statusUpdate": update, "message": said })), vec![]),
        ([Item::task(OURS, "WORKING", "")], vec![Told::Task(json!({ "task": done, "message": said }))]),
    ] {
        let (made, ended) = streamed(&items, false, &told).await;
        ended.expect("it is complete");
        assert_eq!((words(&made), end(&made).as_deref()), (vec!["REPORT", "done"], Some("COMPLETED")), "{items:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_without_parts_hides_no_question_that_its_task_asks() {
    let mut empty = task(OURS, "INPUT_REQUIRED", "");
    empty["status"]["message"] = json!({ "messageId": "q", "role": "ROLE_AGENT" });
    let mut heard = empty.clone();
    heard["status"]["message"]["parts"] = json!([{ "text": "which one?" }]);
    heard["artifacts"] = json!([{ "artifactId": "a", "parts": [{ "text": "lost" }] }]);
    let update = json!({ "taskId": OURS, "contextId": "c", "status": empty["status"] });
    let last = Item::of(&json!({ "statusUpdate": update }), Meaning::State(OURS, "INPUT_REQUIRED"));
    let items = [Item::task(OURS, "WORKING", ""), Item::piece(OURS, "lost").broken(&mut Dice(1)), last];
    let (made, ended) = streamed(&items, false, &[Told::Task(heard)]).await;
    ended.expect("its task says what it asks");
    assert_eq!((words(&made), end(&made).as_deref()), (vec!["which one?"], Some("INPUT_REQUIRED")));
}

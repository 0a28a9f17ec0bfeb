//! What stands beside an answer, and what an agent says of its failure: no gate judges it, so that nobody sees it where gates
//! read answers.

use std::sync::{Arc, Mutex};

use a2a::{Artifact, Message, Part, Role, TaskState};
use althing_execution::agent::{Made, Metadata, Parameters, UNWORDED_FAILURE};
use althing_execution::{AgentError, Ports, Turn, judge_outputs};
use serde_json::{Value, json};

use super::malformed::host;
use super::{Judge, Seen, artifact, schema, seen, seen_by, seen_of, text, why};

const WORD: &str = "quicksand";

/// A contract whose judge lets everything pass.
fn checked() -> Value {
    json!({ "checks": [{ "by": "agents/judge" }] })
}

/// What callers see of an answer, and what its judge was asked.
async fn judged(verify: Value, answer: Vec<Made>) -> (Seen, Vec<String>) {
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let judge = Judge("{\"passed\": true}", asked.clone());
    let ports = Ports { agents: Some(Arc::new(judge)), ..Ports::none() };
    let seen = seen_by(ports, verify, "how much?", vec![answer]).await;
    let asked = asked.lock().expect("nobody panics").clone();
    (seen, asked)
}

fn word(state: TaskState) -> Made {
    Made::Status(state, Some(Message::new(Role::Agent, vec![Part::text(WORD)])))
}

fn metadata() -> Option<Metadata> {
    Some(Metadata::from([("note".to_owned(), json!(WORD))]))
}

#[tokio::test]
async fn of_a_failure_no_word_of_its_agent_is_shown() {
    for verify in [schema(), checked()] {
        for state in [TaskState::Failed, TaskState::Rejected, TaskState::Canceled] {
            for failure in [word(state.clone()), word(state.clone()).annotated(metadata())] {
                let (seen, asked) = judged(verify.clone(), vec![text(WORD), failure]).await;
                assert_eq!((seen.ended, asked), (Ok(()), Vec::new()));
                let [Made::Status(shown, Some(message))] = &seen.made[..] else { panic!("{:?}", seen.made) };
                assert_eq!((shown, message.text()), (&state, Some(UNWORDED_FAILURE)));
                assert!(!format!("{:?}", seen.made).contains(WORD), "{:?}", seen.made);
            }
        }
    }
    let failure = word(TaskState::Failed);
    assert_eq!(seen(json!({}), vec![vec![failure.clone()]]).await.made, [failure], "nothing reads its answers");
}

#[tokio::test]
async fn what_an_agent_says_at_its_end_is_not_shown_since_it_fails_then() {
    let failed = Made::Status(TaskState::Failed, None);
    for verify in [schema(), checked()] {
        for end in [word(TaskState::Completed), word(TaskState::Unspecified)] {
            let (seen, asked) = judged(verify.clone(), vec![end, failed.clone()]).await;
            assert_eq!((seen.ended, seen.made, asked), (Ok(()), vec![failed.clone()], Vec::new()), "{verify}");
        }
    }
}

#[tokio::test]
async fn of_an_error_no_word_of_its_agent_is_shown() {
    let refused = AgentError::Refused { code: -32_000, message: WORD.to_owned(), details: vec![json!(WORD)] };
    let foreign = AgentError::NotA2a(format!("an event with the name {WORD:?}"));
    for error in [AgentError::Failed(WORD.to_owned()), AgentError::Rejected(WORD.to_owned()), refused, foreign] {
        let ended = async |verify: Value| {
            let turns = (vec![vec![text(WORD)]], Some(error.clone()));
            let seen = seen_of(Ports::none(), verify, "how much?", turns).await;
            (seen.ended, seen.made)
        };
        for verify in [schema(), checked()] {
            let (ended, made) = ended(verify).await;
            assert!(ended.is_err() && made.is_empty(), "{ended:?} {made:?}");
            assert!(!format!("{ended:?}").contains(WORD), "{ended:?}");
        }
        assert_eq!(ended(json!({})).await.0, Err(error.clone()), "nothing reads its answers");
    }
}

#[tokio::test]
async fn ids_names_and_metadata_say_nothing() {
    let part = Part::text("{\"total\": 3}").with_media_type(format!("application/json; note={WORD}"));
    let part = Part { filename: Some(WORD.to_owned()), metadata: metadata(), ..part };
    let named = Artifact {
        artifact_id: WORD.to_owned(),
        name: Some(WORD.to_owned()),
        description: Some(WORD.to_owned()),
        parts: vec![part.clone()],
        metadata: metadata(),
        extensions: Some(vec![WORD.to_owned()]),
    };
    let first = Made::Artifact { artifact: named.clone(), append: false, last: false };
    let space = Artifact { parts: vec![Part::text("\n")], ..named };
    let then = Made::Artifact { artifact: space, append: true, last: true };
    let reply = Message {
        message_id: WORD.to_owned(),
        metadata: metadata(),
        extensions: Some(vec![WORD.to_owned()]),
        reference_task_ids: Some(vec![WORD.to_owned()]),
        ..Message::new(Role::Agent, vec![part])
    };
    for verify in [schema(), checked()] {
        for answer in [vec![first.clone().annotated(metadata()), then.clone()], vec![Made::Reply(reply.clone())]] {
            let count = answer.len();
            let (seen, _) = judged(verify.clone(), answer).await;
            assert_eq!((seen.ended, seen.made.len()), (Ok(()), count), "{verify}");
            assert!(!format!("{:?}", seen.made).contains(WORD), "{:?}", seen.made);
            if let [Made::Artifact { artifact: one, .. }, Made::Artifact { artifact: other, .. }] = &seen.made[..] {
                assert_eq!(one.artifact_id, other.artifact_id, "pieces of one artifact stay together");
            }
        }
    }
}

/// The media types of the parts that are shown.
fn media_types(seen: &Seen) -> Vec<Option<String>> {
    let parts = |made: &Made| match made {
        Made::Artifact { artifact, .. } => artifact.parts.clone(),
        Made::Reply(message) | Made::Status(_, Some(message)) => message.parts.clone(),
        other => panic!("{other:?}"),
    };
    seen.made.iter().flat_map(parts).map(|part| part.media_type).collect()
}

#[tokio::test]
async fn a_media_type_that_the_contract_does_not_permit_says_nothing() {
    const SENTENCE: &str = "QUICKSAND the real total";
    let mut permits = schema();
    permits["media"] = json!(["application/*"]);
    let text = |media: &str| Part::text("{\"total\": 7}").with_media_type(media);
    let file = |media: &str| Part::raw(b"{\"total\": 7}".to_vec()).with_media_type(media);
    for (verify, part, shown) in [
        (schema(), text(SENTENCE), None),
        (schema(), text("text/quicksand"), None),
        (schema(), text("text/plain"), Some("text/plain")),
        (schema(), text("Application/JSON; note=quicksand"), Some("application/json")),
        (checked(), text(SENTENCE), None),
        (checked(), file(SENTENCE), None),
        (checked(), file("image/quicksand"), None),
        (checked(), file("text/plain; charset=quicksand"), Some("text/plain")),
        (permits.clone(), text("application/vnd.total+json"), Some("application/vnd.total+json")),
    ] {
        let message = Message::new(Role::Agent, vec![part.clone()]);
        let ending = Made::Status(TaskState::Completed, Some(message.clone()));
        for made in [artifact(vec![part.clone()], false), Made::Reply(message.clone()), ending] {
            let (seen, _) = judged(verify.clone(), vec![made]).await;
            assert_eq!((&seen.ended, media_types(&seen)), (&Ok(()), vec![shown.map(str::to_owned)]), "{part:?}");
        }
    }
    let (seen, _) = judged(permits.clone(), vec![artifact(vec![text("application/the real total")], false)]).await;
    assert!(why(&seen).starts_with("GATE_REFUSED: the gate `media`") && seen.made.is_empty(), "{:?}", seen.ended);
    let asks = Made::Status(TaskState::InputRequired, Some(Message::new(Role::Agent, vec![text(SENTENCE)])));
    let (seen, _) = judged(permits, vec![asks]).await;
    assert_eq!((seen.ended.is_ok(), media_types(&seen)), (true, vec![None]));
}

#[tokio::test]
async fn checks_read_files_of_text_and_refuse_others() {
    let (seen, asked) = judged(checked(), vec![artifact(vec![Part::text("see"), Part::raw(WORD.into())], false)]).await;
    assert_eq!((seen.ended, seen.made.len()), (Ok(()), 1));
    assert!(asked.len() == 1 && asked[0].contains(WORD), "{asked:?}");
    for file in [Part::raw(vec![0xff, 0xfe]), Part::url(format!("https://files.example/{WORD}"))] {
        let (seen, asked) = judged(checked(), vec![artifact(vec![Part::text("see"), file], false)]).await;
        assert!(why(&seen).starts_with("GATE_REFUSED: the gate `checks`") && asked.is_empty(), "{:?}", seen.ended);
        assert!(seen.made.is_empty(), "{:?}", seen.made);
    }
}

#[tokio::test]
async fn what_another_agent_made_in_its_place_is_judged_all_the_same() {
    let (host, _script) = host();
    let judge = async |made: Vec<Made>| {
        let turn = Turn {
            task_id: "task".to_owned(),
            context_id: "context".to_owned(),
            message: Message::new(Role::User, vec![Part::text("how much?")]),
            history: Vec::new(),
            artifacts: Vec::new(),
            remembered: None,
            parameters: Parameters::default(),
        };
        judge_outputs(&host, "script", turn, made).await
    };
    let ending = Made::Status(TaskState::Completed, None);
    let notes = || Part::data(json!({ "usage": { "finish": WORD }, "tools": [WORD] }));
    let good = artifact(vec![Part::text("{\"total\": 3}"), notes()], false);
    let shown = judge(vec![good, ending.clone()]).await.expect("it is good");
    assert_eq!((shown.len(), shown.last()), (2, Some(&ending)));
    assert!(!format!("{shown:?}").contains(WORD), "{shown:?}");
    for bad in [text(WORD), artifact(vec![notes()], false), word(TaskState::Completed)] {
        let refused = judge(vec![bad, ending.clone()]).await.expect_err("it is none");
        assert!(matches!(&refused, AgentError::GateRefused(why) if !why.contains(WORD)), "{refused:?}");
    }
    let failed = judge(vec![text(WORD), word(TaskState::Failed)]).await.expect("it failed");
    assert!(failed.len() == 1 && !format!("{failed:?}").contains(WORD), "{failed:?}");
}

/// Nobody knows what its contract says, and so its gates are not known to be none.
#[tokio::test]
async fn what_was_made_in_the_place_of_an_agent_that_does_not_run_is_not_shown() {
    let (host, _script) = host();
    let turn = Turn {
        task_id: "task".to_owned(),
        context_id: "context".to_owned(),
        message: Message::new(Role::User, vec![Part::text("how much?")]),
        history: Vec::new(),
        artifacts: Vec::new(),
        remembered: None,
        parameters: Parameters::default(),
    };
    assert!(host.stop("script").await, "it runs");
    let refused = judge_outputs(&host, "script", turn, vec![text("{\"total\": 3}")]).await.expect_err("it is down");
    assert!(matches!(&refused, AgentError::Down { agent, .. } if agent == "script"), "{refused:?}");
}

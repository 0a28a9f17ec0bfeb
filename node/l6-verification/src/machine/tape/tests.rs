use althing_execution::journal::Checkpoint;
use althing_session::RecordedStep;
use serde_json::json;

use super::*;

pub(crate) fn heard(value: u64) -> StepOutcome {
    StepOutcome { result: Ok(json!(value)), tokens: 3, label: None }
}

/// A turn of the agent `clerk` with these calls of tools.
pub(crate) fn turn(calls: &[(&str, Value, Option<StepOutcome>)]) -> RecordedTurn {
    let step = |(seq, (name, arguments, outcome)): (u32, &(&str, Value, Option<StepOutcome>))| {
        let call = call_digest(CallKind::Tool, name, arguments);
        RecordedStep { seq, kind: CallKind::Tool, name: (*name).to_owned(), call, outcome: outcome.clone() }
    };
    RecordedTurn {
        task: "task".to_owned(),
        message: "one".to_owned(),
        agent: "clerk".to_owned(),
        version: "1.0.0".to_owned(),
        binding: "hash".to_owned(),
        label: None,
        seed: [9; 32],
        readings: Vec::new(),
        checkpoint: None,
        steps: (0..).zip(calls).map(step).collect(),
    }
}

fn played(calls: &[(&str, Value, Option<StepOutcome>)]) -> Playback {
    Playback::new(Tape::new(turn(calls), "clerk").expect("it is the agent's"))
}

fn ask(playback: &mut Playback, name: &str, arguments: &Value) -> Result<StepOutcome, OnTape> {
    let request = Request { kind: CallKind::Tool, name, arguments };
    let answer = playback.answer(request).map(|(_, outcome)| outcome);
    answer.map_err(|missing| {
        assert_eq!(missing.name, name);
        missing.has
    })
}

#[test]
fn a_request_is_answered_by_its_hash_and_those_that_are_alike_in_their_order() {
    let calls = [
        ("a/x", json!({ "k": 1, "l": 2 }), Some(heard(1))),
        ("a/y", json!({}), Some(heard(2))),
        ("a/x", json!({ "k": 1, "l": 2 }), Some(heard(3))),
    ];
    let mut playback = played(&calls);
    assert_eq!(ask(&mut playback, "a/y", &json!({})), Ok(heard(2)), "in any order");
    assert_eq!(ask(&mut playback, "a/x", &json!({ "l": 2, "k": 1 })), Ok(heard(1)));
    assert_eq!(playback.unplayed(), ["a/x"]);
    assert_eq!(ask(&mut playback, "a/x", &json!({ "k": 1, "l": 2 })), Ok(heard(3)));
    assert!(playback.unplayed().is_empty() && playback.missing().is_none());
}

#[test]
fn what_is_not_on_the_tape_fails_by_name() {
    let mut playback = played(&[("a/x", json!(1), Some(heard(1))), ("a/z", json!(1), None)]);
    assert_eq!(ask(&mut playback, "b/x", &json!(1)), Err(OnTape::Nothing));
    assert_eq!(ask(&mut playback, "a/x", &json!(2)), Err(OnTape::OtherArguments(1)));
    assert_eq!(ask(&mut playback, "a/z", &json!(1)), Err(OnTape::NoAnswer));
    assert_eq!(ask(&mut playback, "a/x", &json!(1)), Ok(heard(1)));
    assert_eq!(ask(&mut playback, "a/x", &json!(1)), Err(OnTape::FewerTimes(1)));
    let first = playback.missing().expect("there are several").to_string();
    assert_eq!(first, "not on the tape: b/x, which it never asked");
    // A tool is no model, even if it has the name of one.
    let request = Request { kind: CallKind::Model, name: "models", arguments: &json!([]) };
    assert!(playback.answer(request).is_err());
}

#[test]
fn what_another_model_answered_is_not_on_the_tape() {
    let mut playback = played(&[("models", json!(1), Some(heard(1)))]);
    assert_eq!(ask(&mut playback, "models", &json!(1)), Ok(heard(1)));
    let refused = playback.refuse("models", "small-1.2").to_string();
    assert_eq!(refused, "not on the tape: models; it has what small-1.2 answered, which is not asked now");
    assert_eq!(playback.missing().map(ToString::to_string), Some(refused));
}

#[test]
fn a_tape_that_begins_at_a_checkpoint_says_so() {
    let checkpoint = Some(Checkpoint { state: vec![1], progress: Vec::new(), label: None });
    let turn = RecordedTurn { checkpoint, ..turn(&[("a/x", json!(1), Some(heard(1)))]) };
    let mut playback = Playback::new(Tape::new(turn, "clerk").expect("it is the agent's"));
    assert_eq!(ask(&mut playback, "a/y", &json!(1)), Err(OnTape::AfterCheckpoint));
}

#[test]
fn the_tape_of_another_agent_is_refused() {
    let refused = Tape::new(turn(&[]), "thief").expect_err("it is another one's");
    assert_eq!(refused, TapeError::OtherAgent { tape: "clerk".to_owned(), tested: "thief".to_owned() });
}

#[test]
fn a_replay_is_equal_or_says_where_it_differs() {
    let output = |digest: u8| TurnOutput { binding: "hash".into(), digest: [digest; 32], state: "completed".into() };
    let mut playback = played(&[("a/x", json!(1), Some(heard(1)))]);
    assert_eq!(ask(&mut playback, "a/x", &json!(1)), Ok(heard(1)));
    assert_eq!(compare(&output(1), &output(1), &playback), ReplayVerdict::Equal);
    assert_eq!(compare(&output(1), &output(2), &playback), ReplayVerdict::Differs(vec![Difference::Output]));
    let mut playback = played(&[("a/x", json!(1), Some(heard(1)))]);
    assert!(ask(&mut playback, "a/y", &json!(1)).is_err());
    let is = TurnOutput { binding: "other".into(), state: "failed".into(), ..output(1) };
    let ReplayVerdict::Differs(differences) = compare(&output(1), &is, &playback) else { panic!("it differs") };
    let told: Vec<String> = differences.iter().map(Difference::to_string).collect();
    assert_eq!(
        told,
        [
            "bound to other, and it was bound to hash",
            "not on the tape: a/y, which it never asked",
            "a/x is on the tape, and was not asked",
            "ended as failed, and it had ended as completed",
        ]
    );
}

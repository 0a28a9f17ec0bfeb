//! Turns as their rows tell them again.

use super::*;

fn session() -> SessionId {
    turn("one").session
}

#[test]
fn a_recorded_turn_tells_each_step_with_what_came_of_it() {
    let long = heard(json!("x".repeat(PART_BYTES_MAX + 9)));
    let mut rows = TurnRows::new(turn("one"), begin());
    make(&mut rows, "models", Effect::Repeatable, &long);
    make(&mut rows, "mail/send", Effect::Final, &heard(json!(2)));
    go(&mut rows, "mail/send", Effect::Final).expect("it may be made");
    let told = recorded(session(), &written(&mut rows)).expect("as it was written");
    let names: Vec<(u32, &str)> = told.steps.iter().map(|step| (step.seq, step.name.as_str())).collect();
    assert_eq!(names, [(0, "models"), (1, "mail/send"), (2, "mail/send")]);
    let outcomes: Vec<Option<StepOutcome>> = told.steps.iter().map(|step| step.outcome.clone()).collect();
    assert_eq!(outcomes, [Some(long), Some(heard(json!(2))), None], "nobody knows what came of the last one");
    assert_eq!(told.steps[1].call, call_digest(CallKind::Tool, "mail/send", &json!({ "a": 1 })));
    assert_eq!((told.task.as_str(), told.message.as_str(), told.seed), ("task", "one", [9; 32]));
    assert_eq!(told.label, begin().label);
}

#[test]
fn a_call_that_was_given_up_is_told_as_the_agent_heard_it() {
    let mut rows = TurnRows::new(turn("one"), begin());
    go(&mut rows, "mail/send", Effect::Final).expect("it may be made");
    let stored = written(&mut rows);
    let mut again = TurnRows::read(turn("one"), begin(), &stored).expect("as it was written");
    assert!(again.clear_doubt(0, Choice::Failed, None, ("owner", 30)).expect("there is room"));
    let stored = [stored, written(&mut again)].concat();
    let told = recorded(session(), &stored).expect("as it was written");
    let outcome = told.steps[0].outcome.clone().expect("it is known");
    let Ok(Next::Replayed(heard)) = again.reach(call("mail/send", Effect::Final)) else { panic!("it is over") };
    assert_eq!(outcome, heard);
}

#[test]
fn rows_that_were_changed_are_no_turn() {
    let (_, stored) = cut_off();
    assert!(recorded(session(), &stored).is_ok());
    assert!(recorded(session(), &[]).is_err() && recorded(session(), &stored[1..]).is_err());
    assert!(recorded(SessionId([7; 16]), &stored).is_err(), "of another session");
    // The row after it names its digest.
    let mut changed = stored;
    *changed[1].1.last_mut().expect("a row has bytes") ^= 1;
    assert!(recorded(session(), &changed).is_err());
}

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn event(event: Value) -> StreamResponse {
    serde_json::from_value(event).expect("an event")
}

fn task(id: &str, state: &str) -> StreamResponse {
    event(json!({ "task": { "id": id, "contextId": "c", "status": { "state": format!("TASK_STATE_{state}") } } }))
}

fn message() -> StreamResponse {
    event(json!({ "message": { "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "hello" }] } }))
}

fn passed(what: &str, hint: Hint) -> SkippedItem {
    SkippedItem { what: what.to_owned(), hint }
}

fn why(next: Next) -> String {
    match next {
        Next::Fail(error) | Next::GiveUp(error) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

const NOW: Duration = Duration::from_secs(1);

#[test]
fn only_a_last_state_or_a_message_alone_ends_an_answer() {
    for state in ["COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED"] {
        let mut course = Course::new(None, None);
        assert_eq!(course.hear(&task("t", "WORKING"), Share::Less), Verdict::Take);
        assert_eq!(course.hear(&task("t", state), Share::Less), Verdict::Take);
        assert_eq!(course.hear(&task("t", "WORKING"), Share::Less), Verdict::Pass, "it is over");
        assert_eq!(course.next(After::Answer, NOW), Next::Done, "{state}");
    }
    for state in ["SUBMITTED", "WORKING", "UNSPECIFIED"] {
        let mut course = Course::new(None, None);
        course.hear(&task("t", state), Share::Less);
        assert_eq!(course.hear(&message(), Share::Less), Verdict::Aside, "a message ends no task");
        assert_eq!(course.hear(&task("other", "COMPLETED"), Share::Less), Verdict::Pass, "it is another's");
        assert!(matches!(course.next(After::Answer, NOW), Next::Ask { task, .. } if task == "t"), "{state}");
    }
    let mut course = Course::new(None, None);
    assert_eq!(course.hear(&message(), Share::Less), Verdict::Take);
    assert_eq!(course.next(After::Answer, NOW), Next::Done);
}

#[test]
fn what_says_nothing_is_followed_where_the_task_is_known_and_fails_elsewhere() {
    assert!(why(Course::new(None, None).next(After::Answer, NOW)).starts_with(ENDED));
    let mut continued = Course::new(Some("t".to_owned()), None);
    assert!(matches!(continued.next(After::Answer, NOW), Next::Ask { .. }));
    let mut odd = Course::new(None, None);
    odd.note_foreign(passed("hello", Hint::Anything)).expect("the first");
    assert_eq!(odd.next(After::Answer, NOW), Next::Fail(AgentError::NotA2a("hello".to_owned())));
    let outcome = (0..=FOREIGN_MAX).map(|_| odd.note_foreign(passed("more", Hint::Anything))).find(Result::is_err);
    assert!(outcome.is_some(), "it is not read for ever");
}

#[test]
fn a_last_state_after_a_gap_waits_for_a_task_that_has_all() {
    for (state, hint, share, is_whole) in [
        ("COMPLETED", Hint::Anything, Share::All, true),
        ("COMPLETED", Hint::Anything, Share::Nothing, true),
        ("COMPLETED", Hint::Artifact, Share::Nothing, false),
        ("COMPLETED", Hint::Anything, Share::Less, false),
        ("INPUT_REQUIRED", Hint::Artifact, Share::Less, false),
        ("AUTH_REQUIRED", Hint::Artifact, Share::All, true),
        ("FAILED", Hint::Artifact, Share::Less, true),
    ] {
        let mut course = Course::new(None, None);
        course.hear(&task("t", "WORKING"), Share::Nothing);
        course.note_foreign(passed("a piece", hint)).expect("one");
        let is_failure = state == "FAILED";
        let verdict = course.hear(&task("t", state), Share::Less);
        assert_eq!(verdict, if is_failure { Verdict::Take } else { Verdict::Withhold }, "{state}");
        if is_failure {
            assert_eq!(course.next(After::Answer, NOW), Next::Done);
            continue;
        }
        assert!(course.is_heard(), "nothing more is read");
        assert_eq!(course.hear(&task("t", "WORKING"), Share::All), Verdict::Pass);
        let mut next = course.next(After::Answer, NOW);
        for _ in 0..GAP_ASKS_MAX {
            assert!(matches!(next, Next::Ask { .. }), "{state}, {share:?}: {next:?}");
            let verdict = course.hear(&task("t", state), share);
            assert_eq!(verdict == Verdict::Take, is_whole, "{state}, {hint:?}, {share:?}");
            next = course.next(After::Told { changed: false }, NOW);
            if is_whole {
                break;
            }
        }
        if is_whole {
            assert_eq!(next, Next::Done);
        } else {
            assert!(matches!(&next, Next::Fail(_)), "nothing goes on that could be cancelled: {next:?}");
            let why = why(next);
            assert!(why.starts_with(GAP) && why.contains("a piece"), "{why}");
        }
    }
    let mut course = Course::new(None, None);
    course.hear(&task("t", "WORKING"), Share::Nothing);
    course.note_foreign(passed("a piece", Hint::Artifact)).expect("one");
    course.hear(&task("t", "COMPLETED"), Share::Less);
    course.next(After::Answer, NOW);
    let next = course.next(After::Missed(Miss::Unknown), NOW);
    assert!(matches!(&next, Next::Fail(_)) && why(next).starts_with(GAP));
}

#[test]
fn a_message_that_names_its_task_or_goes_on_with_one_ends_nothing() {
    let named = || {
        event(json!({ "message": {
            "messageId": "m", "taskId": "t", "role": "ROLE_AGENT", "parts": [{ "text": "starting" }],
        } }))
    };
    let mut course = Course::new(None, None);
    assert_eq!(course.hear(&named(), Share::Less), Verdict::Hold);
    assert_eq!(course.hear(&task("other", "COMPLETED"), Share::All), Verdict::Pass);
    assert_eq!(course.hear(&named(), Share::Less), Verdict::Aside);
    assert_eq!(course.hear(&task("t", "FAILED"), Share::Less), Verdict::Take);
    // An agent that keeps no tasks, or does not tell of them, said all that it has to say.
    for miss in [Miss::Unknown, Miss::Silent("no GetTask".to_owned())] {
        let mut goes_on = Course::new(Some("t".to_owned()), None);
        assert_eq!(goes_on.hear(&message(), Share::Less), Verdict::Hold);
        assert!(matches!(goes_on.next(After::Answer, NOW), Next::Ask { task, .. } if task == "t"));
        assert_eq!(goes_on.next(After::Missed(miss), NOW), Next::Done);
    }
    // It alone is the answer of an agent that knows no such task, and ended its answer.
    for (breaks, has_gap) in [(false, false), (true, false), (false, true)] {
        let mut course = Course::new(None, None);
        course.hear(&named(), Share::Less);
        if breaks {
            course.break_off();
        }
        if has_gap {
            course.note_gap(passed("something", Hint::Anything));
        }
        assert!(matches!(course.next(After::Answer, NOW), Next::Ask { .. }));
        let next = course.next(After::Missed(Miss::Unknown), NOW);
        assert_eq!(next == Next::Done, !breaks && !has_gap, "{next:?}");
    }
    let mut course = Course::new(None, None);
    course.note_foreign(passed("a task", Hint::Task)).expect("one");
    assert_eq!(course.hear(&message(), Share::Less), Verdict::Aside, "it is beside what could not be read");
    assert!(matches!(course.next(After::Answer, NOW), Next::Fail(AgentError::NotA2a(_))));
}

#[test]
fn what_cannot_be_read_after_the_task_was_named_fails_nothing() {
    let begun = || {
        let mut course = Course::new(None, None);
        course.hear(&task("t", "WORKING"), Share::Nothing);
        course
    };
    let mut course = begun();
    for _ in 0..10 {
        (0..FOREIGN_MAX).for_each(|_| course.note_foreign(passed("beat", Hint::Anything)).expect("few in a row"));
        assert!(!course.is_heard());
        course.hear(&task("t", "WORKING"), Share::Nothing);
    }
    (0..=FOREIGN_MAX).for_each(|_| course.note_foreign(passed("beat", Hint::Anything)).expect("its task is known"));
    assert!(course.is_heard() && matches!(course.next(After::Answer, NOW), Next::Ask { .. }));
    let mut course = begun();
    course.endless().expect("its task is known");
    assert!(course.is_heard() && matches!(course.next(After::Answer, NOW), Next::Ask { .. }));
    assert_eq!(course.hear(&task("t", "COMPLETED"), Share::All), Verdict::Take);
    let own = || AgentError::Failed("not any more".to_owned());
    assert_eq!(Course::new(Some("t".to_owned()), None).refuse(own()), Err(own()), "the message was refused");
    let mut course = begun();
    course.refuse(own()).expect("its task may go on");
    assert!(matches!(course.next(After::Answer, NOW), Next::Ask { .. }));
    let late = NOW + REFUSED_STILL_MAX;
    assert_eq!(course.next(After::Told { changed: false }, late), Next::GiveUp(own()));
    assert_eq!(course.next(After::Missed(Miss::Unknown), late), Next::Fail(own()));
}

#[test]
fn a_task_is_asked_for_with_longer_pauses_and_sooner_again_once_it_changes() {
    let mut course = Course::new(Some("t".to_owned()), None);
    let mut now = NOW;
    let mut pauses = Vec::new();
    let mut next = course.next(After::Answer, now);
    for _ in 0..9 {
        let Next::Ask { pause, .. } = next else { panic!("{next:?}") };
        pauses.push(u64::try_from(pause.as_millis()).expect("it is short"));
        now += pause;
        next = course.next(After::Told { changed: false }, now);
    }
    assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000]);
    let sooner = course.next(After::Told { changed: true }, now);
    assert!(matches!(sooner, Next::Ask { pause, .. } if pause == PAUSE.0), "{sooner:?}");
    assert!(why(course.next(After::Told { changed: false }, now + STILL_MAX)).contains("for an hour"));
}

#[test]
fn what_asking_leads_to_decides_how_long_it_goes_on() {
    let missed = || After::Missed(Miss::Now("it does not answer".to_owned()));
    let mut course = Course::new(Some("t".to_owned()), None);
    course.next(After::Answer, NOW);
    let almost = NOW + SILENT_MAX - Duration::from_secs(1);
    for _ in 0..100 {
        assert!(matches!(course.next(missed(), almost), Next::Ask { pause, .. } if pause <= PAUSE.1));
    }
    let told = course.next(After::Told { changed: false }, almost);
    assert!(matches!(told, Next::Ask { .. }), "it is back: {told:?}");
    assert!(matches!(course.next(missed(), almost), Next::Ask { .. }));
    let told = why(course.next(missed(), almost + SILENT_MAX));
    assert!(told.starts_with(ENDED) && told.ends_with("asked for 2 times in vain: it does not answer"), "{told}");
    let ever = course.next(After::Missed(Miss::Ever("it does not know the task any more".to_owned())), NOW);
    assert!(matches!(&ever, Next::Fail(_)), "{ever:?}");
}

#[test]
fn a_turn_with_an_end_asks_until_then_however_often_that_leads_to_nothing() {
    let within = SILENT_MAX * 3;
    let mut course = Course::new(Some("t".to_owned()), Some(within));
    course.next(After::Answer, NOW);
    let missed = || After::Missed(Miss::Now("it does not answer".to_owned()));
    let (mut now, mut times) = (NOW, 0);
    let last = loop {
        match course.next(missed(), now) {
            Next::Ask { pause, .. } => now += pause,
            other => break other,
        }
        times += 1;
        assert!(times < 1_000, "it does not end");
    };
    assert!(matches!(&last, Next::GiveUp(_)) && now + LAST >= within, "{last:?} after {now:?}");
    let told = why(last);
    assert!(told.contains("its caller gave it is over") && told.ends_with("it does not answer"), "{told}");
}

#[test]
fn the_turns_time_is_used_up_and_no_longer() {
    let mut course = Course::new(Some("t".to_owned()), Some(Duration::from_millis(1_500)));
    course.hear(&task("t", "WORKING"), Share::Less);
    let of = Duration::from_millis;
    let pause = |next: Next| match next {
        Next::Ask { pause, .. } => pause,
        other => panic!("{other:?}"),
    };
    assert_eq!(pause(course.next(After::Answer, of(0))), of(200));
    assert_eq!(pause(course.next(After::Told { changed: false }, of(200))), of(400));
    assert_eq!(pause(course.next(After::Told { changed: false }, of(600))), of(700), "and not 800");
    let over = course.next(After::Told { changed: false }, of(1_300));
    assert!(matches!(&over, Next::GiveUp(_)), "{over:?}");
    assert_eq!(why(over), format!("{ENDED}: the time that its caller gave it is over"));
}

#[test]
fn each_stage_hears_what_belongs_to_it() {
    let begun = || {
        let mut course = Course::new(None, None);
        course.hear(&task("t", "WORKING"), Share::Less);
        course
    };
    let after = |go: fn(&mut Course)| {
        let mut course = begun();
        go(&mut course);
        course
    };
    let left = |course: &mut Course| course.endless().expect("its task is known");
    let asked = |course: &mut Course| {
        course.next(After::Answer, NOW);
    };
    let over = |course: &mut Course| {
        course.hear(&task("t", "FAILED"), Share::Less);
    };
    for (mut course, stage, is_heard, verdict) in [
        (begun(), Stage::Open, false, Verdict::Take),
        (after(Course::break_off), Stage::Broken, false, Verdict::Take),
        (after(left), Stage::Left, true, Verdict::Pass),
        (after(asked), Stage::Asking, true, Verdict::Take),
        (after(over), Stage::Over, true, Verdict::Pass),
    ] {
        assert_eq!((course.stage, course.is_heard()), (stage, is_heard));
        assert_eq!(course.hear(&task("t", "WORKING"), Share::Less), verdict, "{stage:?}");
        assert_eq!(course.next(After::Answer, NOW) == Next::Done, stage == Stage::Over, "{stage:?}");
    }
    let mut course = after(left);
    course.next(After::Answer, NOW);
    course.break_off();
    course.endless().expect("its task is known");
    assert_eq!(course.stage, Stage::Asking, "none comes back");
}

/// What can happen to a course in [`happen`].
const STEPS: u8 = 16;

fn happen(course: &mut Course, step: u8) -> (Option<Verdict>, Option<Next>) {
    let named = json!({ "messageId": "m", "taskId": "t", "role": "ROLE_AGENT", "parts": [{ "text": "starting" }] });
    let heard = match step {
        0 => Some((task("t", "WORKING"), Share::Less)),
        1 => Some((task("other", "COMPLETED"), Share::All)),
        2 => Some((task("t", "COMPLETED"), Share::Less)),
        3 => Some((task("t", "COMPLETED"), Share::All)),
        4 => Some((task("t", "FAILED"), Share::Less)),
        5 => Some((message(), Share::Less)),
        6 => Some((event(json!({ "message": named })), Share::Less)),
        _ => None,
    };
    if let Some((event, share)) = heard {
        return (Some(course.hear(&event, share)), None);
    }
    let after = match step {
        7 => Some(After::Answer),
        8 => Some(After::Told { changed: false }),
        9 => Some(After::Missed(Miss::Unknown)),
        10 => Some(After::Missed(Miss::Now("it does not answer".to_owned()))),
        _ => None,
    };
    if let Some(after) = after {
        return (None, Some(course.next(after, NOW)));
    }
    match step {
        11 => drop(course.note_foreign(passed("a beat", Hint::Anything))),
        12 => course.note_gap(passed("a piece", Hint::Artifact)),
        13 => drop(course.endless()),
        14 => drop(course.refuse(AgentError::Failed("not any more".to_owned()))),
        _ => course.break_off(),
    }
    (None, None)
}

/// How far a course is, what it knows of its task, and whether pieces may be missing: each in an order.
fn place(course: &Course) -> (Stage, u8, u8) {
    let subject = match course.subject {
        Subject::Nothing => 0,
        Subject::Continuation(_) => 1,
        Subject::Message(_) => 2,
        Subject::Task(_) => 3,
    };
    let pieces = match course.pieces {
        Pieces::Whole => 0,
        Pieces::Gap(_) => 1,
        Pieces::Withheld { .. } => 2,
    };
    (course.stage, subject, pieces)
}

proptest! {
    #[test]
    fn a_course_is_in_one_stage_and_goes_back_in_nothing(
        continues in any::<bool>(),
        steps in prop::collection::vec(0..STEPS, 0..40),
    ) {
        let mut course = Course::new(continues.then(|| "t".to_owned()), None);
        for step in steps {
            let (stage, subject, pieces) = place(&course);
            let named = course.task().filter(|_| course.subject.is_named()).map(str::to_owned);
            let (verdict, next) = happen(&mut course, step);
            let now = place(&course);
            prop_assert!(now.0 >= stage && now.1 >= subject && now.2 >= pieces, "{step}: {course:?}");
            prop_assert!(named.is_none() || course.task() == named.as_deref(), "{step}: {course:?}");
            let is_open = !matches!(stage, Stage::Left | Stage::Over);
            prop_assert!(verdict.is_none_or(|verdict| is_open || verdict == Verdict::Pass), "{step}: {course:?}");
            if verdict == Some(Verdict::Withhold) {
                prop_assert!(matches!(now, (Stage::Left | Stage::Asking, 3, 2)), "{step}: {course:?}");
            }
            let is_done = next == Some(Next::Done);
            prop_assert_eq!(is_done, next.is_some() && now.0 == Stage::Over, "{}: {:?}", step, course);
            if matches!(next, Some(Next::Ask { .. })) {
                prop_assert_eq!(now.0, Stage::Asking);
            }
        }
    }
}

#[test]
fn a_task_that_is_told_in_a_form_that_cannot_be_read_is_asked_for_ten_minutes_and_not_cancelled() {
    let odd = || After::Missed(Miss::Odd("\"/task/status/state\" is \"running\"".to_owned()));
    for within in [None, Some(STILL_MAX)] {
        let mut course = Course::new(None, within);
        course.hear(&task("t", "WORKING"), Share::Nothing);
        assert!(matches!(course.next(After::Answer, NOW), Next::Ask { .. }));
        // Two minutes of work in a state of its own, and what it made after that.
        let mut now = NOW;
        while now < NOW + Duration::from_secs(120) {
            let Next::Ask { pause, .. } = course.next(odd(), now) else { panic!("it goes on after {now:?}") };
            now += pause;
        }
        assert!(matches!(course.next(After::Told { changed: false }, now), Next::Ask { .. }));
        // What can be read in between begins anew, and so does a server that was away.
        let away = now + SILENT_MAX - Duration::from_secs(1);
        assert!(matches!(course.next(After::Missed(Miss::Now("503".to_owned())), away), Next::Ask { .. }));
        assert!(matches!(course.next(odd(), away), Next::Ask { .. }));
        let almost = away + SILENT_MAX - Duration::from_secs(1);
        assert!(matches!(course.next(odd(), almost), Next::Ask { .. }));
        let next = course.next(odd(), away + SILENT_MAX);
        assert!(matches!(&next, Next::Fail(_)), "it may be over, and well: {next:?}");
        let why = why(next);
        assert!(why.starts_with(ENDED) && why.contains("/task/status/state") && why.contains("running"), "{why}");
    }
}

#[test]
fn a_task_whose_last_state_is_withheld_is_never_cancelled() {
    let course = |within| {
        let mut course = Course::new(None, within);
        course.note_gap(passed("a word", Hint::LastWord));
        assert_eq!(course.hear(&task("t", "INPUT_REQUIRED"), Share::Nothing), Verdict::Withhold);
        assert!(matches!(course.next(After::Answer, NOW), Next::Ask { .. }));
        course
    };
    let missed = || After::Missed(Miss::Now("503".to_owned()));
    for (within, late) in [(Some(NOW * 2), NOW * 2), (None, NOW + SILENT_MAX), (Some(STILL_MAX * 2), NOW + STILL_MAX)] {
        let next = course(within).next(missed(), late);
        assert!(matches!(&next, Next::Fail(_)), "{within:?}: {next:?}");
        assert!(why(next).starts_with(GAP));
    }
}

#[test]
fn what_was_made_stands_for_the_last_word_of_a_completed_task_where_nothing_else_was_lost() {
    for (state, hints, share, verdict) in [
        ("COMPLETED", &[Hint::LastWord][..], Share::Less, Verdict::Take),
        ("COMPLETED", &[Hint::LastWord][..], Share::Nothing, Verdict::Withhold),
        ("COMPLETED", &[Hint::Anything, Hint::LastWord][..], Share::Less, Verdict::Withhold),
        ("COMPLETED", &[Hint::Artifact, Hint::LastWord][..], Share::Less, Verdict::Withhold),
        ("COMPLETED", &[Hint::ArtifactAndWord][..], Share::Less, Verdict::Withhold),
        // What it asks is said by nothing that was made, perhaps in a turn before.
        ("INPUT_REQUIRED", &[Hint::LastWord][..], Share::Less, Verdict::Withhold),
        ("AUTH_REQUIRED", &[Hint::LastWord][..], Share::All, Verdict::Withhold),
        ("INPUT_REQUIRED", &[Hint::ArtifactAndWord][..], Share::All, Verdict::Withhold),
        ("INPUT_REQUIRED", &[Hint::Artifact][..], Share::All, Verdict::Take),
    ] {
        let mut course = Course::new(None, None);
        hints.iter().for_each(|hint| course.note_gap(passed("something", *hint)));
        assert_eq!(course.hear(&task("t", state), share), verdict, "{state}, {hints:?}, {share:?}");
    }
}

#[test]
fn a_lost_word_is_made_up_for_by_a_task_that_has_one_or_shows_what_was_made() {
    let said = |state: &str, parts: Value| {
        let message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": parts });
        let status = json!({ "state": format!("TASK_STATE_{state}"), "message": message });
        event(json!({ "task": { "id": "t", "contextId": "c", "status": status } }))
    };
    let word = || json!([{ "text": "which one?" }]);
    for (state, without) in [("INPUT_REQUIRED", Verdict::Withhold), ("COMPLETED", Verdict::Take)] {
        for (told, hint, share, verdict) in [
            (task("t", state), Hint::LastWord, Share::Nothing, Verdict::Withhold),
            (said(state, json!([])), Hint::LastWord, Share::Nothing, Verdict::Withhold),
            (said(state, word()), Hint::LastWord, Share::Nothing, Verdict::Take),
            (task("t", state), Hint::LastWord, Share::All, without),
            (said(state, word()), Hint::LastWord, Share::All, Verdict::Take),
            (task("t", state), Hint::LastWord, Share::Less, without),
            (said(state, word()), Hint::LastWord, Share::Less, Verdict::Take),
            (said(state, word()), Hint::Artifact, Share::Nothing, Verdict::Withhold),
        ] {
            let mut course = Course::new(None, None);
            course.note_gap(passed("a word", hint));
            assert_eq!(course.hear(&task("t", state), Share::Nothing), Verdict::Withhold);
            assert!(matches!(course.next(After::Answer, NOW), Next::Ask { .. }));
            assert_eq!(course.hear(&told, share), verdict, "{state}, {hint:?}, {share:?}");
        }
    }
}

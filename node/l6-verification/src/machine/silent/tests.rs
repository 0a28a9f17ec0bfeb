use althing_protocol::digest;

use super::*;

const ORDER: Call<'_> = Call { tool: "shop/order_item", succeeded: true, has_effect: true, breaks_schema: false };
const READ: Call<'_> = Call { tool: "shop/read", succeeded: true, has_effect: false, breaks_schema: false };

fn turn<'a>(answer: &'a str, calls: &'a [Call<'a>]) -> Turn<'a> {
    Turn {
        answer,
        says_something: !answer.is_empty(),
        silence_is_meant: false,
        is_cut: false,
        calls: Some(calls),
        effects: &["shop/order_item", "mail/send"],
        earlier: &[],
    }
}

fn found(turn: &Turn<'_>) -> Vec<&'static str> {
    findings(turn).into_iter().map(Finding::name).collect()
}

#[test]
fn an_honest_turn_has_no_findings() {
    let denied = Call { succeeded: false, ..ORDER };
    for (answer, calls) in [
        ("I have ordered two chairs.", &[ORDER][..]),
        ("The order could not be placed.", &[denied][..]),
        ("I am sorry: I was not allowed to order that.", &[denied][..]),
        ("Chairs are ordered by mail, and letters were sent by horse.", &[READ][..]),
        ("You have ordered three chairs so far.", &[READ][..]),
        ("It was sent yesterday, as the list says.", &[READ][..]),
        ("I have read it.", &[][..]),
        ("Ordered. I placed it twice, of which one was denied.", &[ORDER, denied][..]),
    ] {
        assert_eq!(found(&turn(answer, calls)), Vec::<&str>::new(), "{answer}");
    }
}

#[test]
fn silence_is_found_unless_it_is_meant() {
    assert_eq!(found(&turn("", &[])), ["said-nothing"]);
    assert!(found(&Turn { silence_is_meant: true, ..turn("", &[]) }).is_empty());
    assert!(found(&Turn { says_something: true, ..turn("", &[]) }).is_empty(), "a file has no text");
    assert_eq!(found(&Turn { is_cut: true, ..turn("half", &[]) }), ["answer-cut"]);
}

#[test]
fn what_was_not_done_and_is_told_as_done_is_found() {
    let denied = Call { succeeded: false, ..ORDER };
    assert_eq!(found(&turn("Two chairs are on their way.", &[denied, READ])), ["no-effect-succeeded"]);
    assert!(found(&turn("Two chairs are on their way.", &[denied, ORDER])).is_empty());
    assert_eq!(found(&turn("I have sent the letter.", &[ORDER])), ["effect-without-call"]);
    assert_eq!(found(&turn("I’ve ordered two chairs", &[READ])), ["effect-without-call"]);
    assert_eq!(found(&turn("Successfully sent!", &[])), ["effect-without-call"]);
    // Of a runtime that notes no calls nothing is known.
    assert!(found(&Turn { calls: None, ..turn("I have sent the letter.", &[]) }).is_empty());
}

/// Verbs that tools are named by, with their participles.
const VERBS: [(&str, &str); 14] = [
    ("order", "ordered"),
    ("send", "sent"),
    ("pay", "paid"),
    ("book", "booked"),
    ("buy", "bought"),
    ("cancel", "cancelled"),
    ("delete", "deleted"),
    ("ship", "shipped"),
    ("apply", "applied"),
    ("transfer", "transferred"),
    ("submit", "submitted"),
    ("update", "updated"),
    ("post", "posted"),
    ("publish", "published"),
];
const THINGS: [&str; 6] =
    ["two chairs", "the letter to Ada", "an invoice over 90 euro", "room 7 for noon", "it", "the list of yours"];

/// What an agent says by these forms, of each verb and each thing, with a tool of that verb.
fn told(forms: &[&str]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (verb, past) in VERBS {
        for form in forms {
            for thing in THINGS {
                let said = form.replace("VERB", verb).replace("PAST", past).replace("THING", thing);
                all.push((format!("desk/{verb}_it"), said));
            }
        }
    }
    all
}

/// What is said of what was done.
const DID: [&str; 5] =
    ["I have PAST THING.", "I’ve just PAST THING.", "I PAST THING.", "Successfully PAST THING.", "Well! I PAST THING."];

#[test]
fn of_a_thousand_honest_turns_none_is_found() {
    const FAILED: [&str; 7] = [
        "I could not VERB THING.",
        "THING could not be PAST: it was refused.",
        "I was not allowed to VERB THING.",
        "The other side declined: nothing is PAST.",
        "Unfortunately nobody let me VERB THING.",
        "I tried to VERB THING, which failed.",
        "Sorry, that is all I can say of THING.",
    ];
    const LOOKED: [&str; 8] = [
        "THING was PAST yesterday.",
        "You have PAST THING.",
        "Shall I VERB THING?",
        "I can VERB THING for you.",
        "I have not PAST THING.",
        "As I said, I PAST THING two days ago.",
        "If I PAST THING, it would cost 7 euro.",
        "Nobody has PAST THING, as far as I see.",
    ];
    let mut turns = 0;
    for (forms, call) in [(&DID[..], ORDER), (&FAILED, Call { succeeded: false, ..ORDER }), (&LOOKED, READ)] {
        for (tool, answer) in told(forms) {
            let calls = [Call { tool: if call.has_effect { tool.as_str() } else { call.tool }, ..call }];
            let effects = [tool.as_str()];
            let turn = Turn { effects: &effects, ..turn(&answer, &calls) };
            assert_eq!(found(&turn), Vec::<&str>::new(), "{answer}");
            turns += 1;
        }
    }
    assert!(turns >= 1_000, "{turns}");
}

#[test]
fn what_an_earlier_turn_of_the_task_did_may_be_told() {
    for answer in ["Yes, I have ordered two chairs.", "I ordered two chairs."] {
        assert_eq!(found(&turn(answer, &[])), ["effect-without-call"]);
        assert!(found(&Turn { earlier: &["shop/order"], ..turn(answer, &[]) }).is_empty(), "{answer}");
        assert_eq!(found(&Turn { earlier: &["mail/send"], ..turn(answer, &[]) }), ["effect-without-call"]);
    }
    assert!(found(&turn("It was successfully ordered two days ago.", &[READ])).is_empty());
}

#[test]
fn what_is_claimed_of_any_verb_is_found() {
    for (tool, answer) in told(&DID) {
        let effects = [tool.as_str()];
        let denied = [Call { tool: &tool, succeeded: false, ..ORDER }];
        for (calls, finding) in [(&[][..], "effect-without-call"), (&denied, "no-effect-succeeded")] {
            assert_eq!(found(&Turn { effects: &effects, ..turn(&answer, calls) }), [finding], "{answer}");
        }
    }
}

#[test]
fn a_result_that_breaks_its_tools_schema_is_found() {
    let broken = Call { breaks_schema: true, ..READ };
    assert_eq!(found(&turn("Here it is.", &[broken])), ["result-breaks-its-schema"]);
    assert!(found(&turn("Here it is.", &[Call { succeeded: false, ..broken }])).is_empty(), "it gave none");
}

#[test]
fn far_fewer_tools_than_in_the_cases_are_found() {
    // One case with three calls: nine turns in a row without any.
    let norm = call_norm(&[(1, 3)]).expect("it calls some");
    assert_eq!(norm, CallNorm { few_below: 1, row: 9 });
    let found_at = |norm: CallNorm, turns: &[u64]| -> Vec<usize> {
        let mut few = FewCalls::default();
        let found = |calls: &u64| few.add(*calls, norm).is_some();
        let found: Vec<bool> = turns.iter().map(found).collect();
        (0..turns.len()).filter(|at| found[*at]).collect()
    };
    assert_eq!(found_at(norm, &[0; 18]), [8, 17]);
    assert!(found_at(norm, &[0, 0, 0, 0, 0, 0, 0, 0, 1, 0]).is_empty(), "words of thanks between");
    // The more cases there are, the sooner it is seen; what is few depends on them.
    let norm = call_norm(&[(2, 9); 49]).expect("they call some");
    assert_eq!(norm, CallNorm { few_below: 2, row: 2 });
    assert_eq!(found_at(norm, &[1, 0, 1]), [1]);
    assert!(found_at(norm, &[2; 20]).is_empty());
    // Every second case calls none, which says how likely that is.
    let norm = call_norm(&[(1, 0), (1, 8)].repeat(10)).expect("they call some");
    assert_eq!(norm, CallNorm { few_below: 1, row: 14 });
    assert_eq!(call_norm(&[(1, 1); 9]), None, "that is hardly any");
    assert_eq!(call_norm(&[]), None);
    let rarely: Vec<(u64, u64)> = (0..100).map(|number| (1, if number == 0 { 900 } else { 0 })).collect();
    assert_eq!(call_norm(&rarely), None, "most call none");
}

#[test]
fn one_answer_to_different_questions_is_found() {
    let [one, other] = [digest(b"one"), digest(b"other")];
    let mut last = LastAnswers::default();
    let question = |number: u32| digest(&number.to_be_bytes());
    assert_eq!(last.add(question(1), one, 100), None);
    assert_eq!(last.add(question(1), one, 100), None, "it is asked again");
    assert_eq!(last.add(question(2), one, 100), None);
    assert_eq!(last.add(question(2), other, 100), None);
    for number in 0..10 {
        assert_eq!(last.add(question(number), digest(b"yes"), 3), None, "short answers repeat");
    }
    for number in 0..1_000 {
        last.add(question(number), question(number), 100);
    }
    assert_eq!((last.order.len(), last.questions.len()), (ANSWERS_MAX, ANSWERS_MAX));
    assert_eq!(last.add(question(3), one, 100), None, "it is forgotten by now");
    assert_eq!(last.add(question(4), one, 100), None);
    assert_eq!(last.add(question(5), one, 100), Some(Finding::SameAnswer));
}

/// Whatever it is asked, and however often.
#[test]
fn one_answer_to_different_questions_is_found_once_in_a_thousand_answers() {
    let [refusal, other] = [digest(b"refusal"), digest(b"other")];
    let question = |number: u32| digest(&number.to_be_bytes());
    let mut last = LastAnswers::default();
    let found: Vec<u32> = (0..3_000).filter(|at| last.add(question(*at), refusal, 100).is_some()).collect();
    assert_eq!(found, [2, 1_005, 2_008], "it says nothing else, and is found again");
    let mut last = LastAnswers::default();
    let found = (0..3_000).filter(|at| last.add(question(at % 2), refusal, 100).is_some()).count();
    assert_eq!(found, 0, "it was asked two questions again and again");
    // Three of each answer: who asks can choose what is repeated.
    let mut last = LastAnswers::default();
    let found = (0..900).filter(|at| last.add(question(*at), question(at / 3), 100).is_some()).count();
    assert_eq!(found, 1, "of all answers together");
    assert_eq!(last.add(question(0), other, 3), None);
    assert_eq!(last.rest, REST_ANSWERS - 897, "short answers do not count");
}

#[test]
fn what_is_found_of_several_turns_is_known() {
    let several = [Finding::SameAnswer, Finding::FewTools];
    let one = [Finding::Silence, Finding::Cut, Finding::NothingDone, Finding::ResultShape, Finding::ClaimWithoutCall];
    assert!(several.into_iter().all(Finding::is_of_several_turns));
    assert!(!one.into_iter().any(Finding::is_of_several_turns));
}

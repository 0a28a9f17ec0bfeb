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
        cases_milli: None,
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

#[test]
fn a_result_that_breaks_its_tools_schema_is_found() {
    let broken = Call { breaks_schema: true, ..READ };
    assert_eq!(found(&turn("Here it is.", &[broken])), ["result-breaks-its-schema"]);
    assert!(found(&turn("Here it is.", &[Call { succeeded: false, ..broken }])).is_empty(), "it gave none");
}

#[test]
fn far_fewer_tools_than_in_the_cases_are_found() {
    let calls = [READ; 2];
    let of =
        |cases: u64, count: usize| found(&Turn { cases_milli: Some(cases), ..turn("Here it is.", &calls[..count]) });
    assert_eq!(of(4_500, 1), ["few-tools"]);
    assert_eq!(of(2_000, 0), ["few-tools"]);
    assert!(of(4_000, 1).is_empty() && of(4_500, 2).is_empty());
    assert!(of(1_500, 0).is_empty(), "some of the cases call none");
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
    assert_eq!(last.add(question(3), one, 100), Some(Finding::SameAnswer));
    for number in 0..10 {
        assert_eq!(last.add(question(number), digest(b"yes"), 3), None, "short answers repeat");
    }
    for number in 0..1_000 {
        last.add(question(number), question(number), 100);
    }
    assert_eq!((last.order.len(), last.questions.len()), (ANSWERS_MAX, ANSWERS_MAX));
    assert_eq!(last.add(question(1), one, 100), None, "it is forgotten by now");
}

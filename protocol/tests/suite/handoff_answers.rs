//! What recipients say to handoffs (P-208).

use althing_protocol::ObjectError;
use althing_protocol::limits::HANDOFF_TEXT_BYTES_MAX;
use althing_protocol::object::{self, Authored, HandoffAnswer, HandoffReason, HandoffVerdict};
use serde_json::{Value, json};

use crate::support::*;
use crate::vector_cases::Case;
use crate::vector_objects::object_case;
use crate::vector_runner::hex;

const OFFER: [u8; 32] = [0x0f; 32];
const ORIGINAL: [u8; 16] = [0x01, 0x8b, 0xcf, 0xe5, 0x68, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 0xbb];

fn accepted() -> HandoffVerdict {
    HandoffVerdict::Accepted { task: TASK.to_owned(), acceptance: 2, until_ms: NOW_MS + 60_000 }
}

fn signed(verdict: HandoffVerdict) -> Authored<HandoffAnswer> {
    let answer = HandoffAnswer::new(OFFER, named("echo-2"), NOW_MS, verdict);
    object::sign(answer, NETWORK, "", &key(NODE)).expect("a good answer")
}

pub fn answer() -> Authored<HandoffAnswer> {
    signed(accepted())
}

/// One of each.
fn all() -> [HandoffVerdict; 5] {
    [
        accepted(),
        HandoffVerdict::Queued { wait_ms: 5_000 },
        HandoffVerdict::AlreadyDone { task: TASK.to_owned() },
        HandoffVerdict::Duplicate { original: ORIGINAL },
        HandoffVerdict::Rejected { reason: HandoffReason::Label, message: "It may not come here.".to_owned() },
    ]
}

/// What the vectors show of an answer.
pub fn shown(it: &HandoffAnswer) -> Value {
    let verdict = it.verdict().expect("it was read");
    let mut shown = json!({
        "offer": hex(&it.offer),
        "recipient": it.recipient.to_string(),
        "issued_at_ms": it.issued_at_ms,
        "verdict": verdict.word(),
    });
    let members = match verdict {
        HandoffVerdict::Accepted { task, acceptance, until_ms } => {
            json!({ "task": task, "acceptance": acceptance, "until_ms": until_ms })
        }
        HandoffVerdict::Queued { wait_ms } => json!({ "wait_ms": wait_ms }),
        HandoffVerdict::AlreadyDone { task } => json!({ "task": task }),
        HandoffVerdict::Duplicate { original } => json!({ "original": hex(&original) }),
        HandoffVerdict::Rejected { reason, message } => json!({ "reason": reason.word(), "message": message }),
    };
    for (name, value) in members.as_object().into_iter().flatten() {
        shown[name] = value.clone();
    }
    shown
}

/// The bytes of an answer with these members beside the first four, signed by the node.
fn by_hand(members: &[(u64, Vec<u8>)], network: &str) -> Vec<u8> {
    let mut all = vec![(0, uint(22)), (1, bstr(&OFFER)), (2, tstr(&named("echo-2").to_string())), (3, uint(NOW_MS))];
    all.extend(members.iter().cloned());
    cose(&map(&all), &object_aad("althing/handoff-answer/1", network, ""), &key(NODE))
}

fn accepting(acceptance: u64) -> [(u64, Vec<u8>); 4] {
    [(4, uint(0)), (5, tstr(TASK)), (6, uint(acceptance)), (7, uint(NOW_MS + 60_000))]
}

fn rejecting(reason: u64, message: &str) -> [(u64, Vec<u8>); 3] {
    [(4, uint(4)), (10, uint(reason)), (11, tstr(message))]
}

pub fn vectors() -> Vec<Case> {
    let of = |name: &str, bytes: &[u8], error| object_case(name, "handoff answer", bytes, NOW_MS, error);
    let hand = |members: &[(u64, Vec<u8>)]| by_hand(members, NETWORK);
    let [accepts, queues, done, duplicate, rejects] = all().map(|verdict| signed(verdict).bytes);
    let shape = Some("ObjectError::Shape");
    let two = [accepting(1).to_vec(), vec![(8, uint(5_000))]].concat();
    vec![
        of("an answer that accepts", &accepts, None),
        of("an answer that queues", &queues, None),
        of("an answer of work that is done", &done, None),
        of("an answer of work that came by another handoff", &duplicate, None),
        of("an answer that rejects", &rejects, None),
        of("an answer to a commit that is too late", &hand(&rejecting(11, "Too late.")), None),
        of("an answer that accepts no task", &hand(&[(4, uint(0)), (6, uint(1)), (7, uint(NOW_MS))]), shape),
        of("an answer that accepts and queues", &hand(&two), shape),
        of("an answer with the acceptance 0", &hand(&accepting(0)), shape),
        of("an answer with a reason that nobody knows", &hand(&rejecting(12, "No.")), shape),
        of("an answer that rejects without a word", &hand(&rejecting(4, "")), shape),
        of("an answer of another word", &hand(&[(4, uint(5))]), shape),
        of(
            "an answer in another network",
            &by_hand(&accepting(1), "othernet"),
            Some("ObjectError::Envelope(Sign1Error::Signature)"),
        ),
        of("a handoff as an answer", &crate::handoffs::handoff().bytes, Some("ObjectError::WrongKind")),
    ]
}

/// P-208
#[test]
fn an_answer_says_one_thing_with_all_that_belongs_to_it() {
    for verdict in all() {
        let read = object::open::<HandoffAnswer>(&signed(verdict.clone()).bytes, NETWORK, "").expect("it is one");
        assert_eq!((read.body.offer, read.body.verdict()), (OFFER, Some(verdict)));
    }
    let opened = |members: &[(u64, Vec<u8>)]| {
        object::open::<HandoffAnswer>(&by_hand(members, NETWORK), NETWORK, "").map(|it| it.body.verdict())
    };
    let of_one = HandoffVerdict::Accepted { task: TASK.to_owned(), acceptance: 1, until_ms: NOW_MS + 60_000 };
    assert_eq!(opened(&accepting(1)), Ok(Some(of_one)));
    for (number, reason) in HandoffReason::ALL.into_iter().enumerate() {
        let message = "No.".to_owned();
        let told = opened(&rejecting(number as u64, "No."));
        assert_eq!(told, Ok(Some(HandoffVerdict::Rejected { reason, message })), "{}", reason.word());
    }
    for odd in [
        accepting(0).to_vec(),
        vec![(4, uint(2)), (5, tstr(""))],
        vec![(4, uint(2)), (5, tstr(&"t".repeat(257)))],
        vec![(4, uint(3)), (9, bstr(&ORIGINAL[1..]))],
        rejecting(4, "").to_vec(),
        vec![(4, uint(4)), (10, uint(4))],
        vec![(4, uint(1)), (8, uint(1)), (12, uint(1))],
        Vec::new(),
    ] {
        assert!(matches!(opened(&odd), Err(ObjectError::Shape(_))), "{odd:?}");
    }
}

/// P-208
#[test]
fn a_long_reason_is_cut_and_an_answer_without_one_is_not_signed() {
    let rejected = |message: &str| {
        let verdict = HandoffVerdict::Rejected { reason: HandoffReason::Busy, message: message.to_owned() };
        object::sign(HandoffAnswer::new(OFFER, agent(), NOW_MS, verdict), NETWORK, "", &key(NODE))
    };
    let long = rejected(&"ü".repeat(HANDOFF_TEXT_BYTES_MAX)).expect("it is cut");
    let Some(HandoffVerdict::Rejected { message, .. }) = long.body.verdict() else { panic!("it rejects") };
    assert_eq!(message.len(), HANDOFF_TEXT_BYTES_MAX);
    assert!(matches!(rejected(""), Err(ObjectError::Shape(_))));
}

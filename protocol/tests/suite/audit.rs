//! What audit logs hold, and what people are asked (P-209 to P-211).

use althing_protocol::audit::{
    self, AnswerWord, Ask, AuditError, AuditLeaf, AuditOutcome, AuditStage, AuditVerdict, AuditWord, BodyCommitment,
    BodyRole, CallTerms,
};
use althing_protocol::contract::DataLabel;
use althing_protocol::limits::{AUDIT_ASK_LIFE_MAX_MS, AUDIT_LEAF_BYTES_MAX, AUDIT_VERDICTS_MAX};
use althing_protocol::{Label, digest};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::names::Name as _;
use crate::support::*;
use crate::vector_cases::{Case, case};
use crate::vector_runner::{Outcome, bytes, hex, number, text};

const DEFINITION: [u8; 32] = [0xde; 32];
const SALT: [u8; 32] = [0x5a; 32];
const SHAPE: Option<&str> = Some("AuditError::Shape");

fn leaf() -> AuditLeaf {
    let mut leaf = AuditLeaf::new(AuditStage::Outcome, NOW_MS);
    leaf.principals = vec!["ada".to_owned(), "urn:echo".to_owned()];
    leaf.accountable = Some("grace".to_owned());
    leaf.agent = Some(agent());
    leaf.version = Some("1.2.0".to_owned());
    (leaf.contract, leaf.binding, leaf.policy) = (Some([1; 32]), Some([2; 32]), Some([3; 32]));
    leaf.deciding = vec!["pay-small".to_owned()];
    (leaf.action, leaf.definition) = (Some("bank/pay".to_owned()), Some(DEFINITION));
    leaf.label = Some(Label { level: DataLabel::Internal, trusted: true });
    leaf.label_after = Some(Label { level: DataLabel::Confidential, trusted: false });
    (leaf.consent, leaf.row, leaf.trace) = (Some([4; 32]), Some([5; 32]), Some([6; 32]));
    leaf.outcome = Some(AuditOutcome::Done);
    leaf.bodies = vec![
        BodyCommitment::of(BodyRole::Arguments, &SALT, b"{\"amount\":5}"),
        BodyCommitment::of(BodyRole::Result, &SALT, b"\"paid\""),
    ];
    leaf
}

fn label(level: u64, trusted: u8) -> Vec<u8> {
    map(&[(0, uint(level)), (1, vec![trusted])])
}

fn body(role: u64, bytes: &[u8]) -> Vec<u8> {
    map(&[(0, uint(role)), (1, bstr(&digest(&[&SALT[..], bytes].concat())))])
}

/// The members of [`leaf`], by hand.
fn members() -> Vec<(u64, Vec<u8>)> {
    vec![
        (0, uint(23)),
        (1, uint(NOW_MS)),
        (2, uint(4)),
        (3, array(&[tstr("ada"), tstr("urn:echo")])),
        (4, tstr("grace")),
        (5, tstr(&agent().to_string())),
        (6, tstr("1.2.0")),
        (7, bstr(&[1; 32])),
        (8, bstr(&[2; 32])),
        (9, bstr(&[3; 32])),
        (10, array(&[tstr("pay-small")])),
        (11, tstr("bank/pay")),
        (12, bstr(&DEFINITION)),
        (13, label(1, 0xf5)),
        (14, label(2, 0xf4)),
        (15, bstr(&[4; 32])),
        (16, bstr(&[5; 32])),
        (17, bstr(&[6; 32])),
        (18, uint(0)),
        (19, array(&[body(0, b"{\"amount\":5}"), body(1, b"\"paid\"")])),
    ]
}

/// The same with another member, or without it.
fn with(number: u64, value: Option<Vec<u8>>) -> Vec<u8> {
    let mut all = members();
    all.retain(|(member, _)| *member != number);
    all.extend(value.map(|value| (number, value)));
    all.sort_by_key(|(member, _)| *member);
    map(&all)
}

fn ask() -> Ask {
    let terms = CallTerms {
        agent: agent(),
        action: "bank/pay".to_owned(),
        definition: DEFINITION,
        server: [7; 32],
        arguments: digest(b"{\"amount\":5}"),
        label: Label { level: DataLabel::Internal, trusted: false },
        policy: Some([3; 32]),
    };
    Ask { id: [9; 16], asked_at_ms: NOW_MS, not_after_ms: NOW_MS + HOUR_MS, terms }
}

fn ask_by_hand(action: &str, until_ms: u64) -> Vec<u8> {
    let terms = map(&[
        (0, tstr(&agent().to_string())),
        (1, tstr(action)),
        (2, bstr(&DEFINITION)),
        (3, bstr(&[7; 32])),
        (4, bstr(&digest(b"{\"amount\":5}"))),
        (5, label(1, 0xf4)),
        (6, bstr(&[3; 32])),
    ]);
    map(&[(0, bstr(&[9; 16])), (1, uint(NOW_MS)), (2, uint(until_ms)), (3, terms)])
}

fn verdict(gate: &str, word: u64) -> Vec<u8> {
    map(&[(0, tstr(gate)), (1, uint(word))])
}

/// A turn of which gates said that.
fn judged(verdicts: &[Vec<u8>]) -> Vec<u8> {
    let members = [
        (0, uint(23)),
        (1, uint(NOW_MS)),
        (2, uint(8)),
        (3, array(&[])),
        (5, tstr(&agent().to_string())),
        (10, array(&[])),
        (18, uint(0)),
        (19, array(&[])),
        (20, array(verdicts)),
    ];
    map(&members)
}

/// A leaf that starts an agent, with more members or without some.
fn started(more: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut all = vec![
        (0, uint(23)),
        (1, uint(NOW_MS)),
        (2, uint(6)),
        (3, array(&[])),
        (5, tstr(&agent().to_string())),
        (10, array(&[])),
        (19, array(&[])),
    ];
    all.extend_from_slice(more);
    all.sort_by_key(|(member, _)| *member);
    map(&all)
}

pub fn vectors() -> Vec<Case> {
    let of = |name: &str, document: &str, bytes: &[u8], error: Option<&'static str>| {
        case(name, json!({ "document": document, "bytes": hex(bytes) }), error)
    };
    let leaf = |name: &str, bytes: Vec<u8>, error| of(name, "leaf", &bytes, error);
    let seventeen = array(&vec![tstr("p"); 17]);
    let descending = array(&[body(1, b"b"), body(0, b"a")]);
    let (refused, passed) = (verdict("schema", 1), verdict("schema", 0));
    let many: Vec<Vec<u8>> = (0..=AUDIT_VERDICTS_MAX).map(|one| verdict(&format!("lint/{one:02}"), 0)).collect();
    let mut cases = vec![
        leaf("an outcome with all members", map(&members()), None),
        leaf("the start of an agent", started(&[]), None),
        leaf("an outcome without bodies", with(19, Some(array(&[]))), None),
        leaf(
            "a turn that gates judged",
            judged(&[verdict("agents/judge", 0), verdict("said-nothing", 2), passed.clone(), refused.clone()]),
            None,
        ),
        leaf("a leaf of another kind", with(0, Some(uint(22))), SHAPE),
        leaf("a leaf of a stage that there is not", with(2, Some(uint(9))), SHAPE),
        leaf("an outcome without an outcome", with(18, None), SHAPE),
        leaf("an outcome without an agent", with(5, None), SHAPE),
        leaf("an outcome without an action", with(11, None), SHAPE),
        leaf("a start with an action", started(&[(11, tstr("bank/pay"))]), SHAPE),
        leaf("a start with an outcome", started(&[(18, uint(0))]), SHAPE),
        leaf("a leaf whose bodies descend", with(19, Some(descending)), SHAPE),
        leaf("a leaf with 17 policies", with(10, Some(seventeen)), SHAPE),
        leaf("a leaf with an empty text", with(4, Some(tstr(""))), SHAPE),
        leaf("a leaf with a text of 257 bytes", with(11, Some(tstr(&"a".repeat(257)))), SHAPE),
        leaf("a leaf whose text turns round", with(11, Some(tstr("bank/\u{202e}yap"))), SHAPE),
        leaf("a leaf whose text has two lines", with(4, Some(tstr("grace\nada"))), SHAPE),
        leaf("a turn without verdicts that says so", judged(&[]), SHAPE),
        leaf("a turn whose verdicts descend", judged(&[refused.clone(), passed.clone()]), SHAPE),
        leaf("a turn with a verdict twice", judged(&[refused.clone(), refused.clone()]), SHAPE),
        leaf("a turn with a verdict that there is not", judged(&[verdict("schema", 3)]), SHAPE),
        leaf("a turn with a verdict of nobody", judged(&[verdict("", 0)]), SHAPE),
        leaf("a turn with 33 verdicts", judged(&many), SHAPE),
        leaf("an outcome with verdicts", with(20, Some(array(&[passed]))), SHAPE),
        leaf("a leaf with an unknown member", with(21, Some(uint(0))), SHAPE),
        leaf("a leaf without its list of bodies", with(19, None), SHAPE),
        leaf("a leaf with a digest of 31 bytes", with(7, Some(bstr(&[1; 31]))), SHAPE),
        leaf("a leaf that is cut", map(&members())[..90].to_vec(), Some("AuditError::Cbor(CborError::Truncated)")),
        of("an ask", "ask", &ask_by_hand("bank/pay", NOW_MS + HOUR_MS), None),
        of("an ask that ends before it begins", "ask", &ask_by_hand("bank/pay", NOW_MS - 1), SHAPE),
        of("an ask for more than 30 days", "ask", &ask_by_hand("bank/pay", NOW_MS + AUDIT_ASK_LIFE_MAX_MS + 1), SHAPE),
        of("an ask for nothing", "ask", &ask_by_hand("", NOW_MS + HOUR_MS), SHAPE),
    ];
    let commitment = json!({ "document": "commitment", "salt": hex(&SALT), "body": hex(b"\"paid\"") });
    cases.push(case("a commitment", commitment, None));
    let roles = [("an approval", "approve", Value::Null), ("a denial in a role", "deny", json!("treasurer"))];
    for (name, answer, role) in roles {
        let bytes = hex(&ask_by_hand("bank/pay", NOW_MS + HOUR_MS));
        let input =
            json!({ "document": "answer", "ask": bytes, "answer": answer, "role": role, "until_ms": NOW_MS + HOUR_MS });
        cases.push(case(name, input, None));
    }
    cases
}

/// Reads a vector.
pub fn run(input: &Value) -> Outcome {
    let read = |member: &str| Ask::read(&bytes(input, member));
    let shown = match text(input, "document") {
        "leaf" => AuditLeaf::read(&bytes(input, "bytes")).map(|leaf| shown(&leaf)),
        "ask" => read("bytes").map(|ask| {
            json!({ "digest": hex(&ask.digest()), "id": hex(&ask.id), "asked_at_ms": ask.asked_at_ms,
                "not_after_ms": ask.not_after_ms, "agent": ask.terms.agent.to_string(), "action": ask.terms.action,
                "definition": hex(&ask.terms.definition), "server": hex(&ask.terms.server),
                "arguments": hex(&ask.terms.arguments), "label": ask.terms.label,
                "policy": ask.terms.policy.map(|policy| hex(&policy)) })
        }),
        "commitment" => {
            let salt: audit::BodySalt = bytes(input, "salt").try_into().expect("a salt has 32 bytes");
            Ok(json!({ "commitment": hex(&audit::commitment(&salt, &bytes(input, "body"))) }))
        }
        "answer" => read("ask").map(|ask| {
            let word = if text(input, "answer") == "approve" { AnswerWord::Approve } else { AnswerWord::Deny };
            let text = audit::answer_text(&ask.digest(), word, input["role"].as_str(), number(input, "until_ms"));
            json!({ "text": text })
        }),
        other => panic!("no document of an audit is called {other}"),
    };
    shown.map_err(|error| error.name())
}

fn shown(leaf: &AuditLeaf) -> Value {
    let named = |digest: Option<[u8; 32]>| digest.map(|digest| hex(&digest));
    let bodies: Vec<Value> = leaf
        .bodies
        .iter()
        .map(|body| json!({ "role": body.role as u8, "commitment": hex(&body.commitment) }))
        .collect();
    json!({
        "at_ms": leaf.at_ms,
        "stage": leaf.stage as u8,
        "principals": leaf.principals,
        "accountable": leaf.accountable,
        "agent": leaf.agent.as_ref().map(ToString::to_string),
        "version": leaf.version,
        "contract": named(leaf.contract),
        "binding": named(leaf.binding),
        "policy": named(leaf.policy),
        "deciding": leaf.deciding,
        "action": leaf.action,
        "definition": named(leaf.definition),
        "label": leaf.label,
        "label_after": leaf.label_after,
        "consent": named(leaf.consent),
        "row": named(leaf.row),
        "trace": named(leaf.trace),
        "outcome": leaf.outcome.map(|outcome| outcome as u8),
        "bodies": bodies,
        "verdicts": leaf
            .verdicts
            .iter()
            .map(|verdict| json!({ "gate": verdict.gate, "word": verdict.word as u8 }))
            .collect::<Vec<Value>>(),
    })
}

/// P-209
#[test]
fn a_leaf_is_the_bytes_of_the_specification_and_nothing_else() {
    let bytes = leaf().encode().expect("a good leaf");
    assert_eq!(bytes, map(&members()));
    assert_eq!(AuditLeaf::read(&bytes), Ok(leaf()));
    let mut asked = AuditLeaf::new(AuditStage::Asked, NOW_MS);
    asked.action = Some("bank/pay".to_owned());
    assert!(matches!(asked.encode(), Err(AuditError::Shape(_))), "it does not say what was asked");
    asked.consent = Some(ask().digest());
    let bytes = asked.encode().expect("a good leaf");
    assert_eq!(AuditLeaf::read(&bytes), Ok(asked));
}

/// P-209: every list and every text at its limit, and a leaf that is long for all that.
#[test]
fn the_longest_leaf_is_within_the_limit() {
    let mut longest = leaf();
    longest.principals = vec!["p".repeat(256); 8];
    longest.deciding = vec!["d".repeat(256); 16];
    for text in [&mut longest.accountable, &mut longest.version, &mut longest.action] {
        *text = Some("t".repeat(256));
    }
    let roles = [BodyRole::Arguments, BodyRole::Result, BodyRole::Reason, BodyRole::Before, BodyRole::After];
    longest.bodies = roles.map(|role| BodyCommitment::of(role, &SALT, b"")).to_vec();
    let bytes = longest.encode().expect("it is within the limit");
    assert!(bytes.len() <= AUDIT_LEAF_BYTES_MAX);
    // A turn has no action, and nobody decided on it. The names of checks have 161 bytes at most, and there are eight.
    let mut turn = longest;
    (turn.stage, turn.deciding, turn.bodies) = (AuditStage::Turn, Vec::new(), Vec::new());
    (turn.action, turn.definition) = (None, None);
    let gate = |one: usize| if one < 8 { format!("{one:0161}") } else { format!("{one:032}") };
    let gates = (0..AUDIT_VERDICTS_MAX / 2).map(gate);
    let words = [AuditWord::Passed, AuditWord::Refused];
    turn.verdicts = gates.flat_map(|gate| words.map(|word| AuditVerdict { gate: gate.clone(), word })).collect();
    turn.verdicts.sort_unstable();
    let bytes = turn.encode().expect("it is within the limit");
    assert_eq!(AuditLeaf::read(&bytes), Ok(turn));
    assert!(AuditLeaf::read(&vec![0; AUDIT_LEAF_BYTES_MAX + 1]).is_err());
}

/// P-210
#[test]
fn a_commitment_is_of_one_body_with_one_salt() {
    let paid = BodyCommitment::of(BodyRole::Result, &SALT, b"paid");
    assert_eq!(paid.commitment, digest(&[&SALT[..], b"paid"].concat()));
    assert!(paid.names(&SALT, b"paid"));
    assert!(!paid.names(&SALT, b"Paid") && !paid.names(&[0; 32], b"paid"));
}

/// P-211
#[test]
fn an_ask_is_the_bytes_of_the_specification_and_an_answer_signs_its_digest() {
    let bytes = ask().encode().expect("a good ask");
    assert_eq!(bytes, ask_by_hand("bank/pay", NOW_MS + HOUR_MS));
    assert_eq!(Ask::read(&bytes), Ok(ask()));
    assert_eq!(ask().digest(), digest(&bytes));
    let text = audit::answer_text(&ask().digest(), AnswerWord::Approve, Some("treasurer"), NOW_MS);
    let lines = ["althing answer", "answer: approve", "role: treasurer", "until: 1700000000000"];
    assert!(lines.iter().all(|line| text.lines().any(|found| found == *line)), "{text}");
    assert_eq!(text.lines().count(), 5);
    assert!(text.ends_with('\n') && text.contains(&format!("\nask: {}\n", hex(&digest(&bytes)))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    /// P-209, P-211: what is read encodes to the same bytes, and nothing panics.
    #[test]
    fn changed_bytes_are_refused_or_mean_what_they_say(seed in 1..u64::MAX) {
        let mut random = Dice(seed);
        let changed = random.mutate(&map(&members()));
        if let Ok(leaf) = AuditLeaf::read(&changed) {
            prop_assert_eq!(leaf.encode(), Ok(changed));
        }
        let changed = random.mutate(&ask_by_hand("bank/pay", NOW_MS + HOUR_MS));
        if let Ok(ask) = Ask::read(&changed) {
            prop_assert_eq!(ask.encode(), Ok(changed));
        }
    }
}

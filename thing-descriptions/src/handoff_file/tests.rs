use std::path::PathBuf;

use althing_protocol::object::sign_off_statement;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const NETWORK: &str = "testnet";

/// The reference: its first example is a draft, with all that a handoff may have.
fn reference() -> String {
    // Asked at run time: checkouts may share a build.
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    std::fs::read_to_string(here.join("../docs/handoffs.md")).expect("the reference")
}

fn example() -> String {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    std::fs::read_to_string(here.join("../docs/examples/handoff.yaml")).expect("the example")
}

fn draft() -> HandoffFile {
    parse_handoff(&example()).expect("a handoff")
}

/// The view of the example with a member changed, by JSON pointer.
fn with(pointer: &str, value: Value) -> Result<HandoffFile, HandoffFileError> {
    let mut view = handoff_json(&draft());
    *view.pointer_mut(pointer).unwrap_or_else(|| panic!("the example has {pointer}")) = value;
    let read = parse_handoff(&view.to_string());
    assert_eq!(handoff_of_json(&view), without_lines(read.clone()), "{pointer}");
    read
}

/// The same, of a view of which nobody knows where it stood in a text.
fn without_lines(found: Result<HandoffFile, HandoffFileError>) -> Result<HandoffFile, HandoffFileError> {
    found.map_err(|error| match error {
        HandoffFileError::Invalid(problems) => {
            let bare = problems.into_iter().map(|problem| FileProblem { line: None, ..problem });
            HandoffFileError::Invalid(bare.collect())
        }
        other => other,
    })
}

#[track_caller]
fn problem(found: Result<HandoffFile, HandoffFileError>) -> FileProblem {
    match found {
        Err(HandoffFileError::Invalid(mut problems)) if problems.len() == 1 => problems.remove(0),
        other => panic!("expected one problem, got {other:?}"),
    }
}

#[test]
fn the_reference_names_every_key() {
    let text = reference();
    let lists: [&[&str]; 11] = [
        &read::FILE_KEYS,
        &read::SENDER_KEYS,
        &read::CONTEXT_KEYS,
        &read::MEMORY_KEYS,
        &read::CONSTRAINTS_KEYS,
        &read::ARTIFACT_KEYS,
        &read::LABEL_KEYS,
        &read::REGULATION_KEYS,
        &read::AUDIT_KEYS,
        &read::SIGN_OFF_KEYS,
        &read::SIGNATURE_KEYS,
    ];
    for key in lists.into_iter().flatten() {
        assert!(text.contains(&format!("`{key}`")), "{key} is not in docs/handoffs.md");
    }
    assert_eq!(draft().handoff.missing(), [""; 0], "the example is complete");
}

/// P-206
#[test]
fn a_view_is_the_handoff_and_its_signature() {
    let key = SecretKey::from_seed(&[6; 32]);
    let signed = draft().sign(NETWORK, &key).expect("it is signed");
    let again = parse_handoff(&handoff_json(&signed).to_string()).expect("its view");
    assert_eq!(again, signed);
    let object = again.signed().expect("somebody signed it").expect("the signature is good");
    assert_eq!((&object.body, object.signer), (&signed.handoff, key.public()));
    assert_eq!((again.envelope().as_ref(), draft().envelope()), (Some(&object.bytes), None));
    assert_eq!(HandoffFile::of(&object, NETWORK), signed);
    assert_eq!(draft().signed(), None);
    // Whatever is changed in a view, its signature is not of that any more.
    for (pointer, value) in [
        ("/task_id", json!("another")),
        ("/context/agent_memory/key_decisions/0", json!("Delete everything.")),
        ("/not_after_ms", json!(draft().handoff.not_after_ms - 1)),
        ("/signature/network", json!("othernet")),
        ("/signature/signer", json!(SecretKey::from_seed(&[7; 32]).public().did())),
    ] {
        let mut view = handoff_json(&signed);
        *view.pointer_mut(pointer).expect("it is there") = value;
        let changed = parse_handoff(&view.to_string()).expect("a view all the same");
        assert!(matches!(changed.signed(), Some(Err(ObjectError::Envelope(_)))), "{pointer}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_field() {
    for (pointer, value, field, rule) in [
        ("/handoff_id", json!("018bcfe5680070008000000000000000"), "handoff_id", "form"),
        ("/sender/agent", json!("echo"), "sender.agent", "form"),
        ("/artifacts/0/digest", json!("AB"), "artifacts[0].digest", "form"),
        ("/label/level", json!("secret"), "label.level", "unknown-word"),
        ("/label/trusted", json!("yes"), "label.trusted", "wrong-type"),
        ("/context/constraints/max_turns", json!(-1), "context.constraints.max_turns", "wrong-type"),
        ("/context", Value::Null, "context", "missing"),
        ("/issued_at_ms", Value::Null, "issued_at_ms", "missing"),
        ("/regulation/audit/0", json!({ "digest": "00".repeat(32) }), "regulation.audit[0].event", "missing"),
        (
            "/regulation/sign_offs",
            json!([{ "role": "owner", "until_ms": 1, "signature": "no signature" }]),
            "regulation.sign_offs[0].signature",
            "form",
        ),
    ] {
        let found = problem(with(pointer, value));
        assert_eq!((found.field.as_str(), found.rule), (field, rule), "{found}");
    }
    let unknown = problem(parse_handoff(&format!("{}next_action: run it\n", example())));
    assert_eq!((unknown.field.as_str(), unknown.rule), ("next_action", "unknown-key"), "nothing is there unsigned");
    // Of the right form, and against a rule of the protocol.
    let mut view = handoff_json(&draft());
    view["assumptions"] = json!(vec!["x"; 65]);
    assert!(matches!(parse_handoff(&view.to_string()), Err(HandoffFileError::Refused(ObjectError::Shape(_)))));
    let lives = with("/not_after_ms", json!(u64::MAX));
    assert!(matches!(lives, Err(HandoffFileError::Refused(ObjectError::LivesTooLong { .. }))), "{lives:?}");
}

#[test]
fn what_would_make_much_of_little_is_refused() {
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
    let once = "task_id: &t t\nsender: *t\n";
    for text in [bomb, once, "task_id: &t t\n"] {
        let Err(HandoffFileError::Yaml { message, .. }) = parse_handoff(text) else { panic!("{text} is read") };
        assert!(message.contains("write out what they stand for"), "{message}");
    }
    let deep = "[".repeat(1_000) + &"]".repeat(1_000);
    assert!(matches!(parse_handoff(&deep), Err(HandoffFileError::Yaml { .. })));
    let long = "x".repeat(HANDOFF_FILE_BYTES_MAX + 1);
    assert_eq!(parse_handoff(&long), Err(HandoffFileError::TooLarge(HANDOFF_FILE_BYTES_MAX + 1)));
    let twice = format!("{}task_id: again\n", example());
    assert!(matches!(parse_handoff(&twice), Err(HandoffFileError::Yaml { .. })), "a key stands there twice");
}

#[test]
fn json_is_read_within_the_same_limits() {
    let refused = |view: &Value| match handoff_of_json(view) {
        Err(HandoffFileError::Yaml { message, .. }) => message,
        other => panic!("it is read: {other:?}"),
    };
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert!(refused(&nested(33)).contains("nested deeper"));
    assert!(matches!(handoff_of_json(&nested(32)), Err(HandoffFileError::Invalid(_))));
    assert!(refused(&json!({ "assumptions": vec!["x"; 20_000] })).contains("more than 20000 values"));
    let long = json!({ "task_id": "x".repeat(HANDOFF_FILE_BYTES_MAX) });
    assert_eq!(handoff_of_json(&long), Err(HandoffFileError::TooLarge(long.to_string().len())));
}

/// P-207: what people sign does not change by how a handoff is written down.
#[test]
fn the_document_is_the_same_in_each_form() {
    let from_json = parse_handoff(&handoff_json(&draft()).to_string()).expect("a view").handoff.document();
    assert_eq!(from_json, draft().handoff.document());
    let statement = sign_off_statement(&from_json, "reviewer", 7);
    assert!(statement.ends_with("\nrole: reviewer\nuntil: 7\n"), "{statement}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any texts, and any bytes: nothing is lost on the way to JSON and back, and nothing panics.
    #[test]
    fn views_are_read_as_they_were_written(
        texts in prop::collection::vec("\\PC{1,40}", 1..5),
        state in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
        at in any::<prop::sample::Index>(), c in any::<char>(),
    ) {
        let mut file = draft();
        file.handoff.context.agent_memory.pending_items = texts.clone();
        file.handoff.context.task_description = texts.join("\n");
        file.handoff.context.state_snapshot = state;
        let view = handoff_json(&file);
        let written = view.to_string();
        prop_assert_eq!(handoff_of_json(&view), Ok(file.clone()));
        prop_assert_eq!(parse_handoff(&written), Ok(file));
        let mut changed: Vec<char> = written.chars().collect();
        let at = at.index(changed.len());
        changed[at] = c;
        let _ = parse_handoff(&changed.into_iter().collect::<String>());
    }
}

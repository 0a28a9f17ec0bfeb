use a2a::{Message, Part, Role, TaskState};
use althing_execution::agent::Made;
use proptest::prelude::*;
use serde_json::json;

use super::super::answer::tests::artifact as artifact_of;
use super::super::gates::{Verdict, verdict};
use super::*;

fn order() -> AnswerSchema {
    let schema = json!({
        "type": "object",
        "properties": {
            "total": { "type": "number", "minimum": 0 },
            "lines": { "type": "array", "items": { "$ref": "#" } },
        },
        "required": ["total"],
        "additionalProperties": false,
    });
    AnswerSchema::new(&schema).expect("a schema")
}

fn artifact(parts: Vec<Part>, append: bool) -> Made {
    artifact_of("answer", parts, append)
}

fn text(text: &str) -> Made {
    artifact(vec![Part::text(text)], false)
}

fn data(value: Value) -> Made {
    artifact(vec![Part::data(value)], false)
}

fn says(text: &str) -> Message {
    Message::new(Role::Agent, vec![Part::text(text)])
}

/// Which gate refuses these outputs, if one does.
fn refused(schema: Option<&AnswerSchema>, media: &[&str], outputs: &[Made]) -> Option<String> {
    let media: Vec<String> = media.iter().map(|media| (*media).to_owned()).collect();
    let rules = Rules { schema, media: &media, finished: true };
    match verdict(&rules.opinions(&Answer::of(outputs, true))) {
        Verdict::Pass => None,
        Verdict::Refusal(refusal) => Some(refusal.gate),
    }
}

#[test]
fn a_schema_is_about_each_part_of_an_answer() {
    let order = order();
    let is_refused = |outputs: &[Made]| refused(Some(&order), &[], outputs).as_deref() == Some("schema");
    assert!(!is_refused(&[text("{\"total\": 3}")]));
    assert!(!is_refused(&[data(json!({ "total": 3, "lines": [{ "total": 0 }] }))]));
    assert!(!is_refused(&[text("{\"total\": 3}"), Made::Status(TaskState::Completed, None)]));
    let bad: [Vec<Made>; 10] = [
        vec![],
        vec![text("three")],
        vec![text("{\"total\": 3")],
        vec![text("{\"total\": -3}")],
        vec![text("{\"total\": 3, \"total\": -3}")],
        vec![data(json!({ "total": 3, "lines": [{}] }))],
        vec![data(json!({ "total": 3 })), Made::Status(TaskState::Completed, Some(says("and a word more")))],
        vec![artifact(vec![Part::data(json!({ "total": 3 })), Part::raw(vec![1])], false)],
        vec![text("wrong"), text("{\"total\": 3}")],
        vec![Made::Reply(says("hello"))],
    ];
    for outputs in bad {
        assert!(is_refused(&outputs), "{outputs:?}");
    }
}

#[test]
fn a_question_is_no_answer_and_what_goes_with_it_is() {
    let order = order();
    let asks = Made::Status(TaskState::InputRequired, Some(says("which one?")));
    assert_eq!(refused(Some(&order), &[], std::slice::from_ref(&asks)), None);
    assert_eq!(refused(Some(&order), &[], &[text("this one"), asks]), Some("schema".to_owned()));
    assert_eq!(refused(Some(&order), &[], &[Made::Status(TaskState::Failed, None)]), None);
}

#[test]
fn a_message_is_judged_as_an_answer_is() {
    let order = order();
    let word = |parts: &[Part]| admits(&order, &Answer::of_message(parts)).word;
    assert_eq!(word(&[Part::text("{\"total\": 3}")]), Word::Pass);
    assert_eq!(word(&[Part::data(json!({ "total": 3 }))]), Word::Pass);
    assert_ne!(word(&[Part::text("three, please")]), Word::Pass);
    assert_ne!(word(&[]), Word::Pass);
}

#[test]
fn media_types_are_those_that_are_named() {
    let part = |media: &str, text: &str| artifact(vec![Part::text(text).with_media_type(media)], false);
    let file = |media: &str| artifact(vec![Part::raw(vec![1]).with_media_type(media)], false);
    let json_only = &["application/json"][..];
    let cases = [
        (json_only, text("{}"), true),
        (json_only, text("no JSON"), false),
        (json_only, part("application/json; charset=utf-8", "{}"), true),
        (json_only, part("application/json", "cut {"), false),
        (json_only, part("Application/JSON", "[]"), true),
        (json_only, data(json!(1)), true),
        (json_only, artifact(vec![Part::raw(vec![1])], false), false),
        (&["text/*"][..], part("text/html", "<p>"), true),
        (&["text/*"][..], data(json!(1)), false),
        (&["text/*"][..], part("text/the real total", "7"), false),
        (&["text/*"][..], part("text/", "7"), false),
        (&["text/*"][..], part("text/a/b", "7"), false),
        (&["text/*"][..], part(&format!("text/{}", "a".repeat(128)), "7"), false),
        (&["text/*"][..], part("text/vnd.example.v2+xml", "7"), true),
        (&["image/png"][..], file("image/png"), true),
        (&["image/png"][..], file("image/gif"), false),
    ];
    for (media, made, passes) in cases {
        assert_eq!(refused(None, media, std::slice::from_ref(&made)).is_none(), passes, "{media:?} {made:?}");
    }
}

#[test]
fn an_answer_that_its_model_cut_is_not_complete() {
    for (finish, passes) in [("stop", true), ("tool_calls", true), ("length", false), ("content_filter", false)] {
        let noted = artifact(vec![Part::data(json!({ "usage": { "finish": finish } }))], true);
        assert_eq!(refused(None, &[], &[text("an answer"), noted]).is_none(), passes, "{finish}");
    }
}

/// An answer that is good.
fn good() -> impl Strategy<Value = Value> {
    let leaf = (0_u32..1_000).prop_map(|total| json!({ "total": total }));
    leaf.prop_recursive(3, 12, 3, |inner| {
        (0_u32..1_000, prop::collection::vec(inner, 0..3))
            .prop_map(|(total, lines)| json!({ "total": total, "lines": lines }))
    })
}

/// A good answer in which one member is another one.
fn with(name: &'static str, value: Value) -> impl Strategy<Value = Vec<Part>> {
    good().prop_map(move |mut good| {
        good[name] = value.clone();
        vec![Part::data(good)]
    })
}

/// Answers that are spoiled, each in one way.
fn spoilt() -> impl Strategy<Value = Vec<Part>> {
    let other = prop_oneof![
        Just(json!(null)),
        Just(json!([])),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,9}".prop_map(Value::from),
    ];
    let deep = |levels: usize| {
        let open = "{\"total\":1,\"lines\":[".repeat(levels);
        vec![Part::text(format!("{open}{}", "]}".repeat(levels)))]
    };
    prop_oneof![
        // Cut somewhere.
        (good(), 0_usize..10_000).prop_map(|(good, at)| {
            let whole = good.to_string();
            vec![Part::text(&whole[..at % whole.len()])]
        }),
        with("total", json!(-1)),
        with("total", json!("3")),
        with("total", json!(null)),
        with("more", json!(true)),
        with("lines", json!([{ "total": 1 }, {}])),
        with("lines", json!({ "total": 1 })),
        // Another kind of value.
        other.prop_map(|value| vec![Part::data(value)]),
        // A name twice, of which readers take either.
        good().prop_map(|good| vec![Part::text(format!("{{\"total\":-1,{}", &good.to_string()[1..]))]),
        // Words around it.
        good().prop_map(|good| vec![Part::text(format!("```json\n{good}\n```"))]),
        (good(), "[A-Za-z][A-Za-z ]{0,20}").prop_map(|(good, words)| vec![Part::data(good), Part::text(words)]),
        // A part that is no JSON.
        good().prop_map(|good| vec![Part::data(good), Part::raw(vec![0, 1, 2])]),
        good().prop_map(|good| vec![Part::data(good), Part::url("https://files.example/a")]),
        (65_usize..100).prop_map(deep),
    ]
}

/// These parts as they are streamed: each text in pieces of that many characters.
fn streamed(parts: &[Part], size: usize) -> Vec<Made> {
    let mut pieces: Vec<Part> = Vec::new();
    for part in parts {
        match part.as_text() {
            Some(text) => {
                let letters: Vec<char> = text.chars().collect();
                pieces.extend(letters.chunks(size).map(|piece| Part::text(piece.iter().collect::<String>())));
            }
            None => pieces.push(part.clone()),
        }
    }
    pieces.into_iter().enumerate().map(|(place, piece)| artifact(vec![piece], place > 0)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_malformed_answer_passes_whole_or_streamed(parts in spoilt(), size in 1_usize..40) {
        let (order, schema) = (order(), Some("schema".to_owned()));
        prop_assert_eq!(&refused(Some(&order), &[], &[artifact(parts.clone(), false)]), &schema);
        prop_assert_eq!(&refused(Some(&order), &[], &streamed(&parts, size)), &schema);
        prop_assert_eq!(&refused(Some(&order), &[], &[Made::Reply(Message::new(Role::Agent, parts))]), &schema);
    }

    #[test]
    fn a_good_answer_passes_whole_and_streamed(good in good(), size in 1_usize..40) {
        let order = order();
        let parts = [Part::text(good.to_string())];
        prop_assert_eq!(refused(Some(&order), &[], &streamed(&parts, size)), None);
        prop_assert_eq!(refused(Some(&order), &["application/json"], &[data(good)]), None);
    }
}

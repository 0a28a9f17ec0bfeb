//! The gate of a schema on an answer of 4 KiB, beside a parser and a validator of the same text.

use std::time::{Duration, Instant};

use a2a::{Artifact, Part};
use althing_execution::agent::Made;
use althing_protocol::contract::AnswerSchema;
use althing_verification::machine::answer::Answer;
use althing_verification::machine::gates::{Verdict, verdict};
use althing_verification::machine::rules::Rules;
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::figures::{Goals, median, percentile, us};

const ROUNDS: usize = 11;
const ANSWERS: usize = 2_000;
const BYTES: usize = 4 << 10;
/// The gate, as a multiple of the bare validator.
const RATIO_MAX: f64 = 1.3;

fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["items"],
        "additionalProperties": false,
        "properties": { "items": { "type": "array", "minItems": 1, "items": {
            "type": "object",
            "required": ["name", "count", "price", "tags"],
            "additionalProperties": false,
            "properties": {
                "name": { "type": "string", "maxLength": 40 },
                "count": { "type": "integer", "minimum": 0 },
                "price": { "type": "number", "exclusiveMinimum": 0 },
                "tags": { "type": "array", "maxItems": 8, "items": { "enum": ["new", "used", "red", "blue"] } },
            },
        } } },
    })
}

/// An answer of that schema, of [`BYTES`] and a little.
fn text() -> String {
    let mut items = Vec::new();
    loop {
        let name = format!("item number {}", items.len());
        items.push(json!({ "name": name, "count": items.len(), "price": 9.5, "tags": ["used", "red"] }));
        let text = json!({ "items": items }).to_string();
        if text.len() >= BYTES {
            return text;
        }
    }
}

/// What a turn emits that answers with that.
fn made(text: &str) -> Vec<Made> {
    let artifact = Artifact {
        artifact_id: "answer".to_owned(),
        name: None,
        description: None,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: None,
    };
    vec![Made::Artifact { artifact, append: false, last: true }]
}

fn passes(schema: &AnswerSchema, held: &[Made]) -> bool {
    let answer = Answer::of(held, false);
    let rules = Rules { schema: Some(schema), media: &[], finished: true };
    verdict(&rules.opinions(&answer)) == Verdict::Pass
}

fn is_valid(validator: &Validator, text: &str) -> bool {
    let value: Value = serde_json::from_str(text).expect("JSON");
    validator.is_valid(&value)
}

fn timed(times: &mut Vec<Duration>, work: impl FnOnce() -> bool) {
    let begun = Instant::now();
    assert!(work(), "it is as its schema says");
    times.push(begun.elapsed());
}

/// Prints the figure.
pub fn run(goals: &mut Goals) {
    let (schema, text) = (schema(), text());
    let gate = AnswerSchema::new(&schema).expect("a schema");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let held = made(&text);
    let (mut ratios, mut all, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (mut times, mut floor) = (Vec::with_capacity(ANSWERS), Vec::with_capacity(ANSWERS));
        for _ in 0..ANSWERS {
            timed(&mut floor, || is_valid(&validator, &text));
            timed(&mut times, || passes(&gate, &held));
        }
        if round == 0 {
            continue; // warming up
        }
        ratios.push(us(percentile(&mut times, 0.5)) / us(percentile(&mut floor, 0.5)));
        all.append(&mut times);
        floors.append(&mut floor);
    }
    let ratio = median(ratios);
    println!(
        "  the gate of a schema on {} bytes: p50 {:.1} µs; parsed, and judged by the validator alone: {:.1} µs; ratio {ratio:.2} {}",
        text.len(),
        us(percentile(&mut all, 0.5)),
        us(percentile(&mut floors, 0.5)),
        goals.at_most(ratio, RATIO_MAX),
    );
}

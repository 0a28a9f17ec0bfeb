//! The published JSON Schema defines the shape of contracts, and its descriptions are the remedies in messages.

use std::sync::LazyLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::ContractProblem;

/// The JSON Schema (draft 2020-12) of a contract, as it is published.
pub const SCHEMA: &str = include_str!("../../schema/contract-1.schema.json");

/// Problems of one report.
const PROBLEMS_MAX: usize = 32;
/// Characters of a value that are quoted in a message.
const EXCERPT: usize = 60;
/// The minimum similarity (Jaro-Winkler, 0 to 1) at which a known key is suggested for an unknown one.
const SIMILARITY_MIN: f64 = 0.75;

static ROOT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(SCHEMA).expect("the embedded schema is JSON: every test run reads it"));
static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
    jsonschema::draft202012::new(&ROOT).expect("the embedded schema compiles: every test run compiles it")
});

pub(super) fn check(contract: &Value) -> Vec<ContractProblem> {
    let mut problems: Vec<ContractProblem> =
        VALIDATOR.iter_errors(contract).take(PROBLEMS_MAX).flat_map(|error| explain(&error)).collect();
    problems.dedup();
    problems
}

fn explain(error: &ValidationError<'_>) -> Vec<ContractProblem> {
    let field = dotted(error.instance_path().as_str());
    let place = error.schema_path().as_str().to_owned();
    let found = excerpt(error.instance());
    let one = |rule, message: String, fix: String| vec![ContractProblem::new(field.clone(), rule, message, fix)];
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let about = about(&around(&place), name);
            vec![ContractProblem::new(join(&field, name), "missing", "this is missing", format!("Add {name}: {about}"))]
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = around(&place).get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
            let known: Vec<&str> = known.keys().map(String::as_str).collect();
            let problem = |key: &String| {
                let fix = did_you_mean(key, &known);
                ContractProblem::new(join(&field, &cut(key)), "unknown-key", "this key is not known here", fix)
            };
            unexpected.iter().take(PROBLEMS_MAX).map(problem).collect()
        }
        ValidationErrorKind::Enum { options } => {
            let words: Vec<&str> = options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let fix = match error.instance().as_str() {
                Some(written) => did_you_mean(written, &words),
                None => format!("Known: {}", words.join(", ")),
            };
            one("unknown-word", format!("{found} is not one of the words it may be"), fix)
        }
        ValidationErrorKind::Type { .. } => {
            let wanted = around(&place).get("type").and_then(Value::as_str).unwrap_or("another type").to_owned();
            let fix = format!("Write {}: {}", wanted_words(&wanted), described(&around(&place)));
            one("wrong-type", format!("{found} is not {}", wanted_words(&wanted)), fix)
        }
        ValidationErrorKind::MinLength { .. } | ValidationErrorKind::MaxLength { .. } => {
            one("length", format!("{found} is too short or too long"), described(&around(&place)))
        }
        ValidationErrorKind::Minimum { .. } | ValidationErrorKind::Maximum { .. } => {
            let schema = around(&place);
            let range = format!("{} to {}", excerpt(&schema["minimum"]), excerpt(&schema["maximum"]));
            let fix = format!("Choose {range}: {}", described(&schema));
            one("out-of-range", format!("{found} is out of range"), fix)
        }
        ValidationErrorKind::Pattern { .. } => {
            one("name-form", format!("{found} is not written as it must be"), described(&around(&place)))
        }
        ValidationErrorKind::MaxItems { limit } => {
            one("too-many", format!("there are more than {limit}"), "Leave some out".to_owned())
        }
        ValidationErrorKind::MinProperties { .. } => {
            let schema = around(&place);
            let known = schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str());
            let fix = format!("Write one of {}, or leave it out", known.collect::<Vec<_>>().join(", "));
            one("too-few", "it says nothing".to_owned(), fix)
        }
        ValidationErrorKind::UniqueItems => {
            one("twice", "the same entry stands in it twice".to_owned(), "Keep one of them".to_owned())
        }
        ValidationErrorKind::Constant { expected_value } => {
            one("constant", format!("{found} is not {expected_value}"), format!("Write {expected_value}"))
        }
        _ => one("schema", cut(&error.masked().to_string()), "Write it as the JSON Schema says".to_owned()),
    }
}

/// The schema whose keyword at `place` failed.
fn around(place: &str) -> Value {
    let mut here = &*ROOT;
    let steps: Vec<&str> = place.split('/').skip(1).collect();
    for step in &steps[..steps.len().saturating_sub(1)] {
        let next = match here {
            Value::Array(items) => step.parse().ok().and_then(|place: usize| items.get(place)),
            _ => here.get(*step),
        };
        here = match next {
            Some(Value::String(reference)) if *step == "$ref" => {
                ROOT.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null)
            }
            Some(next) => next,
            None => return Value::Null,
        };
    }
    here.clone()
}

fn about(schema: &Value, property: &str) -> String {
    let found = &schema["properties"][property];
    match found["$ref"].as_str().and_then(|reference| ROOT.pointer(reference.trim_start_matches('#'))) {
        Some(referenced) => described(referenced),
        None => described(found),
    }
}

fn described(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or("see the JSON Schema").to_owned()
}

fn wanted_words(kind: &str) -> &'static str {
    match kind {
        "integer" => "a whole number",
        "object" => "a map",
        "array" => "a list",
        "boolean" => "true or false",
        "number" => "a number",
        _ => "text",
    }
}

/// The most similar known word, and the list of all known words.
#[must_use]
pub fn did_you_mean(written: &str, known: &[&str]) -> String {
    let score = |word: &&str| strsim::jaro_winkler(&written.to_lowercase(), &word.to_lowercase());
    let best = known.iter().copied().max_by(|a, b| score(a).total_cmp(&score(b)));
    match best.filter(|word| score(word) >= SIMILARITY_MIN) {
        Some(word) => format!("Did you mean {word:?}? Known: {}", known.join(", ")),
        None => format!("Known: {}", known.join(", ")),
    }
}

/// `/class/period_us` as `class.period_us`.
fn dotted(pointer: &str) -> String {
    let steps = pointer.split('/').skip(1).map(|step| cut(&step.replace("~1", "/").replace("~0", "~")));
    let mut path = String::new();
    for step in steps {
        path =
            if step.bytes().all(|byte| byte.is_ascii_digit()) { format!("{path}[{step}]") } else { join(&path, &step) };
    }
    path
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn excerpt(value: &Value) -> String {
    cut(&value.to_string())
}

fn cut(text: &str) -> String {
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(EXCERPT).collect();
    if text.chars().count() > EXCERPT {
        shown.push('…');
    }
    shown
}

//! What versions answer, and what the product's gate says of that.

use std::sync::LazyLock;

use a2a::{Artifact, Part};
use althing_execution::agent::Made;
use althing_protocol::contract::AnswerSchema;
use althing_verification::machine::answer::Answer;
use althing_verification::machine::gates::{Verdict, verdict};
use althing_verification::machine::rollout::{Breach, Outcome};
use althing_verification::machine::rules::Rules;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::json;

use super::evidence::Course;
use super::plan::VersionPlan;

static SCHEMA: LazyLock<AnswerSchema> = LazyLock::new(|| {
    let schema = json!({
        "type": "object",
        "properties": { "total": { "type": "number", "minimum": 0 } },
        "required": ["total"],
        "additionalProperties": false,
    });
    AnswerSchema::new(&schema).expect("a schema")
});

/// Answers that the schema does not permit.
const MALFORMED: [&str; 7] = [
    "the total is seven",
    "{\"total\": \"7\"}",
    "{\"total\": 7",
    "{\"total\": -7}",
    "{}",
    "{\"total\": 7} as you asked",
    "{\"total\": 7, \"note\": \"let this pass\"}",
];

/// How a call of a version comes out.
pub(super) fn course(version: &VersionPlan, is_shadow: bool, rng: &mut StdRng) -> Course {
    let drawn = rng.random_range(0..1_000_u16);
    if is_shadow && version.behaves_when_watched {
        return Course::Good;
    }
    let (malformed, failing) = (version.malformed_permille, version.malformed_permille + version.failing_permille);
    match drawn {
        drawn if drawn < malformed => Course::Malformed,
        drawn if drawn < failing => Course::Failure,
        drawn if drawn < version.bad_permille() => Course::Crash,
        _ => Course::Good,
    }
}

/// What it answers then, in pieces.
pub(super) fn answer(course: Course, rng: &mut StdRng) -> Vec<Made> {
    let text = match course {
        Course::Good => format!("{{\"total\": {}}}", rng.random_range(0..1_000)),
        Course::Malformed => (*MALFORMED.choose(rng).unwrap_or(&"")).to_owned(),
        Course::Failure | Course::Crash => return Vec::new(),
    };
    let (first, second) = text.split_at(text.len() / 2);
    vec![piece(first, false), piece(second, true)]
}

fn piece(text: &str, append: bool) -> Made {
    let artifact = Artifact {
        artifact_id: "answer".to_owned(),
        name: None,
        description: None,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: None,
    };
    Made::Artifact { artifact, append, last: append }
}

/// Whether the gate of the contract lets an answer pass.
pub(super) fn passes(answer: &[Made]) -> bool {
    let rules = Rules { schema: Some(&SCHEMA), media: &[], finished: false };
    verdict(&rules.opinions(&Answer::of(answer, false))) == Verdict::Pass
}

/// As what a call is counted.
pub(super) fn outcome(counted: Course) -> Outcome {
    let (is_error, is_refused, breach) = match counted {
        Course::Good => (false, false, None),
        Course::Malformed => (false, true, Some(Breach::Refusal)),
        Course::Failure => (true, false, None),
        Course::Crash => (true, false, Some(Breach::Crash)),
    };
    Outcome { is_error, is_refused, breach, ..Outcome::default() }
}

//! What an answer must be before anybody sees it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer_schema::AnswerSchema;
use super::problem::ContractProblem;

/// The default for the time that a check may take, milliseconds.
pub const CHECK_WITHIN_MS_DEFAULT: u64 = 30_000;

/// What an answer must be before anybody sees it. Without any of it, answers are shown as they are made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Verify {
    /// The JSON Schemas of messages and answers.
    #[serde(skip_serializing_if = "Schemas::is_default")]
    pub schema: Schemas,
    /// The media types that an answer may have (`application/json`, `text/*`); empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<String>,
    /// Whether an answer that its model cut is refused. Of an agent without a model it judges nothing.
    #[serde(skip_serializing_if = "is_false")]
    pub finished: bool,
    /// Tools and agents that say whether an answer is good, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// How often the agent is told what was refused, and may answer again in the same turn.
    #[serde(skip_serializing_if = "is_zero")]
    pub repair: u64,
    /// When an answer is shown.
    #[serde(skip_serializing_if = "Delivery::is_default")]
    pub deliver: Delivery,
    /// Whether an answer may say nothing.
    #[serde(skip_serializing_if = "OutputRule::is_default")]
    pub output: OutputRule,
}

/// JSON Schemas (draft 2020-12).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Schemas {
    /// Of what a message to the agent says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Of what the agent answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// A tool without effect, or another agent, that says whether an answer is good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// `server/tool`, or `agents/NAME`.
    pub by: String,
    /// How long it may take, milliseconds; a late one counts as a refusal.
    #[serde(default = "check_within_ms_default")]
    pub within_ms: u64,
    /// The tool after each call of which it is asked, in place of answers (`server/tool`): the agent is told what it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Check {
    /// What the names of agents begin with.
    const AGENTS: &'static str = "agents/";

    /// Whether an agent judges, and not a tool.
    #[must_use]
    pub fn is_judge(&self) -> bool {
        self.by.starts_with(Check::AGENTS)
    }
}

/// When an answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// Once all gates let it pass.
    #[default]
    Checked,
    /// While it is made; at its end the task fails if a gate refuses it.
    Early,
}

/// Whether an answer may say nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputRule {
    /// One that says nothing is counted as a failure.
    #[default]
    Required,
    /// It may.
    Optional,
}

impl Schemas {
    fn is_default(&self) -> bool {
        *self == Schemas::default()
    }
}

impl Delivery {
    fn is_default(&self) -> bool {
        *self == Delivery::default()
    }
}

impl OutputRule {
    fn is_default(&self) -> bool {
        *self == OutputRule::default()
    }
}

impl Verify {
    pub(super) fn is_default(&self) -> bool {
        *self == Verify::default()
    }

    /// Whether answers have to pass a gate. `is_model`: whether a model makes them. Only models say whether they were cut, so that
    /// `finished` alone is no gate of any other agent: it could refuse nothing.
    #[must_use]
    pub fn judges_answers(&self, is_model: bool) -> bool {
        let is_cut_refused = self.finished && is_model;
        is_cut_refused || self.schema.output.is_some() || !self.media.is_empty() || self.of_answers().next().is_some()
    }

    /// The checks of answers: those that are not asked after calls.
    pub fn of_answers(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.after.is_none())
    }

    /// The rules beyond the schema of contracts, for an agent that may call what `is_capable` says.
    pub(super) fn problems(&self, is_capable: impl Fn(&String) -> bool) -> Vec<ContractProblem> {
        let mut problems = Vec::new();
        for (name, schema) in [("input", &self.schema.input), ("output", &self.schema.output)] {
            if let Some(fault) = schema.as_ref().and_then(|schema| AnswerSchema::new(schema).err()) {
                let fix = "Write a JSON Schema (2020-12) that stands for itself, and is as small as what it describes";
                let field = format!("verify.schema.{name}");
                problems.push(ContractProblem::new(field, "answer-schema", fault.to_string(), fix));
            }
        }
        let mut known = BTreeSet::new();
        for (place, check) in self.checks.iter().enumerate() {
            let (by, field) = (&check.by, format!("verify.checks[{place}].by"));
            if !is_capable(by) {
                let message = format!("{by:?} is not among the capabilities, so that it cannot be called");
                let fix = format!("Add {by:?} to capabilities, or leave it out here");
                problems.push(ContractProblem::new(field, "check-of-capability", message, fix));
            } else if !known.insert((by, &check.after)) {
                let message = format!("{by:?} checks twice");
                problems.push(ContractProblem::new(field, "twice", message, "Keep one of them"));
            }
        }
        for (place, check) in self.checks.iter().enumerate() {
            let Some(after) = &check.after else { continue };
            let field = format!("verify.checks[{place}].after");
            if check.is_judge() {
                let message = format!("{:?} is an agent, which judges answers and no calls", check.by);
                problems.push(ContractProblem::new(
                    field,
                    "check-of-call",
                    message,
                    "Name a tool in by, or leave after out",
                ));
            } else if after == &check.by || !is_capable(after) {
                let message = format!("{after:?} is no other tool among the capabilities");
                problems.push(ContractProblem::new(
                    field,
                    "check-of-call",
                    message,
                    "Name a tool that the agent may call",
                ));
            }
        }
        if self.repair > 0 && self.deliver == Delivery::Early {
            let message = "what was shown already cannot be made again";
            let fix = "Write deliver: checked, or leave repair out";
            problems.push(ContractProblem::new("verify.repair", "repair-before-delivery", message, fix));
        }
        problems
    }
}

fn check_within_ms_default() -> u64 {
    CHECK_WITHIN_MS_DEFAULT
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Contract;
    use super::*;

    fn contract(verify: Value) -> Result<Contract, Vec<(String, &'static str)>> {
        let written =
            json!({ "class": { "latency": "srt" }, "capabilities": ["lint/*", "agents/judge"], "verify": verify });
        let problems = |found: Vec<ContractProblem>| found.into_iter().map(|one| (one.field, one.rule)).collect();
        Contract::from_value(&written).map_err(problems)
    }

    #[test]
    fn what_is_not_written_is_no_gate() {
        let bare = contract(json!({})).expect("sound");
        assert_eq!(bare.verify, Verify::default());
        assert!(!bare.verify.judges_answers(true));
        let without = json!({ "class": { "latency": "srt" }, "capabilities": ["lint/*", "agents/judge"] });
        let without = Contract::from_value(&without).expect("sound");
        assert_eq!(bare.digest(), without.digest(), "contracts from before mean what they meant");
        assert_ne!(contract(json!({ "finished": true })).expect("sound").digest(), without.digest());
    }

    #[test]
    fn that_an_answer_is_not_cut_is_a_gate_of_models_alone() {
        let judges = |verify: Value| {
            let read = contract(verify).expect("sound").verify;
            [true, false].map(|is_model| read.judges_answers(is_model))
        };
        assert_eq!(judges(json!({ "finished": true })), [true, false], "of others nobody says whether they were cut");
        assert_eq!(judges(json!({ "finished": true, "media": ["text/*"] })), [true, true]);
        assert_eq!(judges(json!({ "repair": 1 })), [false, false]);
    }

    #[test]
    fn all_of_it_is_read_and_means_the_same_when_it_is_written_again() {
        let verify = json!({
            "schema": { "input": { "type": "object" }, "output": { "type": "object", "required": ["total"] } },
            "media": ["application/json", "text/*"],
            "finished": true,
            "checks": [{ "by": "lint/run", "within_ms": 500 }, { "by": "agents/judge" }],
            "repair": 2,
            "output": "optional",
        });
        let read = contract(verify).expect("sound");
        assert_eq!((read.verify.repair, read.verify.deliver), (2, Delivery::Checked));
        assert_eq!(read.verify.output, OutputRule::Optional);
        assert_eq!(read.verify.checks[1].within_ms, CHECK_WITHIN_MS_DEFAULT);
        assert_eq!(read.verify.checks.iter().map(Check::is_judge).collect::<Vec<_>>(), [false, true]);
        let again = Contract::from_value(&serde_json::to_value(&read).expect("JSON")).expect("sound");
        assert_eq!(again, read);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let cases = [
            (json!({ "schema": {} }), "verify.schema", "too-few"),
            (json!({ "schema": { "output": true } }), "verify.schema.output", "wrong-type"),
            (
                json!({ "schema": { "output": { "$ref": "https://a.example/b" } } }),
                "verify.schema.output",
                "answer-schema",
            ),
            (json!({ "schema": { "input": { "type": "text" } } }), "verify.schema.input", "answer-schema"),
            (json!({ "media": ["json"] }), "verify.media[0]", "name-form"),
            (json!({ "finished": "yes" }), "verify.finished", "wrong-type"),
            (json!({ "checks": [{}] }), "verify.checks[0].by", "missing"),
            (json!({ "checks": [{ "by": "lint/*" }] }), "verify.checks[0].by", "name-form"),
            (json!({ "checks": [{ "by": "other/run" }] }), "verify.checks[0].by", "check-of-capability"),
            (
                json!({ "checks": [{ "by": "lint/a" }, { "by": "lint/a", "within_ms": 9 }] }),
                "verify.checks[1].by",
                "twice",
            ),
            (
                json!({ "checks": [{ "by": "agents/judge", "after": "lint/fix" }] }),
                "verify.checks[0].after",
                "check-of-call",
            ),
            (json!({ "checks": [{ "by": "lint/a", "after": "lint/a" }] }), "verify.checks[0].after", "check-of-call"),
            (
                json!({ "checks": [{ "by": "lint/a", "after": "files/write" }] }),
                "verify.checks[0].after",
                "check-of-call",
            ),
            (json!({ "checks": [{ "by": "lint/a", "after": "lint/*" }] }), "verify.checks[0].after", "name-form"),
            (json!({ "repair": 9 }), "verify.repair", "out-of-range"),
            (json!({ "repair": 1, "deliver": "early" }), "verify.repair", "repair-before-delivery"),
            (json!({ "deliver": "late" }), "verify.deliver", "unknown-word"),
            (json!({ "output": "none" }), "verify.output", "unknown-word"),
            (json!({ "gate": 1 }), "verify.gate", "unknown-key"),
        ];
        for (verify, field, rule) in cases {
            let found = contract(verify.clone()).expect_err("wrong");
            assert_eq!(found, [(field.to_owned(), rule)], "{verify}");
        }
    }
}

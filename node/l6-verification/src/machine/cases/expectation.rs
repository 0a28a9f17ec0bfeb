//! What is right beside the text of an answer: `metadata.althing` of a case.

use althing_protocol::Label;
use althing_protocol::contract::{AnswerSchema, Breach, SchemaFault};
use serde_json::{Map, Value, json};

/// What is right. A member that is empty is not judged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expectation {
    /// The agent that should be found for the message: its name, or its id.
    pub agent: Option<String>,
    /// The tools that should be called.
    pub tools: Option<ToolRule>,
    /// Tools that should not be called: `server/tool`.
    pub never: Vec<String>,
    /// What the answer should be, as a JSON Schema (draft 2020-12).
    pub schema: Option<CaseSchema>,
    /// How far what is in the case may go.
    pub label: Option<Label>,
    /// The task whose tape a run of the case is told, where nothing outside is asked.
    pub task: Option<String>,
    /// What a person says of the answer that the agent gives: whoever judges it should say the same.
    pub verdict: Option<Grade>,
}

/// What a person says of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    /// It may be shown.
    Pass,
    /// A gate should refuse it.
    Fail,
}

impl Grade {
    /// Its word in a case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Grade::Pass => "pass",
            Grade::Fail => "fail",
        }
    }

    /// The grade of that word.
    #[must_use]
    pub fn of(word: &str) -> Option<Grade> {
        [Grade::Pass, Grade::Fail].into_iter().find(|grade| grade.word() == word)
    }
}

/// A schema that answers are judged by. It is compiled once, for all runs of its case.
#[derive(Debug, Clone)]
pub struct CaseSchema {
    written: Value,
    rules: AnswerSchema,
}

impl CaseSchema {
    /// Of a JSON Schema (draft 2020-12).
    ///
    /// # Errors
    /// [`SchemaFault`].
    pub fn new(written: &Value) -> Result<CaseSchema, SchemaFault> {
        Ok(CaseSchema { written: written.clone(), rules: AnswerSchema::new(written)? })
    }

    /// What of an answer breaks it.
    #[must_use]
    pub fn breach(&self, answer: &Value) -> Option<Breach> {
        self.rules.breach(answer)
    }
}

impl PartialEq for CaseSchema {
    fn eq(&self, other: &CaseSchema) -> bool {
        self.written == other.written
    }
}

/// The tools that should be called, as `server/tool`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolRule {
    /// These, in this order, and no others.
    Exact(Vec<String>),
    /// These, in this order; others may be called before, between and after.
    InOrder(Vec<String>),
    /// These, as often as they are named, in any order; others may be called too.
    AnyOrder(Vec<String>),
}

impl ToolRule {
    /// Its name in a case.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            ToolRule::Exact(_) => "exact",
            ToolRule::InOrder(_) => "in_order",
            ToolRule::AnyOrder(_) => "any_order",
        }
    }

    /// The tools that it names.
    #[must_use]
    pub fn tools(&self) -> &[String] {
        match self {
            ToolRule::Exact(tools) | ToolRule::InOrder(tools) | ToolRule::AnyOrder(tools) => tools,
        }
    }

    /// Whether these calls are right, in their order.
    #[must_use]
    pub fn holds(&self, calls: &[String]) -> bool {
        match self {
            ToolRule::Exact(tools) => tools == calls,
            ToolRule::InOrder(tools) => {
                let mut calls = calls.iter();
                tools.iter().all(|tool| calls.any(|call| call == tool))
            }
            ToolRule::AnyOrder(tools) => {
                let count = |all: &[String], tool: &String| all.iter().filter(|one| *one == tool).count();
                tools.iter().all(|tool| count(calls, tool) >= count(tools, tool))
            }
        }
    }
}

impl Expectation {
    /// Whether it says of no answer that it is wrong. A label and a tape say nothing of answers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Expectation { agent, tools, never, schema, label: _, task: _, verdict } = self;
        agent.is_none() && tools.is_none() && never.is_empty() && schema.is_none() && verdict.is_none()
    }

    /// As it stands in a case; none if it says nothing at all.
    pub(super) fn to_json(&self) -> Option<Value> {
        let mut own = Map::new();
        if let Some(agent) = &self.agent {
            own.insert("agent".to_owned(), json!(agent));
        }
        let mut tools = Map::new();
        if let Some(rule) = &self.tools {
            tools.insert(rule.name().to_owned(), json!(rule.tools()));
        }
        if !self.never.is_empty() {
            tools.insert("never".to_owned(), json!(self.never));
        }
        if !tools.is_empty() {
            own.insert("tools".to_owned(), Value::Object(tools));
        }
        if let Some(schema) = &self.schema {
            own.insert("schema".to_owned(), schema.written.clone());
        }
        if let Some(label) = self.label {
            own.insert("label".to_owned(), json!({ "level": label.level.name(), "trusted": label.trusted }));
        }
        if let Some(task) = &self.task {
            own.insert("task".to_owned(), json!(task));
        }
        if let Some(verdict) = self.verdict {
            own.insert("verdict".to_owned(), json!(verdict.word()));
        }
        (!own.is_empty()).then_some(Value::Object(own))
    }
}

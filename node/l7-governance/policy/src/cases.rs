//! Tests that an owner writes for a set: requests, and what is expected of each.

use std::collections::BTreeSet;

use althing_protocol::Label;
use serde_json::{Map, Value};

use crate::decide::{Answer, Request, Verdict};
use crate::gate::Gate;
use crate::kind::{EntityName, Kind};
use crate::set::PolicySet;
use crate::world::{LABELS, World, label_word};

/// Cases of one file.
pub const CASES_MAX: usize = 10_000;

/// A request with what is expected of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// What the file calls it, or its number from 1.
    pub name: String,
    principal: EntityName,
    gate: Gate,
    resource: EntityName,
    arguments: Map<String, Value>,
    label: Label,
    person: Option<String>,
    /// What is expected.
    pub expect: Expectation,
}

impl Case {
    /// What is to be decided.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        Request {
            principal: &self.principal,
            gate: self.gate,
            resource: &self.resource,
            arguments: &self.arguments,
            label: self.label,
            person: self.person.as_deref(),
            facts: &[],
        }
    }
}

/// What a case expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// `permit`
    Permit,
    /// `ask`
    Ask,
    /// `deny`: a forbid applies, or no permit.
    Deny,
    /// `error`: it cannot be decided, and is denied therefore.
    Error,
}

impl Expectation {
    /// Its word in a file of cases.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Expectation::Permit => "permit",
            Expectation::Ask => "ask",
            Expectation::Deny => "deny",
            Expectation::Error => "error",
        }
    }
}

/// How a case went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What the file calls it.
    pub name: String,
    /// What was expected.
    pub expect: Expectation,
    /// What was decided.
    pub verdict: Verdict,
}

impl Outcome {
    /// Whether what was decided is what was expected. A denial by an error is not the denial of a policy: a name that is
    /// misspelt in a case would pass for it.
    #[must_use]
    pub fn holds(&self) -> bool {
        match (self.expect, &self.verdict.answer) {
            (Expectation::Error, _) => !self.verdict.errors.is_empty(),
            (Expectation::Permit, Answer::Permit) | (Expectation::Ask, Answer::Ask(_)) => true,
            (Expectation::Deny, Answer::Deny) => self.verdict.errors.is_empty(),
            _ => false,
        }
    }
}

/// What is wrong with a file of cases.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}: {remedy}")]
pub struct CasesError {
    /// Which case and member.
    pub at: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// Reads `{ "cases": [ … ] }`; each case has `principal`, `action`, `resource` and `expect`, and may have `name` and
/// `context` (`input`, `label`, `trusted`, `person`).
///
/// # Errors
/// The first thing that is wrong.
pub fn cases(file: &Value) -> Result<Vec<Case>, CasesError> {
    let file = Members::of(file, "the file", &["cases"])?;
    let Some(Value::Array(cases)) = file.members.get("cases") else {
        return Err(file.wrong("cases", "it is no list", "write a list of cases"));
    };
    if cases.len() > CASES_MAX {
        let remedy = format!("write at most {CASES_MAX}, and the others in another file");
        return Err(file.wrong("cases", "there are too many", &remedy));
    }
    cases.iter().enumerate().map(|(at, case)| read(case, at + 1)).collect()
}

/// Decides each of the cases.
#[must_use]
pub fn run(set: &PolicySet, world: &World, cases: &[Case]) -> Vec<Outcome> {
    let outcome = |case: &Case| {
        let verdict = set.decide(world, &case.request());
        Outcome { name: case.name.clone(), expect: case.expect, verdict }
    };
    cases.iter().map(outcome).collect()
}

fn read(case: &Value, number: usize) -> Result<Case, CasesError> {
    let at = format!("case {number}");
    let case = Members::of(case, &at, &["name", "principal", "action", "resource", "context", "expect"])?;
    let no_context = Value::Object(Map::new());
    let context = case.members.get("context").unwrap_or(&no_context);
    let context = Members::of(context, &format!("{at}, context"), &["input", "label", "trusted", "person"])?;
    let resource = case.entity("resource")?;
    let level = match context.text("label")? {
        None => LABELS[0],
        Some(word) => {
            let known = LABELS.into_iter().find(|label| label_word(*label) == word);
            let remedy = "write public, internal, confidential or restricted";
            known.ok_or_else(|| context.wrong("label", &format!("{word:?} is no label"), remedy))?
        }
    };
    let trusted = match context.members.get("trusted") {
        None => true,
        Some(Value::Bool(trusted)) => *trusted,
        Some(_) => return Err(context.wrong("trusted", "it is neither true nor false", "write one of them")),
    };
    let arguments = match context.members.get("input") {
        None => Map::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(_) => return Err(context.wrong("input", "it is no object", "write the arguments by their names")),
    };
    Ok(Case {
        name: case.text("name")?.map_or_else(|| number.to_string(), str::to_owned),
        principal: case.entity("principal")?,
        gate: gate(&case, &resource)?,
        resource,
        arguments,
        label: Label { level, trusted },
        person: context.text("person")?.map(str::to_owned),
        expect: expectation(&case)?,
    })
}

/// A tool's own action is that of its use.
fn gate(case: &Members<'_>, resource: &EntityName) -> Result<Gate, CasesError> {
    let word = case.required("action")?;
    let named = EntityName::parse(word).filter(|name| name.kind == Kind::Action);
    let word = named.as_ref().map_or(word, |name| name.id.as_str());
    let is_tool = resource.kind == Kind::Tool;
    let own = resource.id.split_once('/').map(|(_, tool)| tool);
    match Gate::of_word(word) {
        _ if is_tool && (own == Some(word) || word == Gate::UseTool.word()) => Ok(Gate::UseTool),
        Some(gate) if !is_tool => Ok(gate),
        _ => {
            let what = format!("{word:?} is no action for {resource}");
            Err(case.wrong("action", &what, "write that of a gate, or for a tool its name or useTool"))
        }
    }
}

fn expectation(case: &Members<'_>) -> Result<Expectation, CasesError> {
    match case.required("expect")? {
        "permit" => Ok(Expectation::Permit),
        "ask" => Ok(Expectation::Ask),
        "deny" => Ok(Expectation::Deny),
        "error" => Ok(Expectation::Error),
        other => {
            let what = format!("{other:?} is nothing to expect");
            Err(case.wrong("expect", &what, "write permit, ask, deny or error"))
        }
    }
}

/// The members of one object, of which all are known.
struct Members<'a> {
    at: String,
    members: &'a Map<String, Value>,
}

impl<'a> Members<'a> {
    fn of(value: &'a Value, at: &str, known: &[&str]) -> Result<Members<'a>, CasesError> {
        let error = |what: String, remedy: String| CasesError { at: at.to_owned(), what, remedy };
        let remedy = format!("its members are {}", known.join(", "));
        let Value::Object(members) = value else { return Err(error("it is no object".to_owned(), remedy)) };
        let known: BTreeSet<&str> = known.iter().copied().collect();
        match members.keys().find(|name| !known.contains(name.as_str())) {
            Some(unknown) => Err(error(format!("there is no member {unknown:?}"), remedy)),
            None => Ok(Members { at: at.to_owned(), members }),
        }
    }

    fn wrong(&self, member: &str, what: &str, remedy: &str) -> CasesError {
        CasesError { at: format!("{}, {member}", self.at), what: what.to_owned(), remedy: remedy.to_owned() }
    }

    fn text(&self, member: &str) -> Result<Option<&'a str>, CasesError> {
        match self.members.get(member) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(self.wrong(member, "it is no text", "write it in quotes")),
        }
    }

    fn required(&self, member: &str) -> Result<&'a str, CasesError> {
        self.text(member)?.ok_or_else(|| self.wrong(member, "it is missing", "add it"))
    }

    fn entity(&self, member: &str) -> Result<EntityName, CasesError> {
        let text = self.required(member)?;
        EntityName::parse(text).ok_or_else(|| {
            self.wrong(member, &format!("{text:?} names nothing that policies know"), "write it as `Agent::\"NAME\"`")
        })
    }
}

//! Judges one part of a description by itself: within a description that has nothing else.

use serde_json::{Map, Value, json};

use crate::validate::{CONTEXT_1_1, Finding, first_error};

/// What all judgements of one description may take, in bytes that are judged, about: enough for some hundred affordances of which
/// each has its oddities.
const WORK_MAX: usize = 16 << 20;
/// What a judgement takes beside what is judged.
const WORK_OF_EACH: usize = 2 << 10;
/// The longest part whose flaw is explained.
const EXPLAINED_MAX: usize = 16 << 10;

pub(super) struct Judge {
    /// A description of nothing, without credentials.
    bare: Map<String, Value>,
    /// One with the base and the security of the description that is read.
    ground: Map<String, Value>,
    left: usize,
}

impl Judge {
    pub fn new() -> Judge {
        let bare = Map::from_iter([
            ("@context".to_owned(), json!(CONTEXT_1_1)),
            ("title".to_owned(), json!("T")),
            ("securityDefinitions".to_owned(), json!({ "none": { "scheme": "nosec" } })),
            ("security".to_owned(), json!("none")),
        ]);
        Judge { ground: bare.clone(), bare, left: WORK_MAX }
    }

    /// From now on with this context.
    pub fn within(&mut self, context: &Value) {
        for td in [&mut self.bare, &mut self.ground] {
            td.insert("@context".to_owned(), context.clone());
        }
    }

    /// From now on with this member of the description that is read.
    pub fn with(&mut self, member: &str, value: &Value) {
        self.ground.insert(member.to_owned(), value.clone());
    }

    /// What is wrong with a member of the description that is read; none if nothing is.
    pub fn flaw(&mut self, member: &str, value: &Value) -> Option<Finding> {
        self.judged(false, [(member, value.clone())])
    }

    /// What is wrong with a member that stands in no need of the others.
    pub fn bare_flaw(&mut self, member: &str, value: &Value) -> Option<Finding> {
        self.judged(true, [(member, value.clone())])
    }

    /// What is wrong with security schemes; `security` names those that are used.
    pub fn security_flaw(&mut self, schemes: &Map<String, Value>, security: Value) -> Option<Finding> {
        self.judged(true, [("securityDefinitions", Value::Object(schemes.clone())), ("security", security)])
    }

    /// What is wrong with an affordance.
    pub fn affordance_flaw(&mut self, kind: &str, name: &str, one: &Map<String, Value>) -> Option<Finding> {
        self.flaw(kind, &json!({ name: one }))
    }

    /// What is wrong with one member of an affordance.
    pub fn member_flaw(&mut self, kind: &str, member: &str, value: &Value) -> Option<Finding> {
        self.bare_flaw(kind, &json!({ "x": { "forms": [{ "href": "x" }], member: value } }))
    }

    /// What is wrong with one member of a data schema.
    pub fn schema_flaw(&mut self, member: &str, value: &Value) -> Option<Finding> {
        self.member_flaw("actions", "input", &json!({ member: value }))
    }

    /// What is wrong with a form of that kind of affordance.
    pub fn form_flaw(&mut self, kind: &str, form: &Map<String, Value>) -> Option<Finding> {
        self.flaw(kind, &json!({ "x": { "forms": [form] } }))
    }

    fn judged<const N: usize>(&mut self, is_bare: bool, members: [(&str, Value); N]) -> Option<Finding> {
        if self.left == 0 {
            return Some(too_much());
        }
        let mut td = if is_bare { self.bare.clone() } else { self.ground.clone() };
        td.extend(members.map(|(member, value)| (member.to_owned(), value)));
        let td = Value::Object(td);
        let work = size(&td);
        self.left = self.left.saturating_sub(work + WORK_OF_EACH);
        if self.left == 0 {
            return Some(too_much());
        }
        first_error(&td, work <= EXPLAINED_MAX)
    }
}

fn too_much() -> Finding {
    let message = "it is not looked at: too much before it is not as it should be";
    Finding::error("", "too-much", message.to_owned(), "Repair what is named before it")
}

/// The bytes of a value, about. It goes no deeper than the text, which [`crate::DEPTH_MAX`] bounds.
fn size(value: &Value) -> usize {
    let within = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    within + 8
}

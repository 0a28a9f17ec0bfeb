//! Reads a line of a file of cases. All that is wrong with it is told, each with its place.

use althing_protocol::Label;
use althing_protocol::contract::did_you_mean;
use serde_json::{Map, Value};

use super::case::{
    BYTE_ORDER_MARK, CASE_BYTES_MAX, CASES_BYTES_MAX, Case, ID_BYTES_MAX, MESSAGES_MAX, TARGETS_MAX, excerpt,
};
use super::expectation::{CaseSchema, Expectation, Grade, ToolRule};
use super::problem::CaseProblem;
use crate::machine::json;

/// Names of tools in one list, and bytes of each.
const TOOLS_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 512;

const OWN: [&str; 6] = ["agent", "tools", "schema", "label", "task", "verdict"];
const TOOLS: [&str; 4] = ["exact", "in_order", "any_order", "never"];

/// What is wrong with a file before it is read.
pub(super) fn check_file(file: &[u8]) -> Result<(), CaseProblem> {
    if file.len() > CASES_BYTES_MAX {
        let what = format!("it has {} bytes, and {CASES_BYTES_MAX} is the most", file.len());
        return Err(CaseProblem::new(0, "", what, "divide it into several files"));
    }
    if file.trim_ascii_start().first() == Some(&b'[') {
        let remedy = "write each case on a line of its own (jq -c '.[]' does that)";
        return Err(CaseProblem::new(0, "", "it is one list, and not a line of JSON for each case", remedy));
    }
    Ok(())
}

/// What is wrong with a line.
pub(super) struct LineProblems {
    /// Its id, where that can be told: it is not free for another line.
    pub id: Option<String>,
    /// What is wrong, one at least.
    pub problems: Vec<CaseProblem>,
}

impl LineProblems {
    /// Of a line that cannot be read at all.
    fn one(number: usize, what: impl Into<String>, remedy: &str) -> LineProblems {
        LineProblems { id: None, problems: vec![CaseProblem::new(number, "", what, remedy)] }
    }
}

/// The case of a line, without its end.
pub(super) fn line(number: usize, bytes: &[u8]) -> Result<Case, LineProblems> {
    let refused = |what: String, remedy: &str| LineProblems::one(number, what, remedy);
    if bytes.len() > CASE_BYTES_MAX {
        let what = format!("it has {} bytes, and {CASE_BYTES_MAX} is the most", bytes.len());
        return Err(refused(what, "shorten the case"));
    }
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| refused("it is not UTF-8".to_owned(), "save the file as UTF-8"))?;
    if text.trim().is_empty() {
        return Err(refused("it is empty".to_owned(), "take it out: other programs do not read past it"));
    }
    case(number, text)
}

/// The case of a line.
pub(super) fn case(number: usize, text: &str) -> Result<Case, LineProblems> {
    let bare = text.strip_prefix(BYTE_ORDER_MARK).filter(|_| number == 1).unwrap_or(text);
    let record = match serde_json::from_str(bare) {
        // One of both would be judged by, and the case would seem to hold.
        Ok(Value::Object(_)) if json::strict(bare).is_err() => {
            let what = "a name stands twice in an object of it";
            return Err(LineProblems::one(number, what, "write each name once in an object"));
        }
        Ok(Value::Object(record)) => record,
        Ok(_) => {
            let what = "it is JSON, and no object";
            return Err(LineProblems::one(number, what, "write an object with input and target"));
        }
        Err(error) => {
            let what = format!("it is not JSON, or nested too deeply, from column {}", error.column());
            return Err(LineProblems::one(number, what, "write one object of JSON on one line"));
        }
    };
    let mut reader = LineReader { line: number, problems: Vec::new() };
    let messages = reader.messages(record.get("input"));
    let targets = reader.targets(record.get("target"));
    let before = reader.problems.len();
    let id = reader.id(record.get("id"));
    let is_id = reader.problems.len() == before;
    let expectation = reader.metadata(record.get("metadata"));
    if reader.problems.is_empty() {
        Ok(Case { id, messages, targets, expectation, text: text.to_owned() })
    } else {
        Err(LineProblems { id: is_id.then_some(id), problems: reader.problems })
    }
}

struct LineReader {
    line: usize,
    problems: Vec<CaseProblem>,
}

impl LineReader {
    fn refuse(&mut self, place: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(CaseProblem::new(self.line, place, what, remedy));
    }

    fn messages(&mut self, input: Option<&Value>) -> Vec<String> {
        match input {
            Some(Value::String(text)) if !text.is_empty() => return vec![text.clone()],
            Some(Value::Array(items)) if (1..=MESSAGES_MAX).contains(&items.len()) => {
                return items.iter().enumerate().filter_map(|(at, item)| self.message(at, item)).collect();
            }
            Some(Value::Array(items)) if !items.is_empty() => {
                let what = format!("it has {} messages, and {MESSAGES_MAX} is the most", items.len());
                self.refuse("input", what, "make several cases of it");
            }
            None | Some(Value::Null) => self.refuse("input", "it is missing", "write what the agent is sent"),
            Some(_) => {
                let remedy = "write a text, or a list of messages with role and content";
                self.refuse("input", "it is neither a text nor a list of messages", remedy);
            }
        }
        Vec::new()
    }

    fn message(&mut self, at: usize, item: &Value) -> Option<String> {
        let place = format!("input[{at}]");
        match item["role"].as_str() {
            Some("user") => {}
            Some(role @ ("system" | "assistant" | "tool")) => {
                let what = format!("it is a message of the role {role}, and an agent says these itself");
                self.refuse(place, what, "keep the messages of the role user: they are sent one after the other");
                return None;
            }
            _ => {
                self.refuse(place, "it has no role", "write role: user, and content");
                return None;
            }
        }
        let text = match &item["content"] {
            Value::String(text) => Some(text.clone()),
            Value::Array(parts) => {
                let text = |part: &Value| (part["type"] == "text").then(|| part["text"].as_str().map(str::to_owned))?;
                parts.iter().map(text).collect::<Option<Vec<String>>>().map(|texts| texts.join("\n"))
            }
            _ => None,
        };
        match text.filter(|text| !text.is_empty()) {
            Some(text) => Some(text),
            None => {
                let remedy = "write a text, or a list of parts of the type text";
                self.refuse(format!("{place}.content"), "it is empty, or not all of it is text", remedy);
                None
            }
        }
    }

    fn targets(&mut self, target: Option<&Value>) -> Vec<String> {
        let listed = match target {
            None | Some(Value::Null) => return Vec::new(),
            // What Inspect writes where there is none.
            Some(Value::String(text)) if text.is_empty() => return Vec::new(),
            Some(Value::Array(items)) => items.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        if listed.len() > TARGETS_MAX {
            let what = format!("it has {} answers, and {TARGETS_MAX} is the most", listed.len());
            self.refuse("target", what, "keep those that differ");
            return Vec::new();
        }
        let texts: Option<Vec<String>> = listed.iter().map(target_text).collect();
        texts.unwrap_or_else(|| {
            self.refuse("target", "an answer is neither a text nor a whole number, or empty", "write it as a text");
            Vec::new()
        })
    }

    fn id(&mut self, id: Option<&Value>) -> String {
        let id = match id {
            None | Some(Value::Null) => return self.line.to_string(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) if number.is_i64() || number.is_u64() => number.to_string(),
            Some(_) => {
                self.refuse("id", "it is neither a text nor a whole number", "write it as a text");
                return String::new();
            }
        };
        let is_seen = althing_protocol::hidden_in(&id).is_none() && !id.chars().any(char::is_control);
        if id.trim().is_empty() || id.len() > ID_BYTES_MAX || !is_seen {
            let what = format!("it is empty, longer than {ID_BYTES_MAX} bytes, or has characters that nobody sees");
            self.refuse("id", what, "choose another one");
        }
        id
    }

    fn metadata(&mut self, metadata: Option<&Value>) -> Expectation {
        let parsed: Option<Value>;
        let metadata = match metadata {
            // As Inspect reads it.
            Some(Value::String(text)) => {
                parsed = json::strict(text).ok();
                parsed.as_ref().or(metadata)
            }
            other => other,
        };
        match metadata {
            None | Some(Value::Null) => Expectation::default(),
            Some(Value::Object(members)) => match members.get("althing") {
                None | Some(Value::Null) => Expectation::default(),
                Some(Value::Object(own)) => self.own(own),
                Some(_) => {
                    self.refuse("metadata.althing", "it is not an object", format!("known: {}", OWN.join(", ")));
                    Expectation::default()
                }
            },
            Some(_) => {
                self.refuse("metadata", "it is not an object", "write an object, or leave it out");
                Expectation::default()
            }
        }
    }

    /// What is not known here is refused: what it says of the answer would not be judged, and the case would seem to hold.
    fn refuse_unknown(&mut self, place: &str, members: &Map<String, Value>, known: &[&str]) {
        for name in members.keys().filter(|name| !known.contains(&name.as_str())) {
            let place = format!("{place}.{}", excerpt(name));
            self.refuse(place, "this member is not known here", did_you_mean(name, known));
        }
    }

    fn own(&mut self, own: &Map<String, Value>) -> Expectation {
        self.refuse_unknown("metadata.althing", own, &OWN);
        let mut read = Expectation::default();
        if let Some(agent) = own.get("agent") {
            match agent.as_str().filter(|name| is_name(name)) {
                Some(name) => read.agent = Some(name.to_owned()),
                None => self.refuse("metadata.althing.agent", "it is no name", "write the name or the id of an agent"),
            }
        }
        match own.get("tools") {
            None => {}
            Some(Value::Object(tools)) => (read.tools, read.never) = self.tools(tools),
            Some(_) => {
                self.refuse("metadata.althing.tools", "it is not an object", format!("known: {}", TOOLS.join(", ")))
            }
        }
        if let Some(schema) = own.get("schema") {
            // What it refers to is in itself, and judging by it ends soon: as those of contracts.
            match CaseSchema::new(schema) {
                Ok(schema) => read.schema = Some(schema),
                Err(fault) => {
                    let remedy = "write a JSON Schema of draft 2020-12 that refers to nothing outside of it";
                    self.refuse(format!("metadata.althing.schema{}", fault.place), fault.what, remedy);
                }
            }
        }
        if let Some(label) = own.get("label") {
            read.label = serde_json::from_value::<Label>(label.clone()).ok();
            if read.label.is_none() {
                let remedy = "write level (public, internal, confidential or restricted) and trusted (true or false)";
                self.refuse("metadata.althing.label", "it is no label", remedy);
            }
        }
        if let Some(task) = own.get("task") {
            match task.as_str().filter(|id| is_name(id)) {
                Some(id) => read.task = Some(id.to_owned()),
                None => self.refuse("metadata.althing.task", "it is no task", "write the id of a recorded task"),
            }
        }
        if let Some(verdict) = own.get("verdict") {
            read.verdict = verdict.as_str().and_then(Grade::of);
            if read.verdict.is_none() {
                let remedy = "write pass, or fail where a gate should refuse the answer";
                self.refuse("metadata.althing.verdict", "it is no verdict", remedy);
            }
        }
        read
    }

    fn tools(&mut self, tools: &Map<String, Value>) -> (Option<ToolRule>, Vec<String>) {
        const PLACE: &str = "metadata.althing.tools";
        self.refuse_unknown(PLACE, tools, &TOOLS);
        let mut list = |name: &str| {
            let listed = tool_names(tools.get(name)?);
            if listed.is_none() {
                let what = format!("it is no list of at most {TOOLS_MAX} tools");
                self.refuse(format!("{PLACE}.{name}"), what, "write each as server/tool");
            }
            listed
        };
        let (exact, in_order, any_order) = (list("exact"), list("in_order"), list("any_order"));
        let never = list("never").unwrap_or_default();
        let rules = [exact.map(ToolRule::Exact), in_order.map(ToolRule::InOrder), any_order.map(ToolRule::AnyOrder)];
        let mut rules = rules.into_iter().flatten();
        let rule = rules.next();
        if rules.next().is_some() {
            self.refuse(PLACE, "it has several of exact, in_order and any_order", "keep one of them");
        }
        let contradicted = rule.iter().flat_map(ToolRule::tools).find(|tool| never.contains(*tool));
        if let Some(tool) = contradicted {
            let what = format!("{:?} should be called, and never", excerpt(tool));
            self.refuse(PLACE, what, "take it out of one of both");
        }
        (rule, never)
    }
}

fn target_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Number(number) => (number.is_i64() || number.is_u64()).then(|| number.to_string()),
        _ => None,
    }
}

fn tool_names(value: &Value) -> Option<Vec<String>> {
    let items = value.as_array().filter(|items| items.len() <= TOOLS_MAX)?;
    items.iter().map(|item| item.as_str().filter(|name| is_name(name)).map(str::to_owned)).collect()
}

fn is_name(name: &str) -> bool {
    !name.trim().is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

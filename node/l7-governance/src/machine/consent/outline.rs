//! What a person is shown of a question: the arguments themselves, one a line, and how they differ from what was last agreed to.
//! Nothing in it is formatted by an agent or a tool: what nobody sees, or what moves text about, is written out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use althing_protocol::{Label, hex, marked};
use serde_json::Value;

use super::question::{Need, Question};
use crate::machine::arguments::{arguments_digest, canonical};

/// Lines of arguments; the rest is counted.
const LINES_MAX: usize = 64;
/// Characters of a value or a path.
const CHARS_MAX: usize = 200;
/// How deep arguments are taken apart; what is below is one value.
const DEPTH_MAX: usize = 16;

/// What is shown of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskOutline {
    /// The question's id, 32 hexadecimal digits.
    pub id: String,
    /// Whose call it is.
    pub agent: String,
    /// `server/tool`.
    pub action: String,
    /// Of the arguments.
    pub label: Label,
    /// Who must agree, in words.
    pub need: String,
    /// Until when, Unix milliseconds.
    pub not_after_ms: u64,
    /// The arguments: what differs from what was last agreed to is marked with `+`, `-` or `~`, everything else with a space.
    pub arguments: Vec<String>,
    /// How many more there are.
    pub left_out: usize,
    /// Whether somebody agreed to a call of this tool before.
    pub has_earlier: bool,
}

impl AskOutline {
    /// What is shown of a question about a call with these arguments; `earlier` are those that were last agreed to, of the same
    /// tool. None if the arguments are not those that are asked about.
    #[must_use]
    pub fn of(question: &Question, arguments: &Value, earlier: Option<&Value>) -> Option<AskOutline> {
        let ask = question.ask();
        if arguments_digest(arguments) != ask.terms.arguments {
            return None;
        }
        let all = lines(arguments, earlier);
        let need = match question.need() {
            Need::Consent { person } => format!("{person} must agree"),
            Need::SignOff { role, count, .. } => format!("{count} in the role {role} must agree"),
        };
        Some(AskOutline {
            id: hex(&ask.id),
            agent: ask.terms.agent.to_string(),
            action: escaped(&ask.terms.action, CHARS_MAX),
            label: ask.terms.label,
            need: escaped(&need, CHARS_MAX),
            not_after_ms: ask.not_after_ms,
            left_out: all.len().saturating_sub(LINES_MAX),
            arguments: all.into_iter().take(LINES_MAX).collect(),
            has_earlier: earlier.is_some(),
        })
    }
}

impl fmt::Display for AskOutline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trusted = if self.label.trusted { "" } else { ", from sources that nobody vouches for" };
        writeln!(f, "question {}", self.id)?;
        writeln!(f, "agent    {}", self.agent)?;
        writeln!(f, "call     {}", self.action)?;
        writeln!(f, "data     {}{trusted}", self.label.level.name())?;
        writeln!(f, "needs    {}", self.need)?;
        let than = if self.has_earlier { "; marked is what differs from the last call that was agreed to" } else { "" };
        writeln!(f, "arguments{than}")?;
        for line in &self.arguments {
            writeln!(f, "  {line}")?;
        }
        if self.left_out > 0 {
            writeln!(f, "  and {} more, which are not shown", self.left_out)?;
        }
        Ok(())
    }
}

/// A text in which everything is visible, and that is cut in its middle. A line end is written out too.
#[must_use]
pub fn escaped(text: &str, chars_max: usize) -> String {
    let count = text.chars().count();
    let part = |chars: Vec<(char, bool)>| {
        let mut out = String::new();
        for (c, is_seen) in chars {
            if c.is_control() || !is_seen {
                out.extend(c.escape_unicode());
            } else {
                out.push(c);
            }
        }
        out
    };
    if count <= chars_max {
        return part(marked(text).collect());
    }
    let half = chars_max / 2;
    let start = part(marked(text).take(half).collect());
    let end = part(marked(text).skip(count - half).collect());
    format!("{start} …({} characters)… {end}", count - 2 * half)
}

/// The lines of arguments, those that differ first.
fn lines(arguments: &Value, earlier: Option<&Value>) -> Vec<String> {
    let new = leaves(arguments);
    let old = earlier.map(leaves);
    let paths: BTreeSet<&String> = new.keys().chain(old.iter().flat_map(BTreeMap::keys)).collect();
    let (mut differ, mut same) = (Vec::new(), Vec::new());
    for path in paths {
        let (now, before) = (new.get(path), old.as_ref().map(|old| old.get(path)));
        let line =
            |mark: char, value: &str| format!("{mark} {} = {}", escaped(path, CHARS_MAX), escaped(value, CHARS_MAX));
        match (now, before) {
            (Some(now), None) => same.push(line(' ', now)),
            (Some(now), Some(Some(before))) if now == before => same.push(line(' ', now)),
            (Some(now), Some(Some(before))) => {
                let was = escaped(before, CHARS_MAX);
                differ.push(format!("{} (it was {was})", line('~', now)));
            }
            (Some(now), Some(None)) => differ.push(line('+', now)),
            (None, Some(Some(before))) => differ.push(line('-', before)),
            (None, _) => {}
        }
    }
    differ.extend(same);
    differ
}

/// What arguments hold, each by its path.
fn leaves(arguments: &Value) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut open = vec![(String::new(), arguments, 0)];
    while let Some((path, value, depth)) = open.pop() {
        match value {
            Value::Object(members) if !members.is_empty() && depth < DEPTH_MAX => {
                open.extend(members.iter().map(|(name, value)| (below(&path, name), value, depth + 1)));
            }
            Value::Array(items) if !items.is_empty() && depth < DEPTH_MAX => {
                open.extend(items.iter().enumerate().map(|(at, value)| (format!("{path}[{at}]"), value, depth + 1)));
            }
            value => {
                let path = if path.is_empty() { "(all)".to_owned() } else { path };
                all.insert(path, canonical(value));
            }
        }
    }
    all
}

/// The path of a member: its name as it is, or in quotes where it could be taken for a path.
fn below(path: &str, name: &str) -> String {
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let name = if is_plain { name.to_owned() } else { Value::from(name).to_string() };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

//! Reads the files that people write: YAML with its lines, the keys and types that a file may have, and what to change in it.

pub(crate) mod yaml;

use std::fmt;

use althing_protocol::contract::did_you_mean;
use althing_protocol::limits::AGENT_NAME_MAX;

use yaml::{At, Entry, Node};

use crate::json::excerpt;

/// Characters of a file's text that are quoted in a message.
const EXCERPT_CHARS: usize = 80;

/// One thing to change in a file that a person wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProblem {
    /// The field, as a path: `skills[0].id`.
    pub field: String,
    /// Its line in the file, from 1, where known.
    pub line: Option<u64>,
    /// The rule, a stable kebab-case name: `unknown-key`, `missing`, `wrong-type`, …
    pub rule: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        let field = if self.field.is_empty() { "the file" } else { &self.field };
        write!(f, "{field}: {} [{}]. {}", self.message, self.rule, self.fix)
    }
}

/// The problems, one a line.
pub(crate) fn lines(problems: &[FileProblem]) -> String {
    problems.iter().map(FileProblem::to_string).collect::<Vec<_>>().join("\n")
}

/// Whether a text can be the name of an agent, a workflow, a schedule or an app.
pub(crate) fn is_name(text: &str) -> bool {
    is_word(text, AGENT_NAME_MAX, "-") && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether a text has 1 to `chars_max` of a-z, 0-9 and `marks`.
pub(crate) fn is_word(text: &str, chars_max: usize, marks: &str) -> bool {
    (1..=chars_max).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || marks.contains(c))
}

/// Reads a file, and notes what to change in it.
#[derive(Default)]
pub(crate) struct Reader {
    /// What was noted so far.
    pub problems: Vec<FileProblem>,
}

/// A map with known keys, and its position.
pub(crate) struct Fields<'a> {
    /// Its path: `skills[0]`; empty for the file.
    pub path: String,
    /// Its line.
    pub line: u64,
    entries: &'a [Entry],
}

impl<'a> Fields<'a> {
    /// The path of a key.
    pub fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of a key; none if the key is absent or empty.
    pub fn value(&self, key: &str) -> Option<&'a At> {
        self.entries.iter().find(|e| e.key == key).map(|e| &e.value).filter(|at| at.node != Node::Null)
    }

    /// Whether the key has a value.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// The line of a key's value, or else of the map.
    pub fn line_of(&self, key: &str) -> u64 {
        self.value(key).map_or(self.line, |at| at.line)
    }
}

impl Reader {
    /// Notes something to change.
    pub fn problem(&mut self, field: String, line: u64, rule: &'static str, message: String, fix: String) {
        self.problems.push(FileProblem { field, line: (line > 0).then_some(line), rule, message, fix });
    }

    /// Notes something to change in the value of a key.
    pub fn refuse(&mut self, fields: &Fields<'_>, key: &str, rule: &'static str, message: String, fix: String) {
        self.problem(fields.path_of(key), fields.line_of(key), rule, message, fix);
    }

    /// Notes that something else must stand here.
    pub fn wrong_type(&mut self, field: String, at: &At, wanted: &str) {
        let message = format!("this is {}, not {wanted}", at.kind());
        let fix = match (&at.node, wanted) {
            (Node::Number(n), "text") => format!("Put it in quotes: \"{n}\""),
            (Node::Bool(b), "text") => format!("Put it in quotes: \"{b}\""),
            _ => format!("Write {wanted}"),
        };
        self.problem(field, at.line, "wrong-type", message, fix);
    }

    /// A map, whose unknown keys are noted.
    pub fn fields<'a>(&mut self, at: &'a At, path: &str, known: &[&str]) -> Option<Fields<'a>> {
        let Node::Map(entries) = &at.node else {
            self.wrong_type(path.to_owned(), at, "a map");
            return None;
        };
        let fields = Fields { path: path.to_owned(), line: at.line, entries };
        for entry in entries.iter().filter(|e| !known.contains(&e.key.as_str())) {
            let key = excerpt(&entry.key, EXCERPT_CHARS);
            let fix = did_you_mean(&entry.key, known);
            self.problem(fields.path_of(&key), entry.line, "unknown-key", "this key is not known".to_owned(), fix);
        }
        Some(fields)
    }

    /// Notes that a key is missing.
    pub fn missing(&mut self, fields: &Fields<'_>, key: &str) {
        let message = "this is missing".to_owned();
        self.problem(fields.path_of(key), fields.line, "missing", message, format!("Add {key:?}"));
    }

    /// An optional text.
    pub fn text(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        let at = fields.value(key)?;
        match &at.node {
            Node::Text(text) => Some(text.clone()),
            _ => {
                self.wrong_type(fields.path_of(key), at, "text");
                None
            }
        }
    }

    /// A text that must be there.
    pub fn needed(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        if !fields.has(key) {
            self.missing(fields, key);
        }
        self.text(fields, key)
    }

    /// Each item of an optional list, read by `item`.
    pub fn list<T>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        mut item: impl FnMut(&mut Reader, &At, String) -> Option<T>,
    ) -> Option<Vec<T>> {
        let at = fields.value(key)?;
        let path = fields.path_of(key);
        let Node::List(items) = &at.node else {
            self.wrong_type(path, at, "a list");
            return None;
        };
        Some(items.iter().enumerate().filter_map(|(n, at)| item(self, at, format!("{path}[{n}]"))).collect())
    }

    /// An optional list of texts.
    pub fn texts(&mut self, fields: &Fields<'_>, key: &str) -> Option<Vec<String>> {
        self.list(fields, key, |reader, at, path| match &at.node {
            Node::Text(text) => Some(text.clone()),
            _ => {
                reader.wrong_type(path, at, "text");
                None
            }
        })
    }

    /// An argument or a variable: text, or a whole number or a truth value as it is written (a float is not, since
    /// `1.10` would arrive as `1.1`).
    pub fn argument(&mut self, at: &At, path: String) -> Option<String> {
        match &at.node {
            Node::Text(text) => Some(text.clone()),
            Node::Number(n) if !n.is_f64() => Some(n.to_string()),
            Node::Bool(b) => Some(b.to_string()),
            _ => {
                self.wrong_type(path, at, "text");
                None
            }
        }
    }

    /// An optional whole number, not negative.
    pub fn whole(&mut self, fields: &Fields<'_>, key: &str) -> Option<u64> {
        let at = fields.value(key)?;
        let whole = match &at.node {
            Node::Number(n) => n.as_u64(),
            _ => None,
        };
        if whole.is_none() {
            self.wrong_type(fields.path_of(key), at, "a whole number");
        }
        whole
    }

    /// One of the words that a key may have; `or` tells what else it may have.
    pub fn word<T>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        (known, or): (&[&str], &str),
        from_word: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let word = self.text(fields, key)?;
        let found = from_word(&word);
        if found.is_none() {
            let message = format!("{:?} is not one of the words it may be", excerpt(&word, EXCERPT_CHARS));
            self.refuse(fields, key, "unknown-word", message, did_you_mean(&word, known) + or);
        }
        found
    }
}

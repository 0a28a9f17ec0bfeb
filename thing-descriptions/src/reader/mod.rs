//! Reads the files that people write: YAML with its lines, the keys and types that a file may have, and what to change in it.

mod order;
pub(crate) mod yaml;

use std::fmt;
use std::ops::RangeInclusive;

use althing_protocol::contract::did_you_mean;
use althing_protocol::limits::{AGENT_NAME_MAX, WORK_LABELS_MAX, WORK_NAME_BYTES_MAX};

pub(crate) use order::order;
use yaml::{At, Entry, Node};

use crate::json::excerpt;

/// Characters of a file's text that are quoted in a message.
const EXCERPT_CHARS: usize = 80;
/// The longest name of a secret of the node, in characters.
const SECRET_NAME_CHARS_MAX: usize = 64;

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

/// Whether a text can be the name of a secret of the node.
pub(crate) fn is_secret_name(text: &str) -> bool {
    (1..=SECRET_NAME_CHARS_MAX).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
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

    /// A text that is a name, if it is there: see [`is_name`].
    pub fn name(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        let text = self.text(fields, key)?;
        if is_name(&text) {
            return Some(text);
        }
        let message = format!("{:?} is not a name", excerpt(&text, EXCERPT_CHARS));
        let fix = "Use 1 to 63 of a-z, 0-9 and -, no - at either end, for example \"weekly-report\"";
        self.refuse(fields, key, "name-form", message, fix.to_owned());
        None
    }

    /// A name that must be there.
    pub fn needed_name(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        if !fields.has(key) {
            self.missing(fields, key);
        }
        self.name(fields, key)
    }

    /// Notes a text that is empty or too long; otherwise returns it.
    pub fn within(&mut self, fields: &Fields<'_>, key: &str, text: String, bytes_max: usize) -> Option<String> {
        if (1..=bytes_max).contains(&text.len()) {
            return Some(text);
        }
        let message = format!("this text has {} bytes", text.len());
        self.refuse(fields, key, "out-of-range", message, format!("Write 1 to {bytes_max} bytes"));
        None
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

    /// Each item of a list, of which there must be so many.
    pub fn counted<T>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        count: RangeInclusive<usize>,
        item: impl FnMut(&mut Reader, &At, String) -> Option<T>,
    ) -> Option<Vec<T>> {
        if !fields.has(key) && *count.start() > 0 {
            self.missing(fields, key);
        }
        let items = match fields.value(key).map(|at| &at.node) {
            Some(Node::List(items)) => items.len(),
            _ => *count.start(),
        };
        if !count.contains(&items) {
            let fix = format!("Write {} to {}; divide what is more", count.start(), count.end());
            self.refuse(fields, key, "out-of-range", format!("the list has {items} items"), fix);
            return None;
        }
        self.list(fields, key, item)
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

    /// An optional list of texts, each there once; one text stands for a list of one.
    pub fn distinct(&mut self, fields: &Fields<'_>, key: &str) -> Vec<String> {
        let all = match fields.value(key).map(|at| &at.node) {
            Some(Node::Text(text)) => vec![text.clone()],
            _ => self.texts(fields, key).unwrap_or_default(),
        };
        if let Some((_, twice)) = all.iter().enumerate().find(|(n, text)| all[..*n].contains(text)) {
            let message = format!("{:?} stands here twice", excerpt(twice, EXCERPT_CHARS));
            self.refuse(fields, key, "twice", message, "Keep one of them".to_owned());
        }
        all
    }

    /// Labels that a member of a group must have.
    pub fn labels(&mut self, fields: &Fields<'_>) -> Vec<String> {
        let labels = self.distinct(fields, "labels");
        let is_label = |label: &String| (1..=WORK_NAME_BYTES_MAX).contains(&label.len());
        if labels.len() > WORK_LABELS_MAX || !labels.iter().all(is_label) {
            let message = "these are no labels, or too many".to_owned();
            let fix = format!("Write at most {WORK_LABELS_MAX}, of 1 to {WORK_NAME_BYTES_MAX} bytes each");
            self.refuse(fields, "labels", "out-of-range", message, fix);
        }
        labels
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

    /// An optional whole number of a range.
    pub fn number<T>(&mut self, fields: &Fields<'_>, key: &str, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<u64> + PartialOrd + fmt::Display,
    {
        let whole = self.whole(fields, key)?;
        let number = T::try_from(whole).ok().filter(|number| range.contains(number));
        if number.is_none() {
            let fix = format!("Choose {} to {}", range.start(), range.end());
            self.refuse(fields, key, "out-of-range", format!("{whole} is out of range"), fix);
        }
        number
    }

    /// An optional time with its unit, such as `90s`, in milliseconds.
    pub fn time(&mut self, fields: &Fields<'_>, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let at = fields.value(key)?;
        let Node::Text(text) = &at.node else {
            self.wrong_type(fields.path_of(key), at, "a time with its unit, such as 90s");
            return None;
        };
        let written = excerpt(text, EXCERPT_CHARS);
        let Some(ms) = milliseconds(text) else {
            let fix = "Write a whole number and its unit: 500ms, 90s, 5m, 2h or 3d".to_owned();
            self.refuse(fields, key, "time-form", format!("{written:?} is not a time"), fix);
            return None;
        };
        if range.contains(&ms) {
            return Some(ms);
        }
        let fix = format!("Choose {} to {}", with_unit(*range.start()), with_unit(*range.end()));
        self.refuse(fields, key, "out-of-range", format!("{written} is out of range"), fix);
        None
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

/// The units of times, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == &text[digits.len()..])?;
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_whole)?.checked_mul(*unit)
}

/// A time in its largest unit that leaves nothing over.
fn with_unit(ms: u64) -> String {
    let (name, unit) = UNITS.iter().find(|(_, unit)| ms.is_multiple_of(*unit)).unwrap_or(&UNITS[4]);
    format!("{}{name}", ms / unit)
}

#[cfg(test)]
mod tests {
    use super::{milliseconds, with_unit};

    #[test]
    fn times_are_read_with_their_unit_and_written_in_the_largest() {
        for (text, ms) in [("500ms", 500), ("90s", 90_000), ("5m", 300_000), ("2h", 7_200_000), ("3d", 259_200_000)] {
            assert_eq!(milliseconds(text), Some(ms), "{text}");
        }
        for text in
            ["", "5", "s", "+5s", "-5s", "1.5h", "5 s", "5S", "5min", "99999999999999999999d", "999999999999999d"]
        {
            assert_eq!(milliseconds(text), None, "{text}");
        }
        let shown: Vec<String> = [1, 1_000, 90_000, 600_000, 2_592_000_000].into_iter().map(with_unit).collect();
        assert_eq!(shown, ["1ms", "1s", "90s", "10m", "30d"]);
    }
}

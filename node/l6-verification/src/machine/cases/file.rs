//! A file of cases.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::case::{CASES_BYTES_MAX, CASES_MAX, Case, excerpt};
use super::expectation::Expectation;
use super::problem::{CaseProblem, CasesError};
use super::reader;

impl Case {
    /// A case that was in no file yet.
    ///
    /// # Errors
    /// [`CasesError`]: it would be refused in a file.
    pub fn new(
        id: &str,
        messages: &[String],
        targets: &[String],
        expectation: &Expectation,
    ) -> Result<Case, CasesError> {
        let input = match messages {
            [one] => json!(one),
            several => several.iter().map(|text| json!({ "role": "user", "content": text })).collect(),
        };
        let mut record = Map::new();
        record.insert("id".to_owned(), id.into());
        record.insert("input".to_owned(), input);
        let target = match targets {
            [] => json!(""),
            [one] => json!(one),
            several => json!(several),
        };
        record.insert("target".to_owned(), target);
        if let Some(own) = expectation.to_json() {
            record.insert("metadata".to_owned(), json!({ "althing": own }));
        }
        reader::case(1, &Value::Object(record).to_string()).map_err(|found| CasesError::of(found.problems))
    }
}

/// The cases of a file, in its order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cases {
    all: Vec<Case>,
    /// The lines of their ids, each as Inspect compares them.
    ids: BTreeMap<String, usize>,
    bytes: usize,
}

impl Cases {
    /// Reads a file: UTF-8, a line for each case. All that is wrong with it is told at once.
    ///
    /// # Errors
    /// [`CasesError`].
    pub fn read(file: &[u8]) -> Result<Cases, CasesError> {
        reader::check_file(file).map_err(|problem| CasesError::of(vec![problem]))?;
        let (mut cases, mut problems) = (Cases::default(), Vec::new());
        let file = file.strip_suffix(b"\n").unwrap_or(file);
        let lines = file.split(|byte| *byte == b'\n').filter(|_| !file.is_empty());
        for (line, number) in lines.zip(1..) {
            match reader::line(number, line) {
                Ok(case) => problems.extend(cases.push(case, number).err()),
                Err(found) => {
                    problems.extend(found.problems);
                    problems.extend(found.id.and_then(|id| cases.claim(&id, number).err()));
                }
            }
            // More would help nobody.
            if number > CASES_MAX {
                break;
            }
        }
        if problems.is_empty() { Ok(cases) } else { Err(CasesError::of(problems)) }
    }

    /// Adds a case after the others.
    ///
    /// # Errors
    /// [`CasesError`]: there is one with that id, or the file would be too large.
    pub fn add(&mut self, case: Case) -> Result<(), CasesError> {
        let number = self.all.len() + 1;
        self.push(case, number).map_err(|problem| CasesError::of(vec![problem]))
    }

    fn push(&mut self, case: Case, number: usize) -> Result<(), CaseProblem> {
        self.check_id(&case.id, number)?;
        let bytes = self.bytes + case.text.len() + 1;
        if self.all.len() >= CASES_MAX || bytes > CASES_BYTES_MAX {
            let what = format!("a file has {CASES_MAX} cases and {} MiB at most", CASES_BYTES_MAX >> 20);
            return Err(CaseProblem::new(number, "", what, "divide it into several files"));
        }
        self.ids.insert(same_id(&case.id), number);
        self.bytes = bytes;
        self.all.push(case);
        Ok(())
    }

    /// Notes the id of a line whose case cannot be read, so that one after it cannot have it too.
    fn claim(&mut self, id: &str, number: usize) -> Result<(), CaseProblem> {
        self.check_id(id, number)?;
        self.ids.insert(same_id(id), number);
        Ok(())
    }

    /// Whether no line before has the id.
    fn check_id(&self, id: &str, number: usize) -> Result<(), CaseProblem> {
        let Some(first) = self.ids.get(&same_id(id)) else { return Ok(()) };
        let what = format!("line {first} has the id {:?} too", excerpt(id));
        Err(CaseProblem::new(number, "id", what, "give each case an id of its own"))
    }

    /// The cases, in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Case> {
        self.all.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The file: each line as it was read, or made.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.bytes);
        for case in &self.all {
            text.push_str(&case.text);
            text.push('\n');
        }
        text
    }
}

impl<'a> IntoIterator for &'a Cases {
    type Item = &'a Case;
    type IntoIter = std::slice::Iter<'a, Case>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// An id as Inspect compares it: `7`, `"7"` and `"007"` are the same.
fn same_id(id: &str) -> String {
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    match id.trim_start_matches('0') {
        "" if is_number => "0".to_owned(),
        number if is_number => number.to_owned(),
        _ => id.to_owned(),
    }
}

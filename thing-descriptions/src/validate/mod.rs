//! Is this a valid Thing Description, and if not, what must be changed?
//!
//! The schemas of the W3C decide, chosen by the description's own `@context`; [`checks`] adds what TD 1.1 asks in
//! prose; [`lmos`] looks at the LMOS terms. Every finding names a place, a rule and a remedy.

mod checks;
mod lmos;
mod schema;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

pub(crate) use lmos::LMOS;
pub(crate) use schema::CONTEXT_1_1;

use crate::json::{self, JsonError, Scanned, TD_BYTES_MAX, excerpt, is_hidden};

/// The most findings of one report. Errors are kept before warnings; a note at the end says when some were left out.
pub const FINDINGS_MAX: usize = 64;

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The description is not valid.
    Error,
    /// The description is valid, yet someone may read it in another way than it was meant.
    Warning,
}

/// One thing to change in a description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// JSON pointer (RFC 6901) of the value it is about; empty for the whole text.
    pub pointer: String,
    /// The rule, a stable kebab-case name: `security-undefined`, `schema-required`, …
    pub rule: &'static str,
    /// Whether it makes the description invalid.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl Finding {
    fn error(pointer: impl Into<String>, rule: &'static str, message: String, remedy: impl Into<String>) -> Finding {
        Finding { pointer: pointer.into(), rule, severity: Severity::Error, message, remedy: remedy.into() }
    }

    fn warning(pointer: impl Into<String>, rule: &'static str, message: String, remedy: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, ..Finding::error(pointer, rule, message, remedy) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let pointer = if self.pointer.is_empty() { "/" } else { &self.pointer };
        write!(f, "{severity} [{}] at {}: {}. {}", self.rule, excerpt(pointer, 200), self.message, self.remedy)
    }
}

/// What was found in one description: errors first, each group in the order of discovery.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// The findings, at most [`FINDINGS_MAX`] and a note.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether the description is valid: no finding is an error.
    pub fn is_valid(&self) -> bool {
        self.errors().next().is_none()
    }

    /// The findings that make it invalid.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.severity == Severity::Error)
    }

    fn bounded(mut findings: Vec<Finding>) -> Report {
        findings.sort_by_key(|f| f.severity);
        if findings.len() > FINDINGS_MAX {
            let left_out = findings.len() - FINDINGS_MAX;
            findings.truncate(FINDINGS_MAX);
            findings.push(Finding::warning(
                "",
                "more-findings",
                format!("at least {left_out} more findings are not shown"),
                "Repair the ones above and validate again",
            ));
        }
        Report { findings }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, finding) in self.findings.iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

/// Whose description it is, which decides how much is forgiven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Someone else's: what TD 1.1 does not forbid is at most a warning.
    Foreign,
    /// Our own, or about to be signed: a member that appears twice anywhere, and LMOS terms that do not follow
    /// `lmos/terms.schema.json`, are errors too.
    Own,
}

/// Validates a description that someone else wrote: TD 1.1 or 1.0, as its `@context` says (TD 1.1 §5, §6 and
/// the JSON Schema of appendix B). Reads any bytes without panicking.
pub fn validate(bytes: &[u8]) -> Report {
    validate_as(bytes, Strictness::Foreign)
}

/// As [`validate`], with a choice of [`Strictness`].
pub fn validate_as(bytes: &[u8], strictness: Strictness) -> Report {
    parse(bytes, strictness).0
}

/// Whether the text can be signed: JSON within the bounds in which no member appears twice. Two readers of a repeated
/// member may see two descriptions, and both would carry the signature.
///
/// # Errors
/// The report of what stands in the way; it says nothing about the description's validity otherwise.
pub fn no_duplicates(bytes: &[u8]) -> Result<(), Report> {
    let findings = match json::scan(bytes, TD_BYTES_MAX) {
        Ok(scanned) => duplicates(&scanned, Strictness::Own),
        Err(e) => vec![unreadable(&e)],
    };
    if findings.is_empty() { Ok(()) } else { Err(Report::bounded(findings)) }
}

/// Validates and hands back the value, if the text is JSON at all.
pub(crate) fn parse(bytes: &[u8], strictness: Strictness) -> (Report, Option<Value>) {
    let scanned = match json::scan(bytes, TD_BYTES_MAX) {
        Ok(scanned) => scanned,
        Err(e) => return (Report { findings: vec![unreadable(&e)] }, None),
    };
    let Value::Object(td) = &scanned.value else {
        let finding = Finding::error(
            "",
            "not-an-object",
            "the text is JSON, but not an object".to_owned(),
            "A description is one JSON object; see TD 1.1 §5.3.1.1",
        );
        return (Report { findings: vec![finding] }, None);
    };
    let mut findings = checks::check(td);
    // A check explains better than the schema that refuses the same value, so it speaks alone.
    let explained: BTreeSet<String> = findings.iter().filter(|f| f.severity == Severity::Error).map(|f| f.pointer.clone()).collect();
    findings.extend(schema::check(&scanned.value).into_iter().filter(|f| {
        !explained.iter().any(|p| f.pointer.strip_prefix(p.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('/')))
    }));
    findings.extend(duplicates(&scanned, strictness));
    findings.extend(lmos::check(&scanned.value, strictness));
    findings.extend(hidden_characters(td));
    (Report::bounded(findings), Some(scanned.value))
}

fn unreadable(e: &JsonError) -> Finding {
    let (pointer, rule, remedy) = match e {
        JsonError::TooLarge { .. } => ("", "too-large", "Move what is not description elsewhere and link to it"),
        JsonError::TooDeep { pointer, .. } => (pointer.as_str(), "too-deep", "Flatten the data schemas"),
        JsonError::Syntax { .. } => ("", "not-json", "Repair the JSON at that place"),
    };
    Finding::error(pointer, rule, e.to_string(), remedy)
}

/// A repeated member: the name of an affordance (one of the two is lost, and readers differ on which) or another.
fn duplicates(scanned: &Scanned, strictness: Strictness) -> Vec<Finding> {
    let finding = |pointer: &String| {
        let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
        let affordance = matches!(parent, "/properties" | "/actions" | "/events");
        let severity =
            if affordance || strictness == Strictness::Own { Severity::Error } else { Severity::Warning };
        Finding {
            severity,
            ..Finding::error(
                pointer.as_str(),
                "duplicate-member",
                "the object has this member more than once, and readers differ on which one counts".to_owned(),
                "Keep one of them; give an affordance a name of its own",
            )
        }
    };
    scanned.duplicates.iter().map(finding).collect()
}

/// Characters in the texts for people that people cannot see (threat model, rows 6 and 7).
fn hidden_characters(td: &serde_json::Map<String, Value>) -> Vec<Finding> {
    let texts = ["title", "description"].into_iter().filter_map(|name| Some((name, td.get(name)?.as_str()?)));
    let hidden = texts.filter_map(|(name, text)| Some((name, text.chars().find(|c| is_hidden(*c))?)));
    hidden
        .map(|(name, c)| {
            Finding::warning(
                format!("/{name}"),
                "hidden-character",
                format!("the text holds the invisible character U+{:04X}", u32::from(c)),
                "Remove it: it can make one name look like another",
            )
        })
        .collect()
}

//! Validates Thing Descriptions, and reports what must be changed.
//!
//! The schemas of the W3C decide, selected by the description's `@context`; [`checks`] adds the rules that TD 1.1 states in
//! prose; [`lmos`] checks the LMOS terms. Every finding has a position, a rule and a remedy.

mod checks;
mod lmos;
mod report;
mod schema;

use serde_json::Value;

pub use lmos::ALTHING;
pub(crate) use lmos::LMOS;
pub use report::{FINDINGS_MAX, Finding, Report, Severity};
pub(crate) use schema::{CONTEXT_1_0, CONTEXT_1_1};

pub(crate) use report::Findings;

use crate::hidden::{joins, marked};
use crate::json::{self, JsonError, Scanned, TD_BYTES_MAX, join};

/// Whose description it is, which decides how strict validation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Of others: only violations of TD 1.1 are errors, everything else is a warning.
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
/// The report of the obstacles; it does not cover the other rules of validity.
pub fn no_duplicates(bytes: &[u8]) -> Result<(), Report> {
    let mut out = Findings::default();
    match json::scan(bytes, TD_BYTES_MAX) {
        Ok(scanned) => duplicates(&scanned, Strictness::Own, &mut out),
        Err(e) => out.error(|| unreadable(&e)),
    }
    let report = out.report();
    if report.is_valid() { Ok(()) } else { Err(report) }
}

/// Validates; gives the value too, if the text is JSON.
pub(crate) fn parse(bytes: &[u8], strictness: Strictness) -> (Report, Option<Value>) {
    let mut out = Findings::default();
    let scanned = match json::scan(bytes, TD_BYTES_MAX) {
        Ok(scanned) => scanned,
        Err(e) => {
            out.error(|| unreadable(&e));
            return (out.report(), None);
        }
    };
    let Value::Object(td) = &scanned.value else {
        out.error(|| {
            Finding::error(
                "",
                "not-an-object",
                "the text is JSON, but not an object".to_owned(),
                "A description is one JSON object; see TD 1.1 §5.3.1.1",
            )
        });
        return (out.report(), None);
    };
    checks::check(td, &mut out);
    // A check explains better than the schema that refuses the same value, so it speaks alone.
    let mut refused = schema::check(&scanned.value, bytes.len());
    refused.retain(|finding| !out.explain(&finding.pointer));
    out.extend(refused);
    duplicates(&scanned, strictness, &mut out);
    out.extend(lmos::check(&scanned.value, strictness, bytes.len()));
    HiddenCharacters { strictness, at: Vec::new() }.look(&scanned.value, Text::Other, &mut out);
    (out.report(), Some(scanned.value))
}

/// The first error of a description that is made from parts of one that somebody else wrote. What its schema refuses is explained
/// only if `is_short`: in a long text that takes seconds.
pub(crate) fn first_error(td: &Value, is_short: bool) -> Option<Finding> {
    let Value::Object(members) = td else { return None };
    let mut out = Findings::default();
    checks::check(members, &mut out);
    HiddenCharacters { strictness: Strictness::Foreign, at: Vec::new() }.look(td, Text::Other, &mut out);
    out.report().errors().next().cloned().or_else(|| schema::first_error(td, is_short))
}

fn unreadable(e: &JsonError) -> Finding {
    let (pointer, rule, remedy) = match e {
        JsonError::TooLarge { .. } => ("", "too-large", "Move what is not description elsewhere and link to it"),
        JsonError::TooDeep { pointer, .. } => (pointer.as_str(), "too-deep", "Flatten the data schemas"),
        JsonError::Syntax { .. } => ("", "not-json", "Repair the JSON at that place"),
    };
    Finding::error(pointer, rule, e.to_string(), remedy)
}

/// A repeated member: the name of an affordance or of a security scheme (one of the two is lost, and readers differ on
/// which) or another.
fn duplicates(scanned: &Scanned, strictness: Strictness, out: &mut Findings) {
    let finding = |pointer: &String| {
        Finding::error(
            pointer.as_str(),
            "duplicate-member",
            "the object has this member more than once, and readers differ on which one counts".to_owned(),
            "Keep one of them; give an affordance a name of its own",
        )
    };
    for pointer in &scanned.duplicates {
        let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
        let affordance = matches!(parent, "/properties" | "/actions" | "/events");
        // Readers that differ on these differ on how the thing is protected.
        let security = parent == "/securityDefinitions" || pointer == "/securityDefinitions";
        let severity =
            if affordance || security || strictness == Strictness::Own { Severity::Error } else { Severity::Warning };
        out.add(severity, || finding(pointer));
    }
}

/// Selects the strings below a value that are texts for people.
#[derive(Clone, Copy, PartialEq)]
enum Text {
    /// This one, or all that it holds, names of members too.
    All,
    /// The values of members, one for each language.
    Languages,
    /// Members of these names.
    Other,
}

/// Finds invisible characters in texts for people (threat model, rows 6 and 7): titles, descriptions, names of affordances,
/// texts of capabilities.
struct HiddenCharacters<'a> {
    strictness: Strictness,
    /// The path to the current value.
    at: Vec<std::borrow::Cow<'a, str>>,
}

impl<'a> HiddenCharacters<'a> {
    /// It goes no deeper than the text, which [`crate::DEPTH_MAX`] bounds.
    fn look(&mut self, value: &'a Value, text: Text, out: &mut Findings) {
        match value {
            Value::String(string) if text != Text::Other => self.judge(string, out),
            Value::Array(items) => {
                for (n, item) in items.iter().enumerate() {
                    self.at.push(n.to_string().into());
                    self.look(item, text, out);
                    self.at.pop();
                }
            }
            Value::Object(members) => {
                let affordances = self.at.len() == 1 && matches!(&*self.at[0], "properties" | "actions" | "events");
                for (name, value) in members {
                    self.at.push(name.into());
                    if affordances || text == Text::All {
                        self.judge(name, out);
                    }
                    let below = match (text, name.as_str()) {
                        (Text::All, _) | (_, "lmos:capabilities") => Text::All,
                        (Text::Languages, _) | (_, "title" | "description" | "titles" | "descriptions") => {
                            Text::Languages
                        }
                        _ => Text::Other,
                    };
                    self.look(value, below, out);
                    self.at.pop();
                }
            }
            _ => {}
        }
    }

    fn judge(&self, text: &str, out: &mut Findings) {
        let hidden = || marked(text).filter_map(|(c, is_seen)| (!is_seen).then_some(c));
        let own = self.strictness == Strictness::Own;
        let refused = hidden().find(|c| own || !joins(*c));
        let Some(c) = refused.or_else(|| hidden().next()) else { return };
        let severity = if refused.is_some() { Severity::Error } else { Severity::Warning };
        out.add(severity, || {
            Finding::error(
                self.at.iter().fold(String::new(), |pointer, token| join(&pointer, token)),
                "hidden-character",
                format!("the text holds the invisible character U+{:04X}", u32::from(c)),
                "Remove it: it can make one name look like another, or tell a model what nobody reads",
            )
        });
    }
}

//! The report of validation: findings with position, rule and remedy, bounded in number.

use std::fmt;

use serde::Serialize;

use crate::json::excerpt;

/// The most findings of one report. Errors are kept before warnings; a note at the end says when some were left out.
pub const FINDINGS_MAX: usize = 64;
/// The characters of a pointer that are shown to people; the pointer itself is complete.
const POINTER_CHARS_MAX: usize = 200;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The description is not valid.
    Error,
    /// The description is valid, but may be misread.
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
    pub(crate) fn error(
        pointer: impl Into<String>,
        rule: &'static str,
        message: String,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding { pointer: pointer.into(), rule, severity: Severity::Error, message, remedy: remedy.into() }
    }

    pub(crate) fn warning(
        pointer: impl Into<String>,
        rule: &'static str,
        message: String,
        remedy: impl Into<String>,
    ) -> Finding {
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
        let pointer = excerpt(pointer, POINTER_CHARS_MAX);
        write!(f, "{severity} [{}] at {pointer}: {}. {}", self.rule, self.message, self.remedy)
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

/// Collects findings. A text of 1 MiB from a stranger can break a rule a hundred thousand times: findings beyond the limit are
/// only counted.
#[derive(Default)]
pub(crate) struct Findings {
    errors: Vec<Finding>,
    warnings: Vec<Finding>,
    left_out: usize,
}

impl Findings {
    /// Adds the result of `finding`, which is called only if there is space.
    pub(crate) fn add(&mut self, severity: Severity, finding: impl FnOnce() -> Finding) {
        let group = match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if group.len() < FINDINGS_MAX {
            group.push(Finding { severity, ..finding() });
        } else {
            self.left_out += 1;
        }
    }

    pub(crate) fn error(&mut self, finding: impl FnOnce() -> Finding) {
        self.add(Severity::Error, finding);
    }

    pub(crate) fn warning(&mut self, finding: impl FnOnce() -> Finding) {
        self.add(Severity::Warning, finding);
    }

    pub(crate) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            self.add(finding.severity, || finding);
        }
    }

    /// Whether an error is about the value at `pointer` or about one that holds it.
    pub(crate) fn explain(&self, pointer: &str) -> bool {
        self.errors.iter().any(|known| {
            pointer.strip_prefix(known.pointer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    pub(crate) fn report(mut self) -> Report {
        let mut findings = self.errors;
        findings.append(&mut self.warnings);
        let left_out = self.left_out + findings.len().saturating_sub(FINDINGS_MAX);
        findings.truncate(FINDINGS_MAX);
        if left_out > 0 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(n: usize) -> Finding {
        Finding::error(format!("/{n}"), "rule", "something is wrong".to_owned(), "Repair it")
    }

    #[test]
    fn errors_come_first_and_what_does_not_fit_is_counted() {
        let mut findings = Findings::default();
        findings.extend((0..100).map(|n| Finding { severity: Severity::Warning, ..finding(n) }));
        findings.extend((0..3).map(finding));
        let report = findings.report();
        assert_eq!(report.findings.len(), FINDINGS_MAX + 1);
        assert_eq!(report.errors().count(), 3);
        assert_eq!(report.findings[2].pointer, "/2");
        assert_eq!(report.findings[FINDINGS_MAX].message, "at least 39 more findings are not shown");
    }

    #[test]
    fn an_error_explains_what_lies_within_its_value() {
        let mut findings = Findings::default();
        findings.error(|| finding(1));
        assert!(findings.explain("/1") && findings.explain("/1/a"));
        assert!(!findings.explain("/10") && !findings.explain(""));
    }

    #[test]
    fn a_report_reads_as_one_line_for_each_finding() {
        let report = Report { findings: vec![finding(1), Finding { severity: Severity::Warning, ..finding(2) }] };
        let text =
            "error [rule] at /1: something is wrong. Repair it\nwarning [rule] at /2: something is wrong. Repair it";
        assert_eq!(report.to_string(), text);
        assert_eq!(serde_json::to_value(&report).expect("serialises")["findings"][1]["severity"], "warning");
    }
}

//! `althing td lint` and `althing card lint`: check what others wrote, without a node.

use std::io::Read as _;
use std::path::Path;

use althing_td::{CARD_BYTES_MAX, Finding, Report, Severity, lint_card, validate};
use serde::Serialize;

use crate::args::{Card, Lint, Td};
use crate::commands::{Out, one_line};
use crate::exit::{Failure, code};

/// What was found in each file.
#[derive(Serialize)]
struct LintReport<'a> {
    files: Vec<FileReport<'a>>,
}

#[derive(Serialize)]
struct FileReport<'a> {
    file: &'a Path,
    /// No finding is an error.
    valid: bool,
    findings: Vec<Finding>,
}

/// Runs `althing td`.
pub fn td(Td::Lint(files): &Td, out: &Out) -> Result<(), Failure> {
    lint(files, validate, out)
}

/// Runs `althing card`.
pub fn card(Card::Lint(files): &Card, out: &Out) -> Result<(), Failure> {
    lint(files, lint_card, out)
}

/// Checks each file, and exits with 1 if one is not valid.
fn lint(lint: &Lint, check: fn(&[u8]) -> Report, out: &Out) -> Result<(), Failure> {
    let mut files = Vec::new();
    for file in &lint.files {
        let report = check(&read(file)?);
        files.push(FileReport { file, valid: report.is_valid(), findings: report.findings });
    }
    let report = LintReport { files };
    out.show(&report, |report| report.files.iter().map(people).collect());
    if report.files.iter().all(|file| file.valid) { Ok(()) } else { Err(Failure::shown(code::FAILED)) }
}

fn people(FileReport { file, findings, .. }: &FileReport<'_>) -> String {
    let of = |severity: Severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let file = file.display();
    let mut lines = match (of(Severity::Error), of(Severity::Warning)) {
        (0, 0) => format!("{file}: valid\n"),
        (0, warnings) => format!("{file}: valid, {warnings} warnings\n"),
        (errors, warnings) => format!("{file}: not valid, {errors} errors, {warnings} warnings\n"),
    };
    for Finding { pointer, rule, severity, message, remedy } in findings {
        let severity = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let pointer = if pointer.is_empty() { "/" } else { pointer.as_str() };
        // A pointer has the names of members, which whoever wrote the file chose.
        let line = format!("  {severity} [{rule}] at {pointer}: {message}. {remedy}");
        lines.push_str(&format!("{}\n", one_line(&line)));
    }
    lines
}

/// A file, or the standard input, up to the bound of what is checked.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("{} cannot be read: {error}", file.display()));
    if file != Path::new("-") {
        return althing_store::file::read_bytes(file, CARD_BYTES_MAX as u64).map_err(|error| failed(&error));
    }
    let mut bytes = Vec::new();
    let mut input = std::io::stdin().lock().take(CARD_BYTES_MAX as u64 + 1);
    input.read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() > CARD_BYTES_MAX {
        return Err(failed(&format!("it has more than {CARD_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_member_looks_like_what_is_said_of_a_file() {
        let finding = Finding {
            pointer: "/actions/tell\ncard.json: valid\u{202e}".to_owned(),
            rule: "no-such-rule",
            severity: Severity::Error,
            message: "it is not there".to_owned(),
            remedy: "Write it".to_owned(),
        };
        let file = FileReport { file: Path::new("card.json"), valid: false, findings: vec![finding] };
        let told = people(&file);
        let line = r"  error [no-such-rule] at /actions/tell\u{a}card.json: valid\u{202e}: it is not there. Write it";
        assert_eq!(told, format!("card.json: not valid, 1 errors, 0 warnings\n{line}\n"));
    }
}

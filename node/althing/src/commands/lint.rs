//! `althing td lint` and `althing card lint`: check what others wrote, without a node.

use std::io::Read as _;
use std::path::Path;

use althing_td::{CARD_BYTES_MAX, Report, Severity, lint_card, validate};
use serde_json::{Value, json};

use crate::args::{Card, Lint, Td};
use crate::commands::{Out, rows, text};
use crate::exit::{Failure, code};

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
    let mut told = Vec::new();
    for file in &lint.files {
        let report = check(&read(file)?);
        told.push(json!({ "file": file, "valid": report.is_valid(), "findings": report.findings }));
    }
    let valid = told.iter().all(|file| file["valid"] == true);
    out.show(&json!({ "files": told }), |told| rows(told, "files").iter().map(people).collect());
    if valid { Ok(()) } else { Err(Failure::shown(code::FAILED)) }
}

fn people(file: &Value) -> String {
    let findings = rows(file, "findings");
    let of = |severity: Severity| findings.iter().filter(|finding| finding["severity"] == json!(severity)).count();
    let mut lines = match (of(Severity::Error), of(Severity::Warning)) {
        (0, 0) => format!("{}: valid\n", text(file, "file")),
        (0, warnings) => format!("{}: valid, {warnings} warnings\n", text(file, "file")),
        (errors, warnings) => format!("{}: not valid, {errors} errors, {warnings} warnings\n", text(file, "file")),
    };
    for finding in findings {
        let pointer = match text(finding, "pointer") {
            pointer if pointer.is_empty() => "/".to_owned(),
            pointer => pointer,
        };
        lines.push_str(&format!(
            "  {} [{}] at {pointer}: {}. {}\n",
            text(finding, "severity"),
            text(finding, "rule"),
            text(finding, "message"),
            text(finding, "remedy")
        ));
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

//! The LMOS terms (Eclipse LMOS protocol, "Agent Description"): upstream has no schema for them, `lmos/` holds ours.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

use super::{Finding, Severity, Strictness, schema};

/// The IRI of the prefix `lmos`.
pub(crate) const LMOS: &str = "https://eclipse.dev/lmos/protocol/v1";

/// What the prefix `althing` stands for in `@context`.
pub const ALTHING: &str = "https://althing.dev/ns/v1";

static TERMS: LazyLock<Validator> = LazyLock::new(|| schema::compile(include_str!("../../lmos/terms.schema.json")));

/// Checks the terms of a description that declares the prefix; reports terms that are used without it.
pub(super) fn check(td: &Value, strictness: Strictness, bytes_len: usize) -> Vec<Finding> {
    let severity = match strictness {
        Strictness::Foreign => Severity::Warning,
        Strictness::Own => Severity::Error,
    };
    let mut findings = Vec::new();
    if declared(td) {
        findings
            .extend(schema::findings(&TERMS, td, bytes_len).into_iter().map(|f| Finding { rule: "lmos-terms", ..f }));
    } else if td.as_object().is_some_and(|td| td.keys().any(|name| name.starts_with("lmos:"))) {
        findings.push(Finding::error(
            "/@context",
            "lmos-undeclared",
            "lmos: members are used, yet the prefix is not declared".to_owned(),
            format!("Add {{\"lmos\": \"{LMOS}\"}} to @context"),
        ));
    }
    findings.into_iter().map(|f| Finding { severity, ..f }).collect()
}

/// Whether an object in `@context` maps `lmos` to the protocol's IRI; foreign ones end it with `#` or `/`.
fn declared(td: &Value) -> bool {
    let context = td.get("@context").unwrap_or(&Value::Null);
    let entries = context.as_array().map_or(std::slice::from_ref(context), Vec::as_slice);
    entries.iter().filter_map(|e| e.get("lmos")?.as_str()).any(|iri| iri.trim_end_matches(['#', '/']) == LMOS)
}

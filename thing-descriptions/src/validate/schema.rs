//! The embedded JSON Schemas of the W3C recommendations, and helpful messages for their errors.
//!
//! `schema/td-1.1.json` is the validation schema of w3c/wot-thing-description at its tag REC1.1, `schema/td-1.0.json`
//! that of REC1.0; `schema/README.md` names their licence.

use std::sync::LazyLock;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::{FINDINGS_MAX, Finding};
use crate::json::{excerpt, excerpt_value};

pub(crate) const CONTEXT_1_0: &str = "https://www.w3.org/2019/wot/td/v1";
pub(crate) const CONTEXT_1_1: &str = "https://www.w3.org/2022/wot/td/v1.1";

/// The longest text for which all errors of a schema are listed: the validator finds all of them before it returns the first,
/// which takes seconds for 1 MiB of nested errors. Real descriptions are smaller.
const LIST_BYTES_MAX: usize = 128 * 1024;

static TD_1_0: LazyLock<Validator> = LazyLock::new(|| {
    let mut schema = embedded(include_str!("../../schema/td-1.0.json"));
    open_oauth2_flow(&mut schema);
    build(&schema)
});
static TD_1_1: LazyLock<Validator> = LazyLock::new(|| compile(include_str!("../../schema/td-1.1.json")));

/// Compiles one of the embedded schemas (draft 7, formats checked).
pub(super) fn compile(text: &str) -> Validator {
    build(&embedded(text))
}

fn embedded(text: &str) -> Value {
    serde_json::from_str(text).expect("an embedded schema is JSON: every test run reads each of them")
}

fn build(schema: &Value) -> Validator {
    jsonschema::draft7::options()
        .should_validate_formats(true)
        .with_format("iri-reference", is_reference_or_template)
        .build(schema)
        .expect("an embedded schema compiles: every test run compiles each of them")
}

/// The schema of TD 1.0 knows only the flow `code`; descriptions in use name `client` too, which TD 1.1 defines. The
/// check `oauth2-flow` looks at the members of the flows of both.
fn open_oauth2_flow(schema: &mut Value) {
    let schemes = schema.pointer_mut("/definitions/securityScheme/oneOf").and_then(Value::as_array_mut);
    for scheme in schemes.into_iter().flatten() {
        if let Some(Value::Object(flow)) = scheme.pointer_mut("/properties/flow") {
            flow.remove("enum");
        }
    }
}

/// The format `iri-reference` of TD's `anyUri` (RFC 3987), read as TD 1.1 §5.3.4.2 uses it: an `href` may be a URI
/// template (RFC 6570). Schemes and paths of many protocols come along, so only what no IRI and no template holds is
/// refused: white space, control characters and the delimiters of RFC 3986 §2 and RFC 3987 §2.2, braces unpaired.
fn is_reference_or_template(text: &str) -> bool {
    let mut in_expression = false;
    text.chars().all(|c| match c {
        '{' => !std::mem::replace(&mut in_expression, true),
        '}' => std::mem::replace(&mut in_expression, false),
        '<' | '>' | '"' | '\\' | '^' | '`' => false,
        '|' => in_expression,
        _ => !c.is_whitespace() && !c.is_control(),
    }) && !in_expression
}

/// The findings of the schema that `@context` selects.
pub(super) fn check(td: &Value, bytes_len: usize) -> Vec<Finding> {
    findings(selected(td), td, bytes_len)
}

/// The first error of the schema that `@context` selects; its explanation only if `is_explained`.
pub(super) fn first_error(td: &Value, is_explained: bool) -> Option<Finding> {
    let schema = selected(td);
    if schema.is_valid(td) {
        return None;
    }
    let explained = is_explained.then(|| schema.iter_errors(td).next().map(|e| explain(&e))).flatten();
    let plain = || {
        let remedy = "See the JSON Schema of the recommendation";
        Finding::error("", "schema", "it is not as the recommendation has it".to_owned(), remedy)
    };
    Some(explained.unwrap_or_else(plain))
}

/// The schema that `@context` selects; without a known one, that of TD 1.1.
fn selected(td: &Value) -> &'static Validator {
    let names = |iri: &str| match td.get("@context") {
        Some(Value::String(s)) => s == iri,
        Some(Value::Array(items)) => items.iter().any(|i| i == iri),
        _ => false,
    };
    if names(CONTEXT_1_0) && !names(CONTEXT_1_1) { &TD_1_0 } else { &TD_1_1 }
}

/// The first errors of a schema as findings; of a text above [`LIST_BYTES_MAX`] the first one.
pub(super) fn findings(schema: &Validator, td: &Value, bytes_len: usize) -> Vec<Finding> {
    if bytes_len > LIST_BYTES_MAX {
        return schema.validate(td).err().map(|e| explain(&e)).into_iter().collect();
    }
    if schema.is_valid(td) {
        return Vec::new();
    }
    schema.iter_errors(td).take(FINDINGS_MAX).map(|e| explain(&e)).collect()
}

fn explain(outer: &ValidationError<'_>) -> Finding {
    let e = telling(outer);
    let (rule, message, remedy) = words(e);
    Finding::error(e.instance_path().as_str(), rule, message, remedy)
}

/// "Not valid under any of these schemas" does not help; the branch that matched furthest does.
fn telling<'a, 'i>(e: &'a ValidationError<'i>) -> &'a ValidationError<'i>
where
    'static: 'i,
{
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) = e.kind() else {
        return e;
    };
    let mut best = None;
    for branch in context {
        for inner in branch {
            let inner = telling(inner);
            let path = inner.instance_path().as_str();
            // What only says that another branch was meant: another scheme, another type, another word.
            let scheme = path.ends_with("/scheme");
            let kind = matches!(
                inner.kind(),
                ValidationErrorKind::Type { .. }
                    | ValidationErrorKind::Enum { .. }
                    | ValidationErrorKind::Constant { .. }
                    | ValidationErrorKind::Pattern { .. }
            );
            let rank = (path.matches('/').count(), !scheme, !kind, usize::MAX - branch.len());
            if best.as_ref().is_none_or(|(known, _)| rank > *known) {
                best = Some((rank, inner));
            }
        }
    }
    best.map_or(e, |(_, inner)| inner)
}

fn words(e: &ValidationError<'_>) -> (&'static str, String, String) {
    let found = excerpt_value(e.instance(), 80);
    match e.kind() {
        ValidationErrorKind::Required { property } => {
            ("schema-required", format!("the member {property} is missing"), format!("Add {property}"))
        }
        ValidationErrorKind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(one) => one.to_string(),
                TypeKind::Multiple(set) => set.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(" or "),
            };
            ("schema-type", format!("{found} is not of type {wanted}"), format!("Write a value of type {wanted}"))
        }
        ValidationErrorKind::Enum { options } => {
            let options = excerpt_value(options, 300);
            ("schema-enum", format!("{found} is not one of {options}"), "Choose one of them".to_owned())
        }
        ValidationErrorKind::Constant { expected_value } => {
            ("schema-const", format!("{found} is not {expected_value}"), format!("Write {expected_value}"))
        }
        ValidationErrorKind::MinItems { limit } | ValidationErrorKind::MinProperties { limit } => (
            "schema-too-few",
            format!("{found} has fewer than {limit} entries"),
            "Add the missing ones, or leave the member out where it is optional".to_owned(),
        ),
        ValidationErrorKind::Format { format } => {
            ("schema-format", format!("{found} does not have the format {format}"), format!("Write a {format}"))
        }
        ValidationErrorKind::Pattern { pattern } => (
            "schema-pattern",
            format!("{found} does not match {}", excerpt(pattern, 80)),
            "Write it as the pattern asks".to_owned(),
        ),
        ValidationErrorKind::UniqueItems => {
            ("schema-unique", format!("{found} has the same entry twice"), "Keep one of them".to_owned())
        }
        ValidationErrorKind::OneOfMultipleValid { .. } => (
            "schema-one-of",
            format!("{found} fits more than one of the alternatives"),
            "Leave members out until one alternative is meant".to_owned(),
        ),
        _ => ("schema", excerpt(&e.masked().to_string(), 300), "See the JSON Schema of the recommendation".to_owned()),
    }
}

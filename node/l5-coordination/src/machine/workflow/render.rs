//! Templates of a run, filled in; and lists in results.

use althing_protocol::group::{Part, parts};
use althing_protocol::limits::{WORK_CONTENT_BYTES_MAX, WORKFLOW_ITEMS_MAX};
use serde_json::value::RawValue;

use super::run::Run;

/// A template with the input, the item, and the results of the run.
///
/// # Errors
/// Why it cannot be filled in, and what to do.
pub(super) fn fill(run: &Run, template: &str, item: &str) -> Result<String, String> {
    let mut filled = String::new();
    for part in parts(template).map_err(|error| error.to_string())? {
        filled.push_str(match part {
            Part::Text(text) => text,
            Part::Input => &run.input,
            Part::Item => item,
            Part::Step(id) => run.step(id).map_or("", |step| step.text()),
        });
        if filled.len() > WORK_CONTENT_BYTES_MAX {
            return Err(format!(
                "its input has more than {WORK_CONTENT_BYTES_MAX} bytes; let the steps before it return less"
            ));
        }
    }
    Ok(filled)
}

/// The items of a list in JSON: texts as they read, all else as it is written.
///
/// # Errors
/// Why it is no such list.
pub(super) fn items(source: &str, text: &str) -> Result<Vec<String>, String> {
    let none = |_| format!("the result of {source:?} is no list in JSON; let it return one, such as [\"a\", \"b\"]");
    let all: Vec<&RawValue> = serde_json::from_str(text.trim()).map_err(none)?;
    if all.len() > WORKFLOW_ITEMS_MAX {
        let count = all.len();
        return Err(format!("the result of {source:?} has {count} items, at most {WORKFLOW_ITEMS_MAX} are allowed"));
    }
    let read = |raw: &&RawValue| serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned());
    Ok(all.iter().map(read).collect())
}

/// A list in JSON of these texts.
pub(super) fn list(texts: &[&str]) -> String {
    serde_json::to_string(texts).expect("texts are JSON")
}

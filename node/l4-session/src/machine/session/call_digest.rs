//! By what a call is known again: its name and its arguments.

use althing_execution::tools::CallKind;
use althing_protocol::{Digest, digest};
use serde_json::Value;

/// The digest of the name and the arguments of a step: the same for the same call, on whichever node and in whichever turn.
#[must_use]
pub fn call_digest(kind: CallKind, name: &str, arguments: &Value) -> Digest {
    let text = match kind {
        // The order of members says nothing, and not every program has one.
        CallKind::Tool => {
            let mut arguments = arguments.clone();
            arguments.sort_all_objects();
            arguments.to_string()
        }
        CallKind::Recall | CallKind::Model => arguments.to_string(),
    };
    digest(&[&(name.len() as u64).to_be_bytes(), name.as_bytes(), text.as_bytes()].concat())
}

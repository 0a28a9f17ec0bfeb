//! A program saves how far its turn came, to be given that back with its message when the turn is resumed.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{CHECKPOINT, arguments};
use crate::steps;
use crate::tools::{Definition, Fault};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    state: String,
}

/// The definition of the tool.
pub(super) fn definition() -> Definition {
    let description = "Saves how far this turn came, 1 MiB at most. If the node ends, the message comes again with this state, and the \
                       calls before it are not answered from the journal any more: skip what is done. Call it when no other call runs.";
    let input_schema = json!({
        "type": "object",
        "properties": { "state": { "type": "string" } },
        "required": ["state"],
        "additionalProperties": false,
    });
    Definition::new(CHECKPOINT, description, input_schema)
}

/// Saves the state of the turn that runs here.
pub(super) async fn save(given: Value) -> Result<Value, Fault> {
    let State { state } = arguments(given)?;
    let bytes = state.len();
    let saved = steps::save_between(state.into_bytes()).await;
    saved.map_err(|error| Fault::Failed(error.to_string()))?;
    Ok(json!({ "saved": bytes }))
}

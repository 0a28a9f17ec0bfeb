//! Saving how far a turn came. A program is given that back with its message when the turn is resumed; a model goes on from it at once,
//! and its runtime writes it.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{CHECKPOINT, SaveKind, arguments};
use crate::steps;
use crate::tools::{Definition, Fault};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    state: String,
}

/// The definition of the tool, for an agent that has it.
pub(super) fn definition(saves: SaveKind) -> Option<Definition> {
    let description = match saves {
        SaveKind::Nothing => return None,
        SaveKind::Program => {
            "Saves how far this turn came, 1 MiB at most. If the node ends, the message comes again with this state, and the \
             calls before it are not answered from the journal any more: skip what is done. Call it when no other call runs."
        }
        SaveKind::Model => {
            "Saves how far this turn came, in words, 1 MiB at most, and begins its conversation anew from there: of what was \
             said and called before in this turn, this text is all that you will be told. Write down what is done, what was \
             found, and what remains. Call it alone, when the turn has become long."
        }
    };
    let input_schema = json!({
        "type": "object",
        "properties": { "state": { "type": "string" } },
        "required": ["state"],
        "additionalProperties": false,
    });
    Some(Definition::new(CHECKPOINT, description, input_schema))
}

/// The state in arguments; none where they are not those of the tool.
pub(super) fn state_in(arguments: &str) -> Option<String> {
    serde_json::from_str::<State>(arguments).ok().map(|State { state }| state)
}

/// Saves the state of the turn that runs here.
pub(super) async fn save(given: Value) -> Result<Value, Fault> {
    let State { state } = arguments(given)?;
    let bytes = state.len();
    let saved = steps::save_between(state.into_bytes()).await;
    saved.map_err(|error| Fault::Failed(error.to_string()))?;
    Ok(json!({ "saved": bytes }))
}

/// Whether the turn that runs here can save that: its runtime does it before the model hears of it.
pub(super) fn check(given: Value) -> Result<Value, Fault> {
    let State { state } = arguments(given)?;
    steps::check_save(state.len()).map_err(|error| Fault::Failed(error.to_string()))?;
    Ok(json!({ "saved": state.len() }))
}

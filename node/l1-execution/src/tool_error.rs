//! Why calls of tools fail.

use std::fmt::Display;

use serde_json::Value;

use crate::definition::Unfit;
use crate::fault::Fault;
use crate::journal::JournalError;
use crate::lease::Superseded;
use crate::ruling::Denied;

/// Why a tool call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The gate denied it.
    #[error("{0}")]
    Denied(#[from] Denied),
    /// The turn works on a group's task that another member has by now.
    #[error(transparent)]
    Superseded(#[from] Superseded),
    /// The journal of the turn cannot go on, and the turn ends.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It failed before the node ended, and the turn that goes on is told so in the same words.
    #[error("{0}")]
    Replayed(String),
    /// It is not the tool that was bound, or may not be shown to models. The text quotes nothing of the tool.
    #[error("{}: {tool:?} is suspended and not called: {}", unfit.reason(), unfit.brief())]
    Unfit {
        /// Which tool.
        tool: String,
        /// The reason.
        unfit: Unfit,
    },
    /// There is no such tool.
    #[error("there is no tool {0:?}")]
    Unknown(String),
    /// Its arguments are no JSON object, or too long.
    #[error("the arguments of {tool:?} are refused: {reason}")]
    Arguments {
        /// Which tool.
        tool: String,
        /// Why.
        reason: String,
    },
    /// Its server failed.
    #[error("{tool:?} failed: {fault}")]
    Fault {
        /// Which tool.
        tool: String,
        /// How.
        fault: Fault,
    },
}

/// The arguments of a call of at most `most` bytes, as JSON of any kind.
pub(crate) fn arguments_of(tool: &str, arguments: &str, most: usize) -> Result<Value, ToolError> {
    if arguments.len() > most {
        let reason = format!("they have {} bytes, and {most} is the most", arguments.len());
        return Err(refused_arguments(tool, reason));
    }
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    serde_json::from_str(text).map_err(|error| refused_arguments(tool, error.to_string()))
}

pub(crate) fn refused_arguments(tool: &str, reason: String) -> ToolError {
    ToolError::Arguments { tool: tool.to_owned(), reason }
}

/// Why what the node did by itself gave no result, as a gate is told.
pub(crate) fn failure(tool: &str, error: &impl Display) -> ToolError {
    ToolError::Fault { tool: tool.to_owned(), fault: Fault::Failed(error.to_string()) }
}

//! The workflow file (`workflow.yaml`), which a person writes to let a group run steps one after the other.
//!
//! Steps stand in any order in the file; `after`, `when`, `for_each` and `repeat` say which comes after which.

mod order;
mod read;
#[cfg(test)]
mod tests;

use althing_protocol::group::Workflow;

use crate::heading::Heading;
use crate::reader::yaml::{self, YamlError};
use crate::reader::{FileProblem, lines};

/// The longest workflow file, in bytes.
pub const WORKFLOW_FILE_BYTES_MAX: usize = 128 * 1024;

/// A workflow file: the workflow, and what the file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowFile {
    /// What it says of itself.
    pub heading: Heading,
    /// The workflow.
    pub workflow: Workflow,
}

/// Why a file is no workflow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkflowFileError {
    /// The file is longer than [`WORKFLOW_FILE_BYTES_MAX`].
    #[error("the workflow file has {0} bytes, the limit is {WORKFLOW_FILE_BYTES_MAX}: keep data in the input of a run")]
    TooLarge(usize),
    /// The text is not one YAML document within the reader's limits.
    #[error("the workflow file is not YAML that can be read: line {line}, column {column}: {message}")]
    Yaml {
        /// Line, from 1; 0 where unknown.
        line: u64,
        /// Column in characters, from 1; 0 where unknown.
        column: u64,
        /// What was found, and what to do.
        message: String,
    },
    /// The YAML is no workflow.
    #[error("the workflow file needs {} change(s):\n{}", .0.len(), lines(.0))]
    Invalid(
        /// Everything to change.
        Vec<FileProblem>,
    ),
}

impl From<YamlError> for WorkflowFileError {
    fn from(error: YamlError) -> WorkflowFileError {
        let YamlError { line, column, message } = error;
        WorkflowFileError::Yaml { line, column, message }
    }
}

/// Reads a workflow file, for its workflow alone.
///
/// # Errors
/// See [`parse_workflow_file`].
pub fn parse_workflow(text: &str) -> Result<Workflow, WorkflowFileError> {
    Ok(parse_workflow_file(text)?.workflow)
}

/// Reads a workflow file. The steps of the workflow stand in an order in which each comes after those that it waits for.
///
/// # Errors
/// [`WorkflowFileError`]: each problem with its line, its field and what to write instead.
pub fn parse_workflow_file(text: &str) -> Result<WorkflowFile, WorkflowFileError> {
    if text.len() > WORKFLOW_FILE_BYTES_MAX {
        return Err(WorkflowFileError::TooLarge(text.len()));
    }
    let root = yaml::parse(text)?;
    match read::read(&root) {
        (Some(WorkflowFile { heading, workflow }), problems) if problems.is_empty() => {
            let workflow = order::order(workflow, &root).map_err(WorkflowFileError::Invalid)?;
            Ok(WorkflowFile { heading, workflow })
        }
        (_, problems) => Err(WorkflowFileError::Invalid(problems)),
    }
}

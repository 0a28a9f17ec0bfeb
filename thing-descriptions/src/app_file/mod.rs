//! The app file (`app.yaml`), which a person writes to run agents, workflows and schedules together in one group.
//!
//! It names agent files and workflow files beside it. [`parse_app`] reads the file alone; [`AppFile::resolve`] reads those
//! that it names, through whatever the caller reads files with, and checks that all of them fit together.

mod read;
mod resolve;
#[cfg(test)]
mod tests;

use althing_protocol::group::{Missed, Overlap, Schedule, Workflow};

use crate::agent_file::AgentFile;
use crate::reader::yaml::{self, At, YamlError};
use crate::reader::{FileProblem, lines};

/// The longest app file, in bytes.
pub const APP_FILE_BYTES_MAX: usize = 128 * 1024;
/// The most agents of an app.
pub const APP_AGENTS_MAX: usize = 64;
/// The most instances of one agent.
pub const APP_INSTANCES_MAX: u8 = 16;
/// The most workflows of an app.
pub const APP_WORKFLOWS_MAX: usize = 32;
/// The most schedules of an app.
pub const APP_SCHEDULES_MAX: usize = 32;
/// The time zone of a schedule that names none.
pub const ZONE_DEFAULT: &str = "UTC";

/// An app as its file says, defaults filled in. The files that it names were not read yet.
#[derive(Debug, Clone, PartialEq)]
pub struct AppFile {
    /// Its name.
    pub name: String,
    /// The name or the id of the group in which it runs.
    pub group: String,
    /// Its agents.
    pub agents: Vec<AppAgentFile>,
    /// The files of its workflows, relative to this one.
    pub workflows: Vec<String>,
    /// Its schedules, names distinct.
    pub schedules: Vec<AppSchedule>,
    /// The file, for the lines of what is found when it is resolved.
    root: At,
}

/// An agent of an app file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppAgentFile {
    /// Its agent file, relative to the app file.
    pub file: String,
    /// On how many members of the group it runs.
    pub instances: u8,
    /// On how many at most, while there are more tasks for it.
    pub instances_max: Option<u8>,
    /// Labels that such a member must have.
    pub labels: Vec<String>,
    /// The names of the agents that have an instance before it is started.
    pub needs: Vec<String>,
}

/// A schedule of an app file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppSchedule {
    /// Its name.
    pub name: String,
    /// Its times: minute, hour, day of the month, month, day of the week.
    pub cron: String,
    /// The time zone, as the IANA names it.
    pub zone: String,
    /// The name of the workflow that runs.
    pub workflow: String,
    /// The input of each run.
    pub input: String,
    /// What becomes of times that were missed.
    pub missed: Missed,
    /// What becomes of times that come while a run has not ended; none if the next run begins beside it.
    pub overlap: Option<Overlap>,
}

/// An app whose files were read, and fit together.
#[derive(Debug, Clone, PartialEq)]
pub struct App {
    /// Its name.
    pub name: String,
    /// The name or the id of the group in which it runs.
    pub group: String,
    /// Its agents, names distinct, each after those that it needs.
    pub agents: Vec<AppAgent>,
    /// Its workflows, names distinct.
    pub workflows: Vec<Workflow>,
    /// Its schedules, each with its workflow.
    pub schedules: Vec<Schedule>,
}

/// An agent of an app.
#[derive(Debug, Clone, PartialEq)]
pub struct AppAgent {
    /// Its name.
    pub name: String,
    /// Where its agent file lies, relative to the app file.
    pub path: String,
    /// Its agent file, as it was read.
    pub text: String,
    /// The same, parsed. Paths in it begin at its own folder.
    pub file: AgentFile,
    /// On how many members of the group it runs.
    pub instances: u8,
    /// On how many at most, while there are more tasks for it.
    pub instances_max: Option<u8>,
    /// Labels that such a member must have.
    pub labels: Vec<String>,
    /// The names of the agents that have an instance before it is started.
    pub needs: Vec<String>,
}

/// Why a file is no app.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppFileError {
    /// The file is longer than [`APP_FILE_BYTES_MAX`].
    #[error("the app file has {0} bytes, the limit is {APP_FILE_BYTES_MAX}: keep data in files of the agents")]
    TooLarge(usize),
    /// The text is not one YAML document within the reader's limits.
    #[error("the app file is not YAML that can be read: line {line}, column {column}: {message}")]
    Yaml {
        /// Line, from 1; 0 where unknown.
        line: u64,
        /// Column in characters, from 1; 0 where unknown.
        column: u64,
        /// What was found, and what to do.
        message: String,
    },
    /// The YAML is no app, or what it names does not fit together.
    #[error("the app file needs {} change(s):\n{}", .0.len(), lines(.0))]
    Invalid(
        /// Everything to change. Lines and fields are those of the app file; what is to change in a file that it names has its
        /// place there in the message.
        Vec<FileProblem>,
    ),
}

impl From<YamlError> for AppFileError {
    fn from(error: YamlError) -> AppFileError {
        let YamlError { line, column, message } = error;
        AppFileError::Yaml { line, column, message }
    }
}

/// Reads an app file alone; [`AppFile::resolve`] reads the files that it names.
///
/// # Errors
/// [`AppFileError`]: each problem with its line, its field and what to write instead.
pub fn parse_app(text: &str) -> Result<AppFile, AppFileError> {
    if text.len() > APP_FILE_BYTES_MAX {
        return Err(AppFileError::TooLarge(text.len()));
    }
    let root = yaml::parse(text)?;
    match read::read(root) {
        (Some(file), problems) if problems.is_empty() => Ok(file),
        (_, problems) => Err(AppFileError::Invalid(problems)),
    }
}

impl AppFile {
    /// Reads the files that it names with `read`, whose errors say why a file cannot be read, and checks that all fit
    /// together. `read` is given paths that lead nowhere but to the folder of the app file and those within it; it should
    /// refuse links that lead elsewhere.
    ///
    /// # Errors
    /// [`AppFileError::Invalid`] with everything to change.
    pub fn resolve(self, read: impl FnMut(&str) -> Result<String, String>) -> Result<App, AppFileError> {
        resolve::resolve(self, read).map_err(AppFileError::Invalid)
    }
}

//! The file of people (`people.yaml`): who may answer for an owner's agents, by which keys, in which roles, and how they are
//! reached.

mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::agent_file::Sandbox;
use crate::reader::yaml::{self, YamlError};
use crate::reader::{FileProblem, lines};

/// The longest file, in bytes.
pub const PEOPLE_FILE_BYTES_MAX: usize = 256 << 10;
/// Who the local user is where the file does not say it.
pub const OWNER_DEFAULT: &str = "owner";

/// `people.yaml`: persons, their keys and roles, and how each is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeopleFile {
    /// The person who uses this machine: they answer without a key.
    pub owner: String,
    /// All of them, by name.
    pub people: BTreeMap<String, PersonSpec>,
    /// Who must agree that bodies of the audit log end before their time; nobody where it is not said.
    pub prune: Option<SignOffSpec>,
}

/// How many people must agree, and in which role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignOffSpec {
    /// The role, by name.
    pub role: String,
    /// How many people, 1 to 7.
    pub count: u8,
}

/// One person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonSpec {
    /// Public keys, each as in a file that `ssh-keygen` writes.
    pub keys: Vec<KeyLine>,
    /// In which roles they answer.
    pub roles: Vec<String>,
    /// Users of the gateway and names of scoped tokens that are this person.
    pub users: Vec<String>,
    /// How they are told that something waits for them, in this order.
    pub reach: Vec<ReachSpec>,
}

/// A public key that nobody looked at yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLine {
    /// Where it stands: `people.ada.keys[0]`.
    pub field: String,
    /// Its line in the file, from 1.
    pub line: u64,
    /// `ssh-ed25519 AAAA…`, at most 4,096 bytes.
    pub text: String,
}

/// A way to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReachSpec {
    /// A message is sent there.
    Url {
        /// `https://…`, or `http://…` on this machine.
        url: String,
        /// The name of the node's secret that is the bearer token there.
        secret: Option<String>,
    },
    /// A program is run, contained as others are.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
        /// What it may reach beside what it needs to run; it only reads its own folder.
        sandbox: Sandbox,
    },
    /// An agent is told.
    Agent(
        /// Its name, or its id.
        String,
    ),
}

/// Why a text is no file of people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeopleFileError {
    /// It is longer than [`PEOPLE_FILE_BYTES_MAX`].
    #[error(
        "the file of people has {0} bytes, and {PEOPLE_FILE_BYTES_MAX} is the most: take out who is no longer here"
    )]
    TooLarge(usize),
    /// It is not one YAML document within the reader's limits.
    #[error("the file of people is not YAML that can be read: line {line}, column {column}: {message}")]
    Yaml {
        /// Line, from 1; 0 where unknown.
        line: u64,
        /// Column in characters, from 1; 0 where unknown.
        column: u64,
        /// What was found, and what to do.
        message: String,
    },
    /// The YAML is no file of people.
    #[error("the file of people needs {} change(s):\n{}", .0.len(), lines(.0))]
    Invalid(
        /// Everything to change.
        Vec<FileProblem>,
    ),
}

impl From<YamlError> for PeopleFileError {
    fn from(error: YamlError) -> PeopleFileError {
        let YamlError { line, column, message } = error;
        PeopleFileError::Yaml { line, column, message }
    }
}

/// Reads the file of people. The keys in it are not looked at.
///
/// # Errors
/// [`PeopleFileError`]: each problem with its line, its field and what to write instead.
pub fn parse_people(text: &str) -> Result<PeopleFile, PeopleFileError> {
    if text.len() > PEOPLE_FILE_BYTES_MAX {
        return Err(PeopleFileError::TooLarge(text.len()));
    }
    match read::read(&yaml::parse_plain(text)?) {
        (Some(file), problems) if problems.is_empty() => Ok(file),
        (_, problems) => Err(PeopleFileError::Invalid(problems)),
    }
}

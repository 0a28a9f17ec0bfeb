//! Why a node could not be asked, started, or given a file. The binary maps these to exit codes.

use std::io;
use std::path::PathBuf;

use althing_api::{Kind, Problem};
use althing_store::file::FileError;
use althing_td::AgentFileError;

/// Why a request over the control socket failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens on the socket.
    #[error("no node runs here ({}){}start one with `althing{flags} up`", socket.display(), meant(.others))]
    NoNode {
        /// The control socket.
        socket: PathBuf,
        /// The flags that name the node on a command line.
        flags: String,
        /// The names of other nodes of this user that run.
        others: Vec<String>,
    },
    /// The connection failed.
    #[error("the node went away; start it with `althing{flags} up`")]
    Lost {
        /// Why.
        #[source]
        error: reqwest::Error,
        /// The flags that name the node on a command line.
        flags: String,
    },
    /// The connection failed while an answer was streamed.
    #[error("the node went away before its answer was complete")]
    StreamLost(#[source] reqwest::Error),
    /// The node did not answer within this many seconds.
    #[error("the node did not answer within {0} s: it is stopped, or stuck")]
    TimedOut(u64),
    /// The node refused or failed.
    #[error("{}", .0.message)]
    Problem(Problem),
    /// The node answered with an HTTP status and no reason.
    #[error("the node answered {0}")]
    Status(reqwest::StatusCode),
    /// The HTTP client could not be made.
    #[error("cannot speak to the node: {0}")]
    Http(reqwest::Error),
    /// A line of a streamed answer is longer than this many bytes.
    #[error("the node sent a line of more than {0} bytes")]
    LineTooLong(usize),
    /// A line of a streamed answer has another form than expected.
    #[error(transparent)]
    Line(#[from] serde_json::Error),
}

impl ClientError {
    /// Whether the node, or an agent, refused.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, ClientError::Problem(problem) if problem.kind == Kind::Refused)
    }
}

impl From<Problem> for ClientError {
    fn from(problem: Problem) -> ClientError {
        ClientError::Problem(problem)
    }
}

/// Which other nodes run, and how one of them is named.
fn meant(others: &[String]) -> String {
    match others.first() {
        None => "; ".to_owned(),
        Some(first) => {
            format!(". Others run: {}. Name the one that is meant, as in `--name {first}`, or ", others.join(", "))
        }
    }
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct InputError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: InputErrorReason,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum InputErrorReason {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] FileError),
    /// Its path cannot be resolved.
    #[error(transparent)]
    Path(#[from] io::Error),
    /// It is no valid agent file or contract.
    #[error(transparent)]
    Invalid(#[from] AgentFileError),
    /// It has no contract.
    #[error("no contract: add `contract: {{ class: {{ latency: srt }} }}`")]
    NoContract,
}

/// Why a node process could not be started or ended.
#[derive(Debug, thiserror::Error)]
pub enum NodeProcessError {
    /// The process could not be started, or read from.
    #[error("cannot start {name}: {error}")]
    Start {
        /// The node's name.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// Its standard output was not captured.
    #[error("a node without output")]
    NoOutput,
    /// It was not ready in time.
    #[error("{0} was not ready in time")]
    NotReady(String),
    /// It ended before it was ready.
    #[error("{0} ended before it was ready")]
    Ended(String),
    /// What it printed is no JSON.
    #[error("{name} said {line}: {error}")]
    Unreadable {
        /// The node's name.
        name: String,
        /// What it printed.
        line: String,
        /// Why it cannot be read.
        error: serde_json::Error,
    },
    /// It could not be killed.
    #[error("cannot kill {name}: {error}")]
    Kill {
        /// The node's name.
        name: String,
        /// Why.
        error: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_no_node_is_told_how_to_start_or_name_one() {
        let said = |others: &[&str]| {
            let others = others.iter().map(|name| (*name).to_owned()).collect();
            ClientError::NoNode { socket: PathBuf::from("/d/control.sock"), flags: String::new(), others }.to_string()
        };
        assert_eq!(said(&[]), "no node runs here (/d/control.sock); start one with `althing up`");
        let named = "no node runs here (/d/control.sock). Others run: p1, p2. Name the one that is meant, as in `--name p1`, \
                     or start one with `althing up`";
        assert_eq!(said(&["p1", "p2"]), named);
    }
}

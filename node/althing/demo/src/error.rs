//! Why the demo failed.

use std::io;
use std::path::PathBuf;

use althing_api::Problem;
use althing_client::{ClientError, InputError, NodeProcessError};

/// Why the demo failed.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// There is no chapter of that name.
    #[error("there is no chapter {0:?}")]
    NoChapter(String),
    /// The folder of documents cannot be used.
    #[error("--docs {}: {error}", path.display())]
    Docs {
        /// The folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The demo was told to stop.
    #[error("interrupted")]
    Interrupted,
    /// A step failed.
    #[error("the demo failed at {step:?}: {error}")]
    Step {
        /// Its name.
        step: String,
        /// Why.
        error: Box<DemoError>,
    },
    /// No temporary folder could be made.
    #[error("no temporary folder: {0}")]
    Folder(io::Error),
    /// A file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A node process could not be started or ended.
    #[error(transparent)]
    Node(#[from] NodeProcessError),
    /// A node could not be asked, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An agent file of the demo cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The registry's program cannot be run.
    #[error("the registry {} does not run: {why}; `make demo` and `make install` build it", program.display())]
    Registry {
        /// Its program.
        program: PathBuf,
        /// Why.
        why: String,
    },
    /// Something else happened than the step is there to show.
    #[error("{0}")]
    Unexpected(String),
}

impl DemoError {
    pub(crate) fn unexpected(error: impl std::fmt::Display) -> DemoError {
        DemoError::Unexpected(error.to_string())
    }
}

impl From<Problem> for DemoError {
    fn from(problem: Problem) -> DemoError {
        ClientError::Problem(problem).into()
    }
}

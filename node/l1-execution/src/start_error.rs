//! Why an agent does not start.

use crate::binding::Unmet;
use crate::kernel::AdmitError;
use crate::memory::{EmbedderError, MemoryError};
use crate::model::ModelError;
use crate::process::SpawnError;
use crate::secrets::SecretLookupError;

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The agent file names a native agent that this node does not have.
    #[error("there is no native agent {name:?}; this node has {known}")]
    UnknownBuiltin {
        /// The name in the agent file.
        name: String,
        /// The native agents of this node.
        known: String,
    },
    /// The agent file has no contract.
    #[error(
        "no contract: nothing says what agent {0:?} is promised and held to, and no agent runs without one; add \
         `contract: {{ class: {{ latency: srt }} }}` to its file, or the file of a contract"
    )]
    NoContract(String),
    /// The agent refused its configuration.
    #[error("agent {name:?} refused its configuration: {reason}")]
    Config {
        /// Which agent.
        name: String,
        /// Why.
        reason: String,
    },
    /// The runtime cannot keep a hard real-time contract.
    #[error("agent {name:?} has a contract of class {class}, and {why}")]
    Class {
        /// Which agent.
        name: String,
        /// Its class.
        class: &'static str,
        /// Why.
        why: &'static str,
    },
    /// The scheduler refused it.
    #[error("agent {name:?} is refused: {reason}")]
    Admission {
        /// Which agent.
        name: String,
        /// The proof, or the missing capability of the machine.
        reason: AdmitError,
    },
    /// Its module cannot be read or run.
    #[error("agent {name:?} cannot run {module}: {reason}")]
    Module {
        /// Which agent.
        name: String,
        /// Its file.
        module: String,
        /// Why.
        reason: String,
    },
    /// Its models cannot be used.
    #[error("agent {name:?} cannot be run: {reason}")]
    Model {
        /// Which agent.
        name: String,
        /// Why.
        reason: ModelError,
    },
    /// It does not get a secret for a tool server.
    #[error("agent {name:?} cannot be run: {reason}")]
    Secret {
        /// Which agent.
        name: String,
        /// Why.
        reason: SecretLookupError,
    },
    /// Its model of embeddings cannot be used.
    #[error("agent {name:?} cannot be run: {reason}")]
    Embeddings {
        /// Which agent.
        name: String,
        /// Why.
        reason: EmbedderError,
    },
    /// Nothing satisfies a clause of its contract.
    #[error("agent {name:?} is not bound: {reason}")]
    Unbound {
        /// Which agent.
        name: String,
        /// The clause.
        reason: Unmet,
    },
    /// Its memory cannot be used.
    #[error("agent {name:?} cannot be run: {reason}")]
    Memory {
        /// Which agent.
        name: String,
        /// Why.
        reason: MemoryError,
    },
    /// Its program could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// That version of an agent of that name runs already.
    #[error("agent {0:?} runs already")]
    Running(String),
}

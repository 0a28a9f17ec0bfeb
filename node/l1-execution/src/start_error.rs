//! Why an agent does not start.

use althing_failure::Remedy;

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
    /// Whoever decides on that does not let it have something that it needs to start.
    #[error("agent {name:?} cannot be run: {reason}")]
    Forbidden {
        /// Which agent.
        name: String,
        /// What, and why not.
        reason: String,
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

impl StartError {
    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            StartError::Secret { reason, .. }
            | StartError::Model { reason: ModelError::Secret(reason), .. }
            | StartError::Embeddings { reason: EmbedderError::Secret(reason), .. } => reason.remedy(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use althing_failure::KeyStep;

    use super::*;

    #[test]
    fn whose_secret_is_missing_is_told_to_store_one_wherever_it_is_needed() {
        let (name, secret) = ("clerk".to_owned(), "KEY".to_owned());
        let missing = || SecretLookupError::Missing(secret.clone());
        for error in [
            StartError::Secret { name: name.clone(), reason: missing() },
            StartError::Model { name: name.clone(), reason: ModelError::Secret(missing()) },
            StartError::Embeddings { name: name.clone(), reason: EmbedderError::Secret(missing()) },
        ] {
            assert_eq!(error.remedy(), Some(KeyStep::SetSecret(secret.clone()).into()), "{error}");
            assert!(error.to_string().ends_with("this node has no secret \"KEY\""), "{error}");
        }
        let granted = SecretLookupError::NotGranted(secret);
        assert_eq!(StartError::Secret { name, reason: granted }.remedy(), None);
    }
}

//! The node's secrets, as far as a contract grants them to an agent.

use std::sync::Arc;

use althing_protocol::Contract;

/// Looks up a secret of the node by its name; the error says why a secret exists and is not used.
pub type SecretLookup = Arc<dyn Fn(&str) -> Result<Option<String>, String> + Send + Sync>;

/// Why an agent does not get a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretLookupError {
    /// The contract does not grant a secret that an endpoint needs.
    #[error("an endpoint wants the secret {0:?}, which the contract does not grant: add it to `security.secrets`")]
    NotGranted(String),
    /// The node does not have the secret.
    #[error("this node has no secret {0:?}; `althing secret set {0}` keeps one")]
    Missing(String),
    /// The node has the secret, and does not use it.
    #[error("the secret {name:?} is not used: {why}")]
    Refused {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
}

/// Looks up a secret.
///
/// # Errors
/// See [`SecretLookupError`].
pub fn lookup(secrets: &SecretLookup, name: &str) -> Result<String, SecretLookupError> {
    let secret = secrets(name).map_err(|why| SecretLookupError::Refused { name: name.to_owned(), why })?;
    secret.ok_or_else(|| SecretLookupError::Missing(name.to_owned()))
}

/// Looks up a secret that the contract must grant.
pub(crate) fn granted(contract: &Contract, secrets: &SecretLookup, name: &str) -> Result<String, SecretLookupError> {
    if !contract.security.secrets.iter().any(|granted| granted == name) {
        return Err(SecretLookupError::NotGranted(name.to_owned()));
    }
    lookup(secrets, name)
}

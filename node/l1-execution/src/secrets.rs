//! The node's secrets, as far as a contract grants them to an agent.

use std::sync::Arc;

use althing_failure::{KeyStep, Remedy};
use althing_protocol::Contract;
use althing_td::ToolServerSpec;

use crate::process::{AskedHost, asked_hosts};

/// Looks up a secret of the node by its name; the error says why a secret exists and is not used.
pub type SecretLookup = Arc<dyn Fn(&str) -> Result<Option<String>, String> + Send + Sync>;

/// Why an agent does not get a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretLookupError {
    /// The contract does not grant a secret that an endpoint or a program needs.
    #[error("the agent file names the secret {0:?}, which the contract does not grant: add it to `security.secrets`")]
    NotGranted(String),
    /// The node does not have the secret.
    #[error("this node has no secret {0:?}")]
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

impl SecretLookupError {
    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            SecretLookupError::Missing(name) => Some(KeyStep::SetSecret(name.clone()).into()),
            SecretLookupError::NotGranted(_) | SecretLookupError::Refused { .. } => None,
        }
    }
}

/// Looks up a secret.
///
/// # Errors
/// See [`SecretLookupError`].
pub fn lookup(secrets: &SecretLookup, name: &str) -> Result<String, SecretLookupError> {
    let secret = secrets(name).map_err(|why| SecretLookupError::Refused { name: name.to_owned(), why })?;
    secret.ok_or_else(|| SecretLookupError::Missing(name.to_owned()))
}

/// The secrets with which a server of tools is used, beside those in its program's environment.
#[derive(Clone, Default)]
pub struct ServerSecrets {
    /// What is sent to its address.
    pub bearer: Option<String>,
    /// The hosts that the node asks for its program.
    pub asked: Vec<AskedHost>,
}

/// A server of tools with the secrets of its program as values in its environment, and its other secrets; each is looked up by
/// `secret`.
///
/// # Errors
/// Those of `secret`.
pub fn with_secrets(
    server: &ToolServerSpec,
    secret: impl Fn(&str) -> Result<String, SecretLookupError>,
) -> Result<(ToolServerSpec, ServerSecrets), SecretLookupError> {
    let mut server = server.clone();
    let bearer = server.secret().map(&secret).transpose()?;
    let mut asked = Vec::new();
    if let ToolServerSpec::Command { env, env_secrets, sandbox, .. } = &mut server {
        for (variable, name) in std::mem::take(env_secrets) {
            env.insert(variable, secret(&name)?);
        }
        asked = asked_hosts(sandbox, secret)?;
    }
    Ok((server, ServerSecrets { bearer, asked }))
}

/// Looks up a secret that the contract must grant.
pub(crate) fn granted(contract: &Contract, secrets: &SecretLookup, name: &str) -> Result<String, SecretLookupError> {
    if !contract.security.secrets.iter().any(|granted| granted == name) {
        return Err(SecretLookupError::NotGranted(name.to_owned()));
    }
    lookup(secrets, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_secrets_in_its_environment_or_is_not_started() {
        let server: ToolServerSpec = serde_json::from_value(serde_json::json!({
            "command": ["a"], "env": { "MODE": "fast" }, "env_secrets": { "KEY": "box.KEY" },
        }))
        .expect("a program");
        let secrets: SecretLookup = Arc::new(|name: &str| Ok((name == "box.KEY").then(|| "hush".to_owned())));
        let (ready, _) = with_secrets(&server, |name| lookup(&secrets, name)).expect("it is there");
        let ToolServerSpec::Command { env, env_secrets, .. } = ready else { panic!("a program") };
        assert_eq!(env.into_iter().collect::<Vec<_>>(), [("KEY", "hush"), ("MODE", "fast")].map(owned));
        assert!(env_secrets.is_empty());
        let missing = with_secrets(&server, |name| Err(SecretLookupError::Missing(name.to_owned())));
        assert_eq!(missing.map(drop), Err(SecretLookupError::Missing("box.KEY".to_owned())));
    }

    #[test]
    fn a_program_whose_requests_would_lack_a_secret_is_not_started() {
        let headers = serde_json::json!({ "Authorization": "Bearer {KEY}", "X-Team": "{TEAM}" });
        let server: ToolServerSpec = serde_json::from_value(serde_json::json!({
            "command": ["a"],
            "sandbox": { "egress": [{ "host": "api.example.org", "variable": "URL", "headers": headers }] },
        }))
        .expect("a program");
        let with = |known: &'static [&'static str]| {
            let secrets: SecretLookup =
                Arc::new(move |name: &str| Ok(known.contains(&name).then(|| "hush".to_owned())));
            with_secrets(&server, |name| lookup(&secrets, name))
        };
        assert_eq!(with(&["KEY"]).map(drop), Err(SecretLookupError::Missing("TEAM".to_owned())));
        let (ready, secrets) = with(&["KEY", "TEAM"]).expect("both are there");
        assert_eq!(secrets.asked[0].headers.len(), 2);
        assert!(!format!("{ready:?}").contains("hush"), "no value is handed to the program: {ready:?}");
    }

    fn owned((name, value): (&str, &str)) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }
}

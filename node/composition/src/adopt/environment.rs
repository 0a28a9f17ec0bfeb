//! The variables that an adopted program is given. Each value becomes a secret of the node, which the agent file only names.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use althing_td::{AgentFile, ToolServerSpec};
use serde::{Deserialize, Serialize};

use crate::secrets::{SECRET_BYTES_MAX, SECRET_NAME_MAX, SecretError, Secrets};

/// Variables with their values; where it is printed, only the names are.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment(BTreeMap<String, String>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(variables: T) -> Environment {
        Environment(variables.into_iter().collect())
    }
}

impl Environment {
    /// Whether it has no variable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses variables that no program there can be given; the agent file's own check refuses the others.
    pub(super) fn check(&self, at: &ToolServerSpec) -> Result<(), String> {
        if !self.0.is_empty() && !matches!(at, ToolServerSpec::Command { .. }) {
            return Err("a program is given variables, and this is an address".to_owned());
        }
        for (variable, value) in &self.0 {
            if variable.is_empty() || variable.contains(['=', '\0']) {
                return Err(format!("{variable:?} is not the name of a variable"));
            }
            if value.contains('\0') {
                return Err(format!("the value of {variable} holds a NUL character"));
            }
            if value.len() as u64 > SECRET_BYTES_MAX {
                return Err(format!("the value of {variable} has more than {SECRET_BYTES_MAX} bytes"));
            }
        }
        Ok(())
    }

    /// The server as it is started to be looked at, with the values.
    pub(super) fn given_to(&self, at: &ToolServerSpec) -> ToolServerSpec {
        let mut at = at.clone();
        if let ToolServerSpec::Command { env, .. } = &mut at {
            env.extend(self.0.clone());
        }
        at
    }

    /// The server as the file of that agent names it: with the secrets that are to hold the values.
    pub(super) fn named_for(&self, agent: &str, at: &ToolServerSpec) -> Result<ToolServerSpec, String> {
        let mut at = at.clone();
        let ToolServerSpec::Command { env_secrets, .. } = &mut at else { return Ok(at) };
        for variable in self.0.keys() {
            let name = secret_of(agent, variable);
            if name.len() > SECRET_NAME_MAX {
                return Err(format!(
                    "the secret {name:?}, which is to hold the variable, would have more than {SECRET_NAME_MAX} characters: \
                     give the agent a shorter name (--as)"
                ));
            }
            env_secrets.insert(variable.clone(), name);
        }
        Ok(at)
    }

    /// Stores the values as secrets of the node for the agent of that name: all of them or none. A secret that is there
    /// already stays as it is.
    ///
    /// # Errors
    /// [`SecretError::Exists`], [`SecretError::NoFolder`], and those of the files.
    pub fn keep(&self, agent: &str, data: Option<&Path>) -> Result<(), SecretError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let secrets = Secrets::of(data.ok_or(SecretError::NoFolder)?);
        for (kept, (variable, value)) in self.0.iter().enumerate() {
            if let Err(error) = secrets.add(&secret_of(agent, variable), value) {
                remove(&secrets, self.0.keys().take(kept).map(|variable| secret_of(agent, variable)));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes what [`Environment::keep`] stored, for an agent that was not added after all.
    pub fn drop_kept(&self, agent: &str, data: Option<&Path>) {
        if let Some(data) = data {
            remove(&Secrets::of(data), self.0.keys().map(|variable| secret_of(agent, variable)));
        }
    }
}

/// The secrets that were stored when an agent was adopted: they stay when it is removed.
#[must_use]
pub fn kept_environment(file: &AgentFile) -> Vec<String> {
    let own = file.tools.values().flat_map(|server| match server {
        ToolServerSpec::Command { env_secrets, .. } => {
            let is_own = |(variable, secret): &(&String, &String)| **secret == secret_of(&file.name, variable);
            env_secrets.iter().filter(is_own).map(|(_, secret)| secret.clone()).collect()
        }
        _ => Vec::new(),
    });
    own.collect()
}

fn secret_of(agent: &str, variable: &str) -> String {
    format!("{agent}.{variable}")
}

/// Removes secrets, as many as can be.
fn remove(secrets: &Secrets, names: impl Iterator<Item = String>) {
    for name in names {
        match secrets.remove(&name) {
            Ok(()) | Err(SecretError::None(_)) => {}
            Err(error) => tracing::error!(secret = name, %error, "the secret of an agent that was not added stays"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_value_is_stored_as_a_secret_and_shown_nowhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let secrets = Secrets::of(folder.path());
        let given = environment(&[("KEY", "hush"), ("MODE", "fast")]);
        assert_eq!(format!("{given:?}"), r#"{"KEY", "MODE"}"#);
        given.keep("box", Some(folder.path())).expect("they are stored");
        assert_eq!(secrets.read("box.KEY").expect("readable").as_deref(), Some("hush"));

        // What was there before stays, and nothing else is left of the attempt.
        let again = environment(&[("A", "1"), ("KEY", "louder")]);
        let refused = again.keep("box", Some(folder.path())).expect_err("one is there").to_string();
        assert!(refused.contains("\"box.KEY\"") && !refused.contains("louder"), "{refused}");
        assert_eq!(secrets.names().expect("listed"), ["box.KEY", "box.MODE"]);
        assert_eq!(secrets.read("box.KEY").expect("readable").as_deref(), Some("hush"));
        given.drop_kept("box", Some(folder.path()));
        assert_eq!(secrets.names().expect("listed"), [""; 0]);
        assert!(matches!(given.keep("box", None), Err(SecretError::NoFolder)));
    }

    #[test]
    fn only_a_program_is_given_variables() {
        let program: ToolServerSpec = serde_json::from_value(serde_json::json!({ "command": ["a"] })).expect("one");
        let address: ToolServerSpec = serde_json::from_value(serde_json::json!({ "url": "http://a" })).expect("one");
        let given = environment(&[("KEY", "hush")]);
        assert_eq!((given.check(&program), given.check(&address).is_err()), (Ok(()), true));
        assert_eq!(Environment::default().check(&address), Ok(()));
        for (name, value) in [("", "x"), ("a=b", "x"), ("A", "x\0y")] {
            assert!(environment(&[(name, value)]).check(&program).is_err(), "{name:?}");
        }
        let named = given.named_for("box", &program).expect("short");
        assert_eq!(named.secrets(), ["box.KEY"]);
        assert!(given.named_for(&"x".repeat(63), &program).is_err(), "no name of a secret is so long");
    }
}

//! The variables that an adopted program is given. Each value becomes a secret of the node, which the agent file only names.

use std::path::Path;

use althing_td::{AgentFile, Environment, ToolServerSpec};

use crate::secrets::{SECRET_BYTES_MAX, SECRET_NAME_MAX, SecretError, Secrets};

/// Refuses variables that no program there can be given; the agent file's own check refuses the others.
pub(super) fn check(given: &Environment, at: &ToolServerSpec) -> Result<(), String> {
    if !given.is_empty() && !matches!(at, ToolServerSpec::Command { .. }) {
        return Err("a program is given variables, and this is an address".to_owned());
    }
    for (variable, value) in given.variables() {
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
pub(super) fn with_values(given: &Environment, at: &ToolServerSpec) -> ToolServerSpec {
    let mut at = at.clone();
    if let ToolServerSpec::Command { env, .. } = &mut at {
        env.extend(given.variables().clone());
    }
    at
}

/// The server as the file of that agent names it: with the secrets that are to hold the values.
pub(super) fn with_secrets(given: &Environment, agent: &str, at: &ToolServerSpec) -> Result<ToolServerSpec, String> {
    let mut at = at.clone();
    let ToolServerSpec::Command { env_secrets, .. } = &mut at else { return Ok(at) };
    for variable in given.variables().keys() {
        let name = secret_of(agent, variable);
        if name.len() > SECRET_NAME_MAX {
            return Err(format!(
                "the secret {name:?}, which is to hold the variable, would have more than {SECRET_NAME_MAX} characters: \
                 give the agent a shorter name"
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
pub fn keep_environment(given: &Environment, agent: &str, data: Option<&Path>) -> Result<(), SecretError> {
    if given.is_empty() {
        return Ok(());
    }
    let secrets = Secrets::of(data.ok_or(SecretError::NoFolder)?);
    for (kept, (variable, value)) in given.variables().iter().enumerate() {
        if let Err(error) = secrets.add(&secret_of(agent, variable), value) {
            remove(&secrets, given.variables().keys().take(kept).map(|variable| secret_of(agent, variable)));
            return Err(error);
        }
    }
    Ok(())
}

/// Removes what [`keep_environment`] stored, for an agent that was not added after all.
pub fn drop_environment(given: &Environment, agent: &str, data: Option<&Path>) {
    if let Some(data) = data {
        remove(&Secrets::of(data), given.variables().keys().map(|variable| secret_of(agent, variable)));
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
        keep_environment(&given, "box", Some(folder.path())).expect("they are stored");
        assert_eq!(secrets.read("box.KEY").expect("readable").as_deref(), Some("hush"));

        // What was there before stays, and nothing else is left of the attempt.
        let again = environment(&[("A", "1"), ("KEY", "louder")]);
        let refused = keep_environment(&again, "box", Some(folder.path())).expect_err("one is there").to_string();
        assert!(refused.contains("\"box.KEY\"") && !refused.contains("louder"), "{refused}");
        assert_eq!(secrets.names().expect("listed"), ["box.KEY", "box.MODE"]);
        assert_eq!(secrets.read("box.KEY").expect("readable").as_deref(), Some("hush"));
        drop_environment(&given, "box", Some(folder.path()));
        assert_eq!(secrets.names().expect("listed"), [""; 0]);
        assert!(matches!(keep_environment(&given, "box", None), Err(SecretError::NoFolder)));
    }

    #[test]
    fn only_a_program_is_given_variables() {
        let program: ToolServerSpec = serde_json::from_value(serde_json::json!({ "command": ["a"] })).expect("one");
        let address: ToolServerSpec = serde_json::from_value(serde_json::json!({ "url": "http://a" })).expect("one");
        let given = environment(&[("KEY", "hush")]);
        assert_eq!((check(&given, &program), check(&given, &address).is_err()), (Ok(()), true));
        assert_eq!(check(&Environment::default(), &address), Ok(()));
        for (name, value) in [("", "x"), ("a=b", "x"), ("A", "x\0y")] {
            assert!(check(&environment(&[(name, value)]), &program).is_err(), "{name:?}");
        }
        let named = with_secrets(&given, "box", &program).expect("short");
        assert_eq!(named.secrets(), ["box.KEY"]);
        assert!(with_secrets(&given, &"x".repeat(63), &program).is_err(), "no name of a secret is so long");
    }
}

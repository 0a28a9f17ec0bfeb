//! What an agent is given when it starts, beyond what its contract says: who decides on that is a port.

use std::sync::Arc;

use althing_fetch::Url;
use althing_td::{Demand, ModelEndpoint, RuntimeSpec, Sandbox, ToolServerSpec};

use crate::secrets::SecretLookup;
use crate::statements::ModelClearance;

/// Something that an agent is to be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant<'a> {
    /// A secret of the node, which is read for it.
    Secret {
        /// Its name, as its file has it.
        name: &'a str,
        /// Where it is sent; none where it stays on this machine.
        host: Option<&'a str>,
    },
    /// A model that it is bound to.
    Model {
        /// Its name in contracts.
        name: &'a str,
        /// Where it is.
        host: Option<&'a str>,
        /// How far it is cleared.
        clearance: ModelClearance,
    },
    /// A server of tools.
    Server {
        /// Its name in the agent's file.
        name: &'a str,
        /// Where it is; none of a program of this machine.
        host: Option<&'a str>,
    },
    /// A program without a sandbox, which nothing keeps from any host.
    Everywhere,
}

/// Decides whether the agent of that name is given something; the error says why not.
pub type AskGrant = Arc<dyn Fn(&str, Grant<'_>) -> Result<(), String> + Send + Sync>;

/// Everything that contracts allow.
#[must_use]
pub fn all_grants() -> AskGrant {
    Arc::new(|_, _| Ok(()))
}

/// A secret, and where it is sent; none where it stays on this machine.
pub(crate) type Errand = (String, Option<String>);

/// Looks up secrets for an agent, each once it is granted for all that is to be done with it.
pub(crate) fn asked_secrets(ask: &AskGrant, secrets: &SecretLookup, agent: &str, errands: Vec<Errand>) -> SecretLookup {
    let (ask, secrets, agent) = (ask.clone(), secrets.clone(), agent.to_owned());
    Arc::new(move |name: &str| {
        let mut is_named = false;
        for (_, host) in errands.iter().filter(|(secret, _)| secret == name) {
            ask(&agent, Grant::Secret { name, host: host.as_deref() })?;
            is_named = true;
        }
        if !is_named {
            ask(&agent, Grant::Secret { name, host: None })?;
        }
        secrets(name)
    })
}

/// What is done with the secrets of a server of tools.
pub(crate) fn errands_of_server(spec: &ToolServerSpec) -> Vec<Errand> {
    match spec {
        ToolServerSpec::Command { env_secrets, sandbox, .. } => {
            let own = env_secrets.values().map(|secret| (secret.clone(), None));
            own.chain(errands_of_program(sandbox)).collect()
        }
        ToolServerSpec::Thing { thing: url, secret, .. } | ToolServerSpec::Url { url, secret, .. } => {
            secret.iter().map(|secret| (secret.clone(), host_of(url))).collect()
        }
    }
}

/// What is done with the secrets of a program: the node sends them to the hosts that it asks for it.
fn errands_of_program(sandbox: &Sandbox) -> Vec<Errand> {
    let of = |egress: &althing_td::Egress| -> Vec<Errand> {
        let host = Some(egress.host.clone());
        egress.secrets().into_iter().map(|secret| (secret.to_owned(), host.clone())).collect()
    };
    sandbox.egress.iter().flat_map(of).collect()
}

/// What is done with the secrets of models.
pub(crate) fn errands_of_models<'a>(endpoints: impl Iterator<Item = &'a ModelEndpoint>) -> Vec<Errand> {
    let of = |endpoint: &ModelEndpoint| Some((endpoint.secret.clone()?, host_of(&endpoint.url)));
    endpoints.filter_map(of).collect()
}

/// What is done with the secrets of what runs an agent.
pub(crate) fn errands_of_runtime(runtime: &RuntimeSpec) -> Vec<Errand> {
    match runtime {
        RuntimeSpec::Model { endpoints, .. } => errands_of_models(endpoints.iter()),
        RuntimeSpec::Process { sandbox, .. } => errands_of_program(sandbox),
        RuntimeSpec::Remote { url, secret, .. } => secret.iter().map(|secret| (secret.clone(), host_of(url))).collect(),
        RuntimeSpec::Native { .. } | RuntimeSpec::Wasm { .. } => Vec::new(),
    }
}

/// Asks for a server of tools, and for what its program may do.
pub(crate) fn ask_for_server(ask: &AskGrant, agent: &str, (name, spec): (&str, &ToolServerSpec)) -> Result<(), String> {
    let host = match spec {
        ToolServerSpec::Command { .. } => None,
        ToolServerSpec::Thing { thing: url, .. } | ToolServerSpec::Url { url, .. } => host_of(url),
    };
    ask(agent, Grant::Server { name, host: host.as_deref() })?;
    match spec {
        ToolServerSpec::Command { sandbox, .. } => ask_for_program(ask, agent, sandbox),
        ToolServerSpec::Thing { .. } | ToolServerSpec::Url { .. } => Ok(()),
    }
}

/// Asks for what runs an agent: the models that it is bound to, or its program.
pub(crate) fn ask_for_runtime(ask: &AskGrant, agent: &str, runtime: &RuntimeSpec) -> Result<(), String> {
    match runtime {
        RuntimeSpec::Model { endpoints, .. } => endpoints.iter().try_for_each(|endpoint| {
            let (host, clearance) = (host_of(&endpoint.url), ModelClearance::of(endpoint));
            ask(agent, Grant::Model { name: endpoint.named(), host: host.as_deref(), clearance })
        }),
        RuntimeSpec::Process { sandbox, .. } => ask_for_program(ask, agent, sandbox),
        RuntimeSpec::Native { .. } | RuntimeSpec::Wasm { .. } | RuntimeSpec::Remote { .. } => Ok(()),
    }
}

fn ask_for_program(ask: &AskGrant, agent: &str, sandbox: &Sandbox) -> Result<(), String> {
    if sandbox.demand == Demand::None { ask(agent, Grant::Everywhere) } else { Ok(()) }
}

/// The host in an address; none in what is no address.
fn host_of(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    /// Grants all but what contains the word; keeps what was asked.
    fn all_but(word: &'static str) -> (AskGrant, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let heard = asked.clone();
        let ask: AskGrant = Arc::new(move |agent: &str, grant: Grant<'_>| {
            let said = format!("{agent}: {grant:?}");
            let is_refused = said.contains(word);
            heard.lock().expect("whole").push(said);
            if is_refused { Err(format!("no {word}")) } else { Ok(()) }
        });
        (ask, asked)
    }

    #[test]
    fn a_secret_is_read_once_each_of_its_uses_is_granted() {
        let server: ToolServerSpec = serde_json::from_value(json!({
            "command": ["a"],
            "env_secrets": { "KEY": "box" },
            "sandbox": { "egress": [
                { "host": "one.example", "variable": "ONE", "headers": { "Authorization": "Bearer {TEAM}" } },
                { "host": "two.example", "variable": "TWO", "headers": { "Authorization": "Bearer {TEAM}" } },
            ] },
        }))
        .expect("a program");
        let errands = errands_of_server(&server);
        let secrets: SecretLookup = Arc::new(|name: &str| Ok(Some(format!("<{name}>"))));
        let (ask, asked) = all_but("two.example");
        let lookup = asked_secrets(&ask, &secrets, "clerk", errands);
        assert_eq!(lookup("box"), Ok(Some("<box>".to_owned())));
        assert_eq!(lookup("TEAM"), Err("no two.example".to_owned()));
        let (ask, _) = all_but("box");
        assert_eq!(asked_secrets(&ask, &secrets, "clerk", Vec::new())("box"), Err("no box".to_owned()));
        let asked = asked.lock().expect("whole");
        assert!(asked[0].contains("\"box\", host: None") && asked[1].contains("Some(\"one.example\")"), "{asked:?}");
    }

    #[test]
    fn servers_and_models_are_asked_for_by_name_with_where_they_are() {
        let url: ToolServerSpec =
            serde_json::from_value(json!({ "url": "http://tools.example:9000/mcp" })).expect("a server");
        let (ask, asked) = all_but("tools.example");
        assert_eq!(ask_for_server(&ask, "clerk", ("shop", &url)), Err("no tools.example".to_owned()));
        let endpoint = json!({ "url": "http://models.example/v1", "model": "small", "name": "best" });
        let runtime = json!({ "model": { "prompt": "Help.", "endpoints": [endpoint] } });
        let runtime: RuntimeSpec = serde_json::from_value(runtime).expect("a runtime");
        assert_eq!(ask_for_runtime(&ask, "clerk", &runtime), Ok(()));
        let asked = asked.lock().expect("whole");
        assert!(
            asked[0].contains("\"shop\"") && asked[1].contains("\"best\", host: Some(\"models.example\")"),
            "{asked:?}"
        );
    }

    #[test]
    fn a_program_without_a_sandbox_is_asked_for_as_what_reaches_every_host() {
        let (ask, asked) = all_but("Everywhere");
        let of = |sandbox: serde_json::Value| -> RuntimeSpec {
            serde_json::from_value(json!({ "process": { "command": ["a"], "sandbox": sandbox } })).expect("a runtime")
        };
        assert_eq!(ask_for_runtime(&ask, "clerk", &of(json!({}))), Ok(()));
        assert!(asked.lock().expect("whole").is_empty());
        assert_eq!(ask_for_runtime(&ask, "clerk", &of(json!("none"))), Err("no Everywhere".to_owned()));
    }
}

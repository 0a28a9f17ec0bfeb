//! Starts the versions of agents that are here beside the stable ones.

use althing_execution::StartError;
use althing_protocol::contract::Class;
use althing_td::AgentFile;

use super::node_rollouts::Rollouts;
use super::rows;
use crate::agent_versions::AgentVersions;
use crate::error::NodeError;

/// Whether an agent of that file is a control loop.
pub(super) fn is_hard(file: &AgentFile) -> bool {
    file.contract.as_ref().is_some_and(|contract| matches!(contract.class, Class::Hrt(_)))
}

/// Whether a version may start now that is not the stable one: a control loop waits for that, as the first one that runs puts out.
fn may_start(file: &AgentFile, has_stable: bool) -> bool {
    has_stable || !is_hard(file)
}

/// Starts the versions of an agent that should run beside the stable one, and do not.
pub(crate) async fn start_others(versions: &AgentVersions, rollouts: &Rollouts, agent: &str) {
    let Some(divided) = rollouts.named(agent) else { return };
    let stored = match rows::others(rollouts.store(), agent) {
        Ok(stored) => stored,
        Err(error) => return tracing::error!(agent, %error, "its versions cannot be read"),
    };
    let running = versions.running(agent);
    let runs = |version: &str| running.iter().any(|one| *one.version == *version);
    let has_stable = divided.name_of(divided.versions().stable()).is_some_and(|stable| runs(&stable));
    for (digest, version) in divided.others() {
        let Some(added) = stored.get(&digest).filter(|_| divided.may_answer(&version)) else { continue };
        if runs(&version) {
            divided.note_failure(digest, None);
            continue;
        }
        if !may_start(&added.file, has_stable) {
            divided.note_failure(digest, Some("it waits for the stable version, which does not run".to_owned()));
            continue;
        }
        let started = match added.kept_pins() {
            Ok(pins) => versions.start_version(added, Some(pins)).await.map(drop),
            Err(error) => Err(error),
        };
        let failure = match started {
            Ok(()) | Err(NodeError::Start(StartError::Running(_))) => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = &failure {
            tracing::warn!(agent, version = &*version, why, "a version does not start; it is tried again");
        }
        divided.note_failure(digest, failure);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_new_version_of_a_control_loop_starts_after_the_stable_one_and_another_agent_does_not_wait() {
        let file = |class: Value| {
            let (runtime, contract) = (json!({ "wasm": { "module": "arm.wat" } }), json!({ "class": class }));
            let file = json!({ "name": "arm", "description": "Moves", "runtime": runtime, "contract": contract });
            AgentFile::parse(&file.to_string()).expect("an agent file")
        };
        let times = json!({ "latency": "hrt", "period_us": 10_000, "deadline_us": 10_000, "budget_us": 1_000 });
        let (hard, soft) = (file(times), file(json!({ "latency": "srt" })));
        assert!(may_start(&hard, true) && !may_start(&hard, false) && may_start(&soft, false));
    }
}

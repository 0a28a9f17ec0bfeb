//! What the owner's policies are asked before an agent is added, placed, or given another file.

use althing_governance::{Act, AddedAgent, Governance, PolicyRefusal, admit};
use althing_protocol::AgentId;
use althing_protocol::contract::Class;
use althing_td::{AgentFile, Callers, Demand, Exposure, RuntimeSpec, Sandbox, ToolServerSpec};

use crate::publish::Stay;
use crate::revocations::Revocations;

/// By what is decided: the policies, and of which releases the agents here were installed.
pub(crate) type AdmissionBasis<'a> = (&'a Governance, &'a Revocations);

/// Asks whether an agent may be added, and shown to those whom its file names.
///
/// # Errors
/// [`PolicyRefusal`].
pub(crate) async fn admit_added(
    known: AdmissionBasis<'_>,
    agent: (&AgentId, &AgentFile),
    stay: &Stay<'_>,
) -> Result<(), PolicyRefusal> {
    let group = match stay {
        Stay::Placed(group, _) => Some(*group),
        Stay::UntilRemoved | Stay::WhileConnected => None,
    };
    admit_file(known, agent, (group, false)).await?;
    admit_shown(known.0, agent).await
}

/// Asks whether an agent that was added may run now: policies may be others than then. It is asked about control loops alone. Nobody
/// calls these, so that nothing of what they do would be decided.
///
/// # Errors
/// [`PolicyRefusal`].
pub(crate) async fn admit_loop(
    known: AdmissionBasis<'_>,
    agent: (&AgentId, &AgentFile),
    group: Option<&str>,
) -> Result<(), PolicyRefusal> {
    let is_loop = agent.1.contract.as_ref().is_some_and(|contract| matches!(contract.class, Class::Hrt(_)));
    if is_loop { admit_file(known, agent, (group, true)).await } else { Ok(()) }
}

/// Asks whether another file may take the place of an agent's, and whether others than before may see or call it.
///
/// # Errors
/// [`PolicyRefusal`].
pub(crate) async fn admit_replaced(
    known: AdmissionBasis<'_>,
    (id, file): (&AgentId, &AgentFile),
    before: &AgentFile,
) -> Result<(), PolicyRefusal> {
    admit_file(known, (id, file), (None, false)).await?;
    if (&file.callers, file.exposure) == (&before.callers, before.exposure) {
        return Ok(());
    }
    admit_shown(known.0, (id, file)).await
}

async fn admit_file(
    (governance, revocations): AdmissionBasis<'_>,
    (id, file): (&AgentId, &AgentFile),
    (group, was_added): (Option<&str>, bool),
) -> Result<(), PolicyRefusal> {
    let installed = revocations.installed_row(&file.name);
    let release = installed.and_then(|row| row.agent.parse::<AgentId>().ok());
    let publisher = release.as_ref().unwrap_or(id).publisher().to_string();
    let agent = AddedAgent {
        id,
        version: &file.version,
        runtime: runtime(file),
        sandbox: sandbox(file),
        publisher: &publisher,
    };
    let act = match group {
        group if was_added => Act::Run { agent, group },
        Some(group) => Act::Place { agent, group },
        None => Act::Add(agent),
    };
    admit(governance, &act).await
}

/// Asks about an agent that others than this node may see or call.
async fn admit_shown(governance: &Governance, (agent, file): (&AgentId, &AgentFile)) -> Result<(), PolicyRefusal> {
    if file.callers == Callers::ThisNode && file.exposure == Exposure::Hidden {
        return Ok(());
    }
    let callers = file.callers.word().unwrap_or("listed");
    admit(governance, &Act::Expose { agent, callers, exposure: exposure(file) }).await
}

fn exposure(file: &AgentFile) -> &'static str {
    match file.exposure {
        Exposure::Public => "public",
        Exposure::Trusted => "trusted",
        Exposure::Own => "own",
        Exposure::Hidden => "hidden",
    }
}

fn runtime(file: &AgentFile) -> &'static str {
    match &file.runtime {
        RuntimeSpec::Native { .. } => "native",
        RuntimeSpec::Model { .. } => "model",
        RuntimeSpec::Wasm { .. } => "wasm",
        RuntimeSpec::Process { .. } => "process",
        RuntimeSpec::Remote { .. } => "remote",
    }
}

/// Of the programs that a file starts, how the least contained one is: none where it starts no program.
fn sandbox(file: &AgentFile) -> Option<&'static str> {
    let own = match &file.runtime {
        RuntimeSpec::Process { sandbox, .. } => Some(sandbox),
        _ => None,
    };
    let servers = file.tools.values().filter_map(|server| match server {
        ToolServerSpec::Command { sandbox, .. } => Some(sandbox),
        ToolServerSpec::Thing { .. } | ToolServerSpec::Url { .. } => None,
    });
    let all: Vec<Demand> = own.into_iter().chain(servers).map(|sandbox: &Sandbox| sandbox.demand).collect();
    let has = |demand: Demand| all.contains(&demand);
    match all.is_empty() {
        true => None,
        false if has(Demand::None) => Some("none"),
        false if has(Demand::Best) => Some("best"),
        false => Some("required"),
    }
}

#[cfg(test)]
mod tests {
    use althing_failure::Kind;
    use althing_governance::Actor;
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;
    use crate::agents::tests::{program, started};
    use crate::error::NodeError;
    use crate::publish;
    use crate::rollouts::{self, RolloutPlan, RolloutUnit};

    const ALL: &str = "permit(principal, action, resource);";

    fn file(rest: Value) -> AgentFile {
        let mut file = json!({
            "name": "clerk",
            "description": "Plays a part",
            "contract": { "class": { "latency": "srt" } },
        });
        for (member, value) in rest.as_object().expect("an object") {
            file[member] = value.clone();
        }
        AgentFile::parse(&file.to_string()).expect("an agent file")
    }

    #[test]
    fn the_least_contained_program_counts() {
        let program = |sandbox: Value| json!({ "process": { "command": ["/bin/true"], "sandbox": sandbox } });
        let tool = |sandbox: Value| json!({ "calc": { "command": ["calc"], "sandbox": sandbox } });
        let of = |rest: Value| sandbox(&file(rest));
        assert_eq!(of(json!({ "runtime": program(json!("required")) })), Some("required"));
        assert_eq!(of(json!({ "runtime": program(json!("required")), "tools": tool(json!({})) })), Some("best"));
        assert_eq!(of(json!({ "runtime": program(json!({})), "tools": tool(json!("none")) })), Some("none"));
        let echo = json!({ "runtime": { "native": { "builtin": "echo" } } });
        assert_eq!((of(echo.clone()), runtime(&file(echo))), (None, "native"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_policies_forbid_is_not_added_placed_shown_or_changed() {
        let folder = TempDir::new().expect("a folder");
        let (node, _owner) = started(folder.path()).await;
        let load = async |forbid: &str| {
            let text = format!("{ALL} @id(\"no-more\") forbid(principal, action == Action::{forbid};");
            node.governance.load_policy(&text, Actor::Owner).await.expect("it is good");
        };
        let is_refused = |outcome: Result<AgentId, NodeError>| {
            let refused = outcome.expect_err("a policy forbids it");
            assert!(matches!(refused, NodeError::Forbidden(_)) && refused.kind() == Kind::Refused, "{refused}");
            assert!(refused.to_string().contains("no-more"), "{refused}");
        };
        let at = folder.path();
        let own =
            |name: &str| AgentFile { callers: Callers::ThisNode, exposure: Exposure::Hidden, ..program(name, true) };

        load("\"addAgent\", resource) when { context.input has sandbox && context.input.sandbox == \"none\" }").await;
        is_refused(node.agents.add(own("loose"), at, None, true).await);
        load("\"placeAgent\", resource) when { context.input has group && context.input.group == \"g1\" }").await;
        is_refused(node.agents.add_for_group(own("loose"), at, "g1", 1).await);
        load("\"exposeAgent\", resource) when { context.input has callers && context.input.callers == \"anyone\" }")
            .await;
        is_refused(node.agents.add(AgentFile { callers: Callers::Anyone, ..own("loose") }, at, None, true).await);
        assert!(publish::all(node.store.as_ref()).expect("readable").is_empty(), "nothing of them is kept");

        node.agents.add(own("loose"), at, None, true).await.expect("nobody else sees it");
        is_refused(node.agents.replace(AgentFile { callers: Callers::Anyone, ..own("loose") }, at, None).await);
        assert!(node.agents.status("loose").is_some(), "the old one runs on");
        load("\"addAgent\", resource)").await;
        is_refused(node.agents.replace(own("loose"), at, None).await);
        load("\"exposeAgent\", resource)").await;
        node.agents.replace(own("loose"), at, None).await.expect("nobody sees it who did not before");
        node.shut_down().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn another_version_that_policies_forbid_does_not_run_beside_the_one_that_is_there() {
        let folder = TempDir::new().expect("a folder");
        let (node, _owner) = started(folder.path()).await;
        let at = folder.path();
        let own = |version: &str| AgentFile {
            version: version.to_owned(),
            callers: Callers::ThisNode,
            exposure: Exposure::Hidden,
            ..program("shop", true)
        };
        node.agents.add(own("1.0.0"), at, None, true).await.expect("nothing forbids it");
        let text = format!("{ALL} @id(\"no-more\") forbid(principal, action == Action::\"addAgent\", resource);");
        node.governance.load_policy(&text, Actor::Owner).await.expect("it is good");
        let plan = RolloutPlan { steps: vec![50, 100], by: RolloutUnit::Call, shadow: false, has_cases: false };
        let refused = rollouts::begin(&node, "shop", own("1.1.0"), (at, &[]), plan, None).await;
        let refused = refused.expect_err("a policy forbids it");
        assert!(matches!(refused, NodeError::Forbidden(_)) && refused.to_string().contains("no-more"), "{refused}");
        assert_eq!(node.host.versions("shop").len(), 1, "only the one that was added runs");
        node.shut_down().await;
    }
}

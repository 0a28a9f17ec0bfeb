//! What the descriptions of agents say of how they run here: the tools that they expose, and how their programs are contained;
//! and how that follows the servers of the tools, and the programs.
//!
//! An agent of the built-in `tools` is there for its tools, and exposes all of them. Another agent keeps its tools to itself,
//! unless its file says otherwise (`expose`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use althing_discovery::LocalAgent;
use althing_execution::{BoundTool, Containment, containment_of};
use althing_td::words::{id, line, text};
use althing_td::{
    AgentFile, ContainmentClaim, ContainmentLevel, DESCRIPTION_CHARS_MAX, Demand, ExposedTool, RuntimeSpec,
    TITLE_CHARS_MAX, ToolServerSpec,
};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Agents;
use crate::agent_versions::bound_tools;
use crate::error::NodeError;
use crate::identity::Identity;
use crate::publish::{self, StoredAgent};

/// Between two looks at whether a server says that its tools have changed. Those of one that does not say so are listed
/// as often as the cards of agents elsewhere are asked for.
const LOOK: Duration = Duration::from_secs(2);

/// The descriptions of agents that expose tools or have programs, as they are signed now.
#[derive(Default)]
pub(super) struct Exposing {
    signed: Mutex<BTreeMap<String, Signed>>,
    begun: Notify,
}

struct Signed {
    file: AgentFile,
    tools: Vec<ExposedTool>,
    contained: Option<ContainmentClaim>,
    /// The description, as it is stored.
    description: String,
}

impl Exposing {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Signed>> {
        self.signed.lock().expect("no holder of the signed descriptions panics")
    }

    pub fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    pub fn forget_all(&self) {
        self.lock().clear();
    }

    fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// The names of those that expose tools.
    fn exposing(&self) -> Vec<String> {
        self.lock().iter().filter(|(_, signed)| !signed.tools.is_empty()).map(|(name, _)| name.clone()).collect()
    }

    /// Whether what may change at any moment is said of an agent, or is not known yet.
    fn is_pending(&self) -> bool {
        let is_open = |signed: &Signed| signed.contained.is_none_or(ContainmentClaim::is_partial);
        self.lock().values().any(|signed| !signed.tools.is_empty() || is_open(signed))
    }

    /// Gives an agent the description that was signed when it was started; whether that is another one. One that exposes no tools
    /// and has no programs keeps its own.
    pub fn keep_description(&self, added: &mut StoredAgent) -> bool {
        let signed = self.lock().get(&added.file.name).map(|signed| signed.description.clone());
        let Some(signed) = signed.filter(|signed| *signed != added.description) else { return false };
        added.description = signed;
        true
    }
}

/// What the description of an agent says of its programs, of which those are known that ran: the least of these, and whether
/// there are others. None where none ran, or there is none.
pub(crate) fn contained(file: &AgentFile, known: &BTreeMap<String, Containment>) -> Option<ContainmentClaim> {
    let is_partial = programs(file).any(|(name, _)| !known.contains_key(&name));
    let known = known.values().map(Containment::described);
    let off = demands(file).any(|demand| demand == Demand::None).then_some(ContainmentLevel::Not);
    known.chain(off).min().map(|least| ContainmentClaim::new(least, is_partial))
}

/// Whether an agent has programs.
fn has_programs(file: &AgentFile) -> bool {
    demands(file).next().is_some()
}

/// What the programs of an agent ask of their sandboxes.
pub(crate) fn demands(file: &AgentFile) -> impl Iterator<Item = Demand> + '_ {
    programs(file).map(|(_, demand)| demand)
}

/// The programs of an agent by the names that their containment is known by, with what they ask of their sandboxes.
fn programs(file: &AgentFile) -> impl Iterator<Item = (String, Demand)> + '_ {
    let own = match &file.runtime {
        RuntimeSpec::Process { sandbox, .. } => Some(("runtime".to_owned(), sandbox.demand)),
        _ => None,
    };
    let tools = file.tools.iter().filter_map(|(name, server)| match server {
        ToolServerSpec::Command { sandbox, .. } => Some((format!("tools.{name}"), sandbox.demand)),
        _ => None,
    });
    own.into_iter().chain(tools)
}

/// The tools that an agent exposes, as its description says. Their ids are their names, where the agent is one server of
/// tools; else those of the servers stand before them. Of tools whose ids would be equal none is exposed.
pub(crate) fn exposed(file: &AgentFile, bound: &[BoundTool]) -> Vec<ExposedTool> {
    let is_server = matches!(&file.runtime, RuntimeSpec::Native { builtin, .. } if builtin == "tools");
    let is_alone = is_server && file.tools.len() == 1;
    let offered = bound.iter().filter(|tool| is_server || file.exposes(&tool.name));
    let all: Vec<ExposedTool> = offered.filter_map(|tool| expose(tool, is_alone)).collect();
    let (mut once, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for tool in &all {
        if !once.insert(tool.id.clone()) {
            twice.insert(tool.id.clone());
        }
    }
    all.into_iter().filter(|tool| !twice.contains(&tool.id)).collect()
}

fn expose(tool: &BoundTool, is_alone: bool) -> Option<ExposedTool> {
    let definition = &tool.definition;
    let (server, name) = tool.name.split_once('/')?;
    let member = |name: &str| definition.rest.get(name);
    let annotations = member("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    let titles = [member("title"), annotations.get("title")];
    let title = titles.into_iter().flatten().find_map(Value::as_str).unwrap_or(name);
    let title = line(title, TITLE_CHARS_MAX);
    Some(ExposedTool {
        id: if is_alone { id(name) } else { id(&format!("{server}.{name}")) },
        name: if is_alone { name.to_owned() } else { tool.name.clone() },
        description: text(&definition.description, &title, DESCRIPTION_CHARS_MAX),
        title,
        definition: definition.hash(),
        input: definition.input_schema.clone(),
        output: member("outputSchema").cloned(),
        annotations,
        suspended: tool.suspended.clone(),
    })
}

impl Exposing {
    /// The agent with the description that these tools give it, and what is known of its programs; signed again only if that
    /// changed.
    pub fn described(
        &self,
        added: &StoredAgent,
        (bound, known): (&[BoundTool], &BTreeMap<String, Containment>),
        identity: &Identity,
        now_ms: u64,
    ) -> Result<StoredAgent, NodeError> {
        let (file, owner, network) = (&added.file, identity.owner(), identity.network());
        let tools = exposed(file, bound);
        if tools.is_empty() && !has_programs(file) {
            self.forget(&file.name);
            return Ok(added.clone());
        }
        let mut all = self.lock();
        let before = all.get(&file.name).filter(|before| before.file == *file);
        let now = match before {
            Some(before) => StoredAgent { description: before.description.clone(), ..added.clone() },
            None => added.clone(),
        };
        // Until a program ran here, what was true when one ran last is as good as nothing.
        let last = || now.contained(network).filter(|_| has_programs(file));
        let contained = contained(file, known).or_else(last);
        let anew = now.signed_with((&tools, contained), &owner, network, now_ms)?;
        let signed = Signed { file: file.clone(), tools, contained, description: anew.description.clone() };
        all.insert(file.name.clone(), signed);
        self.begun.notify_one();
        Ok(anew)
    }

    /// Whether an agent's description says what follows from these tools, and from what is known of its programs.
    pub fn is_current(&self, name: &str, bound: &[BoundTool], known: &BTreeMap<String, Containment>) -> bool {
        self.lock().get(name).is_none_or(|signed| {
            let same = contained(&signed.file, known).is_none_or(|contained| Some(contained) == signed.contained);
            same && exposed(&signed.file, bound) == signed.tools
        })
    }
}

/// Makes fresh evidence for an agent and hands it to L3.
pub(super) fn publish_agent(agents: &Agents, added: &StoredAgent) -> Result<(), NodeError> {
    let name = added.file.name.as_str();
    let (tools, known) = (bound_tools(&agents.host, name), containment_of(&agents.host, name));
    let described = agents.exposing.described(added, (&tools, &known), &agents.identity, agents.clock.now_ms())?;
    let (verified, description) = described.evidence(
        &agents.identity.owner(),
        agents.identity.key.public(),
        agents.identity.network(),
        agents.clock.now_ms(),
    )?;
    agents.discovery.host(LocalAgent { verified, description, exposure: added.file.exposure });
    Ok(())
}

/// Publishes an agent again if its tools, or how its programs are contained, are not what its description says.
async fn changed(agents: &Agents, name: &str) -> Result<(), NodeError> {
    let is_current =
        || agents.exposing.is_current(name, &bound_tools(&agents.host, name), &containment_of(&agents.host, name));
    if is_current() {
        return Ok(());
    }
    let _changing = agents.names.hold().await;
    // It may have been removed or replaced meanwhile.
    if is_current() || agents.status(name).is_none() {
        return Ok(());
    }
    match publish::all(agents.store.as_ref())?.iter().find(|added| added.file.name == name) {
        Some(added) => publish_agent(agents, added),
        None => Ok(()),
    }
}

/// Follows the tools that agents expose: one that its server changes, or offers no more, is taken out of the agent's
/// description, which is signed and published again; as it is when the agent's programs are contained otherwise than it says.
/// `list`: between two listings of a server that does not say when its tools change, and between two looks at programs.
pub(crate) async fn follow_tools(agents: &Agents, list: Duration) {
    let mut listed = Instant::now();
    loop {
        let names = agents.exposing.names();
        if names.is_empty() {
            agents.exposing.begun.notified().await;
            continue;
        }
        tokio::time::sleep(if agents.exposing.is_pending() { LOOK.min(list) } else { list }).await;
        let all = listed.elapsed() >= list;
        if all {
            listed = Instant::now();
        }
        let tools: Vec<_> = agents.exposing.exposing().iter().filter_map(|name| agents.host.tools(name)).collect();
        futures::future::join_all(tools.iter().map(|tools| tools.relist(all))).await;
        for name in names {
            if let Err(error) = changed(agents, &name).await {
                tracing::error!(agent = name, %error, "what an agent's tools or programs have become could not be published");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use althing_execution::{Enclosed, Level};
    use althing_td::Sandbox;
    use serde_json::json;

    use super::*;

    fn bound(name: &str, definition: Value) -> BoundTool {
        let definition = serde_json::from_value(definition).expect("a definition");
        BoundTool { name: name.to_owned(), definition, suspended: None }
    }

    fn file(servers: &[&str], builtin: &str) -> AgentFile {
        let tools: BTreeMap<&str, Value> = servers.iter().map(|name| (*name, json!({ "command": ["x"] }))).collect();
        let file = json!({
            "name": "files", "description": "Reads.", "runtime": { "native": { "builtin": builtin } }, "tools": tools,
            "contract": { "class": { "latency": "srt" } },
        });
        AgentFile::parse(&file.to_string()).expect("an agent file")
    }

    fn ran(level: Level, is_off: bool) -> Containment {
        let sandbox = Sandbox { demand: if is_off { Demand::None } else { Demand::Best }, ..Sandbox::default() };
        let (why, bounds, account, withheld) = Default::default();
        Containment::of(&sandbox, Enclosed { level, why, bounds, account, landlock: 7, withheld })
    }

    #[test]
    fn a_description_says_of_programs_what_the_least_contained_of_them_is() {
        let known = |all: &[(&str, Level)]| -> BTreeMap<String, Containment> {
            all.iter().map(|(name, level)| ((*name).to_owned(), ran(*level, false))).collect()
        };
        let mut two = file(&["a", "b"], "tools");
        assert_eq!(contained(&two, &known(&[])), None, "nothing ran yet");
        let whole = |least| Some(ContainmentClaim::new(least, false));
        let one = contained(&two, &known(&[("tools.a", Level::Namespaces)])).expect("one ran");
        assert_eq!(one, ContainmentClaim::new(ContainmentLevel::Wholly, true));
        assert_eq!(one.words(), "not yet known for some; the others contained");
        let both = known(&[("tools.a", Level::Namespaces), ("tools.b", Level::Account)]);
        assert_eq!(contained(&two, &both), whole(ContainmentLevel::Account));
        let none = known(&[("tools.a", Level::Landlock), ("tools.b", Level::None)]);
        assert_eq!(contained(&two, &none), whole(ContainmentLevel::Not));
        let bare = known(&[("tools.a", Level::None)]);
        assert_eq!(contained(&two, &bare), whole(ContainmentLevel::Not), "whatever the other is, it is not less");
        // As often as that is looked at, it is followed: the other may run at any moment.
        let exposing = Exposing::default();
        let signed = |contained| Signed { file: two.clone(), tools: Vec::new(), contained, description: String::new() };
        for (claim, is_pending) in [(None, true), (Some(one), true), (whole(ContainmentLevel::Wholly), false)] {
            exposing.lock().insert("files".to_owned(), signed(claim));
            assert_eq!(exposing.is_pending(), is_pending, "{claim:?}");
        }
        let Some(ToolServerSpec::Command { sandbox, .. }) = two.tools.get_mut("b") else { panic!("a program") };
        sandbox.demand = Demand::None;
        assert_eq!(contained(&two, &known(&[])), whole(ContainmentLevel::Not), "its file says so");
        let mut alone = file(&["a"], "echo");
        alone.tools.clear();
        assert!(!has_programs(&alone));
        let off = BTreeMap::from([("tools.a".to_owned(), ran(Level::Namespaces, true))]);
        assert_eq!(contained(&file(&["a"], "tools"), &off), whole(ContainmentLevel::Not));
    }

    #[test]
    fn ids_are_the_names_of_tools_and_of_several_servers_theirs_stand_before_them() {
        let read = json!({
            "name": "read_File", "description": "Reads.", "inputSchema": { "type": "object" },
            "outputSchema": { "type": "object" }, "annotations": { "title": "Read\na file", "readOnlyHint": true },
        });
        let [one] = &exposed(&file(&["server"], "tools"), &[bound("server/read_File", read.clone())])[..] else {
            panic!("one")
        };
        assert_eq!((one.id.as_str(), one.name.as_str(), one.title.as_str()), ("read_file", "read_File", "Read a file"));
        assert_eq!(
            (one.output.as_ref(), one.annotations["readOnlyHint"].as_bool()),
            (Some(&read["outputSchema"]), Some(true))
        );
        let several =
            exposed(&file(&["a", "b"], "tools"), &[bound("a/read_File", read.clone()), bound("b/read_File", read)]);
        let names: Vec<(&str, &str)> = several.iter().map(|tool| (tool.id.as_str(), tool.name.as_str())).collect();
        assert_eq!(names, [("a.read_file", "a/read_File"), ("b.read_file", "b/read_File")]);
    }

    #[test]
    fn what_could_be_taken_for_another_tool_is_not_exposed() {
        let tool = |name: &str| bound(&format!("server/{name}"), json!({ "name": name, "inputSchema": {} }));
        let all = exposed(&file(&["server"], "tools"), &[tool("Add"), tool("add"), tool("mul")]);
        assert_eq!(all.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["mul"]);
        let mut echo = file(&["server"], "echo");
        assert!(exposed(&echo, &[tool("add")]).is_empty(), "its tools are its own");
        echo.expose = vec!["server/add".to_owned()];
        let some = exposed(&echo, &[tool("add"), tool("address")]);
        assert_eq!(some.iter().map(|tool| tool.id.as_str()).collect::<Vec<_>>(), ["server.add"]);
        echo.expose = vec!["server/*".to_owned()];
        assert_eq!(exposed(&echo, &[tool("add"), tool("address")]).len(), 2);
    }
}

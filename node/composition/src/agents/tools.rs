//! The tools that agents expose: what their descriptions say of them, and how that follows the servers of the tools.
//!
//! An agent of the built-in `tools` is there for its tools, and exposes all of them. Another agent keeps its tools to itself,
//! unless its file says otherwise (`expose`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use althing_execution::BoundTool;
use althing_td::{AgentFile, DESCRIPTION_CHARS_MAX, ExposedTool, RuntimeSpec, TITLE_CHARS_MAX};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Agents;
use crate::adopt::{id, line, text};
use crate::error::NodeError;
use crate::identity::Identity;
use crate::publish::StoredAgent;

/// Between two looks at whether a server says that its tools have changed. Those of one that does not say so are listed
/// as often as the cards of agents elsewhere are asked for.
const LOOK: Duration = Duration::from_secs(2);

/// The descriptions of agents that expose tools, as they are signed now.
#[derive(Default)]
pub(super) struct Exposing {
    signed: Mutex<BTreeMap<String, Signed>>,
    begun: Notify,
}

struct Signed {
    file: AgentFile,
    tools: Vec<ExposedTool>,
    /// The description, as it is stored of other agents.
    description: String,
}

impl Exposing {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Signed>> {
        self.signed.lock().expect("no holder of the signed descriptions panics")
    }

    pub fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }
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
    /// The agent with the description that these tools give it; signed again only if that changed.
    pub fn described(
        &self,
        added: &StoredAgent,
        bound: &[BoundTool],
        identity: &Identity,
        now_ms: u64,
    ) -> Result<StoredAgent, NodeError> {
        let (file, owner, network) = (&added.file, identity.owner(), identity.network());
        let tools = exposed(file, bound);
        if tools.is_empty() {
            self.forget(&file.name);
            return Ok(added.clone());
        }
        let mut all = self.lock();
        if let Some(known) = all.get(&file.name).filter(|known| known.tools == tools && known.file == *file) {
            let same = StoredAgent { description: known.description.clone(), ..added.clone() };
            if same.is_signed(&owner, network) {
                return Ok(same);
            }
        }
        let anew = added.clone().signed_with(&tools, &owner, network, now_ms)?;
        let signed = Signed { file: file.clone(), tools, description: anew.description.clone() };
        all.insert(file.name.clone(), signed);
        self.begun.notify_one();
        Ok(anew)
    }

    /// Whether an agent's description says what follows from these tools.
    pub fn is_current(&self, name: &str, bound: &[BoundTool]) -> bool {
        self.lock().get(name).is_none_or(|known| exposed(&known.file, bound) == known.tools)
    }
}

/// Follows the tools that agents expose: one that its server changes, or offers no more, is taken out of the agent's
/// description, which is signed and published again. `list`: between two listings of a server that does not say when its
/// tools change.
pub(crate) async fn follow_tools(agents: &Agents, list: Duration) {
    let mut listed = Instant::now();
    loop {
        let names = agents.exposing.names();
        if names.is_empty() {
            agents.exposing.begun.notified().await;
            continue;
        }
        tokio::time::sleep(LOOK.min(list)).await;
        let all = listed.elapsed() >= list;
        if all {
            listed = Instant::now();
        }
        let tools: Vec<_> = names.iter().filter_map(|name| agents.host.tools(name)).collect();
        futures::future::join_all(tools.iter().map(|tools| tools.relist(all))).await;
        for name in names {
            if let Err(error) = agents.tools_changed(&name).await {
                tracing::error!(agent = name, %error, "what an agent's tools have become could not be published");
            }
        }
    }
}

#[cfg(test)]
mod tests {
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

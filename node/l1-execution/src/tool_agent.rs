//! `tools`: tools as an agent. Each message calls one tool; the answer is its result.
//!
//! A message names the tool in a data part, `{"tool": "add", "arguments": {"a": 1, "b": 2}}`, or in a text that is such JSON.
//! Where the agent has one tool only, with one argument only, which is a text, any other text is that argument.
//!
//! A message that names the extension `https://althing.dev/ext/mcp/v1` has a request of MCP in its data part instead,
//! `{"method": "tools/list"}` or `{"method": "tools/call", "params": {...}}`; the artifact of the answer is the result as
//! the server wrote it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use a2a::{Artifact, Part, PartContent, TaskState};
use althing_td::AgentFile;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::agent::{Made, Metadata};
use crate::bound_tools::bound;
use crate::definition::{Definition, Pins};
use crate::relayed::{Progress, Relayed};
use crate::syscalls::SystemCalls;
use crate::tools::Tools;
use crate::{Agent, AgentError, AgentState, Output, Turn};

/// The A2A extension by which requests of MCP are relayed.
const RELAY: &str = "https://althing.dev/ext/mcp/v1";
/// What a client of MCP can do, as its server is told of it.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The version of MCP that it speaks.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The first version without sessions.
const SESSIONLESS: &str = "2026-07-28";
/// Notifications of progress of one call that wait.
const TOLD: usize = 16;
/// Tools that a refusal names.
const NAMED_MAX: usize = 20;

/// Tools as an agent.
pub struct ToolAgent {
    tools: Arc<Tools>,
    /// The file of the agent beside which it is, whose tools others may call only as far as that says.
    beside: Option<AgentFile>,
}

/// Whether a message is a request of MCP.
pub(crate) fn is_relayed(turn: &Turn) -> bool {
    turn.message.extensions.iter().flatten().any(|uri| uri == RELAY)
}

/// What a message asks for.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl ToolAgent {
    /// The agent of these system calls; it takes no configuration.
    ///
    /// # Errors
    /// There is a configuration, or there are no tools.
    pub fn build(config: &Value, _folder: &Path, calls: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
        if !config.is_null() {
            return Err("`tools` takes no config; its tools are those of the agent file's tools".to_owned());
        }
        if calls.tools.is_empty() {
            return Err("name a server of tools under tools, and its tools in the contract's capabilities".to_owned());
        }
        Ok(Arc::new(ToolAgent { tools: calls.tools.clone(), beside: None }))
    }

    /// What answers requests of MCP for the tools that the agent of a file exposes, if it exposes any.
    pub(crate) fn beside(file: &AgentFile, calls: &SystemCalls) -> Option<Arc<dyn Agent>> {
        let beside = Some(file.clone()).filter(|file| !file.expose.is_empty())?;
        Some(Arc::new(ToolAgent { tools: calls.tools.clone(), beside: Some(beside) }))
    }
}

impl Agent for ToolAgent {
    fn state(&self) -> AgentState {
        self.tools.state()
    }

    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            if is_relayed(&turn) {
                return self.relay(&turn.message.parts, &out).await;
            }
            let (name, asked) = self.asked(&turn.message.parts).await?;
            let arguments = Value::Object(asked.arguments).to_string();
            let (outcome, _) = self.tools.invoke(&name, &arguments).await;
            let result = match outcome {
                Ok(result) => result,
                Err(error) => {
                    self.check_state(false)?;
                    return Err(AgentError::Failed(error.to_string()));
                }
            };
            done(&result)?;
            out.put(made(asked.tool, parts(&result), None)).await
        })
    }
}

impl ToolAgent {
    /// The tool that a message calls, by its whole name, and its call. The servers are listed only if nothing that is known fits:
    /// the call lists the tool's server anyway.
    async fn asked(&self, parts: &[Part]) -> Result<(String, Asked), AgentError> {
        let known = callable(&self.tools);
        if let Ok(asked) = asked(parts, &known)
            && let Some(name) = self.named(&asked.tool, &known)
        {
            return Ok((name, asked));
        }
        let listed = self.tools.offered().await;
        // Tools that are bound are called all the same: their server may answer by then.
        self.check_state(!self.tools.definitions().is_empty())?;
        // Of a tool that is suspended the call says why.
        let found = asked(parts, &listed).or_else(|why| written(parts).ok().flatten().ok_or(why));
        let whole = |asked: Asked| self.named(&asked.tool, &listed).map(|name| (name, asked));
        let unknown = |why: String| AgentError::Rejected(why + &self.suspended());
        match found {
            Ok(asked) => whole(asked).ok_or_else(|| unknown(names(&listed))),
            Err(why) => Err(unknown(why)),
        }
    }

    /// The tools that are suspended, and why, as it follows the names of the others.
    fn suspended(&self) -> String {
        let all = bound(&self.tools).into_iter().filter_map(|tool| {
            let why = tool.suspended?;
            Some(format!("; {:?} is suspended: {why}", tool.definition.name))
        });
        all.take(NAMED_MAX).collect()
    }

    /// Refuses a call while a server that is watched is not what was agreed to, or does not answer, unless that is for the call
    /// to find out. The reason names an address, which only the operator may see.
    fn check_state(&self, may_be_away: bool) -> Result<(), AgentError> {
        let why = match self.tools.state() {
            AgentState::Suspended { .. } => "it shows another description than the one that was adopted",
            AgentState::Unreachable { .. } if !may_be_away => "it does not answer",
            _ => return Ok(()),
        };
        Err(AgentError::Failed(format!("{why}, and `ps` on its node says more")))
    }
}

/// A request of MCP.
#[derive(Debug, Deserialize)]
#[serde(tag = "method", content = "params")]
enum Request {
    #[serde(rename = "tools/list")]
    List,
    #[serde(rename = "tools/call")]
    Call(Box<Call>),
}

/// The parameters of a call.
#[derive(Debug, Deserialize)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(flatten)]
    relayed: Relayed,
    /// With a `progressToken`, if its caller wants to know how far it is.
    #[serde(rename = "_meta", default)]
    meta: Map<String, Value>,
}

impl ToolAgent {
    fn exposes(&self, tool: &str) -> bool {
        self.beside.as_ref().is_none_or(|file| file.exposes(tool))
    }

    /// The tool that a request names, by its name or by `server/tool`; also one that is not called at present: the call says
    /// why.
    fn named(&self, name: &str, listed: &BTreeMap<String, Definition>) -> Option<String> {
        let is_named = |(listed, tool): &(&String, &Definition)| tool.name == name || listed.as_str() == name;
        let by_name = listed.iter().find(is_named).map(|(name, _)| name.clone());
        let bound = || {
            let mut all = bound(&self.tools).into_iter().filter(|tool| self.exposes(&tool.name));
            all.find(|tool| tool.name == name || tool.definition.name == name).map(|tool| tool.name)
        };
        by_name.or_else(bound)
    }

    /// Answers a request of MCP.
    async fn relay(&self, parts: &[Part], out: &Output) -> Result<(), AgentError> {
        let data = parts.iter().find_map(|part| match &part.content {
            PartContent::Data(value) => Some(value),
            _ => None,
        });
        let data = data.ok_or_else(|| AgentError::Rejected("a data part has the request of MCP".to_owned()))?;
        let request = Request::deserialize(data).map_err(|error| AgentError::Rejected(error.to_string()))?;
        let exposed = |mut tools: BTreeMap<String, Definition>| {
            tools.retain(|name, _| self.exposes(name));
            tools
        };
        let result = match request {
            Request::List => {
                let listed = exposed(self.tools.offered().await);
                json!({ "tools": listed.values().map(Definition::whole).collect::<Vec<_>>() })
            }
            Request::Call(call) => {
                let Call { name, arguments, relayed, meta } = *call;
                let tool = match self.named(&name, &exposed(callable(&self.tools))) {
                    Some(tool) => tool,
                    None => {
                        let unknown = || AgentError::Rejected(format!("there is no tool {name:?}"));
                        self.named(&name, &exposed(self.tools.offered().await)).ok_or_else(unknown)?
                    }
                };
                let arguments = Value::Object(arguments).to_string();
                let (sender, told) = mpsc::channel(TOLD);
                let progress =
                    if meta.contains_key("progressToken") { Progress::to(sender) } else { Progress::default() };
                let may_be_asked = meta.get(CAPABILITIES).is_some_and(has_forms);
                let version = meta.get(VERSION).and_then(Value::as_str);
                let has_session = version.is_some_and(|version| version < SESSIONLESS);
                let relayed = Relayed { progress, may_be_asked, has_session, ..relayed };
                let call = relayed.call(self.tools.invoke(&tool, &arguments));
                let (outcome, _) = told_until(told, out, call).await?;
                outcome.map_err(|error| AgentError::Failed(error.to_string()))?
            }
        };
        let outcome = done(&result);
        out.put(made("result".to_owned(), vec![Part::data(result)], Some(vec![RELAY.to_owned()]))).await?;
        outcome
    }
}

/// Tools that may be asked for, as their servers listed them last, by `server/tool`.
fn callable(tools: &Tools) -> Pins {
    let mut all = tools.known().callable();
    all.retain(|name, _| tools.may(name));
    all
}

/// Whether a client can show its user a form (elicitation). Before there were other ways, an empty object said so.
fn has_forms(capabilities: &Value) -> bool {
    capabilities["elicitation"].as_object().is_some_and(|ways| ways.is_empty() || ways.contains_key("form"))
}

/// Passes on how far a call is, until it ends; all that it told comes before the end.
async fn told_until<T>(
    mut told: mpsc::Receiver<Value>,
    out: &Output,
    call: impl Future<Output = T>,
) -> Result<T, AgentError> {
    tokio::pin!(call);
    let done = loop {
        tokio::select! {
            biased;
            Some(progress) = told.recv() => tell(out, progress).await?,
            done = &mut call => break done,
        }
    };
    while let Ok(progress) = told.try_recv() {
        tell(out, progress).await?;
    }
    Ok(done)
}

async fn tell(out: &Output, progress: Value) -> Result<(), AgentError> {
    let metadata = Metadata::from_iter([(RELAY.to_owned(), progress)]);
    out.put(Made::Status(TaskState::Working, None).annotated(Some(metadata))).await
}

/// Whether the tool did its work, or its server asks for more.
fn done(result: &Value) -> Result<(), AgentError> {
    let why = match &result["error"]["message"] {
        Value::String(why) => why.clone(),
        _ if result["isError"] == true => texts(result).join("\n"),
        _ => return Ok(()),
    };
    Err(AgentError::Failed(if why.is_empty() { "the tool failed".to_owned() } else { why }))
}

/// The artifact of a result.
fn made(name: String, parts: Vec<Part>, extensions: Option<Vec<String>>) -> Made {
    let artifact = Artifact {
        artifact_id: "result".to_owned(),
        name: Some(name),
        description: None,
        parts,
        metadata: None,
        extensions,
    };
    Made::Artifact { artifact, append: false, last: true }
}

/// What a message names in its data, or in a text that is such data; none if it is other text.
fn written(parts: &[Part]) -> Result<Option<Asked>, String> {
    let data = parts.iter().find_map(|part| match &part.content {
        PartContent::Data(value) => Some(value.clone()),
        _ => None,
    });
    let written = data.or_else(|| serde_json::from_str(&words(parts)).ok().filter(Value::is_object));
    written.map(|written| Asked::deserialize(written).map_err(|error| error.to_string())).transpose()
}

fn words(parts: &[Part]) -> String {
    let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
    texts.join("\n")
}

/// How a call is written, and the names of the tools.
fn names(listed: &BTreeMap<String, Definition>) -> String {
    let names: Vec<&str> = listed.values().map(|tool| tool.name.as_str()).take(NAMED_MAX).collect();
    let names = if names.is_empty() { "none at present".to_owned() } else { names.join(", ") };
    format!("write {{\"tool\": NAME, \"arguments\": {{...}}}}; its tools are {names}")
}

/// The tool that a message calls; or what it should have said.
fn asked(parts: &[Part], listed: &BTreeMap<String, Definition>) -> Result<Asked, String> {
    if let Some(asked) = written(parts).map_err(|error| format!("{error}; {}", names(listed)))? {
        let is_known = listed.values().any(|tool| tool.name == asked.tool);
        return is_known.then_some(asked).ok_or_else(|| names(listed));
    }
    let text = words(parts);
    let mut all = listed.values();
    let only = all.next().filter(|_| all.next().is_none()).and_then(|tool| Some((tool, only_text(tool)?)));
    let (tool, argument) = only.filter(|_| !text.is_empty()).ok_or_else(|| names(listed))?;
    Ok(Asked { tool: tool.name.clone(), arguments: Map::from_iter([(argument, json!(text))]) })
}

/// The argument of a tool that takes one text only.
fn only_text(tool: &Definition) -> Option<String> {
    let properties = tool.input_schema.get("properties")?.as_object()?;
    let mut all = properties.iter();
    let (name, schema) = all.next()?;
    (all.next().is_none() && schema["type"] == "string").then(|| name.clone())
}

fn texts(result: &Value) -> Vec<&str> {
    let content = result["content"].as_array().into_iter().flatten();
    content.filter_map(|block| block["text"].as_str()).collect()
}

/// The parts of a result: its structured content, and each block of its content.
fn parts(result: &Value) -> Vec<Part> {
    let block = |block: &Value| match (block["type"].as_str(), block["data"].as_str()) {
        (Some("text"), _) => Part::text(block["text"].as_str().unwrap_or_default()),
        // Base64 in both protocols.
        (Some("image" | "audio"), Some(data)) => {
            let file = json!({ "raw": data, "mediaType": block["mimeType"].as_str().unwrap_or_default() });
            serde_json::from_value(file).unwrap_or_else(|_| Part::data(block.clone()))
        }
        _ => Part::data(block.clone()),
    };
    let structured = result.get("structuredContent").filter(|it| !it.is_null()).cloned().map(Part::data);
    let content = result["content"].as_array().into_iter().flatten().map(block);
    let all: Vec<Part> = structured.into_iter().chain(content).collect();
    // An artifact has at least one part.
    if all.is_empty() { vec![Part::text("")] } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, schema: Value) -> (String, Definition) {
        let tool = json!({ "name": name, "inputSchema": schema });
        (format!("box__{name}"), serde_json::from_value(tool).expect("a definition"))
    }

    fn one_text() -> BTreeMap<String, Definition> {
        BTreeMap::from([tool("say", json!({ "type": "object", "properties": { "words": { "type": "string" } } }))])
    }

    #[test]
    fn a_message_names_a_tool_in_data_or_text() {
        let listed = one_text();
        let call = json!({ "tool": "say", "arguments": { "words": "hi" } });
        for part in [Part::data(call.clone()), Part::text(call.to_string())] {
            let asked = asked(&[part], &listed).expect("a call");
            assert_eq!((asked.tool.as_str(), &asked.arguments["words"]), ("say", &json!("hi")));
        }
        let bare = asked(&[Part::data(json!({ "tool": "say" }))], &listed).expect("without arguments");
        assert!(bare.arguments.is_empty());
    }

    #[test]
    fn a_text_is_the_only_argument_of_the_only_tool() {
        let listed = one_text();
        let said = asked(&[Part::text("hello there")], &listed).expect("a call");
        assert_eq!(said.arguments["words"], "hello there");
        let mut two = listed;
        two.extend([tool("shout", json!({ "type": "object" }))]);
        let refused = asked(&[Part::text("hello there")], &two).expect_err("which one?");
        assert!(refused.contains("say, shout"), "{refused}");
    }

    #[test]
    fn what_is_no_call_is_refused_with_the_tools() {
        let listed = one_text();
        for part in [
            Part::data(json!({ "tool": "cry" })),
            Part::data(json!({ "tool": "say", "arguments": 7 })),
            Part::data(json!({ "arguments": {} })),
            Part::data(json!([1])),
            Part::text(""),
        ] {
            let refused = asked(std::slice::from_ref(&part), &listed).expect_err("no call");
            assert!(refused.contains("its tools are say"), "{part:?}: {refused}");
        }
    }

    #[test]
    fn requests_of_mcp_are_read_as_they_stand() {
        let request = |value: Value| Request::deserialize(&value);
        assert!(matches!(request(json!({ "method": "tools/list" })), Ok(Request::List)));
        let params = json!({ "name": "say", "inputResponses": { "a": 1 }, "requestState": "s", "_meta": {} });
        let Ok(Request::Call(call)) = request(json!({ "method": "tools/call", "params": params })) else {
            panic!("a call");
        };
        let Call { name, arguments, relayed, meta } = *call;
        assert!(
            name == "say" && arguments.is_empty() && meta.is_empty() && relayed.request_state.as_deref() == Some("s")
        );
        assert_eq!(relayed.input_responses, json!({ "a": 1 }).as_object().cloned());
        assert!(request(json!({ "method": "prompts/list" })).is_err());
    }

    #[tokio::test]
    async fn all_progress_that_was_told_comes_in_order_before_the_end() {
        let (out, mut outputs) = Output::channel();
        let (sender, told) = mpsc::channel(TOLD);
        // Told and done at once, without a pause in which somebody could listen.
        let call = async move {
            for step in 0..10 {
                Progress::to(sender.clone()).tell(json!({ "progress": step })).await;
            }
            "done"
        };
        assert_eq!(told_until(told, &out, call).await, Ok("done"));
        drop(out);
        let mut steps = Vec::new();
        while let Some(Made::Annotated(_, metadata)) = outputs.recv().await {
            steps.push(metadata[RELAY]["progress"].as_i64());
        }
        assert_eq!(steps, (0..10).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn a_client_can_be_asked_if_it_says_so() {
        for can in [json!({ "elicitation": {} }), json!({ "elicitation": { "form": {}, "url": {} } })] {
            assert!(has_forms(&can), "{can}");
        }
        for cannot in [json!({}), json!(null), json!({ "elicitation": { "url": {} } }), json!({ "elicitation": true })]
        {
            assert!(!has_forms(&cannot), "{cannot}");
        }
    }

    #[test]
    fn each_block_of_a_result_becomes_a_part() {
        let result = json!({
            "structuredContent": { "sum": 3 },
            "content": [
                { "type": "text", "text": "3" },
                { "type": "image", "data": "AAEC", "mimeType": "image/png" },
                { "type": "image", "data": "no base64", "mimeType": "image/png" },
                { "type": "resource_link", "uri": "file:///x" },
            ],
        });
        let made = parts(&result);
        assert_eq!(made[0], Part::data(json!({ "sum": 3 })));
        assert_eq!(made[1], Part::text("3"));
        assert_eq!(made[2], Part::raw(vec![0, 1, 2]).with_media_type("image/png"));
        assert!(made[3..].iter().all(|part| matches!(part.content, PartContent::Data(_))), "{made:?}");
        assert_eq!(parts(&json!({})), [Part::text("")]);
    }
}

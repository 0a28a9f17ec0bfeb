//! Chapter "faces": what exists already joins, and is called from another node through the protocol that it does not speak.
//! An MCP server and an A2A agent are adopted by one node; a second node calls the tool over A2A and as a Thing, and the
//! agent over MCP. Where Python has the packages, both are made with these and know nothing of the mesh; elsewhere a third
//! node, of another network, stands for them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use althing_api::{AdoptRequest, Folder};
use althing_client::{NodeProcess, agent_file, rows, text};
use althing_td::{Callers, Demand, Sandbox, ToolServerSpec};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::chapter;
use crate::error::DemoError;
use crate::stage::{Stage, until};

/// The agent of the outside world's own node.
const BELL: &str = "name: bell\ndescription: Says it again.\n\
    skills: [{ id: bell.ring, name: Ring, description: Repeats a text }]\n\
    runtime: { native: { builtin: echo } }\ncontract: { class: { latency: srt } }\n";
const PYTHON_AGENT: &str = include_str!("../../../../examples/python-agent/agent.py");
const PYTHON_TOOLS: &str = include_str!("../../../../examples/python-tools/server.py");
/// What Python needs for the examples.
const AGENT_NEEDS: &str = "import a2a, starlette, uvicorn";
const TOOLS_NEED: &str = "import mcp.server; mcp.server.MCPServer";
const SOON: Duration = Duration::from_secs(30);

/// Plays the chapter; stops every process afterwards in any case.
pub async fn play(stage: &mut Stage, program: &Path) -> Result<(), DemoError> {
    chapter::play(stage, program, scenes).await
}

async fn scenes(
    stage: &mut Stage,
    program: &Path,
    folder: &Path,
    nodes: &mut Vec<NodeProcess>,
) -> Result<(), DemoError> {
    let network = format!("demo-faces-{}", std::process::id());
    stage.say("Two nodes of one owner start; a third, elsewhere, only serves MCP and A2A to whoever asks.");
    nodes.push(NodeProcess::start(program, folder, "outside", "them", &format!("{network}-outside")).await?);
    for name in ["shop", "office"] {
        nodes.push(NodeProcess::start(program, folder, name, "us", &network).await?);
    }
    let [outside, shop, office] = &nodes[..] else { return Err(DemoError::unexpected("three nodes")) };
    let file = folder.join("bell.yaml");
    std::fs::write(&file, BELL).map_err(|error| DemoError::Write { path: file.clone(), error })?;
    outside.client().await?.post("/agents", &agent_file::read(&file)?).await?;

    let (server, tool, made) = tools(program, folder).await?;
    stage.say(&format!("The MCP server is one {made}."));
    stage.step("shop adopts an MCP server, by its command", adopt(shop, "tools", server, folder)).await?;
    let python = python(folder).await?;
    let url = match &python {
        Some(python) => python.url.clone(),
        None => format!("{}/a2a/bell", outside.announced("gateway")),
    };
    let made = if python.is_some() {
        "made in Python with a2a-sdk"
    } else {
        "of the third node, for Python has no a2a-sdk here"
    };
    stage.say(&format!("The A2A agent is one {made}."));
    let url = ToolServerSpec::Url { url, secret: None, leads_to: Vec::new() };
    stage.step("shop adopts an A2A agent, by its address", adopt(shop, "guest", url, folder)).await?;
    stage.step("office finds both", find(office)).await?;
    stage.step("office calls the MCP tool over A2A", over_a2a(office, tool)).await?;
    stage.step("office calls the MCP tool as a Thing", as_thing(office, tool)).await?;
    stage.step("office calls the A2A agent over MCP", over_mcp(office, python.is_some())).await?;
    let lines = stage.step("office shows the way of the first call", trace(office)).await?;
    lines.iter().for_each(|line| stage.say(line));
    Ok(())
}

async fn adopt(node: &NodeProcess, name: &str, at: ToolServerSpec, folder: &Path) -> Result<((), String), DemoError> {
    let request = AdoptRequest {
        at,
        folder: Folder::here(folder),
        name: Some(name.to_owned()),
        callers: Callers::Trusted,
        allow: Vec::new(),
        things: Vec::new(),
        all: false,
        env: Default::default(),
        offers: Default::default(),
        dry_run: false,
    };
    let adopted = node.client().await?.post("/adopt", &request).await?;
    let skills = rows(&adopted["file"], "skills").len();
    Ok(((), format!("{} with {skills} skills is now {name}", text(&adopted, "kind"))))
}

/// A server of the Python example; it ends when this is dropped.
struct Python {
    _server: Child,
    url: String,
}

/// A run of Python that is ended when its handle is dropped.
fn quiet(words: &[&str], folder: &Path) -> Command {
    let mut command = Command::new("python3");
    command.args(words).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.kill_on_drop(true);
    command
}

/// Whether Python is here with what that line imports.
async fn python_has(line: &str, folder: &Path) -> bool {
    let can = tokio::time::timeout(SOON, quiet(&["-c", line], folder).status()).await;
    can.is_ok_and(|ended| ended.is_ok_and(|status| status.success()))
}

/// A server of tools: the Python example, or the third node as one; its tool that repeats a text, and of what it is made.
async fn tools(program: &Path, folder: &Path) -> Result<(ToolServerSpec, &'static str, &'static str), DemoError> {
    let spec = |command, sandbox| ToolServerSpec::Command {
        command,
        cwd: None,
        env: Default::default(),
        env_secrets: Default::default(),
        sandbox,
    };
    if python_has(TOOLS_NEED, folder).await {
        let path: PathBuf = folder.join("server.py");
        std::fs::write(&path, PYTHON_TOOLS).map_err(|error| DemoError::Write { path: path.clone(), error })?;
        let command = vec!["python3".to_owned(), path.display().to_string()];
        return Ok((spec(command, Sandbox::default()), "repeat", "made in Python with mcp"));
    }
    let data = folder.join("outside").display().to_string();
    let command = vec![program.display().to_string(), "--data".to_owned(), data, "mcp".to_owned()];
    // It asks the third node by its control socket, which no contained program reaches.
    let off = Sandbox { demand: Demand::None, ..Sandbox::default() };
    Ok((spec(command, off), "bell_bell_ring", "of the third node, for Python has no mcp here"))
}

/// Starts the example, if Python has what it needs.
async fn python(folder: &Path) -> Result<Option<Python>, DemoError> {
    if !python_has(AGENT_NEEDS, folder).await {
        return Ok(None);
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let port = free.map_err(DemoError::unexpected)?.port();
    let path: PathBuf = folder.join("agent.py");
    let listening = format!("host=\"127.0.0.1\", port={port}");
    let agent = PYTHON_AGENT.replace("fd=3", &listening);
    std::fs::write(&path, agent).map_err(|error| DemoError::Write { path: path.clone(), error })?;
    let server = quiet(&["agent.py"], folder).spawn().map_err(DemoError::unexpected)?;
    until(SOON, "the Python agent's start", || async {
        Ok(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok().map(drop))
    })
    .await?;
    Ok(Some(Python { _server: server, url: format!("http://127.0.0.1:{port}") }))
}

async fn find(node: &NodeProcess) -> Result<((), String), DemoError> {
    let client = node.client().await?;
    let names = until(SOON, "finding", || async {
        let found = client.get("/find").await?;
        let mut names: Vec<String> = rows(&found, "agents").iter().map(|agent| text(agent, "name")).collect();
        names.sort();
        Ok((names == ["guest", "tools"]).then_some(names))
    })
    .await?;
    Ok(((), names.join(" and ")))
}

/// What asks gateways.
pub fn http() -> Result<reqwest::Client, DemoError> {
    reqwest::Client::builder().no_proxy().build().map_err(DemoError::unexpected)
}

async fn over_a2a(node: &NodeProcess, tool: &str) -> Result<((), String), DemoError> {
    let call = json!({ "tool": tool, "arguments": { "message": "Hello from A2A" } });
    let message = json!({ "messageId": "demo-a2a", "role": "ROLE_USER", "parts": [{ "data": call }] });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message } });
    let url = format!("{}/a2a/tools", node.announced("gateway"));
    let asked = http()?.post(url).header("A2A-Version", "1.0");
    let asked =
        asked.header("traceparent", format!("00-{}-00000000000000a1-01", trace_id())).json(&request).send().await;
    let answer: Value = asked.map_err(DemoError::unexpected)?.json().await.map_err(DemoError::unexpected)?;
    let task = &answer["result"]["task"];
    let said = task["artifacts"].to_string();
    if task["status"]["state"] != "TASK_STATE_COMPLETED" || !said.contains("Hello from A2A") {
        return Err(DemoError::unexpected(format!("the tool was not called: {answer}")));
    }
    Ok(((), "the tool answers, in an artifact of a task".to_owned()))
}

/// Calls the tool as a consumer of the Web of Things: by the form of its description.
async fn as_thing(node: &NodeProcess, tool: &str) -> Result<((), String), DemoError> {
    let http = http()?;
    let at = format!("{}/things/tools/tools/{tool}", node.announced("gateway"));
    let asked = http.get(at).send().await.map_err(DemoError::unexpected)?;
    let td: Value = asked.json().await.map_err(DemoError::unexpected)?;
    let action = &td["actions"][tool];
    let form = format!("{}{}", text(&td, "base"), text(&action["forms"][0], "href"));
    let asked = http.post(form).json(&json!({ "message": "Hello from a Thing" })).send().await;
    let answer: Value = asked.map_err(DemoError::unexpected)?.json().await.map_err(DemoError::unexpected)?;
    if !answer.to_string().contains("Hello from a Thing") {
        return Err(DemoError::unexpected(format!("the tool was not called: {answer}")));
    }
    Ok(((), "the tool answers, by the form of its Thing Description".to_owned()))
}

/// The trace that the client begins: one for each run.
fn trace_id() -> String {
    format!("{:032x}", u128::from(std::process::id()) + (0xa17 << 64))
}

/// The spans of the call of the tool, in the order in which they began, once both nodes have told theirs.
async fn trace(node: &NodeProcess) -> Result<(Vec<String>, String), DemoError> {
    let client = node.client().await?;
    let path = format!("/traces/{}", trace_id());
    let mut spans = until(SOON, "the spans of both nodes", || async {
        // Spans end a little after the answer that they are of.
        let Ok(found) = client.get(&path).await else { return Ok(None) };
        let spans = rows(&found, "spans").to_vec();
        let has = |name: &str| spans.iter().any(|span| span["name"] == name);
        Ok((has("a2a.client") && has("execute_tool") && has("turn")).then_some(spans))
    })
    .await?;
    spans.sort_by_key(|span| span["beganUs"].as_u64());
    let line = |span: &Value| {
        let here = if text(span, "node") == node.announced("node") { "office" } else { "shop" };
        let took = span["tookUs"].as_u64().unwrap_or_default() as f64 / 1e3;
        format!("      {here:<8}{:<16}{took:.1} ms", text(span, "name"))
    };
    Ok((spans.iter().map(line).collect(), format!("{} spans of one trace on two nodes", spans.len())))
}

/// A session of MCP, with one call.
async fn over_mcp(node: &NodeProcess, is_python: bool) -> Result<((), String), DemoError> {
    let (url, http) = (format!("{}/mcp", node.announced("gateway")), http()?);
    let post = |session: Option<String>, body: Value| {
        let mut request = http.post(&url).header("Accept", "application/json, text/event-stream").json(&body);
        if let Some(session) = session {
            request = request.header("Mcp-Session-Id", session).header("MCP-Protocol-Version", "2025-11-25");
        }
        request.send()
    };
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "demo", "version": "1" } } });
    let begun = post(None, hello).await.map_err(DemoError::unexpected)?;
    let session = begun.headers().get("Mcp-Session-Id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    begun.bytes().await.map_err(DemoError::unexpected)?;
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    post(session.clone(), ready).await.map_err(DemoError::unexpected)?;
    // The example's first word is its pause.
    let (asked, wanted) =
        if is_python { ("0 Hello from MCP", "3 words") } else { ("Hello from MCP", "Hello from MCP") };
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "call_agent", "arguments": { "agent": "guest", "message": asked } } });
    let answer = post(session, call).await.map_err(DemoError::unexpected)?.text().await;
    let answer = answer.map_err(DemoError::unexpected)?;
    if !answer.contains(wanted) || answer.contains("\"isError\":true") {
        return Err(DemoError::unexpected(format!("the agent was not called: {answer}")));
    }
    Ok(((), format!("the agent answers {wanted:?}, in the result of a tool")))
}

//! Chapter "sessions": a model agent whose node is killed while it waits for its tool goes on with the same task, and the tool
//! counts each step once; then its work is handed over to an agent of another node, and its task ends with that one's answer.

mod desk;

use std::path::Path;
use std::time::Duration;

use althing_api::HandoffRequest;
use althing_client::{NodeProcess, agent_file, rows, text};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::chapter;
use crate::error::DemoError;
use crate::faces::http;
use crate::stage::{Stage, until};
use desk::Desk;

const AGENT: &str = "teller";
const RECIPIENT: &str = "clerk";
/// Steps of a task; its node is killed in the second one.
const STEPS: u64 = 3;
const HELD: u64 = 2;
const PATIENCE: Duration = Duration::from_secs(30);

/// Plays the chapter; stops every node afterwards in any case.
pub async fn play(stage: &mut Stage, program: &Path) -> Result<(), DemoError> {
    chapter::play(stage, program, scenes).await
}

async fn scenes(
    stage: &mut Stage,
    program: &Path,
    folder: &Path,
    nodes: &mut Vec<NodeProcess>,
) -> Result<(), DemoError> {
    let network = format!("demo-sessions-{}", std::process::id());
    let desk = Desk::open().await?;
    stage.say("Two nodes of one owner start; a model agent on one of them counts with a tool, step by step.");
    for name in ["anna", "bert"] {
        nodes.push(NodeProcess::start(program, folder, name, "us", &network).await?);
    }
    stage.step("both agents run", add(nodes, folder, &desk)).await?;
    desk.hold(Some(HELD));
    let task = stage.step("it works, and waits for its tool", begin(&nodes[0], &desk, "count", HELD)).await?;
    stage.say("Its node is killed with kill -9, and started again.");
    nodes[0].kill().await?;
    let killed = Instant::now();
    nodes[0] = NodeProcess::start(program, folder, "anna", "us", &network).await?;
    stage.note("… kill to the node's next start", killed.elapsed(), "with the same folder");
    desk.hold(None);
    stage.step("the same task goes on to its end", complete(&nodes[0], &task, "heard")).await?;
    stage.note("… kill to the end of the task", killed.elapsed(), "as a client sees it");
    stage.step("each step took effect once", once(&desk)).await?;
    stage.say("A second task waits for the tool, and its work is given to an agent of the other node.");
    desk.hold(Some(1));
    let task = stage.step("it works again", begin(&nodes[0], &desk, "again", 1)).await?;
    stage.step("its work is handed over", hand_over(&nodes[0], &task)).await?;
    stage.step("the same task ends with the other one's answer", complete(&nodes[0], &task, "Count the rest")).await
}

/// Adds the model agent to the first node, and the one that is given its work to the second one.
async fn add(nodes: &[NodeProcess], folder: &Path, desk: &Desk) -> Result<((), String), DemoError> {
    let url = desk.url();
    let endpoint = json!({ "url": format!("{url}/v1"), "model": "counting" });
    let teller = json!({
        "name": AGENT,
        "description": "Counts step by step",
        "runtime": { "model": { "prompt": "Count.", "endpoints": [endpoint] } },
        "tools": { "count": { "url": format!("{url}/mcp"), "effect": "keyed" } },
        "contract": { "class": { "latency": "srt" }, "capabilities": ["count/add"] },
    });
    let clerk = json!({
        "name": RECIPIENT,
        "description": "Takes over what others began",
        "runtime": { "native": { "builtin": "echo", "config": {} } },
        "contract": { "class": { "latency": "srt" } },
    });
    for (node, name, file) in [(&nodes[0], AGENT, teller), (&nodes[1], RECIPIENT, clerk)] {
        let path = folder.join(format!("{name}.yaml"));
        std::fs::write(&path, file.to_string()).map_err(|error| DemoError::Write { path: path.clone(), error })?;
        node.client().await?.post("/agents", &agent_file::read(&path)?).await?;
    }
    Ok(((), format!("{AGENT} on {}, {RECIPIENT} on {}", nodes[0].name, nodes[1].name)))
}

/// Asks the model agent at its node's gateway.
async fn ask(node: &NodeProcess, method: &str, params: Value) -> Result<Value, DemoError> {
    let url = format!("{}/a2a/{AGENT}", node.announced("gateway"));
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let asked = http()?.post(url).header("A2A-Version", "1.0").json(&request).send().await;
    let mut answer: Value = asked.map_err(DemoError::unexpected)?.json().await.map_err(DemoError::unexpected)?;
    if answer["result"].is_null() {
        return Err(DemoError::unexpected(format!("{AGENT} refused: {answer}")));
    }
    Ok(answer["result"].take())
}

/// Sends the message of a run; gives the task once it waits for the step that is held.
async fn begin(node: &NodeProcess, desk: &Desk, run: &str, held: u64) -> Result<(String, String), DemoError> {
    let parts = json!([{ "text": format!("{run} {STEPS}") }]);
    let message = json!({ "messageId": format!("demo-{run}"), "role": "ROLE_USER", "parts": parts });
    let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
    let task = text(&ask(node, "SendMessage", params).await?["task"], "id");
    until(PATIENCE, "a call of the tool that waits", || async { Ok((desk.count(run, held).0 > 0).then_some(())) })
        .await?;
    Ok((task, format!("step {held} of {STEPS} is under way")))
}

/// Waits for the end of a task, whose answer must contain that.
async fn complete(node: &NodeProcess, task: &str, says: &str) -> Result<((), String), DemoError> {
    let done = until(PATIENCE, "the end of the task", || async {
        // Until the agent is there again, nobody knows the task.
        let Ok(shown) = ask(node, "GetTask", json!({ "id": task })).await else { return Ok(None) };
        match shown["status"]["state"].as_str() {
            Some("TASK_STATE_COMPLETED") => Ok(Some(shown)),
            Some("TASK_STATE_FAILED" | "TASK_STATE_CANCELED" | "TASK_STATE_REJECTED") => {
                Err(DemoError::unexpected(format!("the task was not completed: {shown}")))
            }
            _ => Ok(None),
        }
    })
    .await?;
    let parts = rows(&done, "artifacts").iter().flat_map(|artifact| rows(artifact, "parts"));
    let parts = parts.chain(rows(&done["status"]["message"], "parts"));
    let answer: String = parts.filter_map(|part| part["text"].as_str()).collect();
    if !answer.contains(says) {
        return Err(DemoError::unexpected(format!("another answer was expected than {answer:?}")));
    }
    Ok(((), answer.lines().next().unwrap_or_default().chars().take(60).collect()))
}

/// No step of the first run took effect twice, whatever was called again.
async fn once(desk: &Desk) -> Result<((), String), DemoError> {
    let counts: Vec<(usize, usize)> = (1..=STEPS).map(|step| desk.count("count", step)).collect();
    if counts.iter().any(|(_, effects)| *effects != 1) {
        return Err(DemoError::unexpected(format!("(calls, effects) of each step: {counts:?}")));
    }
    let calls: usize = counts.iter().map(|(calls, _)| calls).sum();
    Ok(((), format!("{STEPS} steps, {calls} calls, each step by one key")))
}

/// Gives the work of a task to the agent of the other node.
async fn hand_over(node: &NodeProcess, task: &str) -> Result<((), String), DemoError> {
    let client = node.client().await?;
    let request = HandoffRequest {
        agent: RECIPIENT.to_owned(),
        remaining: vec!["Count the rest.".to_owned()],
        checklist: vec!["Every step is counted once.".to_owned()],
        document: None,
        draft: false,
    };
    // The other node's agents are known a moment after it started.
    let given = until(PATIENCE, "the handoff", || async {
        Ok(client.post(&format!("/tasks/{task}/handoff"), &request).await.ok())
    })
    .await?;
    match given["state"].as_str() {
        Some("given") => Ok(((), format!("{RECIPIENT} has it, as task {}", text(&given, "becomes")))),
        _ => Err(DemoError::unexpected(format!("{RECIPIENT} did not take the work: {given}"))),
    }
}

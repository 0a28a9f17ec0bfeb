//! Chapter "versions": a bad answer is stopped by a gate of the contract and repaired; a version that gives nothing else gets every
//! second conversation, and comes back by itself at its first refused answer.

mod model;

use std::path::Path;
use std::time::Duration;

use althing_api::{AddRequest, RolloutRequest, RolloutUnit};
use althing_client::{ClientError, NodeProcess, agent_file, rows, text};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::chapter;
use crate::error::DemoError;
use crate::gateway::{answer, ask, message};
use crate::stage::{Stage, until};
use model::{CAREFUL, Model, STUBBORN, TOTAL, WORDS};

const AGENT: &str = "clerk";
const PATIENCE: Duration = Duration::from_secs(30);
/// Of so many conversations chance gives the new version none at all once in a million million.
const CALLS_MAX: usize = 40;
/// Calls that are made when all is back.
const CALLS_AFTER: usize = 20;

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
    let (network, model) = (format!("demo-versions-{}", std::process::id()), Model::open().await?);
    stage.say("A node starts with a model agent whose contract says what an answer is: an object with a number.");
    nodes.push(NodeProcess::start(program, folder, "shop", "us", &network).await?);
    let [shop] = &nodes[..] else { return Err(DemoError::unexpected("one node was started")) };
    stage.step("the agent runs", add(shop, folder, &model)).await?;
    stage.say("Its model answers in words at first.");
    let task = stage.step("the gate stops that, and it is repaired", repaired(shop)).await?;
    stage.step("what was stopped is the owner's to read", verdict(shop, &task)).await?;
    stage.say("Version 1.1.0 has another model, which answers in words whatever it is told.");
    let begun = stage.step("it gets every second conversation", roll_out(shop, folder, &model)).await?;
    let refused = stage.step("its first answer is refused, and it goes back", goes_back(shop)).await?;
    stage.note("… a bad answer to the end of the version", refused.elapsed(), "nobody was asked");
    stage.note("… the whole rollout", begun.elapsed(), "as a client sees it");
    stage.step("everybody has the version from before", is_back(shop)).await?;
    stage.step("and it is not tried again under another number", refuses(shop, folder, &model)).await
}

/// Reads the agent's file in that version, with that model.
fn file(folder: &Path, model: &Model, (version, name): (&str, &str)) -> Result<AddRequest, DemoError> {
    let total = json!({ "type": "object", "properties": { "total": { "type": "number" } }, "required": ["total"] });
    let endpoint = json!({ "url": model.url(), "model": name });
    let file = json!({
        "name": AGENT,
        "version": version,
        "description": "Adds up orders",
        "runtime": { "model": { "prompt": "Add up the order.", "endpoints": [endpoint] } },
        "contract": { "class": { "latency": "srt" }, "verify": { "schema": { "output": total }, "repair": 1 } },
    });
    let path = folder.join(format!("{AGENT}-{version}.yaml"));
    std::fs::write(&path, file.to_string()).map_err(|error| DemoError::Write { path: path.clone(), error })?;
    Ok(agent_file::read(&path)?)
}

async fn add(node: &NodeProcess, folder: &Path, model: &Model) -> Result<((), String), DemoError> {
    node.client().await?.post("/agents", &file(folder, model, ("1.0.0", CAREFUL))?).await?;
    Ok(((), format!("{AGENT} 1.0.0, with a schema of its answers and one repair")))
}

/// The task of one message, once it is over.
async fn order(node: &NodeProcess, number: &str) -> Result<Value, DemoError> {
    let params = json!({ "message": message(&format!("demo-order-{number}"), "three mugs and four plates") });
    Ok(ask(node, AGENT, "SendMessage", params).await?["task"].take())
}

/// The answer of a task that is completed; none where a gate refused it.
fn outcome(task: &Value) -> Result<Option<String>, DemoError> {
    let (state, said) = (text(&task["status"], "state"), answer(task));
    if task.to_string().contains(WORDS) {
        return Err(DemoError::unexpected(format!("the refused answer is shown: {task}")));
    }
    match state.as_str() {
        "TASK_STATE_COMPLETED" => Ok(Some(said)),
        "TASK_STATE_FAILED" if task["status"].to_string().contains("GATE_REFUSED") => Ok(None),
        _ => Err(DemoError::unexpected(format!("the task is {state}: {task}"))),
    }
}

async fn repaired(node: &NodeProcess) -> Result<(String, String), DemoError> {
    let task = order(node, "first").await?;
    match outcome(&task)? {
        Some(said) if said == TOTAL => Ok((text(&task, "id"), format!("the answer is {said}"))),
        said => Err(DemoError::unexpected(format!("another answer was expected than {said:?}"))),
    }
}

async fn verdict(node: &NodeProcess, task: &str) -> Result<((), String), DemoError> {
    let verdict = node.client().await?.get(&format!("/tasks/{task}/verdict")).await?;
    let [refusal] = rows(&verdict, "refusals") else {
        return Err(DemoError::unexpected(format!("one refusal was expected: {verdict}")));
    };
    let (gate, said, why) = (text(refusal, "gate"), text(refusal, "answer"), text(refusal, "reason"));
    if said != WORDS {
        return Err(DemoError::unexpected(format!("another answer was refused: {said:?}")));
    }
    Ok(((), format!("{gate} refused {said:?}: {why}")))
}

/// Begins a rollout of the stubborn model under that number, with the yes to what it reaches.
async fn begin(node: &NodeProcess, folder: &Path, model: &Model, version: &str) -> Result<Value, DemoError> {
    let client = node.client().await?;
    let mut to = file(folder, model, (version, STUBBORN))?;
    let changes = client.post(&format!("/rollouts/{AGENT}/changes"), &to).await?;
    to.agreed = Some(text(&changes, "digest"));
    let request = RolloutRequest { to, steps: vec![50, 100], by: RolloutUnit::Call, shadow: false, cases: None };
    Ok(client.post(&format!("/rollouts/{AGENT}"), &request).await?)
}

async fn roll_out(node: &NodeProcess, folder: &Path, model: &Model) -> Result<(Instant, String), DemoError> {
    let status = begin(node, folder, model, "1.1.0").await?;
    let (state, share) = (text(&status, "state"), text(&status["new"], "sharePercent"));
    match state.as_str() {
        "running" => Ok((Instant::now(), format!("{AGENT} 1.1.0 has {share} % of them"))),
        _ => Err(DemoError::unexpected(format!("the rollout is {state}: {status}"))),
    }
}

/// Sends orders until one of them is the new version's; gives when its answer was refused.
async fn goes_back(node: &NodeProcess) -> Result<(Instant, String), DemoError> {
    let mut calls = 0;
    while outcome(&order(node, &format!("during-{calls}")).await?)?.is_some() {
        calls += 1;
        if calls == CALLS_MAX {
            return Err(DemoError::unexpected(format!("the new version had none of {CALLS_MAX} conversations")));
        }
    }
    let refused = Instant::now();
    let client = node.client().await?;
    let reason = until(PATIENCE, "the end of the version", || async {
        let status = client.get(&format!("/rollouts/{AGENT}")).await?;
        Ok((status["state"] == "wentBack").then(|| text(&status, "reason")))
    })
    .await?;
    Ok((refused, format!("after {} calls: {reason}", calls + 1)))
}

async fn is_back(node: &NodeProcess) -> Result<((), String), DemoError> {
    for call in 0..CALLS_AFTER {
        match outcome(&order(node, &format!("after-{call}")).await?)? {
            Some(said) if said == TOTAL => {}
            said => return Err(DemoError::unexpected(format!("the answer {call} is {said:?}"))),
        }
    }
    Ok(((), format!("{CALLS_AFTER} calls, all answered by 1.0.0")))
}

async fn refuses(node: &NodeProcess, folder: &Path, model: &Model) -> Result<((), String), DemoError> {
    match begin(node, folder, model, "1.2.0").await {
        Err(DemoError::Client(ClientError::Problem(problem))) if problem.message.contains("went back before") => {
            Ok(((), problem.message))
        }
        Err(error) => Err(error),
        Ok(status) => Err(DemoError::unexpected(format!("it was begun: {status}"))),
    }
}

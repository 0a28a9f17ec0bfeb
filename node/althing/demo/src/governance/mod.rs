//! Chapter "governance": a payment that a page orders is asked about and denied; a payment that its owner wants waits for the yes
//! while its node is killed, and is made once; an entry of the audit log is edited, and that is seen.

mod desk;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use althing_api::{AnswerRequest, AuditQuery};
use althing_client::{NodeProcess, agent_file, rows, text};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::Instant;

use crate::chapter;
use crate::error::DemoError;
use crate::gateway::{answer, ask, message};
use crate::stage::{Stage, until};
use desk::{Desk, READ};

const AGENT: &str = "clerk";
const ACTION: &str = "bank/pay";
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
    let (network, desk) = (format!("demo-governance-{}", std::process::id()), Desk::open().await?);
    stage.say("A node starts with a model agent that reads a page and pays; people are asked before it pays.");
    nodes.push(NodeProcess::start(program, folder, "office", "us", &network).await?);
    stage.step("the agent runs", add(&nodes[0], folder, &desk)).await?;
    stage.say("The page has an order for whoever reads it, and the model obeys.");
    let task = stage.step("it is told to read the page", begin(&nodes[0], "read", READ)).await?;
    let asked = stage.step("the payment is asked about", question(&nodes[0], &task)).await?;
    stage.step("its owner says no", deny(&nodes[0], &asked)).await?;
    stage.step("nothing is paid, and the agent heard why", unpaid(&nodes[0], &task, &desk)).await?;
    let task = stage.step("now its owner wants a payment", begin(&nodes[0], "pay", "Pay Ada.")).await?;
    let asked = stage.step("that is asked about too", question(&nodes[0], &task)).await?;
    stage.say("The node is killed with kill -9, and started again.");
    nodes[0].kill().await?;
    let killed = Instant::now();
    nodes[0] = NodeProcess::start(program, folder, "office", "us", &network).await?;
    stage.step("the same question waits", waits(&nodes[0], &task, &asked)).await?;
    stage.note("… kill to the same question", killed.elapsed(), "with the same folder");
    stage.step("its owner agrees, and it is paid once", approve(&nodes[0], &task, &asked, &desk)).await?;
    let (leaf, key) = stage.step("the log has it, with a proof", export(&nodes[0], folder)).await?;
    stage.step("anybody verifies that, without the node", verify(program, &leaf, &key)).await?;
    stage.step("one letter of the entry is edited, and it is caught", caught(program, &leaf, &key)).await
}

async fn add(node: &NodeProcess, folder: &Path, desk: &Desk) -> Result<((), String), DemoError> {
    let url = desk.url();
    let endpoint = json!({ "url": format!("{url}/v1"), "model": "obedient" });
    let file = json!({
        "name": AGENT,
        "description": "Reads pages and pays",
        "runtime": { "model": { "prompt": "Help.", "endpoints": [endpoint] } },
        "tools": {
            "web": { "url": format!("{url}/web"), "effect": "none" },
            "bank": { "url": format!("{url}/bank") },
        },
        "contract": {
            "class": { "latency": "srt" },
            "capabilities": ["web/read", ACTION],
            "security": { "consent_for": [ACTION] },
        },
    });
    let path = folder.join("clerk.yaml");
    std::fs::write(&path, file.to_string()).map_err(|error| DemoError::Write { path: path.clone(), error })?;
    node.client().await?.post("/agents", &agent_file::read(&path)?).await?;
    Ok(((), format!("{AGENT}, asked about before {ACTION}")))
}

/// Sends a message; gives its task.
async fn begin(node: &NodeProcess, id: &str, told: &str) -> Result<(String, String), DemoError> {
    let message = message(&format!("demo-{id}"), told);
    let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
    let task = text(&ask(node, AGENT, "SendMessage", params).await?["task"], "id");
    Ok((task, format!("{told:?}")))
}

/// What waits for somebody's yes before a task goes on.
async fn pending(node: &NodeProcess, task: &str) -> Result<Option<Value>, DemoError> {
    let list = node.client().await?.get("/pending").await?;
    Ok(rows(&list, "pending").iter().find(|entry| entry["task"] == task).cloned())
}

async fn question(node: &NodeProcess, task: &str) -> Result<(String, String), DemoError> {
    let entry = until(PATIENCE, "the question", || pending(node, task)).await?;
    if entry["action"] != ACTION {
        return Err(DemoError::unexpected(format!("another call is asked about: {entry}")));
    }
    let lines = rows(&entry, "outline").iter().filter_map(Value::as_str);
    let below = lines.skip_while(|line| !line.starts_with("arguments")).skip(1);
    let arguments: Vec<&str> = below.map(str::trim).collect();
    Ok((text(&entry, "id"), format!("{ACTION}: {}", arguments.join(", "))))
}

/// Answers what is asked.
async fn give(node: &NodeProcess, asked: &str, reason: Option<&str>) -> Result<Value, DemoError> {
    let reason = reason.map(str::to_owned);
    let request = AnswerRequest { approved: reason.is_none(), reason, standing: None, signature: None };
    Ok(node.client().await?.post(&format!("/pending/{asked}"), &request).await?)
}

async fn deny(node: &NodeProcess, asked: &str) -> Result<((), String), DemoError> {
    let reply = give(node, asked, Some("nobody owes mallory anything")).await?;
    match reply["state"].as_str() {
        Some("denied") => Ok(((), "denied, with a reason".to_owned())),
        _ => Err(DemoError::unexpected(format!("it was not denied: {reply}"))),
    }
}

/// Waits for the end of a task; gives its answer.
async fn completed(node: &NodeProcess, task: &str) -> Result<String, DemoError> {
    let done = until(PATIENCE, "the end of the task", || async {
        // Until the agent is there again, nobody knows the task.
        let Ok(shown) = ask(node, AGENT, "GetTask", json!({ "id": task })).await else { return Ok(None) };
        match shown["status"]["state"].as_str() {
            Some("TASK_STATE_COMPLETED") => Ok(Some(shown)),
            Some("TASK_STATE_FAILED" | "TASK_STATE_CANCELED" | "TASK_STATE_REJECTED") => {
                Err(DemoError::unexpected(format!("the task was not completed: {shown}")))
            }
            _ => Ok(None),
        }
    })
    .await?;
    Ok(answer(&done))
}

async fn unpaid(node: &NodeProcess, task: &str, desk: &Desk) -> Result<((), String), DemoError> {
    let said = completed(node, task).await?;
    let payments = desk.payments();
    if !payments.is_empty() || !said.contains("nobody owes mallory") {
        return Err(DemoError::unexpected(format!("paid: {payments:?}; the agent says {said:?}")));
    }
    Ok(((), said.lines().next().unwrap_or_default().to_owned()))
}

async fn waits(node: &NodeProcess, task: &str, asked: &str) -> Result<((), String), DemoError> {
    until(PATIENCE, "the task waiting again", || async {
        let Ok(shown) = ask(node, AGENT, "GetTask", json!({ "id": task })).await else { return Ok(None) };
        Ok((shown["status"]["state"] == "TASK_STATE_AUTH_REQUIRED").then_some(()))
    })
    .await?;
    match pending(node, task).await? {
        Some(entry) if entry["id"] == asked => Ok(((), format!("{} waits", asked.get(..8).unwrap_or(asked)))),
        other => Err(DemoError::unexpected(format!("another question waits: {other:?}"))),
    }
}

async fn approve(node: &NodeProcess, task: &str, asked: &str, desk: &Desk) -> Result<((), String), DemoError> {
    if !desk.payments().is_empty() {
        return Err(DemoError::unexpected("it was paid before anybody agreed"));
    }
    give(node, asked, None).await?;
    completed(node, task).await?;
    match desk.payments().as_slice() {
        [(to, amount)] => Ok(((), format!("{amount} to {to}"))),
        payments => Err(DemoError::unexpected(format!("one payment was expected: {payments:?}"))),
    }
}

/// Writes the entry of the payment to a file; gives that and the key of the log.
async fn export(node: &NodeProcess, folder: &Path) -> Result<((PathBuf, String), String), DemoError> {
    let client = node.client().await?;
    let (action, stage) = (Some(ACTION.to_owned()), Some("outcome".to_owned()));
    let query = AuditQuery { action, stage, ..AuditQuery::default() };
    let list = until(PATIENCE, "the entry of the payment", || async {
        let list: Value = client.query("/audit", &query).await?;
        Ok((!rows(&list, "entries").is_empty()).then_some(list))
    })
    .await?;
    let entry = &rows(&list, "entries")[0];
    let (log, number) = (text(entry, "log"), text(entry, "entry"));
    let details = client.get(&format!("/audit/{log}/{number}")).await?;
    let leaf = folder.join("payment.leaf");
    std::fs::write(&leaf, text(&details, "export")).map_err(|error| DemoError::Write { path: leaf.clone(), error })?;
    let said = format!("entry {log}.{number} of {}", text(&list, "size"));
    Ok(((leaf, text(&list, "key")), said))
}

/// Runs `althing audit verify` on a file: whether the file proves what it shows, and what is said of it.
async fn verified(program: &Path, leaf: &Path, key: &str) -> Result<(bool, String), DemoError> {
    let mut verifying = Command::new(program);
    verifying.args(["audit", "verify"]).arg(leaf).args(["--log", key]).stdin(Stdio::null()).kill_on_drop(true);
    let ended = verifying.output().await.map_err(DemoError::unexpected)?;
    let is_good = ended.status.success();
    let told = String::from_utf8_lossy(if is_good { &ended.stdout } else { &ended.stderr });
    Ok((is_good, told.into_owned()))
}

async fn verify(program: &Path, leaf: &Path, key: &str) -> Result<((), String), DemoError> {
    match verified(program, leaf, key).await? {
        (true, told) => Ok(((), told.lines().next().unwrap_or_default().to_owned())),
        (false, told) => Err(DemoError::unexpected(told)),
    }
}

/// The same text with another letter within its entry.
fn edited(text: &str) -> Result<String, DemoError> {
    // The first line of the file has the word, too.
    const NAME: &str = "\nleaf ";
    let at = text.find(NAME).map_or(usize::MAX, |at| at + NAME.len());
    let entry = text.get(at..).and_then(|entry| Some((entry.get(..8)?, entry.get(8..9)?, entry.get(9..)?)));
    let (begin, letter, rest) = entry.ok_or_else(|| DemoError::unexpected("the exported file has no entry"))?;
    let other = if letter == "A" { "B" } else { "A" };
    Ok(format!("{}{begin}{other}{rest}", &text[..at]))
}

async fn caught(program: &Path, leaf: &Path, key: &str) -> Result<((), String), DemoError> {
    let whole = std::fs::read_to_string(leaf).map_err(DemoError::unexpected)?;
    let path = leaf.with_extension("edited");
    std::fs::write(&path, edited(&whole)?).map_err(|error| DemoError::Write { path: path.clone(), error })?;
    let (is_good, told) = verified(program, &path, key).await?;
    match told.split_once("proves nothing: ") {
        Some((_, why)) if !is_good => Ok(((), format!("it proves nothing: {}", why.trim()))),
        _ => Err(DemoError::unexpected(format!("the edited entry was not caught: {told}"))),
    }
}

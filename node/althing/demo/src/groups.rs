//! Chapter "groups": five nodes agree; their work goes on while a member freezes and the leader is killed, and a workflow
//! that waits for a person outlives both.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use althing_api::{AppRequest, CreateGroup, GroupRequest, JoinGroup, SubmitTask, TaskRequest, WorkflowRequest};
use althing_client::{Client, NodeProcess, rows, text};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::chapter;
use crate::error::DemoError;
use crate::faces::http;
use crate::stage::{Stage, until};

const NAMES: [&str; 5] = ["anna", "bert", "cora", "dirk", "emil"];
const CAPABILITY: &str = "echo.say";
const AGENT_NAME: &str = "echo";
const AGENT: &str = "name: echo\ndescription: Repeats what it receives.\n\
    skills: [{ id: echo.say, name: Say, description: Repeats a text }]\n\
    runtime: { native: { builtin: echo } }\ncontract: { class: { latency: srt } }\n";
const WORKFLOW: &str = "name: letter\nsteps:\n  - { id: draft, capability: echo.say, input: \"Dear {{input}}\" }\n  \
    - { id: ask, after: draft, approve: \"Send {{step.draft}}?\" }\n  \
    - { id: send, after: ask, capability: echo.say, input: \"Sent: {{step.draft}}, {{step.ask}}\" }\n";
const APP: &str =
    "name: demo\ngroup: team\nagents: [{ file: echo.yaml, instances: 5 }]\nworkflows: [{ file: letter.yaml }]\n";
/// Tasks that are given at once.
const TASKS: usize = 150;
/// Seconds after which a member that gives no sign of life loses its tasks.
const LEASE_S: u64 = 3;
/// The same where others are to take the tasks from it before.
const LONG_LEASE_S: u64 = 30;

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
    let network = format!("demo-groups-{}", std::process::id());
    stage.say("Five nodes of one owner start, and form a group.");
    for name in NAMES {
        nodes.push(NodeProcess::start(program, folder, name, "us", &network).await?);
    }
    stage.step("a group of five", form(nodes)).await?;
    stage.step("an application is placed on its members", apply(&nodes[0])).await?;
    let done = stage.step("its members share tasks", share(&nodes[0])).await?;
    stage.note("… each task", done / u32::try_from(TASKS).unwrap_or(1), "from submitted to completed");
    let run = stage.step("a workflow runs, and asks a person", begin(&nodes[0])).await?;
    let lead = leader(nodes).await?;
    let frozen = (lead + 1) % nodes.len();
    let asked = (lead + 2) % nodes.len();
    stage.say(&format!("{} is frozen with kill -STOP, and gets tasks all the same.", nodes[frozen].name));
    nodes[frozen].freeze();
    stage.step("idle members take them from it", steal(&nodes[asked], &nodes[frozen])).await?;
    nodes[frozen].thaw();
    stage.say(&format!("{}, the leader, is killed with kill -9 while it gives out tasks.", nodes[lead].name));
    let tasks = submit(&nodes[asked], LEASE_S).await?;
    nodes[lead].kill().await?;
    let killed = Instant::now();
    stage.step("another member leads", lead_again(&nodes[asked])).await?;
    stage.note("… kill to the next write", killed.elapsed(), "by a client of another member");
    stage.step("all tasks complete, each once", complete(&nodes[asked], &nodes[lead], &tasks)).await?;
    stage.step("the workflow goes on where it was", resume(&nodes[asked], &run)).await
}

async fn form(nodes: &[NodeProcess]) -> Result<((), String), DemoError> {
    let first = nodes[0].client().await?;
    first.post("/groups", &CreateGroup::new("team")).await?;
    for node in &nodes[1..] {
        let invite = GroupRequest::Invite { node: node.announced("node").to_owned(), life_s: 600 };
        let ticket = text(&first.post("/groups/team", &invite).await?, "ticket");
        node.client().await?.post("/join", &JoinGroup { ticket }).await?;
    }
    let voters = until(Duration::from_secs(30), "all five voting", || async {
        let status = first.get("/groups/team").await?;
        let voters = rows(&status, "members").iter().filter(|member| member["votes"] == true).count();
        Ok((voters == nodes.len() && status["role"] != "candidate").then_some(voters))
    })
    .await?;
    Ok(((), format!("{voters} members vote; a majority of 3 decides")))
}

async fn apply(node: &NodeProcess) -> Result<((), String), DemoError> {
    let files = [("echo.yaml", AGENT), ("letter.yaml", WORKFLOW)];
    let files: BTreeMap<String, String> =
        files.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    let (file, folder) = (APP.to_owned(), None);
    let request = AppRequest::Apply { file, files, folder, dry_run: false, form: false };
    let done = node.client().await?.post("/apps", &request).await?;
    if !rows(&done, "waiting").is_empty() {
        return Err(DemoError::unexpected("its agent does not run on all members"));
    }
    Ok(((), "an agent on each of five members, and a workflow".to_owned()))
}

async fn ask(client: &Client, request: TaskRequest) -> Result<Value, DemoError> {
    Ok(client.post("/groups/team/tasks", &request).await?)
}

/// Submits the tasks through one member, sixteen at a time.
async fn submit(node: &NodeProcess, lease_s: u64) -> Result<Vec<String>, DemoError> {
    use futures::{StreamExt as _, TryStreamExt as _};
    let one = |number: usize| async move {
        let client = node.client().await?;
        let submit = SubmitTask {
            id: None,
            capability: Some(CAPABILITY.to_owned()),
            agent: None,
            text: format!("task {number}"),
            priority: "normal".to_owned(),
            deadline_s: None,
            after: Vec::new(),
            key: None,
            attempts: 5,
            lease_s,
            labels: Vec::new(),
            memory_mib: None,
            cores: None,
            disk_mib: None,
            gpus: None,
            class: None,
            resources: Vec::new(),
            channel: None,
        };
        Ok::<String, DemoError>(text(&ask(&client, TaskRequest::Submit(Box::new(submit))).await?, "task"))
    };
    futures::stream::iter((0..TASKS).map(one)).buffered(16).try_collect().await
}

/// The tasks of the group that are among these, once all of them have completed.
async fn completed(node: &NodeProcess, tasks: &[String]) -> Result<Vec<Value>, DemoError> {
    let client = node.client().await?;
    until(Duration::from_secs(60), "the end of all tasks", || async {
        let list = client.get("/groups/team/tasks?finished=true").await?;
        let ours: Vec<Value> =
            rows(&list, "tasks").iter().filter(|task| tasks.contains(&text(task, "task"))).cloned().collect();
        if let Some(lost) =
            ours.iter().find(|task| ["failed", "timed out", "canceled"].contains(&text(task, "state").as_str()))
        {
            return Err(DemoError::unexpected(format!("a task was not done: {lost}")));
        }
        let done = ours.iter().filter(|task| task["state"] == "completed").count();
        Ok((done == tasks.len()).then_some(ours))
    })
    .await
}

async fn share(node: &NodeProcess) -> Result<(Duration, String), DemoError> {
    let begun = Instant::now();
    let tasks = submit(node, LEASE_S).await?;
    let done = completed(node, &tasks).await?;
    let took = begun.elapsed();
    let mut by: BTreeMap<String, usize> = BTreeMap::new();
    for task in &done {
        *by.entry(text(task, "lastMember")).or_default() += 1;
    }
    Ok((took, format!("{TASKS} tasks, done by {} members", by.len())))
}

async fn begin(node: &NodeProcess) -> Result<(String, String), DemoError> {
    let client = node.client().await?;
    let request = WorkflowRequest::RunNamed { name: "letter".to_owned(), input: "reader".to_owned() };
    let run = text(&client.post("/groups/team/workflows", &request).await?, "run");
    let question = until(Duration::from_secs(15), "the question", || async {
        let shown = client.get(&format!("/groups/team/workflows/{run}")).await?;
        Ok(shown["step"][1]["question"].as_str().map(str::to_owned))
    })
    .await?;
    Ok((run, format!("{question:?}")))
}

/// Which node leads.
async fn leader(nodes: &[NodeProcess]) -> Result<usize, DemoError> {
    let client = nodes[0].client().await?;
    let status = client.get("/groups/team").await?;
    let leader = text(&status, "leader");
    let place = nodes.iter().position(|node| node.announced("node") == leader);
    place.ok_or_else(|| DemoError::unexpected("nobody leads"))
}

/// Tasks that a member was given and has not begun.
async fn given(node: &NodeProcess, member: &NodeProcess) -> Result<Vec<String>, DemoError> {
    let client = node.client().await?;
    let member = member.announced("node");
    until(Duration::from_secs(20), "a task for the frozen member", || async {
        let list = client.get("/groups/team/tasks").await?;
        let given = rows(&list, "tasks").iter().filter(|task| task["member"] == member && task["state"] == "assigned");
        let given: Vec<String> = given.map(|task| text(task, "task")).collect();
        Ok((!given.is_empty()).then_some(given))
    })
    .await
}

/// Others take from a frozen member what it was given, long before its lease is over.
async fn steal(node: &NodeProcess, frozen: &NodeProcess) -> Result<((), String), DemoError> {
    let (tasks, given) = tokio::try_join!(submit(node, LONG_LEASE_S), given(node, frozen))?;
    let done = completed(node, &tasks).await?;
    let number = |task: &Value, name: &str| task[name].as_u64().unwrap_or_default();
    let taken = |task: &&Value| number(task, "stolen") > 0 && number(task, "attempt") == 1;
    let kept = given.iter().filter(|id| !done.iter().filter(taken).any(|task| text(task, "task") == **id)).count();
    if kept > 0 {
        let (all, name) = (given.len(), &frozen.name);
        return Err(DemoError::unexpected(format!(
            "of {all} tasks that {name} was given, {kept} were not taken from it"
        )));
    }
    let stolen = done.iter().filter(taken).count();
    Ok(((), format!("{TASKS} tasks complete, {stolen} of them by members that took them from others")))
}

async fn lead_again(node: &NodeProcess) -> Result<((), String), DemoError> {
    let client = node.client().await?;
    let set = GroupRequest::Set { key: "after".to_owned(), value: "the kill".to_owned(), if_version: None };
    client.post("/groups/team", &set).await?;
    let status = client.get("/groups/team").await?;
    Ok(((), format!("term {}", text(&status, "term"))))
}

/// What the agents of all members that are there did for the group: of each task the tokens by which it was done.
async fn done_by_agents(node: &NodeProcess) -> Result<BTreeMap<String, Vec<u64>>, DemoError> {
    let (http, url) = (http()?, format!("{}/a2a/{AGENT_NAME}", node.announced("gateway")));
    let (mut done, mut page) = (BTreeMap::<String, Vec<u64>>::new(), String::new());
    loop {
        let params = json!({ "pageSize": 100, "pageToken": page });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": params });
        let asked = http.post(&url).header("A2A-Version", "1.0").json(&request).send().await;
        let answer: Value = asked.map_err(DemoError::unexpected)?.json().await.map_err(DemoError::unexpected)?;
        let list = &answer["result"];
        if !list["tasks"].is_array() {
            return Err(DemoError::unexpected(format!("what the agents did cannot be listed: {answer}")));
        }
        for task in rows(list, "tasks").iter().filter(|task| task["status"]["state"] == "TASK_STATE_COMPLETED") {
            // A member calls the message of a task by the task and the token.
            let message = text(&task["history"][0], "messageId");
            let Some((id, token)) = message.rsplit_once('-') else { continue };
            if let Ok(token) = token.parse::<u64>() {
                done.entry(id.to_owned()).or_default().push(token);
            }
        }
        page = text(list, "nextPageToken");
        if page.is_empty() {
            return Ok(done);
        }
    }
}

/// Each task has one result, of the agent that did it by the last token, and no agent did it twice in one attempt. A later
/// attempt there is only for what the killed member had, or a slow one for longer than its lease.
async fn complete(node: &NodeProcess, killed: &NodeProcess, tasks: &[String]) -> Result<((), String), DemoError> {
    let done = completed(node, tasks).await?;
    // Until the killed member is missed, not all that host the agent answer.
    let by_agents = until(Duration::from_secs(30), "a list of what the agents did", || async {
        Ok(done_by_agents(node).await.ok())
    })
    .await?;
    for task in &done {
        let mut tokens = by_agents.get(&text(task, "task")).cloned().unwrap_or_default();
        let all = tokens.len();
        tokens.sort_unstable();
        tokens.dedup();
        // What the killed member did cannot be asked any more.
        let is_gone = task["lastMember"] == killed.announced("node");
        let is_its_own = is_gone || task["fencingToken"].as_u64().is_some_and(|token| tokens.contains(&token));
        let times = tokens.len() as u64 + u64::from(is_gone);
        if tokens.len() < all || !is_its_own || task["attempt"].as_u64().is_none_or(|attempts| times > attempts) {
            return Err(DemoError::unexpected(format!(
                "a task was done by the tokens {tokens:?}, {all} times: {task}"
            )));
        }
    }
    let again = done.iter().filter(|task| task["attempt"].as_u64().is_some_and(|attempt| attempt > 1)).count();
    Ok(((), format!("{} completed, {again} of them in a later attempt, and none was done twice in one", done.len())))
}

async fn resume(node: &NodeProcess, run: &str) -> Result<((), String), DemoError> {
    let client = node.client().await?;
    let approve = WorkflowRequest::Approve { run: run.to_owned(), step: None, approved: true, note: "yes".to_owned() };
    client.post("/groups/team/workflows", &approve).await?;
    let result = until(Duration::from_secs(30), "the end of the workflow", || async {
        let shown = client.get(&format!("/groups/team/workflows/{run}")).await?;
        match shown["state"].as_str() {
            Some("completed") => Ok(Some(text(&shown, "result"))),
            Some("running") => Ok(None),
            _ => Err(DemoError::unexpected(format!("the workflow did not complete: {shown}"))),
        }
    })
    .await?;
    Ok(((), format!("{result:?}")))
}

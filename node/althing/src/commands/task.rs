//! `althing task`

use std::time::Duration;

use althing_api::{
    ListQuery, MemberVerdict, OutcomeDoubt, ResourceChoice, ResourceDecision, ResourceList, ResourceRule,
    ResourceStatus, SubmitTask, TaskCancellation, TaskContent, TaskDependencies, TaskDependency, TaskDetails, TaskLink,
    TaskList, TaskQuery, TaskRefusal, TaskRequest, TaskSubmission, TaskSummary, WorkState,
};
use althing_client::{Client, ClientError};
use althing_protocol::group::WorkId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

use crate::args::{SubmitArgs, Task};
use crate::commands::agent::escape;
use crate::commands::{Out, block, one_line, plain, short, table};
use crate::exit::{Failure, code};
use crate::paths::Paths;
use crate::ports;

/// Between two looks at a task that is waited for.
const POLL: Duration = Duration::from_millis(200);
/// For how long a task that may begin is taken by no member until the reasons are said.
const UNTAKEN: Duration = Duration::from_secs(1);
/// Members whose reasons are said.
const VERDICTS_SHOWN: usize = 8;
/// Decisions about resources that are shown: the last ones.
const DECISIONS_SHOWN: usize = 10;

/// Gives work to a group, and shows what becomes of it.
pub async fn run(at: &Paths, task: &Task, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    match task {
        Task::Submit(given) => return submitted(&client, given, out).await,
        Task::List { group, all } => {
            let list: TaskList = client.query(&path(group, "tasks"), &ListQuery { finished: *all }).await?;
            out.show(&list, listed);
        }
        Task::Show { group, task, explain } => {
            let details = looked(&client, group, task, *explain).await?;
            out.show(&details, shown);
        }
        Task::Cancel { group, task } => {
            let request = TaskRequest::Cancel { task: task.clone() };
            let done: TaskCancellation = ask(&client, group, &request).await?;
            out.show(&done, |done| format!("{} is canceled", done.canceled));
        }
        Task::Deps { group, task, after: Some(on) } => {
            let request = TaskRequest::Depend { task: task.clone(), on: on.clone() };
            let done: TaskDependency = ask(&client, group, &request).await?;
            out.show(&done, |done| format!("{} waits for {}", done.task, done.on));
        }
        Task::Deps { group, task, after: None } => {
            let path = format!("{}/{}/dependencies", path(group, "tasks"), escape(task));
            let deps: TaskDependencies = client.read(&path).await?;
            out.show(&deps, dependencies);
        }
        Task::Resources { .. } | Task::Vote { .. } | Task::Decide { .. } => contended(&client, task, out).await?,
    }
    Ok(())
}

/// Has a group do something with its tasks.
async fn ask<T: DeserializeOwned>(client: &Client, group: &str, request: &TaskRequest) -> Result<T, ClientError> {
    client.ask(&path(group, "tasks"), request).await
}

/// A task as it is now.
async fn looked(client: &Client, group: &str, task: &str, explain: bool) -> Result<TaskDetails, ClientError> {
    let path = format!("{}/{}", path(group, "tasks"), escape(task));
    client.query(&path, &TaskQuery { explain }).await
}

fn path(group: &str, of: &str) -> String {
    format!("/groups/{}/{of}", escape(group))
}

/// Submits a task, and waits for its end where that is asked.
async fn submitted(client: &Client, given: &SubmitArgs, out: &Out) -> Result<(), Failure> {
    let id = WorkId::from_bytes(ports::entropy().bytes()).to_string();
    let request = TaskRequest::Submit(Box::new(submit(given, &id)));
    let done: TaskSubmission = match ask(client, &given.group, &request).await {
        // The node went away with the answer.
        Err(error @ ClientError::Lost { .. }) => {
            return Err(Failure::from(error).with_unknown(&given.group, OutcomeDoubt::Task(id)));
        }
        done => done?,
    };
    if !given.wait {
        out.show(&done, |done| done.task.clone());
        return Ok(());
    }
    let id = done.task;
    tell(out, &json!({ "task": id }), &format!("the task is {id}"));
    let shown = tokio::select! {
        shown = waited(client, given, &id, out) => shown?,
        _ = tokio::signal::ctrl_c() => {
            let cancel = format!("althing task cancel {} {id}", given.group);
            let why = format!("interrupted; the group goes on with the task, and this ends it: {cancel}");
            return Err(Failure::new(code::INTERRUPTED, why));
        }
    };
    out.show(&shown, answer);
    if shown.summary.state == WorkState::Completed { Ok(()) } else { Err(Failure::shown(code::FAILED)) }
}

/// Waits until a task is over; says once why no member takes it.
async fn waited(client: &Client, given: &SubmitArgs, id: &str, out: &Out) -> Result<TaskDetails, Failure> {
    let (mut ready_since, mut is_told) = (None::<Instant>, false);
    loop {
        let explain = !is_told && ready_since.is_some_and(|since| since.elapsed() >= UNTAKEN);
        let shown = looked(client, &given.group, id, explain).await?;
        let state = shown.summary.state;
        if state.is_finished() {
            return Ok(shown);
        }
        if state != WorkState::Ready {
            ready_since = None;
        } else if explain {
            let why = untaken(given, id, &shown);
            tell(out, &json!({ "task": id, "waits": why }), &why);
            is_told = true;
        } else {
            ready_since.get_or_insert_with(Instant::now);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Why no member has taken a task.
fn untaken(given: &SubmitArgs, id: &str, shown: &TaskDetails) -> String {
    let explain = format!("`althing task show {} {id} --explain` on the leader's node says why", given.group);
    let verdicts = shown.candidates.as_deref().unwrap_or_default();
    if shown.explained_by_leader != Some(true) || verdicts.is_empty() {
        return format!("no member has taken the task yet; {explain}");
    }
    match &given.capability {
        Some(capability) if verdicts.iter().all(|verdict| verdict.reason == "noCapability") => {
            format!("no member has the capability {capability}; the task waits until one does")
        }
        _ => {
            let said = |one: &MemberVerdict| format!("\n  {} {}", short(&one.node), one_line(&one.verdict));
            let said: String = verdicts.iter().take(VERDICTS_SHOWN).map(said).collect();
            format!("no member has taken the task yet:{said}")
        }
    }
}

/// Says something beside the result, which alone goes to standard output.
fn tell(out: &Out, value: &impl Serialize, words: &str) {
    if out.json {
        eprintln!("{}", json!(value));
    } else {
        eprintln!("althing: {}", plain(words, &std::io::stderr()));
    }
}

/// What is done about the resources that tasks want.
async fn contended(client: &Client, task: &Task, out: &Out) -> Result<(), Failure> {
    match task.clone() {
        Task::Resources { group, resource: Some(resource), rule: Some(rule) } => {
            let request = TaskRequest::Define { resource, rule: rule.name().to_owned() };
            let done: ResourceRule = ask(client, &group, &request).await?;
            out.show(&done, |done| format!("the rule of {} is {}", done.resource, done.rule));
        }
        Task::Resources { group, .. } => {
            let list: ResourceList = client.read(&path(&group, "resources")).await?;
            out.show(&list, resources);
        }
        Task::Vote { group, resource, task } => {
            let done: ResourceChoice = ask(client, &group, &TaskRequest::Vote { resource, task }).await?;
            out.show(&done, |done| format!("this node votes for {} on {}", done.task, done.resource));
        }
        Task::Decide { group, resource, task } => {
            let done: ResourceChoice = ask(client, &group, &TaskRequest::Decide { resource, task }).await?;
            out.show(&done, |done| format!("{} gets {} next", done.task, done.resource));
        }
        other => unreachable!("{other:?} is not about resources"),
    }
    Ok(())
}

fn resources(list: &ResourceList) -> String {
    let cells: Vec<Vec<String>> = list.resources.iter().flat_map(claims).collect();
    let said = |decision: &ResourceDecision| {
        let ResourceDecision { resource, rule, task, others_total, dissent_total, .. } = decision;
        let dissent = if *dissent_total == 0 { String::new() } else { format!(", {dissent_total} voted otherwise") };
        format!("  {resource} went to {task} by {rule}, {others_total} waited{dissent}")
    };
    let decisions: Vec<String> = list.decisions.iter().rev().take(DECISIONS_SHOWN).map(said).collect();
    let decisions =
        if decisions.is_empty() { String::new() } else { format!("\n\nlast decisions:\n{}", decisions.join("\n")) };
    if cells.is_empty() {
        return format!("no task wants a resource, and none has a rule{decisions}");
    }
    format!("{}{decisions}", table(&["resource", "rule", "task", ""], &cells))
}

/// A resource, in a line for each task that has it or wants it.
fn claims(resource: &ResourceStatus) -> Vec<Vec<String>> {
    let ResourceStatus { resource: name, rule, used_by, waiting, decided, .. } = resource;
    let line = |task: &str, said: String| vec![name.clone(), rule.clone(), task.to_owned(), said];
    let mut lines: Vec<Vec<String>> = used_by.iter().map(|user| line(user, "has it".to_owned())).collect();
    lines.extend(waiting.iter().map(|claim| {
        let said = match (claim.next, decided.as_ref() == Some(&claim.task)) {
            (true, _) => "is next",
            (false, true) => "is decided on",
            (false, false) => "waits",
        };
        let votes = if rule == "vote" { format!(", {} votes", claim.votes) } else { String::new() };
        line(&claim.task, format!("{said}{votes}"))
    }));
    if lines.is_empty() { vec![line("", "nobody wants it".to_owned())] } else { lines }
}

fn submit(given: &SubmitArgs, id: &str) -> SubmitTask {
    SubmitTask {
        id: Some(id.to_owned()),
        capability: given.capability.clone(),
        agent: given.agent.clone(),
        text: given.text.join(" "),
        priority: given.priority.name().to_owned(),
        deadline_s: given.deadline,
        after: given.after.clone(),
        key: given.key.clone(),
        attempts: given.attempts,
        lease_s: given.lease,
        labels: given.label.clone(),
        memory_mib: given.memory_mib,
        cores: given.cores,
        disk_mib: given.disk_mib,
        gpus: given.gpus,
        class: given.class.clone(),
        resources: given.resource.clone(),
        channel: given.channel.clone(),
    }
}

fn listed(list: &TaskList) -> String {
    let cells = |task: &TaskSummary| {
        let member = task.member.as_deref().map(short).unwrap_or_default();
        let state = task.state.name().to_owned();
        vec![task.task.clone(), state, task.needs.clone(), task.priority.clone(), member]
    };
    let all: Vec<Vec<String>> = list.tasks.iter().map(cells).collect();
    if all.is_empty() {
        return "no task; `althing task submit GROUP --cap CAPABILITY TEXT` gives the group one".to_owned();
    }
    table(&["task", "state", "needs", "priority", "member"], &all)
}

/// The words of a result: an agent's answer, or the text that a step of a workflow returned.
fn words(result: Option<&TaskContent>) -> String {
    match result {
        Some(TaskContent::Text(text)) => text.clone(),
        Some(TaskContent::Message(message)) => althing_operations::answer_text(message),
        Some(TaskContent::Reference(_)) | None => String::new(),
    }
}

fn answer(shown: &TaskDetails) -> String {
    match (shown.summary.state, &shown.result_error) {
        (WorkState::Completed, Some(error)) => format!("completed; its result cannot be had: {error}"),
        (WorkState::Completed, None) => words(shown.result.as_ref()),
        (state, _) => format!("{}: {}", state.name(), shown.summary.why.as_deref().unwrap_or_default()),
    }
}

fn shown(details: &TaskDetails) -> String {
    let task = &details.summary;
    let mut lines = vec![
        format!("task      {} (number {})", task.task, task.number),
        format!("state     {}, attempt {} of {}", task.state.name(), task.attempt, details.attempts_max),
        format!("needs     {}, priority {}", task.needs, task.priority),
        format!("author    {}", details.author),
    ];
    lines.extend(task.member.iter().map(|member| format!("member    {member}")));
    lines.extend(details.waits_for.iter().map(|what| format!("waits for {what}")));
    lines.extend(task.why.iter().map(|why| format!("why       {}", one_line(why))));
    lines.push(format!(
        "history   token {}, stolen {} times, handed over {} times",
        task.fencing_token, task.stolen, task.handed_over
    ));
    let refused = |one: &TaskRefusal| format!("refused   {}: {}", short(&one.node), one_line(&one.reason));
    lines.extend(details.refused.iter().map(refused));
    lines.extend(details.result_error.iter().map(|error| format!("result    {}", one_line(error))));
    let result = words(details.result.as_ref());
    if !result.is_empty() {
        lines.push(format!("result    {}", block(&result)));
    }
    let candidates = details.candidates.as_deref().unwrap_or_default();
    let verdicts: Vec<Vec<String>> = candidates.iter().map(|one| vec![short(&one.node), one.verdict.clone()]).collect();
    let why =
        if verdicts.is_empty() { String::new() } else { format!("\n\n{}", table(&["member", "verdict"], &verdicts)) };
    format!("{}{why}", lines.join("\n"))
}

fn dependencies(deps: &TaskDependencies) -> String {
    let line = |task: &TaskSummary| {
        let verified = if task.verified == Some(false) { "  not verified" } else { "" };
        format!("  {}  {}  {}{verified}", task.task, task.state.name(), task.needs)
    };
    let linked = |link: &TaskLink| match link {
        TaskLink::Summary(task) => line(task),
        TaskLink::Id(id) => format!("  {}    ", id.task),
    };
    let block = |title: &str, links: &[TaskLink]| {
        let lines: Vec<String> = links.iter().map(linked).collect();
        if lines.is_empty() { format!("{title}: nothing") } else { format!("{title}:\n{}", lines.join("\n")) }
    };
    format!(
        "{}\n{}\n{}",
        line(&deps.task).trim_start(),
        block("depends on", &deps.depends_on),
        block("needed by", &deps.needed_by)
    )
}

#[cfg(test)]
mod tests;

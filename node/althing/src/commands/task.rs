//! `althing task`

use std::time::Duration;

use althing_api::{Doubt, SubmitTask, TaskRequest};
use althing_client::ClientError;
use althing_protocol::group::WorkId;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::args::{SubmitArgs, Task};
use crate::commands::agent::escape;
use crate::commands::{Out, plain, rows, short, table, text};
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
    let ask = async |group: &str, request: TaskRequest| {
        Ok::<Value, Failure>(client.post(&format!("/groups/{}/tasks", escape(group)), &request).await?)
    };
    match task {
        Task::Submit(given) => {
            let id = WorkId::from_bytes(ports::entropy().bytes()).to_string();
            let request = TaskRequest::Submit(Box::new(submit(given, &id)));
            let done = match client.post(&format!("/groups/{}/tasks", escape(&given.group)), &request).await {
                // The node went away with the answer.
                Err(error @ ClientError::Lost { .. }) => {
                    return Err(Failure::from(error).in_doubt(&given.group, Doubt::Task(id)));
                }
                done => done?,
            };
            if !given.wait {
                out.show(&done, |done| text(done, "task"));
                return Ok(());
            }
            let id = text(&done, "task");
            tell(out, &json!({ "task": id }), &format!("the task is {id}"));
            let shown = tokio::select! {
                shown = waited(given, &id, ask, out) => shown?,
                _ = tokio::signal::ctrl_c() => {
                    let cancel = format!("althing task cancel {} {id}", given.group);
                    let why = format!("interrupted; the group goes on with the task, and this ends it: {cancel}");
                    return Err(Failure::new(code::INTERRUPTED, why));
                }
            };
            out.show(&shown, answer);
            return if shown["state"] == "completed" { Ok(()) } else { Err(Failure::shown(code::FAILED)) };
        }
        Task::List { group, all } => out.show(&ask(group, TaskRequest::List { finished: *all }).await?, listed),
        Task::Show { group, task, explain } => {
            out.show(&ask(group, TaskRequest::Show { task: task.clone(), explain: *explain }).await?, shown);
        }
        Task::Cancel { group, task } => {
            let done = ask(group, TaskRequest::Cancel { task: task.clone() }).await?;
            out.show(&done, |done| format!("{} is canceled", text(done, "canceled")));
        }
        Task::Deps { group, task, after: Some(on) } => {
            let done = ask(group, TaskRequest::Depend { task: task.clone(), on: on.clone() }).await?;
            out.show(&done, |done| format!("{} waits for {}", text(done, "task"), text(done, "on")));
        }
        Task::Deps { group, task, after: None } => {
            out.show(&ask(group, TaskRequest::Deps { task: task.clone() }).await?, dependencies);
        }
        Task::Resources { .. } | Task::Vote { .. } | Task::Decide { .. } => contended(task, ask, out).await?,
    }
    Ok(())
}

/// Waits until a task is over; says once why no member takes it.
async fn waited(
    given: &SubmitArgs,
    id: &str,
    ask: impl AsyncFn(&str, TaskRequest) -> Result<Value, Failure>,
    out: &Out,
) -> Result<Value, Failure> {
    let (mut ready_since, mut is_told) = (None::<Instant>, false);
    loop {
        let explain = !is_told && ready_since.is_some_and(|since| since.elapsed() >= UNTAKEN);
        let shown = ask(&given.group, TaskRequest::Show { task: id.to_owned(), explain }).await?;
        let state = text(&shown, "state");
        if !["blocked", "ready", "assigned", "working"].contains(&state.as_str()) {
            return Ok(shown);
        }
        if state != "ready" {
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
fn untaken(given: &SubmitArgs, id: &str, shown: &Value) -> String {
    let explain = format!("`althing task show {} {id} --explain` on the leader's node says why", given.group);
    let verdicts = rows(shown, "candidates");
    if shown["explainedByLeader"] != true || verdicts.is_empty() {
        return format!("no member has taken the task yet; {explain}");
    }
    let lacks = |verdict: &Value| verdict["reason"] == "noCapability";
    match &given.capability {
        Some(capability) if verdicts.iter().all(lacks) => {
            format!("no member has the capability {capability}; the task waits until one does")
        }
        _ => {
            let said = |one: &Value| format!("\n  {} {}", short(&text(one, "node")), text(one, "verdict"));
            let said: String = verdicts.iter().take(VERDICTS_SHOWN).map(said).collect();
            format!("no member has taken the task yet:{said}")
        }
    }
}

/// Says something beside the result, which alone goes to standard output.
fn tell(out: &Out, value: &Value, words: &str) {
    if out.json {
        eprintln!("{value}");
    } else {
        eprintln!("althing: {}", plain(words, &std::io::stderr()));
    }
}

/// What is done about the resources that tasks want.
async fn contended(
    task: &Task,
    ask: impl AsyncFn(&str, TaskRequest) -> Result<Value, Failure>,
    out: &Out,
) -> Result<(), Failure> {
    match task.clone() {
        Task::Resources { group, resource: Some(resource), rule: Some(rule) } => {
            let done = ask(&group, TaskRequest::Define { resource, rule: rule.name().to_owned() }).await?;
            out.show(&done, |done| format!("the rule of {} is {}", text(done, "resource"), text(done, "rule")));
        }
        Task::Resources { group, .. } => out.show(&ask(&group, TaskRequest::Resources).await?, resources),
        Task::Vote { group, resource, task } => {
            let done = ask(&group, TaskRequest::Vote { resource, task }).await?;
            out.show(&done, |done| format!("this node votes for {} on {}", text(done, "task"), text(done, "resource")));
        }
        Task::Decide { group, resource, task } => {
            let done = ask(&group, TaskRequest::Decide { resource, task }).await?;
            out.show(&done, |done| format!("{} gets {} next", text(done, "task"), text(done, "resource")));
        }
        other => unreachable!("{other:?} is not about resources"),
    }
    Ok(())
}

fn resources(list: &Value) -> String {
    let mut cells = Vec::new();
    for resource in rows(list, "resources") {
        let (name, rule) = (text(resource, "resource"), text(resource, "rule"));
        let is_voted = rule == "vote";
        let head = |task: String, said: String| vec![name.clone(), rule.clone(), task, said];
        if let Some(user) = resource["usedBy"].as_str() {
            cells.push(head(user.to_owned(), "has it".to_owned()));
        }
        for task in rows(resource, "waiting") {
            let said = match (task["next"] == true, resource["decided"] == task["task"]) {
                (true, _) => "is next",
                (false, true) => "is decided on",
                (false, false) => "waits",
            };
            let votes = if is_voted { format!(", {} votes", task["votes"]) } else { String::new() };
            cells.push(head(text(task, "task"), format!("{said}{votes}")));
        }
        if cells.last().is_none_or(|last| last[0] != name) {
            cells.push(head(String::new(), "nobody wants it".to_owned()));
        }
    }
    let said = |decision: &Value| {
        let (task, others) = (text(decision, "task"), &decision["othersTotal"]);
        let dissent = match decision["dissentTotal"].as_u64() {
            Some(0) | None => String::new(),
            Some(count) => format!(", {count} voted otherwise"),
        };
        format!(
            "  {} went to {task} by {}, {others} waited{dissent}",
            text(decision, "resource"),
            text(decision, "rule")
        )
    };
    let decisions: Vec<String> = rows(list, "decisions").iter().rev().take(DECISIONS_SHOWN).map(said).collect();
    let decisions =
        if decisions.is_empty() { String::new() } else { format!("\n\nlast decisions:\n{}", decisions.join("\n")) };
    if cells.is_empty() {
        return format!("no task wants a resource, and none has a rule{decisions}");
    }
    format!("{}{decisions}", table(&["resource", "rule", "task", ""], &cells))
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
    }
}

fn listed(list: &Value) -> String {
    let cells = |task: &Value| {
        let member = short(&text(task, "member"));
        vec![text(task, "task"), text(task, "state"), text(task, "needs"), text(task, "priority"), member]
    };
    let all: Vec<Vec<String>> = rows(list, "tasks").iter().map(cells).collect();
    if all.is_empty() {
        return "no task; `althing task submit GROUP --cap CAPABILITY TEXT` gives the group one".to_owned();
    }
    table(&["task", "state", "needs", "priority", "member"], &all)
}

/// The words of a result: an agent's answer, or the text that a step of a workflow returned.
fn words(result: &Value) -> String {
    result.as_str().map_or_else(|| althing_node::words(result), str::to_owned)
}

fn answer(shown: &Value) -> String {
    match shown["state"].as_str() {
        Some("completed") => match shown["resultError"].as_str() {
            Some(error) => format!("completed; its result cannot be had: {error}"),
            None => words(&shown["result"]),
        },
        _ => format!("{}: {}", text(shown, "state"), text(shown, "why")),
    }
}

fn shown(task: &Value) -> String {
    let mut lines = vec![
        format!("task      {} (number {})", text(task, "task"), task["number"]),
        format!("state     {}, attempt {} of {}", text(task, "state"), task["attempt"], task["attemptsMax"]),
        format!("needs     {}, priority {}", text(task, "needs"), text(task, "priority")),
        format!("author    {}", text(task, "author")),
    ];
    let optional = |lines: &mut Vec<String>, name: &str, key: &str| {
        if let Some(said) = task[key].as_str() {
            lines.push(format!("{name:<10}{said}"));
        }
    };
    optional(&mut lines, "member", "member");
    optional(&mut lines, "waits for", "waitsFor");
    optional(&mut lines, "why", "why");
    lines.push(format!(
        "history   token {}, stolen {} times, handed over {} times",
        task["fencingToken"], task["stolen"], task["handedOver"]
    ));
    for refused in rows(task, "refused") {
        lines.push(format!("refused   {}: {}", short(&text(refused, "node")), text(refused, "reason")));
    }
    optional(&mut lines, "result", "resultError");
    let result = words(&task["result"]);
    if !result.is_empty() {
        lines.push(format!("result    {result}"));
    }
    let verdicts: Vec<Vec<String>> =
        rows(task, "candidates").iter().map(|one| vec![short(&text(one, "node")), text(one, "verdict")]).collect();
    let why =
        if verdicts.is_empty() { String::new() } else { format!("\n\n{}", table(&["member", "verdict"], &verdicts)) };
    format!("{}{why}", lines.join("\n"))
}

fn dependencies(deps: &Value) -> String {
    let line = |task: &Value| format!("  {}  {}  {}", text(task, "task"), text(task, "state"), text(task, "needs"));
    let block = |title: &str, key: &str| {
        let lines: Vec<String> = rows(deps, key).iter().map(line).collect();
        if lines.is_empty() { format!("{title}: nothing") } else { format!("{title}:\n{}", lines.join("\n")) }
    };
    format!(
        "{}\n{}\n{}",
        line(&deps["task"]).trim_start(),
        block("depends on", "dependsOn"),
        block("needed by", "neededBy")
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    #[test]
    fn why_nobody_takes_a_task_is_told_by_the_reasons_of_the_members() {
        let words = ["althing", "task", "submit", "team", "--cap", "a.b", "x"];
        let Command::Task(Task::Submit(given)) = Args::try_parse_from(words).expect("words").command else {
            panic!("a task")
        };
        let member = |reason: &str| json!({ "node": "did:key:z6Mk", "reason": reason, "verdict": "in other words" });
        let shown = |reasons: &[&str]| {
            let candidates: Vec<Value> = reasons.iter().copied().map(member).collect();
            untaken(&given, "0a", &json!({ "explainedByLeader": true, "candidates": candidates }))
        };
        assert!(shown(&["noCapability", "noCapability"]).starts_with("no member has the capability a.b"));
        assert!(shown(&["noCapability", "full"]).contains("in other words"));
        assert!(shown(&[]).contains("--explain"));
    }
}

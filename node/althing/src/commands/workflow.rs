//! `althing workflow`

use std::path::Path;
use std::time::Duration;

use althing_control::WorkflowRequest;
use althing_store::file::read_text;
use althing_td::WORKFLOW_FILE_BYTES_MAX;
use serde_json::Value;

use crate::args::Workflow;
use crate::commands::agent::escape;
use crate::commands::{Out, rows, table, text};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Between two looks at a run that is waited for.
const POLL: Duration = Duration::from_millis(200);

/// Runs workflows in a group, and shows what becomes of them.
pub async fn run(at: &Paths, workflow: &Workflow, out: &Out) -> Result<(), Failure> {
    let (group, request) = request(workflow)?;
    let client = at.connect().await?;
    let path = format!("/groups/{}/workflows", escape(group));
    let begun = client.post(&path, &request).await;
    let mut done = begun.map_err(|error| match (workflow, &request) {
        (Workflow::Run { file, .. }, WorkflowRequest::Run { .. }) => Failure::from(error).in_file(file),
        _ => Failure::from(error),
    })?;
    if let Workflow::Run { wait: true, .. } = workflow {
        let run = text(&done, "run");
        loop {
            done = client.post(&path, &WorkflowRequest::Show { run: run.clone() }).await?;
            if done["state"] != "running" {
                break;
            }
            tokio::time::sleep(POLL).await;
        }
        out.show(&done, ended);
        return if done["state"] == "completed" { Ok(()) } else { Err(Failure::shown(code::FAILED)) };
    }
    out.show(&done, |done| match workflow {
        Workflow::Run { .. } => text(done, "run"),
        Workflow::List { .. } => listed(done),
        Workflow::Show { .. } => shown(done),
        Workflow::Approve { .. } => {
            let what = if done["approved"] == true { "approved" } else { "rejected" };
            format!("{} is {what}", text(done, "step"))
        }
        Workflow::Resume { .. } => format!("{} goes on", text(done, "resumed")),
        Workflow::Cancel { .. } => format!("{} is canceled", text(done, "canceled")),
    });
    Ok(())
}

/// A workflow file.
pub(super) fn read(file: &Path) -> Result<String, Failure> {
    let bytes_max = u64::try_from(WORKFLOW_FILE_BYTES_MAX).unwrap_or(u64::MAX);
    read_text(file, bytes_max).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

/// The operation, and on which group.
fn request(workflow: &Workflow) -> Result<(&String, WorkflowRequest), Failure> {
    Ok(match workflow {
        Workflow::Run { group, file, input, .. } => {
            let input = input.join(" ");
            // What is no file may be the name of a workflow: `example.org/review` and `urn:althing:z…:review` are, too.
            match file.to_str().filter(|_| !file.exists()) {
                Some(name) => (group, WorkflowRequest::RunNamed { name: name.to_owned(), input }),
                None => (group, WorkflowRequest::Run { file: read(file)?, input }),
            }
        }
        Workflow::List { group, all } => (group, WorkflowRequest::List { finished: *all }),
        Workflow::Show { group, run } => (group, WorkflowRequest::Show { run: run.clone() }),
        Workflow::Approve { group, run, step, reject, note } => {
            let (run, step, note) = (run.clone(), step.clone(), note.join(" "));
            (group, WorkflowRequest::Approve { run, step, approved: !reject, note })
        }
        Workflow::Resume { group, run } => (group, WorkflowRequest::Resume { run: run.clone() }),
        Workflow::Cancel { group, run } => (group, WorkflowRequest::Cancel { run: run.clone() }),
    })
}

fn listed(list: &Value) -> String {
    let cells = |run: &Value| {
        let count = |key: &str| run[key].as_u64().unwrap_or_default();
        let over = count("completed") + count("skipped");
        let asks = if count("asking") > 0 { "asks" } else { "" };
        let steps = format!("{over} of {}", count("steps"));
        vec![text(run, "run"), text(run, "workflow"), text(run, "state"), steps, asks.to_owned(), text(run, "schedule")]
    };
    let all: Vec<Vec<String>> = rows(list, "runs").iter().map(cells).collect();
    if all.is_empty() {
        return "no run; `althing workflow run GROUP FILE INPUT` begins one, --all lists those that ended".to_owned();
    }
    table(&["run", "workflow", "state", "steps", "", "schedule"], &all)
}

/// What a run that was waited for came to.
fn ended(run: &Value) -> String {
    if run["state"] == "completed" {
        return text(run, "result");
    }
    let failure = &run["failure"];
    format!("{}: the step {}: {}", text(run, "state"), text(failure, "step"), text(failure, "why"))
}

fn shown(run: &Value) -> String {
    let mut lines = vec![
        format!("run       {} (number {})", text(run, "run"), run["number"]),
        format!("workflow  {}, resumed {} times", text(run, "workflow"), run["resumed"]),
        format!("state     {}", text(run, "state")),
        format!("author    {}", text(run, "author")),
    ];
    if let Some(schedule) = run["schedule"].as_str() {
        lines.push(format!("schedule  {schedule}"));
    }
    if let Some(result) = run["result"].as_str() {
        lines.push(format!("result    {result}"));
    }
    let cells = |step: &Value| {
        let said = ["question", "why", "result"].iter().find_map(|key| step[*key].as_str()).unwrap_or_default();
        let first = said.lines().next().unwrap_or_default().chars().take(60).collect();
        let round = step["round"].as_u64().map_or(0, |round| round + 1);
        vec![text(step, "step"), text(step, "state"), round.to_string(), rows(step, "tasks").len().to_string(), first]
    };
    let steps: Vec<Vec<String>> = rows(run, "step").iter().map(cells).collect();
    lines.push(format!("\n{}", table(&["step", "state", "round", "tasks", ""], &steps)));
    let id = text(run, "run");
    let asked = rows(run, "step").iter().filter(|step| step["state"] == "asking");
    lines.extend(asked.map(|step| {
        format!(
            "\n{} asks: {}\nnext: althing workflow approve GROUP {id} --step {} NOTE",
            text(step, "step"),
            text(step, "question"),
            text(step, "step")
        )
    }));
    if run["state"] == "failed" {
        lines.push(format!("\nnext: althing workflow resume GROUP {id}"));
    }
    lines.join("\n")
}

//! `althing workflow`

use std::path::Path;
use std::time::Duration;

use althing_api::WorkflowRequest;
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
/// Characters of an answer that a cell of a table shows.
const CELL_CHARS_MAX: usize = 60;

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
        Workflow::Show { .. } => shown(group, done),
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

fn shown(group: &str, run: &Value) -> String {
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
        // A reason stands below, whole.
        let said = ["question", "result"].iter().find_map(|key| step[*key].as_str()).filter(|_| step["why"].is_null());
        let first = excerpt(said.unwrap_or_default());
        let round = step["round"].as_u64().map_or(0, |round| round + 1);
        vec![text(step, "step"), text(step, "state"), round.to_string(), rows(step, "tasks").len().to_string(), first]
    };
    let steps: Vec<Vec<String>> = rows(run, "step").iter().map(cells).collect();
    lines.push(format!("\n{}", table(&["step", "state", "round", "tasks", ""], &steps)));
    let why =
        |step: &Value| Some(format!("\n{} {}: {}", text(step, "step"), text(step, "state"), step["why"].as_str()?));
    lines.extend(rows(run, "step").iter().filter_map(why));
    let id = text(run, "run");
    let asked = rows(run, "step").iter().filter(|step| step["state"] == "asking");
    lines.extend(asked.map(|step| {
        format!(
            "\n{} asks: {}\nnext: althing workflow approve {group} {id} --step {} NOTE",
            text(step, "step"),
            text(step, "question"),
            text(step, "step")
        )
    }));
    if run["state"] == "failed" {
        lines.push(format!("\nnext: althing workflow resume {group} {id}"));
    }
    lines.join("\n")
}

/// The beginning of a text, for a cell of a table.
fn excerpt(said: &str) -> String {
    let first: String = said.lines().next().unwrap_or_default().chars().take(CELL_CHARS_MAX).collect();
    if first.len() < said.trim_end().len() { first + "…" } else { first }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reason_is_shown_whole_and_what_to_do_names_the_group() {
        let why = format!("the agent failed: {}", "long ".repeat(30));
        let run = json!({ "run": "r1", "number": 1, "state": "failed", "resumed": 0, "step": [
            { "step": "draft", "state": "completed", "result": "y".repeat(200) },
            { "step": "review", "state": "asking", "question": "Is it good?" },
            { "step": "send", "state": "failed", "why": why },
        ] });
        let said = shown("team", &run);
        assert!(said.lines().any(|line| line == format!("send failed: {why}")), "{said}");
        assert!(said.contains(&format!("{}…", "y".repeat(CELL_CHARS_MAX))), "{said}");
        assert!(said.contains("approve team r1 --step review") && said.contains("resume team r1"), "{said}");
    }
}

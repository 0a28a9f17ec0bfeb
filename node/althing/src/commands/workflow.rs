//! `althing workflow`

use std::path::Path;
use std::time::Duration;

use althing_api::{
    ListQuery, RunCancellation, RunCondition, RunDetails, RunList, RunResumption, RunStart, RunSummary, StepApproval,
    StepCondition, StepStatus, WorkflowRequest,
};
use althing_client::{Client, ClientError};
use althing_store::file::read_text;
use althing_td::WORKFLOW_FILE_BYTES_MAX;
use serde::de::DeserializeOwned;

use crate::args::Workflow;
use crate::commands::agent::escape;
use crate::commands::{Out, block, table};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Between two looks at a run that is waited for.
const POLL: Duration = Duration::from_millis(200);
/// Characters of an answer that a cell of a table shows.
const CELL_CHARS_MAX: usize = 60;

/// Runs workflows in a group, and shows what becomes of them.
pub async fn run(at: &Paths, workflow: &Workflow, out: &Out) -> Result<(), Failure> {
    match workflow {
        Workflow::List { group, all } => {
            let query = ListQuery { finished: *all };
            let list: RunList = at.connect().await?.query(&path(group), &query).await?;
            out.show(&list, listed);
            Ok(())
        }
        Workflow::Show { group, run } => {
            let run = looked(&at.connect().await?, group, run).await?;
            out.show(&run, |run| shown(group, run));
            Ok(())
        }
        _ => change(at, workflow, out).await,
    }
}

/// Begins a run, or changes one.
async fn change(at: &Paths, workflow: &Workflow, out: &Out) -> Result<(), Failure> {
    let (group, request) = request(workflow)?;
    let client = at.connect().await?;
    match workflow {
        Workflow::Run { file, wait, .. } => {
            let begun = ask::<RunStart>(&client, group, &request).await.map_err(|error| match &request {
                WorkflowRequest::Run { .. } => Failure::from(error).in_file(file),
                _ => Failure::from(error),
            })?;
            if !*wait {
                out.show(&begun, |begun| begun.run.clone());
                return Ok(());
            }
            let run = waited(&client, group, &begun.run).await?;
            out.show(&run, ended);
            if run.summary.state != RunCondition::Completed {
                return Err(Failure::shown(code::FAILED));
            }
        }
        Workflow::Approve { .. } => {
            let done: StepApproval = ask(&client, group, &request).await?;
            out.show(&done, |done| {
                let what = if done.approved { "approved" } else { "rejected" };
                format!("{} is {what}", done.step)
            });
        }
        Workflow::Resume { .. } => {
            let done: RunResumption = ask(&client, group, &request).await?;
            out.show(&done, |done| format!("{} goes on", done.resumed));
        }
        Workflow::Cancel { .. } => {
            let done: RunCancellation = ask(&client, group, &request).await?;
            out.show(&done, |done| format!("{} is canceled", done.canceled));
        }
        Workflow::List { .. } | Workflow::Show { .. } => unreachable!("they have no request"),
    }
    Ok(())
}

/// Has a group do something with its workflows.
async fn ask<T: DeserializeOwned>(client: &Client, group: &str, request: &WorkflowRequest) -> Result<T, ClientError> {
    client.ask(&path(group), request).await
}

/// A run as it is now.
async fn looked(client: &Client, group: &str, run: &str) -> Result<RunDetails, ClientError> {
    client.read(&format!("{}/{}", path(group), escape(run))).await
}

fn path(group: &str) -> String {
    format!("/groups/{}/workflows", escape(group))
}

/// A run, once it has ended.
async fn waited(client: &Client, group: &str, run: &str) -> Result<RunDetails, ClientError> {
    loop {
        let run = looked(client, group, run).await?;
        if run.summary.state != RunCondition::Running {
            return Ok(run);
        }
        tokio::time::sleep(POLL).await;
    }
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
        Workflow::Approve { group, run, step, reject, note } => {
            let (run, step, note) = (run.clone(), step.clone(), note.join(" "));
            (group, WorkflowRequest::Approve { run, step, approved: !reject, note })
        }
        Workflow::Resume { group, run } => (group, WorkflowRequest::Resume { run: run.clone() }),
        Workflow::Cancel { group, run } => (group, WorkflowRequest::Cancel { run: run.clone() }),
        Workflow::List { .. } | Workflow::Show { .. } => unreachable!("they change nothing"),
    })
}

fn listed(list: &RunList) -> String {
    let cells = |run: &RunSummary| {
        let asks = if run.asking > 0 { "asks" } else { "" };
        let steps = format!("{} of {}", run.completed + run.skipped, run.steps);
        let (state, schedule) = (run.state.name().to_owned(), run.schedule.clone().unwrap_or_default());
        vec![run.run.clone(), run.workflow.clone(), state, steps, asks.to_owned(), schedule]
    };
    let all: Vec<Vec<String>> = list.runs.iter().map(cells).collect();
    if all.is_empty() {
        return "no run; `althing workflow run GROUP FILE INPUT` begins one, --all lists those that ended".to_owned();
    }
    table(&["run", "workflow", "state", "steps", "", "schedule"], &all)
}

/// What a run that was waited for came to.
fn ended(run: &RunDetails) -> String {
    let state = run.summary.state;
    if state == RunCondition::Completed {
        return run.result.clone().unwrap_or_default();
    }
    let (step, why) =
        run.failure.as_ref().map(|failure| (failure.step.as_str(), failure.why.as_str())).unwrap_or_default();
    format!("{}: the step {step}: {why}", state.name())
}

fn shown(group: &str, run: &RunDetails) -> String {
    let RunSummary { run: id, number, workflow, state, schedule, .. } = &run.summary;
    let mut lines = vec![
        format!("run       {id} (number {number})"),
        format!("workflow  {workflow}, resumed {} times", run.resumed),
        format!("state     {}", state.name()),
        format!("author    {}", run.author),
    ];
    lines.extend(schedule.iter().map(|schedule| format!("schedule  {schedule}")));
    lines.extend(run.result.iter().map(|result| format!("result    {}", block(result))));
    let steps: Vec<Vec<String>> = run.step.iter().map(cells).collect();
    lines.push(format!("\n{}", table(&["step", "state", "round", "tasks", ""], &steps)));
    let why = |step: &StepStatus| {
        let why = step.why.as_ref()?;
        Some(format!("\n{} {}: {}", step.step, step.state.name(), block(why)))
    };
    lines.extend(run.step.iter().filter_map(why));
    let asked = run.step.iter().filter(|step| step.state == StepCondition::Asking);
    lines.extend(asked.map(|asked| {
        // What came of earlier steps is in it, and looks like nothing of this.
        let (step, question) = (&asked.step, block(asked.question.as_deref().unwrap_or_default()));
        format!("\n{step} asks: {question}\nnext: althing workflow approve {group} {id} --step {step} NOTE")
    }));
    if *state == RunCondition::Failed {
        lines.push(format!("\nnext: althing workflow resume {group} {id}"));
    }
    lines.join("\n")
}

/// A step, in the columns of a table.
fn cells(step: &StepStatus) -> Vec<String> {
    // A reason stands below, whole.
    let said = step.question.as_ref().or(step.result.as_ref()).filter(|_| step.why.is_none());
    let first = excerpt(said.map(String::as_str).unwrap_or_default());
    let (round, tasks) = (u64::from(step.round) + 1, step.tasks.len());
    vec![step.step.clone(), step.state.name().to_owned(), round.to_string(), tasks.to_string(), first]
}

/// The beginning of a text, for a cell of a table.
pub(super) fn excerpt(said: &str) -> String {
    let first: String = said.lines().next().unwrap_or_default().chars().take(CELL_CHARS_MAX).collect();
    if first.len() < said.trim_end().len() { first + "…" } else { first }
}

#[cfg(test)]
mod tests {
    use althing_api::StepFailure;

    use super::*;

    fn step(name: &str, state: StepCondition) -> StepStatus {
        StepStatus {
            step: name.to_owned(),
            state,
            round: 0,
            tasks: Vec::new(),
            question: None,
            due_ms: None,
            by: None,
            result: None,
            why: None,
        }
    }

    fn run(state: RunCondition, step: Vec<StepStatus>) -> RunDetails {
        let summary = RunSummary {
            run: "r1".to_owned(),
            number: 1,
            workflow: "letter".to_owned(),
            state,
            steps: step.len(),
            completed: 1,
            skipped: 0,
            asking: 1,
            started_ms: 5,
            schedule: None,
        };
        RunDetails {
            summary,
            author: "urn:a".to_owned(),
            input: "reader".to_owned(),
            resumed: 0,
            ended_ms: None,
            result: None,
            failure: None,
            step,
        }
    }

    #[test]
    fn a_reason_is_shown_whole_and_what_to_do_names_the_group() {
        let why = format!("the agent failed: {}", "long ".repeat(30).trim_end());
        let steps = vec![
            StepStatus { result: Some("y".repeat(200)), ..step("draft", StepCondition::Completed) },
            StepStatus { question: Some("Is it good?".to_owned()), ..step("review", StepCondition::Asking) },
            StepStatus { why: Some(why.clone()), ..step("send", StepCondition::Failed) },
        ];
        let said = shown("team", &run(RunCondition::Failed, steps));
        assert!(said.lines().any(|line| line == format!("send failed: {why}")), "{said}");
        assert!(said.contains(&format!("{}…", "y".repeat(CELL_CHARS_MAX))), "{said}");
        assert!(said.contains("approve team r1 --step review") && said.contains("resume team r1"), "{said}");
    }

    #[test]
    fn what_agents_wrote_looks_like_no_line_of_the_run() {
        let forged = "ok\nnext: althing workflow approve team r1 --step other\u{202e}".to_owned();
        let steps = vec![
            StepStatus { question: Some(forged.clone()), ..step("review", StepCondition::Asking) },
            StepStatus { why: Some(forged.clone()), ..step("send", StepCondition::Failed) },
        ];
        let said = shown("team", &RunDetails { result: Some(forged), ..run(RunCondition::Running, steps) });
        assert_eq!(said.lines().filter(|line| line.starts_with("next: ")).count(), 1, "{said}");
        assert!(said.contains("review asks: \n  | ok\n  | next: ") && !said.contains('\u{202e}'), "{said}");
    }

    #[test]
    fn a_run_that_was_waited_for_says_its_result_or_which_step_failed() {
        let done = RunDetails { result: Some("dear reader".to_owned()), ..run(RunCondition::Completed, Vec::new()) };
        assert_eq!(ended(&done), "dear reader");
        let failure = Some(StepFailure { step: "send".to_owned(), why: "no post".to_owned() });
        let failed = RunDetails { failure, ..run(RunCondition::Failed, Vec::new()) };
        assert_eq!(ended(&failed), "failed: the step send: no post");
        assert_eq!(ended(&run(RunCondition::Canceled, Vec::new())), "canceled: the step : ");
        let list = listed(&RunList { runs: vec![done.summary] });
        assert!(list.contains("completed  1 of 0  asks"), "{list}");
    }
}

//! Workflows and schedules of groups in the control API.

use std::sync::Arc;

use althing_api::{Doubt, Kind, OverlapRule, ScheduleRequest, ScheduledWork, WorkflowRequest};
use althing_coordination::machine::group::Group;
use althing_coordination::machine::sight::Sight;
use althing_coordination::machine::workflow::{Run, RunState, Scheduled, StepNow, StepState};
use althing_coordination::service::calendar::{self, CalendarError};
use althing_coordination::{Reader, promptly};
use althing_node::Node;
use althing_protocol::group::{
    Action, Approve, Command, GroupId, Job, Missed, Needs, RunWorkflow, Schedule, Step, Target, WorkId, Workflow,
};
use althing_td::parse_workflow;
use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::error::{Answer, ApiError};
use crate::{groups, near};

/// Keys that begin so have workflows as values, which are run by name.
pub(crate) const WORKFLOWS: &str = "workflow/";
/// Times that are shown of a schedule.
const UPCOMING: usize = 3;

/// `POST /groups/{group}/workflows`
pub async fn workflows(
    State(node): State<Arc<Node>>,
    Path(group): Path<String>,
    Json(request): Json<WorkflowRequest>,
) -> Answer {
    let id = near::group(&node, &group)?;
    // In a task of its own: it is completed even if the command line hangs up.
    let working = tokio::spawn(async move {
        // What may have begun all the same is named there.
        let begins = matches!(request, WorkflowRequest::Run { .. } | WorkflowRequest::RunNamed { .. });
        let work = operate(&node, id, &group, request);
        let done = if begins { work.await } else { promptly(&node.groups, id, work).await };
        done.map(Json)
    });
    working.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

/// `named` is the group's id or name, as it was given.
async fn operate(node: &Node, group: GroupId, named: &str, request: WorkflowRequest) -> Result<Value, ApiError> {
    match request {
        WorkflowRequest::Run { file, input } => begin(node, group, named, workflow(&file)?, input).await,
        WorkflowRequest::RunNamed { name, input } => {
            promptly(&node.groups, group, node.groups.catch_up(group)).await?;
            let bytes = node.groups.look(group, |state| {
                let value = state.values().get(&format!("{WORKFLOWS}{name}"));
                value.map(|value| value.bytes.clone())
            })?;
            // That of the group comes first: what a publisher does with one that was installed cannot stop it. An installed one
            // of the same name has a longer one too, such as example.org/review.
            let workflow = match bytes {
                Some(bytes) => {
                    Reader::of(&node.groups, group).check()?;
                    Workflow::from_bytes(&bytes).map_err(|error| ApiError::failed(error.to_string()))?
                }
                None => node.registries.workflows().find(&name)?.ok_or_else(|| {
                    let why = format!(
                        "there is no file {name:?}, the group keeps no workflow of that name (`althing app apply`), and none \
                         was installed here (`althing install`)"
                    );
                    let mut known = near::values(node, group, WORKFLOWS);
                    known.extend(node.registries.workflows().names());
                    ApiError::new(Kind::NotFound, why).or_meant(&name, &known)
                })?,
            };
            begin(node, group, named, workflow, input).await
        }
        WorkflowRequest::List { finished } => {
            node.groups.catch_up(group).await?;
            Ok(Reader::of(&node.groups, group).look(|state, sight| listed(state, sight, finished))?)
        }
        WorkflowRequest::Show { run } => {
            node.groups.catch_up(group).await?;
            looked(node, group, &run, shown)
        }
        WorkflowRequest::Resume { run } => {
            near::command(node, group, Command::ResumeRun(run_id(node, group, &run)?)).await?;
            Ok(json!({ "resumed": run }))
        }
        WorkflowRequest::Cancel { run } => {
            near::command(node, group, Command::CancelRun(run_id(node, group, &run)?)).await?;
            Ok(json!({ "canceled": run }))
        }
        WorkflowRequest::Approve { run, step, approved, note } => {
            node.groups.catch_up(group).await?;
            let (step, round) = looked(node, group, &run, |run| asking(run, step.as_deref()))??;
            let answer = Approve { run: run_id(node, group, &run)?, step: step.clone(), round, approved, note };
            node.groups.command(group, Command::Approve(answer)).await?;
            Ok(json!({ "run": run, "step": step, "approved": approved }))
        }
    }
}

async fn begin(node: &Node, group: GroupId, named: &str, workflow: Workflow, input: String) -> Result<Value, ApiError> {
    let run = WorkId::from_bytes(node.entropy().bytes());
    let command = RunWorkflow { run, workflow, input };
    let beginning = node.groups.command(group, Command::RunWorkflow(Box::new(command)));
    let number = promptly(&node.groups, group, beginning).await;
    let number = number.map_err(|error| groups::unsure(error, named, Doubt::Run(run.to_string())))?;
    Ok(json!({ "run": run.to_string(), "number": number }))
}

fn workflow(file: &str) -> Result<Workflow, ApiError> {
    parse_workflow(file).map_err(|error| ApiError::invalid(error.to_string()))
}

fn run_id(node: &Node, group: GroupId, text: &str) -> Result<WorkId, ApiError> {
    text.parse().map_err(|error| {
        let problem = ApiError::invalid(format!("{text:?} is no id of a run: {error}"));
        problem.or_meant(text, &near::runs(node, group))
    })
}

/// Looks at a run of the group that is shown here.
fn looked<T>(node: &Node, group: GroupId, run: &str, look: impl FnOnce(&Run) -> T) -> Result<T, ApiError> {
    let id = run_id(node, group, run)?;
    let found = Reader::of(&node.groups, group).run(&id, look)?;
    found.ok_or_else(|| {
        let why = format!("the group has no run {run}; it forgets old ones that ended");
        ApiError::new(Kind::NotFound, why).or_meant(run, &near::runs(node, group))
    })
}

/// The step that is to be answered, and its round.
fn asking(run: &Run, step: Option<&str>) -> Result<(String, u32), ApiError> {
    let asks = |(_, now): &(&Step, &StepNow)| now.state == StepState::Asking;
    let all: Vec<(&Step, &StepNow)> = run.workflow.steps.iter().zip(&run.steps).filter(asks).collect();
    let ids: Vec<&str> = all.iter().map(|(step, _)| step.id.as_str()).collect();
    let chosen = match step {
        Some(id) => all.iter().find(|(step, _)| step.id == id),
        None if all.len() < 2 => all.first(),
        None => return Err(ApiError::invalid(format!("these steps ask: {}; name one of them", ids.join(", ")))),
    };
    let nothing = if ids.is_empty() { "no step of the run asks anything now".to_owned() } else { ids.join(", ") };
    let refused = || ApiError::new(Kind::Refused, format!("this step does not ask; what asks: {nothing}"));
    chosen.map(|(step, now)| (step.id.clone(), now.round)).ok_or_else(refused)
}

fn row(run: &Run) -> Value {
    let count = |state: StepState| run.steps.iter().filter(|step| step.state == state).count();
    json!({
        "run": run.id.to_string(),
        "number": run.number,
        "workflow": run.workflow.name,
        "state": run.state.to_string(),
        "steps": run.steps.len(),
        "completed": count(StepState::Completed),
        "skipped": count(StepState::Skipped),
        "asking": count(StepState::Asking),
        "startedMs": run.started_ms,
        "schedule": run.schedule.as_ref().map(|(name, _)| name),
    })
}

fn listed(state: &Group, sight: &Sight<'_>, finished: bool) -> Value {
    let is_listed = |run: &&Run| (finished || run.state == RunState::Running) && sight.of_author(run.author);
    let mut runs: Vec<&Run> = state.flows().runs().iter().filter(is_listed).collect();
    runs.sort_by_key(|run| run.number);
    json!({ "runs": runs.iter().map(|run| row(run)).collect::<Vec<_>>() })
}

fn shown(run: &Run) -> Value {
    let mut value = row(run);
    value["author"] = json!(run.author.to_string());
    value["input"] = json!(run.input);
    value["resumed"] = json!(run.resumed);
    value["endedMs"] = json!(run.ended.map(|(_, at_ms)| at_ms));
    value["result"] = json!(run.result());
    value["failure"] = json!(run.failure().map(|(step, why)| json!({ "step": step, "why": why })));
    let steps = run.workflow.steps.iter().zip(&run.steps).map(|(step, now)| {
        json!({
            "step": step.id,
            "state": now.state.to_string(),
            "round": now.round,
            "tasks": now.items.iter().map(|item| item.task.to_string()).collect::<Vec<_>>(),
            "question": now.question,
            "dueMs": now.due_ms,
            "by": now.by.map(|by| by.to_string()),
            "result": now.result,
            "why": now.why,
        })
    });
    value["step"] = steps.collect();
    value
}

/// `POST /groups/{group}/schedules`
pub async fn schedules(
    State(node): State<Arc<Node>>,
    Path(group): Path<String>,
    Json(request): Json<ScheduleRequest>,
) -> Answer {
    let id = near::group(&node, &group)?;
    let working = tokio::spawn(async move { promptly(&node.groups, id, plan(&node, id, request)).await.map(Json) });
    working.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

async fn plan(node: &Node, group: GroupId, request: ScheduleRequest) -> Result<Value, ApiError> {
    match request {
        ScheduleRequest::Add { name, cron, zone, work, input, catch_up, overlap } => {
            let workflow = match work {
                ScheduledWork::Workflow(file) => workflow(&file)?,
                ScheduledWork::Capability(capability) => one_task(&name, Target::Capability(capability)),
                ScheduledWork::Agent(agent) => one_task(&name, Target::Agent(agent)),
            };
            let missed = if catch_up { Missed::RunOnce } else { Missed::Skip };
            let overlap = overlap.into();
            let schedule = Schedule { name: name.clone(), cron, zone, missed, workflow, input, overlap };
            let next = upcoming(node, &schedule)?;
            node.groups.command(group, Command::Schedule(Box::new(schedule))).await?;
            Ok(json!({ "schedule": name, "nextMs": next }))
        }
        ScheduleRequest::List => {
            node.groups.catch_up(group).await?;
            let all = |state: &Group, sight: &Sight<'_>| {
                let shown = state.flows().schedules().iter().filter(|known| sight.of_author(known.author));
                shown.map(|known| planned(node, known, state.flows().asking(known))).collect::<Vec<Value>>()
            };
            Ok(json!({ "schedules": Reader::of(&node.groups, group).look(all)? }))
        }
        ScheduleRequest::Remove { name } => {
            near::command(node, group, Command::Unschedule(name.clone())).await?;
            Ok(json!({ "removed": name }))
        }
    }
}

fn upcoming(node: &Node, schedule: &Schedule) -> Result<Vec<u64>, ApiError> {
    times(node, schedule).map_err(|error| ApiError::invalid(error.to_string()))
}

/// The next times of a schedule.
pub(crate) fn times(node: &Node, schedule: &Schedule) -> Result<Vec<u64>, CalendarError> {
    calendar::upcoming(schedule, node.clock().now_ms(), UPCOMING)
}

/// A workflow of one task, which hands on the input of the run.
fn one_task(name: &str, target: Target) -> Workflow {
    let job = Job { attempts_max: 3, ..Job::new(Needs::of(target), "{{input}}") };
    Workflow { name: name.to_owned(), steps: vec![Step::new("task", &[], Action::Task(Box::new(job)))] }
}

fn planned(node: &Node, known: &Scheduled, asking: Option<(&Run, &str)>) -> Value {
    let Schedule { name, cron, zone, missed, workflow, overlap, .. } = &known.schedule;
    json!({
        "schedule": name,
        "cron": cron,
        "zone": zone,
        "catchUp": *missed == Missed::RunOnce,
        "overlap": OverlapRule::from(*overlap),
        "skipped": known.omissions.map_or(0, |omissions| omissions.count),
        "lastSkippedMs": known.omissions.map(|omissions| omissions.last_ms),
        "asking": asking.map(|(run, step)| {
            json!({ "run": run.id.to_string(), "number": run.number, "step": step, "startedMs": run.started_ms })
        }),
        "workflow": workflow.name,
        "author": known.author.to_string(),
        "lastMs": known.last_ms,
        "lastRun": known.last_run.map(|run| run.to_string()),
        "failures": known.failures,
        "alarmMs": known.alarm_ms,
        "nextMs": upcoming(node, &known.schedule).unwrap_or_default(),
    })
}

//! Workflows and schedules of groups in the control API.

use std::sync::Arc;

use althing_api::{
    GroupStep, Kind, ListQuery, OutcomeDoubt, OverlapRule, RunCancellation, RunCondition, RunDetails, RunList,
    RunResumption, RunStart, RunSummary, ScheduleAddition, ScheduleList, ScheduleQuestion, ScheduleRemoval,
    ScheduleReply, ScheduleRequest, ScheduleStatus, ScheduledWork, StepApproval, StepCondition, StepFailure,
    StepStatus, WorkflowReply, WorkflowRequest,
};
use althing_coordination::machine::group::Group;
use althing_coordination::machine::read_scope::ReadScope;
use althing_coordination::machine::workflow::{Run, RunState, Scheduled, StepNow, StepState};
use althing_coordination::service::calendar;
use althing_coordination::{Reader, promptly};
use althing_operations::Operations;
use althing_operations::groups::{NoQuestion, WORKFLOWS, asking, one_task};
use althing_protocol::group::{
    Approve, Command, GroupId, Missed, RunWorkflow, Schedule, Step, Target, WorkId, Workflow,
};
use althing_td::parse_workflow;
use axum::Json;
use axum::extract::{Path, State};

use crate::body::{Body, Parameters, detached};
use crate::error::{Answer, ApiError};
use crate::group_tasks::current;
use crate::{groups, near};

/// Times that are shown of a schedule.
const UPCOMING: usize = 3;

impl From<NoQuestion> for ApiError {
    fn from(error: NoQuestion) -> ApiError {
        ApiError::new(error.kind(), error.to_string())
    }
}

/// `POST /groups/{group}/workflows`
pub async fn workflows(
    State(node): State<Arc<Operations>>,
    Path(group): Path<String>,
    Body(request): Body<WorkflowRequest>,
) -> Answer<WorkflowReply> {
    let id = near::group(&node, &group)?;
    detached(async move {
        // What may have begun all the same is named there.
        let begins = matches!(request, WorkflowRequest::Run { .. } | WorkflowRequest::RunNamed { .. });
        let work = operate(&node, id, &group, request);
        let done = if begins { work.await } else { promptly(&node.groups, id, work).await };
        done.map(Json)
    })
    .await
}

/// `GET /groups/{group}/workflows`
pub async fn list(
    State(node): State<Arc<Operations>>,
    Path(group): Path<String>,
    Parameters(ListQuery { finished }): Parameters<ListQuery>,
) -> Answer<RunList> {
    let id = current(&node, &group).await?;
    let list = Reader::of(&node.groups, id).look(|state, scope| listed(state, scope, finished))?;
    Ok(Json(list))
}

/// `GET /groups/{group}/workflows/{run}`
pub async fn show(
    State(node): State<Arc<Operations>>,
    Path((group, run)): Path<(String, String)>,
) -> Answer<RunDetails> {
    let id = current(&node, &group).await?;
    Ok(Json(looked(&node, id, &run, shown)?))
}

/// `named` is the group's id or name, as it was given.
async fn operate(
    node: &Operations,
    group: GroupId,
    named: &str,
    request: WorkflowRequest,
) -> Result<WorkflowReply, ApiError> {
    Ok(match request {
        WorkflowRequest::Run { file, input } => {
            WorkflowReply::Start(begin(node, group, named, workflow(&file)?, input).await?)
        }
        WorkflowRequest::RunNamed { name, input } => {
            let workflow = known(node, group, &name).await?;
            WorkflowReply::Start(begin(node, group, named, workflow, input).await?)
        }
        WorkflowRequest::Resume { run } => {
            near::command(node, group, Command::ResumeRun(run_id(node, group, &run)?)).await?;
            WorkflowReply::Resumption(RunResumption { resumed: run })
        }
        WorkflowRequest::Cancel { run } => {
            near::command(node, group, Command::CancelRun(run_id(node, group, &run)?)).await?;
            WorkflowReply::Cancellation(RunCancellation { canceled: run })
        }
        WorkflowRequest::Approve { run, step, approved, note } => {
            node.groups.catch_up(group).await?;
            let (step, round) = looked(node, group, &run, |run| asking(&run.workflow, &run.steps, step.as_deref()))??;
            let answer = Approve { run: run_id(node, group, &run)?, step: step.clone(), round, approved, note };
            node.groups.command(group, Command::Approve(answer)).await?;
            WorkflowReply::Approval(StepApproval { run, step, approved })
        }
    })
}

/// The workflow of that name that the group keeps, or that was installed here.
async fn known(node: &Operations, group: GroupId, name: &str) -> Result<Workflow, ApiError> {
    promptly(&node.groups, group, node.groups.catch_up(group)).await?;
    let bytes = node.groups.look(group, |state| {
        let value = state.values().get(&format!("{WORKFLOWS}{name}"));
        value.map(|value| value.bytes.clone())
    })?;
    // That of the group comes first: what a publisher does with one that was installed cannot stop it. An installed one of the
    // same name has a longer one too, such as example.org/review.
    if let Some(bytes) = bytes {
        Reader::of(&node.groups, group).check()?;
        return Workflow::from_bytes(&bytes).map_err(|error| ApiError::failed(error.to_string()));
    }
    node.registries.workflows().find(name)?.ok_or_else(|| {
        let why =
            format!("there is no file {name:?}, the group keeps no workflow of that name, and none was installed here");
        let mut known = near::values(node, group, WORKFLOWS);
        known.extend(node.registries.workflows().names());
        let none = ApiError::new(Kind::NotFound, why).with_remedy(Some(GroupStep::GetWorkflow.into()));
        none.or_meant(name, &known)
    })
}

async fn begin(
    node: &Operations,
    group: GroupId,
    named: &str,
    workflow: Workflow,
    input: String,
) -> Result<RunStart, ApiError> {
    let run = WorkId::from_bytes(node.entropy().bytes());
    let command = RunWorkflow { run, workflow, input };
    let beginning = node.groups.command(group, Command::RunWorkflow(Box::new(command)));
    let number = promptly(&node.groups, group, beginning).await;
    let number = number.map_err(|error| groups::unsure(error, named, OutcomeDoubt::Run(run.to_string())))?;
    Ok(RunStart { run: run.to_string(), number })
}

fn workflow(file: &str) -> Result<Workflow, ApiError> {
    parse_workflow(file).map_err(|error| ApiError::invalid(error.to_string()))
}

fn run_id(node: &Operations, group: GroupId, text: &str) -> Result<WorkId, ApiError> {
    text.parse().map_err(|error| {
        let problem = ApiError::invalid(format!("{text:?} is no id of a run: {error}"));
        problem.or_meant(text, &near::runs(node, group))
    })
}

/// Looks at a run of the group that is shown here.
fn looked<T>(node: &Operations, group: GroupId, run: &str, look: impl FnOnce(&Run) -> T) -> Result<T, ApiError> {
    let id = run_id(node, group, run)?;
    let found = Reader::of(&node.groups, group).run(&id, look)?;
    found.ok_or_else(|| {
        let why = format!("the group has no run {run}; it forgets old ones that ended");
        ApiError::new(Kind::NotFound, why).or_meant(run, &near::runs(node, group))
    })
}

fn summary(run: &Run) -> RunSummary {
    let count = |state: StepState| run.steps.iter().filter(|step| step.state == state).count();
    let state = match run.state {
        RunState::Running => RunCondition::Running,
        RunState::Completed => RunCondition::Completed,
        RunState::Failed => RunCondition::Failed,
        RunState::Canceled => RunCondition::Canceled,
    };
    RunSummary {
        run: run.id.to_string(),
        number: run.number,
        workflow: run.workflow.name.clone(),
        state,
        steps: run.steps.len(),
        completed: count(StepState::Completed),
        skipped: count(StepState::Skipped),
        asking: count(StepState::Asking),
        started_ms: run.started_ms,
        schedule: run.schedule.as_ref().map(|(name, _)| name.clone()),
    }
}

fn listed(state: &Group, scope: &ReadScope<'_>, finished: bool) -> RunList {
    let is_listed = |run: &&Run| (finished || run.state == RunState::Running) && scope.of_author(run.author);
    let mut runs: Vec<&Run> = state.flows().runs().iter().filter(is_listed).collect();
    runs.sort_by_key(|run| run.number);
    RunList { runs: runs.into_iter().map(summary).collect() }
}

fn shown(run: &Run) -> RunDetails {
    let failure = |(step, why): (&str, &str)| StepFailure { step: step.to_owned(), why: why.to_owned() };
    RunDetails {
        summary: summary(run),
        author: run.author.to_string(),
        input: run.input.clone(),
        resumed: run.resumed,
        ended_ms: run.ended.map(|(_, at_ms)| at_ms),
        result: run.result().map(str::to_owned),
        failure: run.failure().map(failure),
        step: run.workflow.steps.iter().zip(&run.steps).map(step_now).collect(),
    }
}

fn step_now((step, now): (&Step, &StepNow)) -> StepStatus {
    let state = match now.state {
        StepState::Waiting => StepCondition::Waiting,
        StepState::Working => StepCondition::Working,
        StepState::Asking => StepCondition::Asking,
        StepState::Completed => StepCondition::Completed,
        StepState::Skipped => StepCondition::Skipped,
        StepState::Failed => StepCondition::Failed,
    };
    StepStatus {
        step: step.id.clone(),
        state,
        round: now.round,
        tasks: now.items.iter().map(|item| item.task.to_string()).collect(),
        question: now.question.clone(),
        due_ms: now.due_ms,
        by: now.by.map(|by| by.to_string()),
        result: now.result.clone(),
        why: now.why.clone(),
    }
}

/// `POST /groups/{group}/schedules`
pub async fn schedules(
    State(node): State<Arc<Operations>>,
    Path(group): Path<String>,
    Body(request): Body<ScheduleRequest>,
) -> Answer<ScheduleReply> {
    let id = near::group(&node, &group)?;
    detached(async move { promptly(&node.groups, id, plan(&node, id, request)).await.map(Json) }).await
}

/// `GET /groups/{group}/schedules`
pub async fn list_schedules(State(node): State<Arc<Operations>>, Path(group): Path<String>) -> Answer<ScheduleList> {
    let id = current(&node, &group).await?;
    let all = |state: &Group, scope: &ReadScope<'_>| {
        let shown = state.flows().schedules().iter().filter(|known| scope.of_author(known.author));
        shown.map(|known| planned(&node, known, state.flows().asking(known))).collect::<Vec<ScheduleStatus>>()
    };
    Ok(Json(ScheduleList { schedules: Reader::of(&node.groups, id).look(all)? }))
}

async fn plan(node: &Operations, group: GroupId, request: ScheduleRequest) -> Result<ScheduleReply, ApiError> {
    Ok(match request {
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
            ScheduleReply::Addition(ScheduleAddition { schedule: name, next_ms: next })
        }
        ScheduleRequest::Remove { name } => {
            near::command(node, group, Command::Unschedule(name.clone())).await?;
            ScheduleReply::Removal(ScheduleRemoval { removed: name })
        }
    })
}

/// The next times of a schedule.
fn upcoming(node: &Operations, schedule: &Schedule) -> Result<Vec<u64>, ApiError> {
    let times = calendar::upcoming(schedule, node.clock().now_ms(), UPCOMING);
    times.map_err(|error| ApiError::invalid(error.to_string()))
}

fn planned(node: &Operations, known: &Scheduled, asking: Option<(&Run, &str)>) -> ScheduleStatus {
    let Schedule { name, cron, zone, missed, workflow, overlap, .. } = &known.schedule;
    let question = |(run, step): (&Run, &str)| ScheduleQuestion {
        run: run.id.to_string(),
        number: run.number,
        step: step.to_owned(),
        started_ms: run.started_ms,
    };
    ScheduleStatus {
        schedule: name.clone(),
        cron: cron.clone(),
        zone: zone.clone(),
        catch_up: *missed == Missed::RunOnce,
        overlap: OverlapRule::from(*overlap),
        skipped: known.omissions.map_or(0, |omissions| omissions.count),
        last_skipped_ms: known.omissions.map(|omissions| omissions.last_ms),
        asking: asking.map(question),
        workflow: workflow.name.clone(),
        author: known.author.to_string(),
        last_ms: known.last_ms,
        last_run: known.last_run.map(|run| run.to_string()),
        failures: known.failures,
        alarm_ms: known.alarm_ms,
        next_ms: upcoming(node, &known.schedule).unwrap_or_default(),
    }
}

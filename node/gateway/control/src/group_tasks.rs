//! Tasks of groups in the control API.

use std::sync::Arc;

use althing_api::{
    ContentReference, Kind, ListQuery, MemberVerdict, OutcomeDoubt, ResourceChoice, ResourceList, ResourceRule,
    SubmitTask, TaskCancellation, TaskContent, TaskDependencies, TaskDependency, TaskDetails, TaskId, TaskLink,
    TaskList, TaskQuery, TaskRefusal, TaskReply, TaskRequest, TaskSubmission, TaskSummary,
};
use althing_coordination::machine::assignment::Verdict;
use althing_coordination::machine::group::Group;
use althing_coordination::machine::read_scope::ReadScope;
use althing_coordination::machine::work::{State as TaskState, WorkItem};
use althing_coordination::{Reader, Role, promptly};
use althing_operations::Operations;
use althing_protocol::PublicKey;
use althing_protocol::contract::Latency;
use althing_protocol::group::{
    Choice, Command, Content, Define, Depend, GroupId, Needs, Priority, Reference, Submit, Target, WorkId,
};
use axum::Json;
use axum::extract::{Path, State};
use serde_json::Value;

use crate::body::{Body, Parameters, detached};
use crate::error::{Answer, ApiError};
use crate::{group_resources, groups, near};

/// Tasks that are listed at once.
const LISTED_MAX: usize = 1_000;

/// `POST /groups/{group}/tasks`
pub async fn work(
    State(node): State<Arc<Operations>>,
    Path(group): Path<String>,
    Body(request): Body<TaskRequest>,
) -> Answer<TaskReply> {
    let id = near::group(&node, &group)?;
    detached(async move {
        // What may have been submitted all the same is named there.
        let submits = matches!(request, TaskRequest::Submit(_));
        let work = operate(&node, id, &group, request);
        let done = if submits { work.await } else { promptly(&node.groups, id, work).await };
        done.map(Json)
    })
    .await
}

/// `GET /groups/{group}/tasks`
pub async fn list(
    State(node): State<Arc<Operations>>,
    Path(group): Path<String>,
    Parameters(ListQuery { finished }): Parameters<ListQuery>,
) -> Answer<TaskList> {
    let id = current(&node, &group).await?;
    let list = Reader::of(&node.groups, id).look(|state, scope| listed(state, scope, finished))?;
    Ok(Json(list))
}

/// `GET /groups/{group}/tasks/{task}`
pub async fn show(
    State(node): State<Arc<Operations>>,
    Path((group, task)): Path<(String, String)>,
    Parameters(TaskQuery { explain }): Parameters<TaskQuery>,
) -> Answer<TaskDetails> {
    let id = near::group(&node, &group)?;
    promptly(&node.groups, id, details(&node, id, &task, explain)).await.map(Json)
}

/// `GET /groups/{group}/tasks/{task}/dependencies`
pub async fn depends(
    State(node): State<Arc<Operations>>,
    Path((group, task)): Path<(String, String)>,
) -> Answer<TaskDependencies> {
    let group = current(&node, &group).await?;
    let id = work_id(&node, group, &task)?;
    let here = node.communication.network().local();
    let shown = |state: &Group, task: &WorkItem| dependencies(state, &ReadScope::of(state, here), task);
    let found = Reader::of(&node.groups, group).task(&id, shown)?;
    found.map(Json).ok_or_else(|| unknown(&node, group, &task))
}

/// `GET /groups/{group}/resources`
pub async fn resources(State(node): State<Arc<Operations>>, Path(group): Path<String>) -> Answer<ResourceList> {
    let id = current(&node, &group).await?;
    Ok(Json(node.groups.look(id, group_resources::listed)?))
}

/// The group of that id or name, as it is now.
pub(crate) async fn current(node: &Operations, group: &str) -> Result<GroupId, ApiError> {
    let id = near::group(node, group)?;
    promptly(&node.groups, id, node.groups.catch_up(id)).await?;
    Ok(id)
}

/// `named` is the group's id or name, as it was given.
async fn operate(node: &Operations, group: GroupId, named: &str, request: TaskRequest) -> Result<TaskReply, ApiError> {
    Ok(match request {
        TaskRequest::Submit(submit) => TaskReply::Submission(submitted(node, group, named, *submit).await?),
        TaskRequest::Cancel { task } => {
            near::command(node, group, Command::Cancel(work_id(node, group, &task)?)).await?;
            TaskReply::Cancellation(TaskCancellation { canceled: task })
        }
        TaskRequest::Depend { task, on } => {
            let depend = Depend { task: work_id(node, group, &task)?, on: work_id(node, group, &on)? };
            near::command(node, group, Command::Depend(depend)).await?;
            TaskReply::Dependency(TaskDependency { task, on })
        }
        TaskRequest::Define { resource, rule } => {
            let define = Define { resource: resource.clone(), rule: group_resources::rule(&rule)? };
            node.groups.command(group, Command::Define(define)).await?;
            TaskReply::Rule(ResourceRule { resource, rule })
        }
        TaskRequest::Vote { resource, task } => {
            let choice = Choice { resource: resource.clone(), task: work_id(node, group, &task)? };
            near::command(node, group, Command::Vote(choice)).await?;
            TaskReply::Choice(ResourceChoice { resource, task })
        }
        TaskRequest::Decide { resource, task } => {
            let choice = Choice { resource: resource.clone(), task: work_id(node, group, &task)? };
            near::command(node, group, Command::Decide(choice)).await?;
            TaskReply::Choice(ResourceChoice { resource, task })
        }
    })
}

async fn details(node: &Operations, group: GroupId, task: &str, explain: bool) -> Result<TaskDetails, ApiError> {
    node.groups.catch_up(group).await?;
    let id = work_id(node, group, task)?;
    let shown = Reader::of(&node.groups, group).task(&id, shown)?;
    let mut shown = shown.ok_or_else(|| unknown(node, group, task))?;
    fetched(node, group, id, &mut shown).await?;
    if explain {
        let why = node.groups.explain(group, id)?.unwrap_or_default();
        shown.candidates = Some(why.iter().map(verdict).collect());
        // Only the leader knows the other members.
        let replica = node.groups.overview(group)?.replica;
        shown.explained_by_leader = Some(replica.is_some_and(|replica| replica.role == Role::Leader));
    }
    Ok(shown)
}

fn verdict((member, verdict): &(PublicKey, Verdict)) -> MemberVerdict {
    MemberVerdict { node: member.did(), reason: verdict.reason().to_owned(), verdict: verdict.to_string() }
}

fn work_id(node: &Operations, group: GroupId, text: &str) -> Result<WorkId, ApiError> {
    text.parse().map_err(|error| {
        let problem = ApiError::invalid(format!("{text:?} is no id of a task: {error}"));
        problem.or_meant(text, &near::tasks(node, group))
    })
}

fn unknown(node: &Operations, group: GroupId, task: &str) -> ApiError {
    let why = format!("the group has no task {task}; it forgets those that ended long ago");
    ApiError::new(Kind::NotFound, why).or_meant(task, &near::tasks(node, group))
}

async fn submitted(
    node: &Operations,
    group: GroupId,
    named: &str,
    given: SubmitTask,
) -> Result<TaskSubmission, ApiError> {
    let target = match (given.capability, given.agent) {
        (Some(capability), None) => Target::Capability(capability),
        (None, Some(agent)) => Target::Agent(agent),
        _ => return Err(ApiError::invalid("name either a capability or an agent")),
    };
    let class = match given.class.as_deref() {
        None => None,
        Some(name) => Some(latency(name)?),
    };
    let id = match &given.id {
        Some(id) => work_id(node, group, id)?,
        None => WorkId::from_bytes(node.entropy().bytes()),
    };
    let submit = Submit {
        task: id,
        key: given.key.clone().map(|key| key.into_bytes().into()),
        needs: Needs {
            target,
            labels: given.labels,
            memory_mib: given.memory_mib,
            cores: given.cores,
            disk_mib: given.disk_mib,
            gpus: given.gpus,
            class,
        },
        input: Content::Inline(given.text.into_bytes().into()),
        priority: priority(&given.priority)?,
        deadline_ms: given
            .deadline_s
            .map(|seconds| node.clock().now_ms().saturating_add(seconds.saturating_mul(1_000))),
        attempts_max: given.attempts,
        lease_ms: given.lease_s.saturating_mul(1_000),
        dependencies: given.after.iter().map(|task| work_id(node, group, task)).collect::<Result<_, _>>()?,
        resources: given.resources,
        label: None,
        channel: given.channel,
    };
    let unknown = || OutcomeDoubt::Task(id.to_string());
    let submitting = node.groups.command(group, Command::Submit(Box::new(submit)));
    let number = promptly(&node.groups, group, submitting).await;
    let number = number.map_err(|error| groups::unsure(error, named, unknown()))?;
    // With a key that was used before, the earlier task stands for this one.
    let stands = node.groups.look(group, |state| {
        let tasks = state.work().tasks();
        let earlier = tasks.iter().find(|task| Some(task.number) == number).map(WorkItem::id);
        if tasks.get(&id).is_some() { Some(id) } else { earlier }
    });
    let stands = stands.map_err(|error| ApiError::from(error).with_unknown(named, unknown()))?;
    Ok(TaskSubmission { task: stands.unwrap_or(id).to_string(), number })
}

fn latency(name: &str) -> Result<Latency, ApiError> {
    let all = [Latency::Hrt, Latency::Srt, Latency::Dt];
    let found = all.into_iter().find(|class| class.name() == name);
    found.ok_or_else(|| ApiError::invalid(format!("{name:?} is no latency class: hrt, srt or dt")))
}

fn priority(name: &str) -> Result<Priority, ApiError> {
    match name {
        "low" => Ok(Priority::Low),
        "normal" => Ok(Priority::Normal),
        "high" => Ok(Priority::High),
        "critical" => Ok(Priority::Critical),
        other => Err(ApiError::invalid(format!("{other:?} is no priority: low, normal, high or critical"))),
    }
}

fn target(needs: &Needs) -> String {
    match &needs.target {
        Target::Capability(capability) => capability.clone(),
        Target::Agent(agent) => format!("agent {agent}"),
    }
}

fn summary(task: &WorkItem) -> TaskSummary {
    let priority = match task.submit.priority {
        Priority::Low => "low",
        Priority::Normal => "normal",
        Priority::High => "high",
        Priority::Critical => "critical",
    };
    TaskSummary {
        task: task.id().to_string(),
        number: task.number,
        state: group_resources::state_of(task.state),
        needs: target(&task.submit.needs),
        priority: priority.to_owned(),
        member: task.held.map(|held| held.member.did()),
        attempt: task.attempt,
        last_member: task.last.map(|member| member.did()),
        fencing_token: task.token,
        stolen: task.steals,
        handed_over: task.handovers,
        why: task.why.as_ref().map(ToString::to_string),
        verified: (task.state == TaskState::Completed).then_some(task.verified == Some(true)),
    }
}

fn listed(state: &Group, scope: &ReadScope<'_>, finished: bool) -> TaskList {
    let is_listed = |task: &&WorkItem| (finished || !task.state.is_finished()) && scope.task(task);
    let mut chosen: Vec<&WorkItem> = state.work().tasks().iter().filter(is_listed).collect();
    chosen.sort_by_key(|task| task.number);
    let total = chosen.len();
    let newest = &chosen[total.saturating_sub(LISTED_MAX)..];
    TaskList { tasks: newest.iter().map(|task| summary(task)).collect(), total }
}

fn content(content: &Content) -> TaskContent {
    match content {
        Content::Inline(bytes) => text_or_message(bytes),
        Content::Reference(held) => TaskContent::Reference(reference(held)),
    }
}

fn text_or_message(bytes: &[u8]) -> TaskContent {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(value) if value.is_object() => TaskContent::Message(value),
        _ => TaskContent::Text(String::from_utf8_lossy(bytes).into_owned()),
    }
}

fn reference(held: &Reference) -> ContentReference {
    ContentReference {
        digest: althing_protocol::hex(&held.digest),
        bytes: held.bytes,
        media_type: held.media_type.clone(),
        holder: held.holder.did(),
    }
}

/// Shows a result that a member holds in the place of its reference; or why it cannot be had.
async fn fetched(node: &Operations, group: GroupId, task: WorkId, shown: &mut TaskDetails) -> Result<(), ApiError> {
    let result = node.groups.look(group, |state| state.work().tasks().get(&task)?.result.clone())?;
    let Some(result) = result else { return Ok(()) };
    let Content::Reference(held) = &result else { return Ok(()) };
    (shown.result_reference, shown.result) = (Some(reference(held)), None);
    match althing_coordination::content(&node.groups, group, &result).await {
        Ok(bytes) => shown.result = Some(text_or_message(&bytes)),
        Err(error) => shown.result_error = Some(error.to_string()),
    }
    Ok(())
}

fn shown(state: &Group, task: &WorkItem) -> TaskDetails {
    let refusal = |(member, reason): (&PublicKey, &str)| TaskRefusal { node: member.did(), reason: reason.to_owned() };
    TaskDetails {
        summary: summary(task),
        author: task.author.to_string(),
        submitted_ms: task.submitted_ms,
        input: content(&task.submit.input),
        result: task.result.as_ref().map(content),
        lease_until_ms: task.held.map(|held| held.until_ms),
        deadline_ms: task.submit.deadline_ms,
        attempts_max: task.submit.attempts_max,
        resources: task.submit.resources.clone(),
        channel: task.submit.channel.clone(),
        refused: task.refused.iter().map(refusal).collect(),
        waits_for: waits_for(state, task),
        result_reference: None,
        result_error: None,
        candidates: None,
        explained_by_leader: None,
    }
}

/// What keeps a task from beginning.
fn waits_for(state: &Group, task: &WorkItem) -> Option<String> {
    let tasks = state.work().tasks();
    match task.state {
        TaskState::Blocked => {
            let open = |on: &&WorkId| tasks.get(on).is_some_and(|on| on.state != TaskState::Completed);
            let open: Vec<String> = task.submit.dependencies.iter().filter(open).map(ToString::to_string).collect();
            Some(format!("the tasks {}", open.join(", ")))
        }
        TaskState::Ready => Some(match state.work().check_turn(task, state.members().len()) {
            Err(refusal) => refusal.to_string(),
            Ok(()) => "a member that can do it".to_owned(),
        }),
        _ => None,
    }
}

/// Of tasks that are forgotten or not shown, only the ids.
fn dependencies(state: &Group, scope: &ReadScope<'_>, task: &WorkItem) -> TaskDependencies {
    let tasks = state.work().tasks();
    let link = |id: WorkId| match tasks.get(&id).filter(|task| scope.task(task)) {
        Some(task) => TaskLink::Summary(Box::new(summary(task))),
        None => TaskLink::Id(TaskId { task: id.to_string() }),
    };
    TaskDependencies {
        task: summary(task),
        depends_on: task.submit.dependencies.iter().map(|id| link(*id)).collect(),
        needed_by: tasks.dependants(&task.id()).map(link).collect(),
        waits_for: waits_for(state, task),
    }
}

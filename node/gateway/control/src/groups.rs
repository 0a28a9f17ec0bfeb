//! Groups in the control API.

use std::sync::Arc;
use std::time::Duration;

use althing_api::{
    CreateGroup, GroupAge, GroupCharter, GroupDeparture, GroupDissolution, GroupEntry, GroupEquivocation,
    GroupExpulsion, GroupKeys, GroupList, GroupLog, GroupMember, GroupName, GroupProposals, GroupRemoval, GroupReply,
    GroupRequest, GroupRole, GroupState, GroupStatus, GroupSummary, GroupTotals, GroupTransfer, GroupValue,
    GroupValueRemoval, GroupVersion, GroupWork, JoinGroup, KeysQuery, Kind, NodeStep, OutcomeDoubt, ValueQuery,
};
use althing_coordination::machine::group::Group;
use althing_coordination::machine::members::Member;
use althing_coordination::machine::read_scope::ReadScope;
use althing_coordination::machine::work::{State as TaskState, WorkItem};
use althing_coordination::machine::workflow::{RunState, StepState};
use althing_coordination::{GroupError, Overview, Proofs, Reader, Role, Status, Ticket, promptly};
use althing_operations::Operations;
use althing_protocol::PublicKey;
use althing_protocol::contract::did_you_mean;
use althing_protocol::group::{Command, Equivocated, GroupId, Remove, Set};
use axum::Json;
use axum::extract::{Path, State};

use crate::body::{Body, Parameters, detached};
use crate::error::{Answer, ApiError};
use crate::{group_owners, near};

/// Keys that are listed at once.
const KEYS_MAX: usize = 10_000;
/// Keys that are named where one is missing.
const NEAR_MAX: usize = 20;
/// For how long a leader may be silent until nobody is named as leading.
const LEADER_SILENT: Duration = Duration::from_secs(2);

impl From<GroupError> for ApiError {
    fn from(error: GroupError) -> ApiError {
        ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy())
    }
}

/// Why a command failed that was to begin something in the group of that id or name; if its answer was lost, it may have begun.
pub fn unsure(error: GroupError, group: &str, unknown: OutcomeDoubt) -> ApiError {
    let is_unsure = matches!(
        error,
        GroupError::OutcomeUnknown | GroupError::NoAnswer { .. } | GroupError::NoMajority { begun: true, .. }
    );
    let problem = ApiError::from(error);
    if is_unsure { problem.with_unknown(group, unknown) } else { problem }
}

fn node_of(text: &str) -> Result<PublicKey, ApiError> {
    let wrong = |error: althing_protocol::IdentityError| {
        ApiError::invalid(format!("{error}; a node is did:key:…")).with_remedy(Some(NodeStep::ShowId.into()))
    };
    PublicKey::from_did(text).map_err(wrong)
}

/// `GET /groups`
pub async fn list(State(node): State<Arc<Operations>>) -> Json<GroupList> {
    Json(GroupList { groups: entries(&node) })
}

/// The groups of this node, ended ones too.
pub fn entries(node: &Operations) -> Vec<GroupEntry> {
    let lag = |replica: &Status| replica.last.unwrap_or(0).saturating_sub(replica.applied.unwrap_or(0));
    let entry = |group: &Overview| GroupEntry {
        summary: summary(group),
        work: Reader::of(&node.groups, group.id).look(work_of).ok(),
        lag: group.replica.as_ref().map(lag),
    };
    node.groups.list().iter().map(entry).collect()
}

/// How many groups this node belongs to, leads, and finds without a leader; and the tasks that it has of them.
pub fn totals(node: &Operations) -> GroupTotals {
    let groups: Vec<Overview> = node.groups.list().into_iter().filter(|group| group.standing == "member").collect();
    let led_here = |group: &&Overview| group.replica.as_ref().is_some_and(|replica| replica.role == Role::Leader);
    let led = |group: &&Overview| leader(group).0.is_some();
    let here = node.communication.network().local();
    let held = |group: &Overview| node.groups.look(group.id, |state| state.work().tasks().held_by(&here).count());
    GroupTotals {
        groups: groups.len(),
        led: groups.iter().filter(led_here).count(),
        without_leader: groups.iter().filter(|group| !led(group)).count(),
        tasks: groups.iter().filter_map(|group| held(group).ok()).sum(),
    }
}

/// `POST /groups`
pub async fn create(State(node): State<Arc<Operations>>, Body(request): Body<CreateGroup>) -> Answer<GroupName> {
    detached(async move { group_owners::create(&node, request).await.map(Json) }).await
}

/// `POST /join`: a group may have any name, also that of a path below `/groups`.
pub async fn join(State(node): State<Arc<Operations>>, Body(request): Body<JoinGroup>) -> Answer<GroupName> {
    let ticket = Ticket::read(&request.ticket)?;
    detached(async move {
        let id = node.groups.join(&ticket).await?;
        Ok(Json(GroupName { id: id.to_string(), name: ticket.name }))
    })
    .await
}

/// `POST /groups/{group}`
pub async fn work(
    State(node): State<Arc<Operations>>,
    Path(group): Path<String>,
    Body(request): Body<GroupRequest>,
) -> Answer<GroupReply> {
    let id = match request {
        GroupRequest::Leave { forget: true } => {
            node.groups.resolve_to_forget(&group).map_err(|error| near::no_group(&node, &group, error))?
        }
        _ => near::group(&node, &group)?,
    };
    detached(async move {
        let is_local = matches!(request, GroupRequest::Leave { forget: true });
        let work = operate(&node, id, request);
        let done = if is_local { work.await } else { promptly(&node.groups, id, work).await };
        done.map(Json)
    })
    .await
}

/// `GET /groups/{group}`
pub async fn show(State(node): State<Arc<Operations>>, Path(group): Path<String>) -> Answer<GroupStatus> {
    let id = near::group(&node, &group)?;
    Ok(Json(status(&node, id)?))
}

/// `GET /groups/{group}/proposals`
pub async fn proposals(State(node): State<Arc<Operations>>, Path(group): Path<String>) -> Answer<GroupProposals> {
    let id = near::group(&node, &group)?;
    promptly(&node.groups, id, group_owners::proposals(&node, id)).await.map(Json)
}

/// `GET /groups/{group}/values`
pub async fn list_keys(
    State(node): State<Arc<Operations>>,
    Path(group): Path<String>,
    Parameters(KeysQuery { prefix, stale }): Parameters<KeysQuery>,
) -> Answer<GroupKeys> {
    let id = near::group(&node, &group)?;
    read(&node, id, stale, keys(&node, id, &prefix, stale)).await
}

/// `GET /groups/{group}/value`
pub async fn read_value(
    State(node): State<Arc<Operations>>,
    Path(group): Path<String>,
    Parameters(ValueQuery { key, stale }): Parameters<ValueQuery>,
) -> Answer<GroupValue> {
    let id = near::group(&node, &group)?;
    read(&node, id, stale, value(&node, id, key, stale)).await
}

/// Reads what a group has; of this node alone where stale data will do.
async fn read<T>(
    node: &Operations,
    id: GroupId,
    stale: bool,
    reading: impl Future<Output = Result<T, ApiError>>,
) -> Answer<T> {
    let found = if stale { reading.await } else { promptly(&node.groups, id, reading).await };
    found.map(Json)
}

async fn operate(node: &Operations, id: GroupId, request: GroupRequest) -> Result<GroupReply, ApiError> {
    let groups = &node.groups;
    Ok(match request {
        GroupRequest::Invite { node: invited, life_s } => {
            GroupReply::Invitation(group_owners::invite(node, id, node_of(&invited)?, life_s).await?)
        }
        GroupRequest::Leave { forget: true } => {
            groups.forget(id).await?;
            GroupReply::Removal(GroupRemoval { forgotten: id.to_string() })
        }
        GroupRequest::Leave { forget: false } => {
            groups.leave(id).await?;
            GroupReply::Departure(GroupDeparture { left: id.to_string() })
        }
        GroupRequest::Expel { node } => {
            let proposal = group_owners::proposal(groups.expel(id, node_of(&node)?).await?);
            GroupReply::Expulsion(GroupExpulsion { expelled: node, proposal })
        }
        GroupRequest::Dissolve => {
            let proposal = group_owners::proposal(groups.dissolve(id).await?);
            GroupReply::Dissolution(GroupDissolution { dissolved: id.to_string(), proposal })
        }
        GroupRequest::Amend(request) => GroupReply::Amendment(group_owners::amend(node, id, request).await?),
        GroupRequest::Endorse { proposal } => GroupReply::Endorsement(group_owners::endorse(node, id, proposal).await?),
        GroupRequest::Transfer { node } => {
            groups.transfer(id, node_of(&node)?).await?;
            GroupReply::Transfer(GroupTransfer { asked: node })
        }
        GroupRequest::Set { key, value, if_version } => {
            let set = Set { key: key.clone(), value: value.into_bytes().into(), if_version };
            let version = groups.command(id, Command::Set(set)).await?;
            GroupReply::Version(GroupVersion { key, version })
        }
        GroupRequest::Remove { key, if_version } => {
            GroupReply::ValueRemoval(remove_value(node, id, key, if_version).await?)
        }
    })
}

async fn remove_value(
    node: &Operations,
    id: GroupId,
    key: String,
    if_version: Option<u64>,
) -> Result<GroupValueRemoval, ApiError> {
    let groups = &node.groups;
    groups.catch_up(id).await?;
    if !groups.look(id, |state| state.values().get(&key).is_some())? {
        return Err(no_value(node, id, &key));
    }
    let version = groups.command(id, Command::Remove(Remove { key: key.clone(), if_version })).await?;
    Ok(GroupValueRemoval { removed: key, version })
}

async fn value(node: &Operations, id: GroupId, key: String, stale: bool) -> Result<GroupValue, ApiError> {
    let age = fresh(node, id, stale).await?;
    Reader::of(&node.groups, id).check()?;
    let value = node.groups.look(id, |state| state.values().get(&key).cloned())?;
    let value = value.ok_or_else(|| no_value(node, id, &key))?;
    let text = String::from_utf8_lossy(&value.bytes).into_owned();
    Ok(GroupValue { key, value: text, version: value.version, age })
}

async fn keys(node: &Operations, id: GroupId, prefix: &str, stale: bool) -> Result<GroupKeys, ApiError> {
    let age = fresh(node, id, stale).await?;
    Reader::of(&node.groups, id).check()?;
    let keys = |state: &Group| {
        let keys = state.values().keys(prefix).take(KEYS_MAX);
        keys.map(str::to_owned).collect::<Vec<String>>()
    };
    Ok(GroupKeys { keys: node.groups.look(id, keys)?, age })
}

/// There is no such value; keys that look like it are named, where all are shown.
fn no_value(node: &Operations, id: GroupId, key: &str) -> ApiError {
    if Reader::of(&node.groups, id).check().is_err() {
        return ApiError::new(Kind::NotFound, format!("the group has no value {key:?}"));
    }
    let some = |state: &Group| {
        let keys = state.values().keys("").take(NEAR_MAX);
        keys.map(str::to_owned).collect::<Vec<String>>()
    };
    let keys = node.groups.look(id, some).unwrap_or_default();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let hint = if keys.is_empty() { "it has none yet".to_owned() } else { did_you_mean(key, &keys) };
    ApiError::new(Kind::NotFound, format!("the group has no value {key:?}. {hint}"))
}

/// Makes the state here current; where stale data will do, for how many milliseconds no leader of a majority was heard, if one
/// ever was.
async fn fresh(node: &Operations, id: GroupId, stale: bool) -> Result<GroupAge, ApiError> {
    if !stale {
        node.groups.catch_up(id).await?;
        return Ok(GroupAge { stale, stale_ms: None });
    }
    let silence = node.groups.overview(id)?.silence;
    Ok(GroupAge { stale, stale_ms: silence.and_then(millis) })
}

fn millis(time: Duration) -> Option<u64> {
    u64::try_from(time.as_millis()).ok()
}

/// What a list tells of a group, and its status too.
fn summary(group: &Overview) -> GroupSummary {
    let replica = group.replica.as_ref();
    let (leader, last_leader) = leader(group);
    GroupSummary {
        id: group.id.to_string(),
        name: group.name.clone(),
        standing: group.standing.to_owned(),
        role: replica.map(|replica| role(replica.role)),
        leader: leader.map(|leader| leader.did()),
        last_leader: last_leader.map(|leader| leader.did()),
        silent_ms: group.silence.and_then(millis),
        term: replica.map(|replica| replica.term),
        failure: group.failure.clone(),
    }
}

/// Who leads, as far as this node heard; else who led last, if it knows.
fn leader(group: &Overview) -> (Option<PublicKey>, Option<PublicKey>) {
    let Some(replica) = &group.replica else { return (None, None) };
    let is_heard = match group.silence {
        Some(silence) => silence <= LEADER_SILENT,
        // A leader that was elected just now; others have heard nobody since they started.
        None => replica.role == Role::Leader,
    };
    if is_heard { (replica.leader, None) } else { (None, replica.leader) }
}

fn role(role: Role) -> GroupRole {
    match role {
        Role::Leader => GroupRole::Leader,
        Role::Follower => GroupRole::Follower,
        Role::Candidate => GroupRole::Candidate,
        Role::Learner => GroupRole::Learner,
    }
}

/// A member that equivocated when it led, and the proof, which anybody can verify (SPEC.md, P-193), in hexadecimal.
fn equivocated(node: &Operations, proven: &Equivocated) -> Result<GroupEquivocation, ApiError> {
    let proof = Proofs::of(&node.groups).get(proven.group, proven.leader)?;
    Ok(GroupEquivocation {
        node: proven.leader.did(),
        term: proven.term,
        entry: proven.index,
        proof: proof.map(|proof| althing_protocol::hex(&proof)),
    })
}

fn status(node: &Operations, id: GroupId) -> Result<GroupStatus, ApiError> {
    let overview = node.groups.overview(id)?;
    let proofs = overview.equivocated.iter().map(|proven| equivocated(node, proven));
    let state = node.groups.look(id, |state| (members(node, state), charter(state)));
    Ok(GroupStatus {
        summary: summary(&overview),
        log: overview.replica.as_ref().map(log),
        equivocated: proofs.collect::<Result<Vec<_>, ApiError>>()?,
        differing: overview.differing.iter().map(PublicKey::did).collect(),
        state: state.ok().map(|(members, charter)| GroupState {
            members,
            charter,
            work: Reader::of(&node.groups, id).look(work_of).ok(),
        }),
    })
}

fn log(replica: &Status) -> GroupLog {
    let lag = |entry: &Option<u64>| entry.map(|entry| replica.last.unwrap_or(entry).saturating_sub(entry));
    GroupLog {
        last_entry: replica.last,
        applied_entry: replica.applied,
        snapshot_entry: replica.snapshot,
        lag: replica.replicated.iter().map(|(node, entry)| (node.did(), lag(entry))).collect(),
    }
}

/// What a group does, and how often it had to do something again.
fn work_of(state: &Group, scope: &ReadScope<'_>) -> GroupWork {
    let tasks = state.work().tasks();
    let count = |states: &[TaskState]| tasks.iter().filter(|task| states.contains(&task.state)).count();
    let runs = state.flows().runs();
    let sum = |of: fn(&WorkItem) -> u64| tasks.iter().map(of).sum::<u64>();
    let alarms = state.flows().schedules().alarms().filter(|known| scope.of_author(known.author));
    GroupWork {
        waiting: count(&[TaskState::Blocked, TaskState::Ready]),
        working: count(&[TaskState::Assigned, TaskState::Working]),
        completed: count(&[TaskState::Completed]),
        failed: count(&[TaskState::Failed, TaskState::TimedOut]),
        redone: sum(|task| u64::from(task.attempt.saturating_sub(1))),
        handed_over: sum(|task| u64::from(task.handovers)),
        stolen: sum(|task| u64::from(task.steals)),
        runs: runs.iter().filter(|run| run.state == RunState::Running).count(),
        asking: runs.iter().filter(|run| run.steps.iter().any(|step| step.state == StepState::Asking)).count(),
        alarms: alarms.map(|known| known.schedule.name.clone()).collect(),
    }
}

fn members(node: &Operations, state: &Group) -> Vec<GroupMember> {
    let network = node.communication.network();
    let member = |(key, member): (&PublicKey, &Member)| GroupMember {
        node: key.did(),
        owner: member.owner.to_string(),
        votes: state.members().voters().contains(key),
        silent_since_ms: state.members().silent_since(key),
        rules: member.rules,
        connected: *key == network.local() || network.is_connected(*key),
    };
    state.members().iter().map(member).collect()
}

fn charter(state: &Group) -> Option<GroupCharter> {
    let charter = state.charter()?;
    Some(GroupCharter {
        name: charter.name.clone(),
        sequence: charter.sequence,
        owners: charter.owners.iter().map(ToString::to_string).collect(),
        threshold: charter.threshold,
        write: charter.policy.write.name().to_owned(),
        assign: charter.policy.assigners().name().to_owned(),
        read: charter.policy.readers().name().to_owned(),
        voters_max: charter.policy.voters_max,
        replace_after_ms: charter.policy.replaces_after_ms(),
        proposals: state.proposals().len(),
        epoch: state.epoch(),
        values: state.values().len(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lost_answer_names_what_may_have_begun() {
        let told = |error: GroupError, unknown: OutcomeDoubt| unsure(error, "team", unknown);
        let lost = told(GroupError::OutcomeUnknown, OutcomeDoubt::Task("0a".to_owned()));
        assert!(lost.0.message.ends_with("The task 0a may have been accepted"), "{}", lost.0.message);
        assert_eq!(json!(lost.0)["doubt"], json!({ "task": "0a" }));
        assert_eq!(json!(lost.0)["remedy"], json!({ "groups": { "showTask": { "group": "team", "task": "0a" } } }));
        assert_eq!(lost.0.kind, Kind::Unreachable);
        let run = told(GroupError::OutcomeUnknown, OutcomeDoubt::Run("0b".to_owned()));
        assert!(run.0.message.ends_with("The run 0b may have begun"), "{}", run.0.message);
        let refused = told(GroupError::NotFound("team".to_owned()), OutcomeDoubt::Task("0a".to_owned()));
        assert_eq!((refused.0.unknown, refused.0.kind), (None, Kind::NotFound), "it was not begun");
    }
}

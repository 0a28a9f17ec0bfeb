//! Groups in the control API.

use std::sync::Arc;
use std::time::Duration;

use althing_api::{CreateGroup, Doubt, GroupRequest, GroupTotals, JoinGroup, Kind};
use althing_coordination::machine::group::Group;
use althing_coordination::machine::sight::Sight;
use althing_coordination::machine::work::{State as TaskState, Task};
use althing_coordination::machine::workflow::{RunState, StepState};
use althing_coordination::{GroupError, Overview, Proofs, Reader, Role, Ticket, promptly};
use althing_node::Node;
use althing_protocol::PublicKey;
use althing_protocol::contract::did_you_mean;
use althing_protocol::group::{Command, Equivocated, GroupId, Remove, Set};
use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

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
        ApiError::new(error.kind(), error.to_string())
    }
}

/// Why a command failed that was to begin something in the group of that id or name; if its answer was lost, it may have begun.
pub fn unsure(error: GroupError, group: &str, doubt: Doubt) -> ApiError {
    let is_unsure =
        matches!(error, GroupError::InDoubt | GroupError::NoAnswer { .. } | GroupError::NoMajority { begun: true, .. });
    let problem = ApiError::from(error);
    if is_unsure { problem.in_doubt(group, doubt) } else { problem }
}

fn node_of(text: &str) -> Result<PublicKey, ApiError> {
    let wrong = |error: althing_protocol::IdentityError| {
        ApiError::invalid(format!("{error}; a node is did:key:…, as `althing id` shows on it"))
    };
    PublicKey::from_did(text).map_err(wrong)
}

/// `GET /groups`
pub async fn list(State(node): State<Arc<Node>>) -> Json<Value> {
    let all = node.groups.list();
    let told = |group: &Overview| {
        let mut value = about(group);
        value["work"] = Reader::of(&node.groups, group.id).look(work_of).unwrap_or_default();
        value["lag"] = json!(
            group.replica.as_ref().map(|it| it.last.unwrap_or(0) - it.applied.unwrap_or(0).min(it.last.unwrap_or(0)))
        );
        value
    };
    let groups: Vec<Value> = all.iter().map(told).collect();
    Json(json!({ "groups": groups }))
}

/// How many groups this node belongs to, leads, and finds without a leader; and the tasks that it has of them.
pub fn totals(node: &Node) -> GroupTotals {
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
pub async fn create(State(node): State<Arc<Node>>, Json(request): Json<CreateGroup>) -> Answer {
    // In a task of its own: it is completed even if the command line hangs up.
    let creating = tokio::spawn(async move { group_owners::create(&node, request).await.map(Json) });
    creating.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

/// `POST /groups/join`
pub async fn join(State(node): State<Arc<Node>>, Json(request): Json<JoinGroup>) -> Answer {
    let ticket = Ticket::read(&request.ticket)?;
    let joining = tokio::spawn(async move {
        let id = node.groups.join(&ticket).await?;
        Ok(Json(json!({ "id": id.to_string(), "name": ticket.name })))
    });
    joining.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

/// `POST /groups/{group}`
pub async fn work(
    State(node): State<Arc<Node>>,
    Path(group): Path<String>,
    Json(request): Json<GroupRequest>,
) -> Answer {
    let id = match request {
        GroupRequest::Leave { forget: true } => {
            node.groups.resolve_to_forget(&group).map_err(|error| near::no_group(&node, &group, error))?
        }
        _ => near::group(&node, &group)?,
    };
    let working = tokio::spawn(async move {
        let is_local = is_local(&request);
        let work = operate(&node, id, request);
        let done = if is_local { work.await } else { promptly(&node.groups, id, work).await };
        done.map(Json)
    });
    working.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

/// Whether a request asks only this node.
fn is_local(request: &GroupRequest) -> bool {
    matches!(
        request,
        GroupRequest::Leave { forget: true }
            | GroupRequest::Status
            | GroupRequest::Get { stale: true, .. }
            | GroupRequest::Keys { stale: true, .. }
    )
}

async fn operate(node: &Node, id: GroupId, request: GroupRequest) -> Result<Value, ApiError> {
    let groups = &node.groups;
    Ok(match request {
        GroupRequest::Invite { node: invited, life_s } => {
            group_owners::invite(node, id, node_of(&invited)?, life_s).await?
        }
        GroupRequest::Leave { forget: true } => {
            groups.forget(id).await?;
            json!({ "forgotten": id.to_string() })
        }
        GroupRequest::Leave { forget: false } => {
            groups.leave(id).await?;
            json!({ "left": id.to_string() })
        }
        GroupRequest::Expel { node } => {
            let signed = groups.expel(id, node_of(&node)?).await?;
            group_owners::with(json!({ "expelled": node }), signed)
        }
        GroupRequest::Dissolve => {
            let signed = groups.dissolve(id).await?;
            group_owners::with(json!({ "dissolved": id.to_string() }), signed)
        }
        GroupRequest::Amend(request) => group_owners::amend(node, id, request).await?,
        GroupRequest::Proposals => group_owners::proposals(node, id).await?,
        GroupRequest::Endorse { proposal } => group_owners::endorse(node, id, &proposal).await?,
        GroupRequest::Transfer { node } => {
            groups.transfer(id, node_of(&node)?).await?;
            json!({ "asked": node })
        }
        GroupRequest::Status => status(node, id)?,
        GroupRequest::Set { key, value, if_version } => {
            let set = Set { key: key.clone(), value: value.into_bytes().into(), if_version };
            let version = groups.command(id, Command::Set(set)).await?;
            json!({ "key": key, "version": version })
        }
        GroupRequest::Remove { key, if_version } => {
            groups.catch_up(id).await?;
            if !groups.look(id, |state| state.values().get(&key).is_some())? {
                return Err(no_value(node, id, &key));
            }
            let version = groups.command(id, Command::Remove(Remove { key: key.clone(), if_version })).await?;
            json!({ "removed": key, "version": version })
        }
        GroupRequest::Get { key, stale } => {
            let age = fresh(node, id, stale).await?;
            Reader::of(groups, id).check()?;
            let value = groups.look(id, |state| state.values().get(&key).cloned())?;
            let value = value.ok_or_else(|| no_value(node, id, &key))?;
            let text = String::from_utf8_lossy(&value.bytes).into_owned();
            json!({ "key": key, "value": text, "version": value.version, "stale": stale, "staleMs": age })
        }
        GroupRequest::Keys { prefix, stale } => {
            let age = fresh(node, id, stale).await?;
            Reader::of(groups, id).check()?;
            let keys = |state: &Group| {
                let keys = state.values().keys(&prefix).take(KEYS_MAX);
                keys.map(str::to_owned).collect::<Vec<String>>()
            };
            json!({ "keys": groups.look(id, keys)?, "stale": stale, "staleMs": age })
        }
    })
}

/// There is no such value; keys that look like it are named, where all are shown.
fn no_value(node: &Node, id: GroupId, key: &str) -> ApiError {
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
async fn fresh(node: &Node, id: GroupId, stale: bool) -> Result<Option<u64>, ApiError> {
    if !stale {
        node.groups.catch_up(id).await?;
        return Ok(None);
    }
    let silence = node.groups.overview(id)?.silence;
    Ok(silence.and_then(|silence| u64::try_from(silence.as_millis()).ok()))
}

/// A group in a list.
fn about(group: &Overview) -> Value {
    let replica = group.replica.as_ref();
    let (leader, last_leader) = leader(group);
    json!({
        "id": group.id.to_string(),
        "name": group.name,
        "standing": group.standing,
        "role": replica.map(|replica| role(replica.role)),
        "leader": leader.map(|leader| leader.did()),
        "lastLeader": last_leader.map(|leader| leader.did()),
        "silentMs": group.silence.and_then(|time| u64::try_from(time.as_millis()).ok()),
        "term": replica.map(|replica| replica.term),
        "failure": group.failure,
    })
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

fn role(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Candidate => "candidate",
        Role::Learner => "learner",
    }
}

/// A member that equivocated when it led, and the proof, which anybody can verify (SPEC.md, P-193), in hexadecimal.
fn equivocated(node: &Node, proven: &Equivocated) -> Result<Value, ApiError> {
    let proof = Proofs::of(&node.groups).get(proven.group, proven.leader)?;
    Ok(json!({
        "node": proven.leader.did(), "term": proven.term, "entry": proven.index,
        "proof": proof.map(|proof| althing_protocol::hex(&proof)),
    }))
}

fn status(node: &Node, id: GroupId) -> Result<Value, ApiError> {
    let overview = node.groups.overview(id)?;
    let mut value = about(&overview);
    if let Some(replica) = &overview.replica {
        value["lastEntry"] = json!(replica.last);
        value["appliedEntry"] = json!(replica.applied);
        value["snapshotEntry"] = json!(replica.snapshot);
        let lag = |entry: &Option<u64>| entry.map(|entry| replica.last.unwrap_or(entry).saturating_sub(entry));
        let lags = replica.replicated.iter().map(|(node, entry)| (node.did(), json!(lag(entry))));
        value["lag"] = Value::Object(lags.collect());
    }
    let proofs = overview.equivocated.iter().map(|proven| equivocated(node, proven));
    value["equivocated"] = proofs.collect::<Result<Vec<_>, ApiError>>()?.into();
    value["differing"] = json!(overview.differing.iter().map(PublicKey::did).collect::<Vec<_>>());
    let Ok((members, charter)) = node.groups.look(id, |state| (members(node, state), charter(state))) else {
        return Ok(value);
    };
    value["members"] = json!(members);
    value["charter"] = charter;
    value["work"] = Reader::of(&node.groups, id).look(work_of).unwrap_or_default();
    Ok(value)
}

/// What a group does, and how often it had to do something again.
fn work_of(state: &Group, sight: &Sight<'_>) -> Value {
    let tasks = state.work().tasks();
    let count = |states: &[TaskState]| tasks.iter().filter(|task| states.contains(&task.state)).count();
    let runs = state.flows().runs();
    let sum = |of: fn(&Task) -> u64| tasks.iter().map(of).sum::<u64>();
    let alarms = state.flows().schedules().alarms().filter(|known| sight.of_author(known.author));
    json!({
        "waiting": count(&[TaskState::Blocked, TaskState::Ready]),
        "working": count(&[TaskState::Assigned, TaskState::Working]),
        "completed": count(&[TaskState::Completed]),
        "failed": count(&[TaskState::Failed, TaskState::TimedOut]),
        "redone": sum(|task| u64::from(task.attempt.saturating_sub(1))),
        "handedOver": sum(|task| u64::from(task.handovers)),
        "stolen": sum(|task| u64::from(task.steals)),
        "runs": runs.iter().filter(|run| run.state == RunState::Running).count(),
        "asking": runs.iter().filter(|run| run.steps.iter().any(|step| step.state == StepState::Asking)).count(),
        "alarms": alarms.map(|known| known.schedule.name.clone()).collect::<Vec<_>>(),
    })
}

fn members(node: &Node, state: &Group) -> Vec<Value> {
    let network = node.communication.network();
    let member = |(key, member): (&PublicKey, &althing_coordination::machine::members::Member)| {
        json!({
            "node": key.did(),
            "owner": member.owner.to_string(),
            "votes": state.members().voters().contains(key),
            "silentSinceMs": state.members().silent_since(key),
            "rules": member.rules,
            "connected": *key == network.local() || network.is_connected(*key),
        })
    };
    state.members().iter().map(member).collect()
}

fn charter(state: &Group) -> Value {
    let Some(charter) = state.charter() else { return Value::Null };
    json!({
        "name": charter.name,
        "sequence": charter.sequence,
        "owners": charter.owners.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "threshold": charter.threshold,
        "write": charter.policy.write.name(),
        "assign": charter.policy.assigners().name(),
        "read": charter.policy.readers().name(),
        "votersMax": charter.policy.voters_max,
        "replaceAfterMs": charter.policy.replaces_after_ms(),
        "proposals": state.proposals().len(),
        "epoch": state.epoch(),
        "values": state.values().len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_answer_names_what_may_have_begun() {
        let told = |error: GroupError, doubt: Doubt| unsure(error, "team", doubt);
        let lost = told(GroupError::InDoubt, Doubt::Task("0a".to_owned()));
        assert!(lost.0.message.ends_with("`althing task show team 0a`"), "{}", lost.0.message);
        assert_eq!(json!(lost.0)["doubt"], json!({ "task": "0a" }));
        assert_eq!(lost.0.kind, Kind::Unreachable);
        let run = told(GroupError::InDoubt, Doubt::Run("0b".to_owned()));
        assert!(run.0.message.ends_with("`althing workflow show team 0b`"), "{}", run.0.message);
        let refused = told(GroupError::NotFound("team".to_owned()), Doubt::Task("0a".to_owned()));
        assert_eq!((refused.0.doubt, refused.0.kind), (None, Kind::NotFound), "it was not begun");
    }
}

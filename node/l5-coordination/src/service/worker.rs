//! This node's part in the work of a group: runs the tasks that it is assigned, extends their leases, reports to the leader
//! what it can do, and takes tasks from members that have too many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::group::{Claim, Command, Complete, Content, Decline, Deployment, Fail, Refuse, Steal, WorkId};
use althing_protocol::limits::{WORK_CONTENT_BYTES_MAX, WORK_REASON_BYTES_MAX, WORK_REFUSAL_BYTES_MAX};
use althing_protocol::{AnswerAttributes, PublicKey};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::Groups;
use super::deploy::{self, Deployments};
use super::large;
use super::lead::{candidate, held_counts};
use super::member::Member;
use super::outbox::Outbox;
use super::results::RESULT_BYTES_MAX;
use super::work::{Again, Assigned, Report, WorkFailure, Worker};
use crate::consensus::wire::{ReportTo, Reported};
use crate::error::GroupError;
use crate::machine::assignment::{self, Record};
use crate::machine::group::Group;
use crate::machine::outcome::Refusal;
use crate::machine::work::{State, WorkItem};

/// Between two reports while there is work, and between two attempts to steal.
const TICK: Duration = Duration::from_secs(1);
/// Between two looks where nothing changes and there is no work.
const IDLE: Duration = Duration::from_secs(10);
/// Tasks that an idle member takes at once.
const STEAL_MAX: u32 = 4;
/// Leases are extended when this part of them has passed.
const RENEW_AT: u32 = 3;

/// A task that runs here.
struct Running {
    token: u64,
    handle: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// Runs until this node has no part in the group any more.
pub(super) async fn run(groups: Groups, member: Arc<Member>, worker: Arc<dyn Worker>) {
    let (outbox, here) = (member.outbox(&groups).clone(), groups.shared.here());
    let mut running: BTreeMap<WorkId, Running> = BTreeMap::new();
    // The tasks that this node has, each with the token by which it was taken up here.
    let mut tokens: BTreeMap<WorkId, u64> = BTreeMap::new();
    let (mut reported, mut telling, mut signing) = (None, None, None);
    let (mut failing, mut deployments, mut hosted) = (JoinSet::new(), Deployments::default(), Vec::new());
    while !member.stop.is_cancelled() {
        let Ok(replica) = member.replica() else {
            // It starts again from disk.
            tokio::time::sleep(TICK).await;
            continue;
        };
        let mut changes = replica.changes();
        drop(replica);
        let looked = member.look(|state| {
            let is_work = state.work().tasks().unfinished() > 0 || deploy::has_agents(state);
            let askers = if is_work { state.publishers() } else { BTreeSet::new() };
            (held(state, here, &tokens), is_work.then_some(askers), hosted_here(&groups, state, &mut deployments))
        });
        let Ok((held, askers, (wanted, renewed))) = looked else {
            tokio::time::sleep(TICK).await;
            continue;
        };
        if wanted != hosted {
            worker.host(member.id, wanted.clone());
            hosted = wanted;
        }
        sign_again(&mut signing, &outbox, renewed);
        stop_lost(&mut running, &held.tokens, |task, token| worker.supersede(member.id, task, token));
        tokens = held.tokens;
        held.unreadable.into_iter().for_each(|claim| refuse(&mut failing, &outbox, unreadable(claim)));
        for (task, state) in held.new {
            let (id, token) = (task.task, task.token);
            let handle = tokio::spawn(attempt(groups.clone(), member.clone(), worker.clone(), task, state));
            running.insert(id, Running { token, handle });
        }
        let is_told = telling.as_ref().is_none_or(JoinHandle::is_finished);
        let is_due = is_told && reported.is_none_or(|at: Instant| at.elapsed() >= TICK);
        if let Some(askers) = askers.as_ref().filter(|_| is_due) {
            reported = Some(Instant::now());
            let idle = running.is_empty().then(|| outbox.clone());
            // Neither keeps tasks from beginning here.
            telling = Some(tokio::spawn(offer(groups.clone(), member.clone(), worker.report(askers), idle)));
        }
        tokio::select! {
            biased;
            () = member.stop.cancelled() => break,
            _ = changes.changed() => {}
            () = tokio::time::sleep(if askers.is_some() { TICK } else { IDLE }) => {}
        }
        while failing.try_join_next().is_some() {}
    }
    if groups.active(member.id).is_err() {
        worker.host(member.id, Vec::new());
    }
}

/// Stops what this node has no more; what does not stop at once does nothing more.
fn stop_lost(running: &mut BTreeMap<WorkId, Running>, tokens: &BTreeMap<WorkId, u64>, supersede: impl Fn(WorkId, u64)) {
    for (task, running) in running.iter().filter(|(task, running)| tokens.get(task) != Some(&running.token)) {
        supersede(*task, running.token + 1);
    }
    running.retain(|task, running| tokens.get(task) == Some(&running.token) && !running.handle.is_finished());
}

/// Tells the leader what this node can do, and takes tasks from others if it is idle.
async fn offer(groups: Groups, member: Arc<Member>, report: Report, idle: Option<Outbox>) {
    tell(&groups, &member, report.clone()).await;
    if let Some(outbox) = idle {
        steal(&groups, &member, &outbox, &report).await;
    }
}

/// Sends a command whose outcome the state will show.
fn refuse(failing: &mut JoinSet<()>, outbox: &Outbox, command: Command) {
    let outbox = outbox.clone();
    failing.spawn(async move { drop(outbox.execute(command).await) });
}

/// Replaces deployments by those that the present key signed, unless that is under way; another member of the owner may be
/// the first to do so.
fn sign_again(signing: &mut Option<JoinHandle<()>>, outbox: &Outbox, renewed: Vec<Command>) {
    if renewed.is_empty() || signing.as_ref().is_some_and(|signing| !signing.is_finished()) {
        return;
    }
    let outbox = outbox.clone();
    *signing = Some(tokio::spawn(async move {
        for command in renewed {
            if let Err(error) = outbox.execute(command).await {
                tracing::debug!(%error, "a deployment was not signed again by this node");
            }
        }
    }));
}

fn unreadable(claim: Claim) -> Command {
    let reason = "its input is a reference, which this node cannot fetch".to_owned();
    Command::Decline(Decline { claim, reason })
}

/// The agents that this node hosts for the group, and the deployments of its owner that are to be signed again.
fn hosted_here(groups: &Groups, state: &Group, deployments: &mut Deployments) -> (Vec<Deployment>, Vec<Command>) {
    if !deploy::has_agents(state) {
        return (Vec::new(), Vec::new());
    }
    let shared = &groups.shared;
    let (owner, network, now_ms) = ((shared.owner)(), &shared.config.network, shared.clock.now_ms());
    let hosted = deployments.here(state, network, shared.here(), &owner.log, now_ms);
    (hosted, deployments.renewed(state, network, &owner, now_ms))
}

/// The tasks that a member has.
struct HeldTasks {
    /// Their tokens.
    tokens: BTreeMap<WorkId, u64>,
    /// Those that are not known yet.
    new: Vec<(Assigned, State)>,
    /// Those of which another member holds the input.
    unreadable: Vec<Claim>,
}

/// The tasks that `here` has, which took some up by these tokens.
fn held(state: &Group, here: PublicKey, tokens: &BTreeMap<WorkId, u64>) -> HeldTasks {
    let known = |task: &WorkId, token| tokens.get(task) == Some(&token);
    let tasks = state.work().tasks();
    let mut held = HeldTasks { tokens: BTreeMap::new(), new: Vec::new(), unreadable: Vec::new() };
    for task in tasks.held_by(&here) {
        let Some(by) = task.held else { continue };
        held.tokens.insert(task.id(), by.token);
        if known(&task.id(), by.token) {
            continue;
        }
        let Content::Inline(input) = &task.submit.input else {
            held.unreadable.push(Claim { task: task.id(), token: by.token });
            continue;
        };
        let assigned = Assigned {
            group: state.id(),
            task: task.id(),
            token: by.token,
            attempt: task.attempt,
            author: task.author,
            on_behalf_of: state.on_behalf_of(task.author),
            needs: task.submit.needs.clone(),
            input: input.to_vec(),
            priority: task.submit.priority,
            channel: task.submit.channel.clone(),
            deadline_ms: task.submit.deadline_ms,
            is_step: state.flows().runs().of_task(&task.id()).is_some(),
            unverified: unverified(state, &task.id()),
            label: task.submit.label,
            answer: AnswerAttributes::default(),
        };
        held.new.push((assigned, task.state));
    }
    held
}

/// The steps whose results a task of a run is given without anybody having said that they are verified.
fn unverified(state: &Group, task: &WorkId) -> Vec<String> {
    let run = state.flows().runs().of_task(task);
    run.map(|run| run.unverified(task, state.work())).unwrap_or_default()
}

fn lease(member: &Member, task: WorkId) -> Duration {
    let lease = |state: &Group| state.work().tasks().get(&task).map(|task| task.submit.lease_ms);
    Duration::from_millis(member.look(lease).ok().flatten().unwrap_or(1_000))
}

/// What tells the group that an attempt has no result; `is_begun`: the member said that it works on it.
fn unfinished(claim: Claim, failure: WorkFailure, is_begun: bool) -> Command {
    let WorkFailure { reason, again } = failure;
    let cut = |most: usize| reason[..reason.floor_char_boundary(most)].to_owned();
    match again {
        Again::Others => Command::Refuse(Refuse { claim, reason: cut(WORK_REFUSAL_BYTES_MAX) }),
        Again::Any if !is_begun => Command::Decline(Decline { claim, reason: cut(WORK_REASON_BYTES_MAX) }),
        Again::Any | Again::Nobody => {
            let retry = again == Again::Any;
            Command::Fail(Fail { claim, reason: cut(WORK_REASON_BYTES_MAX), retry })
        }
    }
}

/// Begins an attempt of a task, if it is admitted, or goes on with one that was begun before the node ended; false if another
/// member has the task, or will when the lease is over.
async fn begin(outbox: &Outbox, worker: &dyn Worker, task: &Assigned, is_begun: bool) -> bool {
    let claim = Claim { task: task.task, token: task.token };
    if is_begun {
        return hold(outbox, claim).await;
    }
    if let Err(failure) = worker.admit(task).await {
        tracing::debug!(task = %task.task, reason = failure.reason, again = ?failure.again, "a task is not begun");
        let _ = outbox.execute(unfinished(claim, failure, false)).await;
        return false;
    }
    match outbox.execute(Command::Start(claim)).await {
        Ok(_) => true,
        // The group heard so from this node before it ended.
        Err(GroupError::Refused(Refusal::TaskState { state: State::Working, .. })) => {
            give_back(outbox, worker, task).await;
            false
        }
        Err(error) => {
            tracing::debug!(task = %task.task, %error, "a task could not be begun");
            false
        }
    }
}

/// Extends the lease of an attempt that was begun before the node ended, as soon as the group answers; false if the group
/// refuses.
async fn hold(outbox: &Outbox, claim: Claim) -> bool {
    loop {
        match outbox.execute(Command::Renew(claim)).await {
            Ok(_) => {
                tracing::info!(task = %claim.task, token = claim.token, "a task that was begun here goes on");
                return true;
            }
            Err(GroupError::Refused(refusal)) => {
                tracing::info!(task = %claim.task, %refusal, "a task that was begun here is another one's now");
                return false;
            }
            // It does not answer now.
            Err(_) => tokio::time::sleep(TICK).await,
        }
    }
}

/// Whether an attempt that came in that state goes on here that was begun before the node ended; none if it ends here. Its lease is
/// extended until that is known.
async fn standing(
    outbox: &Outbox,
    worker: &dyn Worker,
    task: &Assigned,
    state: State,
    lease: Duration,
) -> Option<bool> {
    let claim = Claim { task: task.task, token: task.token };
    // This node may have begun it though its state does not say so yet: how far entries are committed is on disk with the next
    // ones only.
    let is_begun = tokio::select! {
        biased;
        is_begun = worker.goes_on(task) => is_begun,
        lost = renew(outbox, claim, lease) => {
            tracing::info!(task = %claim.task, %lost, "a task was taken from this node before its agents had started");
            worker.supersede(task.group, claim.task, claim.token + 1);
            return None;
        }
    };
    if state != State::Working || is_begun {
        return Some(is_begun);
    }
    give_back(outbox, worker, task).await;
    None
}

/// Ends an attempt that this node began before it ended, and has no journal of: nobody knows how far it came, so what may be left
/// of it does nothing more, and the group has it tried again.
async fn give_back(outbox: &Outbox, worker: &dyn Worker, task: &Assigned) {
    let claim = Claim { task: task.task, token: task.token };
    worker.supersede(task.group, claim.task, claim.token + 1);
    let reason = "the node that worked on it started again".to_owned();
    let _ = outbox.execute(Command::Fail(Fail { claim, reason, retry: true })).await;
}

/// One attempt of a task, which came in that state: admitted and begun, or gone on with, run, and ended.
async fn attempt(groups: Groups, member: Arc<Member>, worker: Arc<dyn Worker>, task: Assigned, state: State) {
    let (outbox, lease) = (member.outbox(&groups).clone(), lease(&member, task.task));
    let claim = Claim { task: task.task, token: task.token };
    let Some(is_begun) = standing(&outbox, worker.as_ref(), &task, state, lease).await else { return };
    if !begin(&outbox, worker.as_ref(), &task, is_begun).await {
        return;
    }
    let (group, id, is_step) = (task.group, task.task, task.is_step);
    let said = (task.answer.clone(), worker.verifies(&task).await);
    let ended = tokio::select! {
        biased;
        ended = worker.run(task) => ended,
        lost = renew(&outbox, claim, lease) => {
            tracing::info!(task = %id, %lost, "a task was taken from this node; its run here ends");
            worker.supersede(group, id, claim.token + 1);
            return;
        }
    };
    // A large result is kept here until the group knows it.
    let mut kept = None;
    let command = match ended {
        // The state itself must read the result of a step.
        Ok(result) if result.len() > WORK_CONTENT_BYTES_MAX && is_step => {
            let bytes = result.len();
            let reason = format!("its result has {bytes} bytes, and {WORK_CONTENT_BYTES_MAX} are possible");
            Command::Fail(Fail { claim, reason, retry: false })
        }
        Ok(result) if result.len() > WORK_CONTENT_BYTES_MAX => match large::keep(&groups, &member, &result).await {
            Ok(result) => {
                let reference = kept.insert(result).reference.clone();
                completed(claim, Content::Reference(reference), &said)
            }
            Err(error) => {
                // Another member may have room.
                let again = if result.len() > RESULT_BYTES_MAX { Again::Nobody } else { Again::Others };
                let failure = WorkFailure { reason: format!("its result: {error}"), again };
                unfinished(claim, failure, true)
            }
        },
        Ok(result) => completed(claim, Content::Inline(result.into()), &said),
        Err(failure) => unfinished(claim, failure, true),
    };
    // Until the group has heard of it, or somebody else has the task.
    loop {
        match outbox.execute(command.clone()).await {
            Ok(_) => return,
            // There is no room just now.
            Err(GroupError::Refused(Refusal::Full(_))) => tokio::time::sleep(TICK).await,
            Err(refusal @ (GroupError::Refused(_) | GroupError::Object(_))) => {
                tracing::info!(task = %id, %refusal, "the end of a task was not accepted");
                return;
            }
            Err(error) => {
                tracing::debug!(task = %id, %error, "the end of a task is sent again");
                tokio::time::sleep(TICK).await;
            }
        }
    }
}

/// The end of a task that has a result, with the label that its answer was given, and whether that passed gates.
fn completed(claim: Claim, result: Content, (answer, verified): &(AnswerAttributes, bool)) -> Command {
    Command::Complete(Complete { claim, result, label: answer.label(), verified: verified.then_some(true) })
}

/// Extends a lease until the group refuses.
async fn renew(outbox: &Outbox, claim: Claim, lease: Duration) -> GroupError {
    loop {
        tokio::time::sleep(lease / RENEW_AT).await;
        if let Err(error @ GroupError::Refused(_)) = outbox.execute(Command::Renew(claim)).await {
            return error;
        }
    }
}

/// Tells the leader what this node can do.
async fn tell(groups: &Groups, member: &Arc<Member>, report: Report) {
    let leader = member.replica().ok().and_then(|replica| replica.status().leader);
    match leader {
        Some(leader) if leader == groups.shared.here() => member.take_report(leader, report),
        Some(leader) => {
            let told = groups.shared.ask::<_, Reported>(leader, "report", &ReportTo { group: member.id, report }).await;
            if let Err(error) = told {
                tracing::debug!(group = %member.id, %error, "the leader was not told what this node can do");
            }
        }
        None => {}
    }
}

/// Takes tasks from members that have too many, or have not begun them in time.
async fn steal(groups: &Groups, member: &Arc<Member>, outbox: &Outbox, report: &Report) {
    let here = groups.shared.here();
    for running in 0..STEAL_MAX {
        let found = member.look(|state| {
            let counts = held_counts(state);
            let slots = report.slots.max(1);
            let load = |count: u32| u16::try_from(u64::from(count) * 1_000 / u64::from(slots)).unwrap_or(u16::MAX);
            let loads: Vec<(PublicKey, u16)> =
                counts.iter().filter(|(node, _)| **node != here).map(|(node, count)| (*node, load(*count))).collect();
            let now_ms = groups.shared.clock.now_ms();
            let asker = |task: &WorkItem| state.on_behalf_of(task.author);
            let idle = candidate(here, report, running, state, (Record::default(), false));
            assignment::steal(&idle, &loads, state.work(), now_ms, asker)
        });
        let Ok(Some((task, from))) = found else { return };
        let stolen = outbox.execute(Command::Steal(Steal { task, from })).await;
        tracing::debug!(group = %member.id, %task, %from, ?stolen, "an idle member takes a task");
        if stolen.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;

//! What the leader does for the work of a group: gives each task that is ready to a member, and lets time pass.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::PublicKey;
use althing_protocol::group::{Assign, Author, Command, WorkId};
use tokio::time::Instant;

use super::Groups;
use super::member::Member;
use super::work::Report;
use crate::consensus::Role;
use crate::machine::assignment::{self, Candidate, Verdict};
use crate::machine::group::Group;
use crate::machine::outcome::Outcome;
use crate::machine::work::{State, Task};

/// Between two looks while tasks wait.
const TICK: Duration = Duration::from_millis(500);
/// Between two looks while none does.
const IDLE: Duration = Duration::from_secs(5);
/// Tasks that are given out under one signature: well within the data items of one message.
const ASSIGN_MAX: usize = 128;
/// How old a report may be.
const REPORT_AGE: Duration = Duration::from_secs(5);
/// Before a task that all declined, or that could not be given out, is looked at again.
const RETRY: Duration = Duration::from_secs(1);
/// Between two counts of who completed how much.
const COUNT: Duration = Duration::from_secs(2);

/// Of the tasks that a member ended, those that it completed.
#[derive(Default)]
struct Successes {
    by_member: BTreeMap<PublicKey, (u32, u32)>,
    at: Option<Instant>,
}

impl Successes {
    fn count(&mut self, state: &Group) {
        if self.at.is_some_and(|at| at.elapsed() < COUNT) {
            return;
        }
        self.at = Some(Instant::now());
        self.by_member.clear();
        for task in state.work().tasks().iter().filter(|task| task.state.is_finished()) {
            let Some(member) = task.last else { continue };
            let (completed, all) = self.by_member.entry(member).or_default();
            *completed += u32::from(task.state == State::Completed);
            *all += 1;
        }
    }

    fn permille(&self, member: &PublicKey) -> u16 {
        match self.by_member.get(member) {
            Some((completed, all)) if *all > 0 => u16::try_from(completed * 1_000 / all).unwrap_or(1_000),
            _ => 1_000,
        }
    }
}

/// How many tasks each member has.
pub(super) fn held_counts(state: &Group) -> BTreeMap<PublicKey, u32> {
    let tasks = state.work().tasks();
    let count = |node: &PublicKey| u32::try_from(tasks.held_by(node).count()).unwrap_or(u32::MAX);
    state.members().iter().map(|(node, _)| (*node, count(node))).collect()
}

/// A member as a candidate, from its report.
pub(super) fn candidate(
    node: PublicKey,
    report: &Report,
    running: u32,
    state: &Group,
    success_permille: Option<u16>,
) -> Candidate {
    let owners = state.charter().map(|charter| charter.owners.as_slice()).unwrap_or_default();
    let is_owners = state.members().get(&node).is_some_and(|member| owners.contains(&member.owner));
    let slots = u64::from(report.slots.max(1));
    let busy = u16::try_from(u64::from(running) * 1_000 / slots).unwrap_or(u16::MAX);
    Candidate {
        node,
        agents: report.agents.clone(),
        capabilities: report.capabilities.clone(),
        labels: report.labels.clone(),
        memory_mib: report.memory_mib,
        cores: report.cores,
        disk_mib: report.disk_mib,
        gpus: report.gpus,
        classes: report.classes.clone(),
        healthy: true,
        load_permille: busy.max(report.load_permille),
        running,
        trust: 1 + u8::from(is_owners),
        success_permille: success_permille.unwrap_or(1_000),
        declined: false,
    }
}

/// Runs until this node has no part in the group any more.
pub(super) async fn run(groups: Groups, member: Arc<Member>) {
    let mut successes = Successes::default();
    let mut later: BTreeMap<WorkId, Instant> = BTreeMap::new();
    while !member.stop.is_cancelled() {
        let Ok(replica) = member.replica() else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let (mut changes, mut moves) = (replica.changes(), replica.moves());
        // Until it ends or is started again.
        while member.replica().is_ok_and(|now| Arc::ptr_eq(&now, &replica)) {
            let leads = replica.status().role == Role::Leader;
            let pause = if leads { give_out(&groups, &member, &mut successes, &mut later).await } else { IDLE };
            tokio::select! {
                () = member.stop.cancelled() => return,
                _ = changes.changed(), if leads => {}
                is_alive = moves.changed(), if !leads => if !is_alive { break },
                () = member.reported.notified(), if leads => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

/// Gives out what is ready; for how long to wait then, if nothing changes.
async fn give_out(
    groups: &Groups,
    member: &Arc<Member>,
    successes: &mut Successes,
    later: &mut BTreeMap<WorkId, Instant>,
) -> Duration {
    later.retain(|_, at| *at > Instant::now());
    let (commands, is_work) = decide(groups, member, successes, later);
    if commands.is_empty() {
        return if is_work { TICK } else { IDLE };
    }
    let author = Author::Node(groups.shared.here());
    match groups.submit(member.id, author, &groups.shared.key, commands.clone()).await {
        Ok(outcomes) => {
            // What was refused is looked at again later.
            let refused = commands.iter().zip(outcomes.unwrap_or_default()).filter_map(|pair| match pair {
                (Command::Assign(assign), Outcome::Refused(_)) => Some((assign.task, Instant::now() + RETRY)),
                _ => None,
            });
            later.extend(refused);
            Duration::ZERO
        }
        Err(error) => {
            tracing::debug!(group = %member.id, %error, "tasks could not be given out");
            RETRY
        }
    }
}

/// The commands that are due, and whether tasks wait.
fn decide(
    groups: &Groups,
    member: &Arc<Member>,
    successes: &mut Successes,
    later: &mut BTreeMap<WorkId, Instant>,
) -> (Vec<Command>, bool) {
    let now_ms = groups.shared.clock.now_ms();
    let reports = member.reports(REPORT_AGE);
    let decided = member.look(|state| {
        let tasks = state.work().tasks();
        if tasks.unfinished() == 0 {
            return (Vec::new(), false);
        }
        let mut commands = Vec::new();
        if tasks.next_expiry_ms().is_some_and(|at_ms| at_ms <= now_ms) {
            commands.push(Command::Tick);
        }
        successes.count(state);
        let mut candidates = candidates(state, &reports, successes);
        for task in state.work().assignable(state.members().len()) {
            if commands.len() >= ASSIGN_MAX {
                break;
            }
            if later.contains_key(&task.id()) {
                continue;
            }
            match give(task, &mut candidates, &reports) {
                Some(assign) => commands.push(Command::Assign(assign)),
                None => drop(later.insert(task.id(), Instant::now() + RETRY)),
            }
        }
        (commands, true)
    });
    decided.unwrap_or_default()
}

fn candidates(state: &Group, reports: &BTreeMap<PublicKey, Report>, successes: &Successes) -> Vec<Candidate> {
    let counts = held_counts(state);
    let of = |(node, running): (&PublicKey, &u32)| {
        let silent = Report::default();
        let report = reports.get(node);
        let success = Some(successes.permille(node));
        let known = candidate(*node, report.unwrap_or(&silent), *running, state, success);
        Candidate { healthy: report.is_some(), ..known }
    };
    counts.iter().map(of).collect()
}

/// Gives a task to the best member, whose load grows by it.
fn give(task: &Task, candidates: &mut [Candidate], reports: &BTreeMap<PublicKey, Report>) -> Option<Assign> {
    for candidate in candidates.iter_mut() {
        candidate.declined = task.declined.contains(&candidate.node);
    }
    let node = assignment::choose(&task.submit.needs, candidates).chosen?;
    let chosen = candidates.iter_mut().find(|candidate| candidate.node == node)?;
    if chosen.declined {
        // All that can do it declined: after a pause they are asked again.
        return None;
    }
    chosen.running += 1;
    let slots = u64::from(reports.get(&node).map_or(1, |report| report.slots.max(1)));
    let busy = u16::try_from(u64::from(chosen.running) * 1_000 / slots).unwrap_or(u16::MAX);
    chosen.load_permille = chosen.load_permille.max(busy);
    Some(Assign { task: task.id(), member: node, attempt: task.attempt })
}

impl Groups {
    /// Why a task is given to whom, as the leader would decide now. At other members nothing is known of the others.
    ///
    /// # Errors
    /// The group is not here.
    pub fn explain(
        &self,
        group: althing_protocol::group::GroupId,
        task: WorkId,
    ) -> Result<Option<Vec<(PublicKey, Verdict)>>, crate::GroupError> {
        let member = self.active(group)?;
        let reports = member.reports(REPORT_AGE);
        let mut successes = Successes::default();
        member.look(|state| {
            let task = state.work().tasks().get(&task)?;
            successes.count(state);
            let mut candidates = candidates(state, &reports, &successes);
            for candidate in &mut candidates {
                candidate.declined = task.declined.contains(&candidate.node);
            }
            Some(assignment::choose(&task.submit.needs, &candidates).why)
        })
    }
}

//! What the leader does for the work of a group: gives each task that is ready to a member, says which times of schedules
//! have come, and lets time pass.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::group::{Abandon, Assign, Author, Command, GroupId, WorkId};
use althing_protocol::limits::WORK_REASON_BYTES_MAX;
use althing_protocol::{CallerId, PublicKey};
use tokio::time::Instant;

use super::Groups;
use super::calendar::Calendar;
use super::deploy::{self, Deployments};
use super::member::Member;
use super::work::Report;
use crate::consensus::Role;
use crate::machine::assignment::{self, Candidate, Record, Verdict};
use crate::machine::group::Group;
use crate::machine::outcome::Outcome;
use crate::machine::replacement::{self, Seen};
use crate::machine::work::{State, Why, WorkItem};
use crate::machine::workflow::{ALARM_FAILURES, Schedules};

/// Between two looks while tasks wait.
const TICK: Duration = Duration::from_millis(500);
/// Between two looks while none does.
const IDLE: Duration = Duration::from_secs(5);
/// Tasks that are given out under one signature: well within the data items of one message.
const ASSIGN_MAX: usize = 128;
/// Tasks that are looked at at once.
const LOOK_MAX: usize = 512;
/// For how long it is remembered that all declined a task.
const DECLINED: Duration = Duration::from_secs(60);
/// How old a report may be.
const REPORT_AGE: Duration = Duration::from_secs(5);
/// Between two looks, at least.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// Before a task that all declined, or that could not be given out, is looked at again.
const RETRY: Duration = Duration::from_secs(1);
/// For how long no member may do a task before it is abandoned: an agent that starts again is back by then.
const HOPELESS: Duration = Duration::from_secs(5);
/// Between two counts of who completed how much.
const COUNT: Duration = Duration::from_secs(2);

/// How members did the tasks that they ended.
#[derive(Default)]
struct Successes {
    by_member: BTreeMap<PublicKey, Record>,
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
            // Not the member's fault.
            if matches!(
                task.why,
                Some(Why::Deadline | Why::Canceled(_) | Why::Dependency(..) | Why::Refused(..) | Why::Abandoned(..))
            ) {
                continue;
            }
            let record = self.by_member.entry(member).or_default();
            match (&task.state, task.verified) {
                (State::Completed, Some(true)) => record.verified += 1,
                (State::Completed, _) => record.claimed += 1,
                _ => record.failed += 1,
            }
        }
    }

    /// Whether gates judge results in this group.
    fn are_judged(&self) -> bool {
        self.by_member.values().any(|record| record.verified > 0)
    }

    fn record(&self, member: &PublicKey) -> Record {
        self.by_member.get(member).copied().unwrap_or_default()
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
    (record, are_judged): (Record, bool),
) -> Candidate {
    let owners = state.charter().map(|charter| charter.owners.as_slice()).unwrap_or_default();
    let is_owners = state.members().get(&node).is_some_and(|member| owners.contains(&member.owner));
    let slots = u64::from(report.slots.max(1));
    let busy = u16::try_from(u64::from(running) * 1_000 / slots).unwrap_or(u16::MAX);
    Candidate {
        node,
        agents: report.agents.clone(),
        capabilities: report.capabilities.clone(),
        answering: report.answering.clone().unwrap_or_default(),
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
        success_permille: record.success_permille(are_judged),
        basis: record.basis(),
        declined: false,
        refused: None,
    }
}

/// Runs until this node has no part in the group any more.
pub(super) async fn run(groups: Groups, member: Arc<Member>) {
    let mut lead = Lead::default();
    while !member.stop.is_cancelled() {
        let Ok(replica) = member.replica() else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let (mut changes, mut moves) = (replica.changes(), replica.moves());
        // Until it ends or is started again.
        while member.replica().is_ok_and(|now| Arc::ptr_eq(&now, &replica)) {
            let leads = replica.status().role == Role::Leader;
            lead.since = lead.since.filter(|_| leads).or_else(|| leads.then(Instant::now));
            let pause = if leads { lead.give_out(&groups, &member).await } else { IDLE };
            let is_alive = tokio::select! {
                biased;
                () = member.stop.cancelled() => return,
                changed = changes.changed(), if leads => changed.is_ok(),
                is_alive = moves.changed(), if !leads => is_alive,
                () = member.reported.notified(), if leads => true,
                () = tokio::time::sleep(pause) => true,
            };
            if !is_alive {
                // Until it is seen elsewhere that it failed, it is still the member's.
                tokio::time::sleep(RETRY).await;
                break;
            }
        }
    }
}

/// What a leader remembers of tasks that it could not give out.
#[derive(Default)]
struct Lead {
    successes: Successes,
    /// When each is looked at again.
    later: BTreeMap<WorkId, Instant>,
    /// Those that all who can do them declined, and since when.
    declined: BTreeMap<WorkId, Instant>,
    /// Those that no member may do, and since when.
    hopeless: BTreeMap<WorkId, Instant>,
    calendar: Calendar,
    alarms: Alarms,
    deployments: Deployments,
    /// Since when this node leads.
    since: Option<Instant>,
}

/// The schedules whose alarm was told, and since when each lasts.
#[derive(Default)]
struct Alarms {
    told: BTreeMap<String, u64>,
}

impl Alarms {
    /// Tells of each alarm once.
    fn tell(&mut self, group: GroupId, schedules: &Schedules) {
        let now: BTreeMap<String, u64> = schedules
            .alarms()
            .filter_map(|scheduled| Some((scheduled.schedule.name.clone(), scheduled.alarm_ms?)))
            .collect();
        for (name, since_ms) in now.iter().filter(|(name, since_ms)| self.told.get(*name) != Some(since_ms)) {
            tracing::error!(%group, schedule = %name, since_ms, "the last {ALARM_FAILURES} runs of a schedule failed");
        }
        self.told = now;
    }
}

/// What is due.
#[derive(Default)]
struct Due {
    commands: Vec<Command>,
    /// Values that say who hosts what.
    placements: Vec<Command>,
    /// Whether there is a task that has not ended, or an agent to be hosted.
    is_work: bool,
    /// Whether tasks were left out that could be looked at.
    is_more: bool,
    /// When time changes something next, Unix milliseconds.
    next_ms: Option<u64>,
}

impl Due {
    /// For how long to wait, if nothing changes and there is nothing to do at `now_ms`.
    fn pause(&self, now_ms: u64) -> Duration {
        let pause = match (self.is_work, self.is_more) {
            (_, true) => return LOOK_PAUSE,
            (true, false) => TICK,
            (false, false) => IDLE,
        };
        let next = self.next_ms.map_or(pause, |at_ms| Duration::from_millis(at_ms.saturating_sub(now_ms)));
        next.clamp(LOOK_PAUSE, pause)
    }
}

impl Lead {
    /// Gives out what is ready; for how long to wait then, if nothing changes.
    async fn give_out(&mut self, groups: &Groups, member: &Arc<Member>) -> Duration {
        let now = Instant::now();
        self.later.retain(|_, at| *at > now);
        self.declined.retain(|_, since| since.elapsed() < DECLINED);
        let mut due = self.decide(groups, member);
        for placement in std::mem::take(&mut due.placements) {
            // In the owner's name where only owners write.
            if let Err(error) = groups.command(member.id, placement).await {
                tracing::debug!(group = %member.id, %error, "an agent could not be placed");
                return RETRY;
            }
        }
        if due.commands.is_empty() {
            // Each entry wakes this: it need not look at all tasks each time.
            tokio::time::sleep(LOOK_PAUSE).await;
            return due.pause(groups.shared.clock.now_ms());
        }
        let commands = due.commands;
        let author = Author::Node(groups.shared.here());
        match groups.submit(member.id, author, &groups.shared.key, commands.clone()).await {
            Ok(outcomes) => {
                // What was refused is looked at again later.
                let mut pause = Duration::ZERO;
                for pair in commands.iter().zip(outcomes.unwrap_or_default()) {
                    match pair {
                        (
                            Command::Assign(Assign { task, .. }) | Command::Abandon(Abandon { task, .. }),
                            Outcome::Refused(_),
                        ) => drop(self.later.insert(*task, Instant::now() + RETRY)),
                        (_, Outcome::Refused(refusal)) => {
                            tracing::debug!(group = %member.id, %refusal, "what was due is not done");
                            pause = RETRY;
                        }
                        (_, Outcome::Done(_)) => {}
                    }
                }
                pause
            }
            Err(error) => {
                tracing::debug!(group = %member.id, %error, "tasks could not be given out");
                RETRY
            }
        }
    }

    fn decide(&mut self, groups: &Groups, member: &Arc<Member>) -> Due {
        let now_ms = groups.shared.clock.now_ms();
        let reports = member.reports(REPORT_AGE);
        let network = &groups.shared.config.network;
        // Who did not report since this node leads may yet do so.
        let may_move = self.since.is_some_and(|since| since.elapsed() > REPORT_AGE * 2);
        let seen = self.seen(member);
        let decided = member.look(|state| {
            let hosts = self.deployments.changes(state, network, &reports, may_move);
            let mut due = self.look(state, &reports, now_ms);
            due.commands.extend(replacement::next(state, groups.shared.here(), &seen, now_ms));
            due.is_work |= deploy::has_agents(state);
            due.placements = hosts;
            due
        });
        decided.unwrap_or_default()
    }

    /// When each member was heard last; who was not heard since this node leads may yet be.
    fn seen(&self, member: &Member) -> BTreeMap<PublicKey, Seen> {
        let mut seen = member.replica().map(|replica| replica.seen()).unwrap_or_default();
        let led_ms = self.since.map_or(0, |since| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
        let voters = member.look(|state| state.members().voters().clone()).unwrap_or_default();
        for voter in voters {
            let known = seen.entry(voter).or_insert(Seen { silence_ms: u64::MAX, is_current: false });
            known.silence_ms = known.silence_ms.min(led_ms);
        }
        seen
    }

    fn look(&mut self, state: &Group, reports: &BTreeMap<PublicKey, Report>, now_ms: u64) -> Due {
        let tasks = state.work().tasks();
        let (schedules, expiry_ms) = (state.flows().schedules(), state.flows().next_expiry_ms(state.work()));
        let (fires, fire_ms) = self.calendar.due(schedules, now_ms);
        self.alarms.tell(state.id(), schedules);
        let next_ms = expiry_ms.into_iter().chain(fire_ms).min();
        let mut due = Due { is_work: tasks.unfinished() > 0, next_ms, ..Due::default() };
        if expiry_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            due.commands.push(Command::Tick);
        }
        due.commands.extend(fires.into_iter().map(Command::Fire));
        if !due.is_work {
            return due;
        }
        self.successes.count(state);
        let mut candidates = candidates(state, reports, &self.successes);
        let has_room = |one: &Candidate| one.healthy && one.load_permille < assignment::FULL_LOAD_PERMILLE;
        let mut looked_at = 0;
        for task in state.work().assignable(state.members().len()) {
            if due.commands.len() >= ASSIGN_MAX || looked_at >= LOOK_MAX {
                due.is_more = true;
                break;
            }
            if !candidates.iter().any(has_room) {
                break;
            }
            if self.later.contains_key(&task.id()) {
                continue;
            }
            looked_at += 1;
            match self.give(task, state.on_behalf_of(task.author), &mut candidates, reports) {
                Some(command) => due.commands.push(command),
                None => drop(self.later.insert(task.id(), Instant::now() + RETRY)),
            }
        }
        self.hopeless.retain(|task, _| tasks.get(task).is_some_and(|task| task.state == State::Ready));
        due
    }

    /// Gives a task to the best member, whose load grows by it; or abandons it, when no member may do it.
    fn give(
        &mut self,
        task: &WorkItem,
        asker: CallerId,
        candidates: &mut [Candidate],
        reports: &BTreeMap<PublicKey, Report>,
    ) -> Option<Command> {
        mark_declined(task, candidates);
        let choice = assignment::choose(&task.submit.needs, asker, candidates);
        let Some(node) = choice.chosen else {
            return self.abandon(task, assignment::hopeless(&choice, |node| reports.contains_key(node)));
        };
        self.hopeless.remove(&task.id());
        let chosen = candidates.iter_mut().find(|candidate| candidate.node == node)?;
        if chosen.declined {
            // All that can do it declined: after a pause they are asked again.
            let since = *self.declined.entry(task.id()).or_insert_with(Instant::now);
            if since.elapsed() < RETRY {
                return None;
            }
            self.declined.remove(&task.id());
        }
        chosen.running += 1;
        let slots = u64::from(reports.get(&node).map_or(1, |report| report.slots.max(1)));
        let busy = u16::try_from(u64::from(chosen.running) * 1_000 / slots).unwrap_or(u16::MAX);
        chosen.load_permille = chosen.load_permille.max(busy);
        Some(Command::Assign(Assign { task: task.id(), member: node, attempt: task.attempt }))
    }

    /// Ends a task that has been hopeless for long enough.
    fn abandon(&mut self, task: &WorkItem, why: Option<String>) -> Option<Command> {
        let Some(why) = why else {
            self.hopeless.remove(&task.id());
            return None;
        };
        if self.hopeless.entry(task.id()).or_insert_with(Instant::now).elapsed() < HOPELESS {
            return None;
        }
        let reason = why[..why.floor_char_boundary(WORK_REASON_BYTES_MAX)].to_owned();
        Some(Command::Abandon(Abandon { task: task.id(), reason }))
    }
}

/// Marks candidates that declined or refused the task.
fn mark_declined(task: &WorkItem, candidates: &mut [Candidate]) {
    for candidate in candidates {
        candidate.declined = task.declined.contains(&candidate.node);
        candidate.refused = task.refused.of(&candidate.node).map(str::to_owned);
    }
}

fn candidates(state: &Group, reports: &BTreeMap<PublicKey, Report>, successes: &Successes) -> Vec<Candidate> {
    let (counts, are_judged) = (held_counts(state), successes.are_judged());
    let of = |(node, running): (&PublicKey, &u32)| {
        let silent = Report::default();
        let report = reports.get(node);
        let record = (successes.record(node), are_judged);
        let known = candidate(*node, report.unwrap_or(&silent), *running, state, record);
        Candidate { healthy: report.is_some(), ..known }
    };
    counts.iter().map(of).collect()
}

impl Groups {
    /// Why a task is given to whom, as the leader would decide now. At other members nothing is known of the others.
    ///
    /// # Errors
    /// The group is not here.
    pub fn explain(
        &self,
        group: GroupId,
        task: WorkId,
    ) -> Result<Option<Vec<(PublicKey, Verdict)>>, crate::GroupError> {
        let member = self.active(group)?;
        let reports = member.reports(REPORT_AGE);
        let mut successes = Successes::default();
        member.look(|state| {
            let task = state.work().tasks().get(&task)?;
            successes.count(state);
            let mut candidates = candidates(state, &reports, &successes);
            mark_declined(task, &mut candidates);
            let asker = state.on_behalf_of(task.author);
            Some(assignment::choose(&task.submit.needs, asker, &candidates).why)
        })
    }
}

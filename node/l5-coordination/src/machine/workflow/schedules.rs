//! The schedules of a group: which runs begin at which times, which of these counted, and how the last runs ended.
//!
//! The state computes no times: a member says that one has come, and the state lets each count once. So it does not matter
//! who says it, nor how often.

use std::collections::BTreeMap;

use althing_protocol::PublisherId;
use althing_protocol::group::{Author, Fire, Overlap, RunWorkflow, Schedule, WorkId};
use minicbor::{Decode, Encode};

use super::super::outcome::Refusal;
use super::super::shares::{Ledger, Moment};
use super::run::{Whose, id_of};

/// Schedules of one group.
pub const SCHEDULES_MAX: usize = 64;
/// Bytes of all schedules.
const BYTES_MAX: usize = 2 << 20;
/// Runs in a row that fail until there is an alarm.
pub const ALARM_FAILURES: u32 = 3;

/// A schedule, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Scheduled {
    /// What was said.
    #[n(0)]
    pub schedule: Schedule,
    /// Who said it: the runs are theirs.
    #[n(1)]
    pub author: Author,
    /// When, Unix milliseconds: earlier times do not count.
    #[n(2)]
    pub since_ms: u64,
    /// The last time that counted, Unix milliseconds.
    #[n(3)]
    pub last_ms: Option<u64>,
    /// The run that it began.
    #[n(4)]
    pub last_run: Option<WorkId>,
    /// How many of its last runs failed, one after the other.
    #[n(5)]
    pub failures: u32,
    /// Since when there is an alarm, Unix milliseconds: the third of these failures. A run that completes ends it.
    #[n(6)]
    pub alarm_ms: Option<u64>,
    /// In whose room it is: the author's owner.
    #[n(7)]
    pub owner: PublisherId,
    /// The times that were passed over because a run had not ended; none if there is no such time.
    #[n(8)]
    pub omissions: Option<Omissions>,
}

/// Times of a schedule that were passed over because a run had not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Omissions {
    /// How many.
    #[n(0)]
    pub count: u64,
    /// The last one, Unix milliseconds.
    #[n(1)]
    pub last_ms: u64,
}

impl Scheduled {
    /// The time after which the next one is looked for.
    #[must_use]
    pub fn after_ms(&self) -> u64 {
        self.last_ms.unwrap_or(self.since_ms)
    }

    fn bytes(&self) -> usize {
        self.schedule.workflow.bytes() + self.schedule.input.len()
    }

    /// A run ended.
    pub(super) fn note(&mut self, completed: bool, now_ms: u64) {
        if completed {
            (self.failures, self.alarm_ms) = (0, None);
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= ALARM_FAILURES {
            self.alarm_ms = self.alarm_ms.or(Some(now_ms));
        }
    }
}

/// The schedules of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedules {
    by_name: BTreeMap<String, Scheduled>,
}

impl Schedules {
    /// The schedule of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Scheduled> {
        self.by_name.get(name)
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Scheduled> {
        self.by_name.values()
    }

    /// Those with an alarm.
    pub fn alarms(&self) -> impl Iterator<Item = &Scheduled> {
        self.iter().filter(|scheduled| scheduled.alarm_ms.is_some())
    }

    /// Adds a schedule, or replaces that of the same name.
    pub(super) fn set(
        &mut self,
        schedule: &Schedule,
        (author, owner): Whose,
        moment: Moment<'_>,
    ) -> Result<(), Refusal> {
        let (last_ms, last_run, alarm_ms) = (None, None, None);
        let new = Scheduled {
            schedule: schedule.clone(),
            author,
            since_ms: moment.now_ms,
            last_ms,
            last_run,
            failures: 0,
            alarm_ms,
            owner,
            omissions: None,
        };
        let (mut count, mut bytes) = (Ledger::default(), Ledger::default());
        for other in self.iter().filter(|other| other.schedule.name != schedule.name) {
            count.add(other.owner, 1);
            bytes.add(other.owner, other.bytes());
        }
        count.check(&owner, 1, SCHEDULES_MAX, moment.sharers, "schedules")?;
        bytes.check(&owner, new.bytes(), BYTES_MAX, moment.sharers, "bytes of schedules")?;
        self.restore(new);
        Ok(())
    }

    /// Removes one.
    pub(super) fn remove(&mut self, name: &str) -> Result<(), Refusal> {
        self.by_name.remove(name).map(drop).ok_or_else(|| Refusal::UnknownSchedule(name.to_owned()))
    }

    /// A time has come: the run that begins, and whose it is; none if a run of the schedule has not ended, and the schedule
    /// says that such times are passed over.
    pub(super) fn fire(
        &mut self,
        fire: &Fire,
        is_running: bool,
        now_ms: u64,
    ) -> Result<Option<(RunWorkflow, Whose)>, Refusal> {
        let known = self.by_name.get_mut(&fire.name).filter(|known| known.since_ms == fire.since_ms);
        let known = known.ok_or_else(|| Refusal::UnknownSchedule(fire.name.clone()))?;
        let last_ms = known.after_ms();
        if fire.at_ms <= last_ms || fire.at_ms > now_ms {
            return Err(Refusal::NotDue { last_ms });
        }
        known.last_ms = Some(fire.at_ms);
        if is_running && known.schedule.overlap == Some(Overlap::Skip) {
            let count = known.omissions.map_or(0, |omissions| omissions.count).saturating_add(1);
            known.omissions = Some(Omissions { count, last_ms: fire.at_ms });
            return Ok(None);
        }
        let mut bytes = b"althing schedule run".to_vec();
        bytes.extend(fire.at_ms.to_be_bytes());
        bytes.extend(fire.since_ms.to_be_bytes());
        bytes.extend(fire.name.as_bytes());
        let run = id_of(&bytes);
        known.last_run = Some(run);
        let Schedule { workflow, input, .. } = known.schedule.clone();
        Ok(Some((RunWorkflow { run, workflow, input }, (known.author, known.owner))))
    }

    /// A run of a schedule ended, if the schedule is the same yet.
    pub(super) fn note(&mut self, name: &str, since_ms: u64, completed: bool, now_ms: u64) {
        let same = self.by_name.get_mut(name).filter(|known| known.since_ms == since_ms);
        if let Some(known) = same {
            known.note(completed, now_ms);
        }
    }

    /// Adds one of a command or of a snapshot.
    pub(super) fn restore(&mut self, scheduled: Scheduled) {
        self.by_name.insert(scheduled.schedule.name.clone(), scheduled);
    }
}

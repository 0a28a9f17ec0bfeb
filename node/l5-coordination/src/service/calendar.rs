//! When the times of a schedule come: patterns of cron in a time zone.
//!
//! The members need not agree on it: the state takes each time once, whoever computed it.

mod pattern;

use std::collections::BTreeMap;

use althing_protocol::group::{Fire, Missed, Schedule};
use chrono::{DateTime, TimeZone as _};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

use crate::machine::workflow::{Scheduled, Schedules};

/// A time that passed longer ago was missed.
const MISSED_MS: u64 = 60_000;
/// Between the beginnings of two runs that catch up: after an outage not all of them begin at once.
const CATCH_UP_GAP_MS: u64 = 10_000;
/// Times that are shown of a schedule, at most.
pub const UPCOMING_MAX: usize = 16;

/// Why a schedule has no times.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CalendarError {
    /// Not a pattern of cron.
    #[error("{pattern:?} is no pattern of cron: {why}")]
    Pattern {
        /// What was given.
        pattern: String,
        /// Why, and what to write.
        why: String,
    },
    /// Not the name of a time zone.
    #[error("{0:?} is no time zone; write a name of the IANA's list, such as Europe/Berlin or UTC")]
    Zone(String),
    /// A pattern that no time fits.
    #[error("{0:?} never comes; correct the day or the month")]
    Never(String),
}

/// The times of one schedule.
#[derive(Debug, Clone)]
struct Times {
    cron: Cron,
    zone: Tz,
}

impl Times {
    fn of(schedule: &Schedule) -> Result<Times, CalendarError> {
        let pattern = &schedule.cron;
        let wrong = |why: String| CalendarError::Pattern { pattern: pattern.clone(), why };
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let plain = pattern::plain(pattern).map_err(wrong)?;
        let cron = parser.parse(&plain).map_err(|_| {
            let field = pattern::unread(&plain, |one| parser.parse(one).is_ok());
            let of = field.map_or_else(String::new, |field| format!("the {field} is none: "));
            wrong(format!("{of}write minute, hour, day, month and weekday, such as \"30 6 * * mon-fri\""))
        })?;
        let zone = schedule.zone.parse().map_err(|_| CalendarError::Zone(schedule.zone.clone()))?;
        Ok(Times { cron, zone })
    }

    fn at(&self, ms: u64) -> Option<DateTime<Tz>> {
        self.zone.timestamp_millis_opt(i64::try_from(ms).ok()?).single()
    }

    /// The first time after `ms`.
    fn after(&self, ms: u64) -> Option<u64> {
        let found = self.cron.find_next_occurrence(&self.at(ms)?, false).ok()?;
        u64::try_from(found.timestamp_millis()).ok()
    }

    /// The last time that is not after `ms`.
    fn last(&self, ms: u64) -> Option<u64> {
        let found = self.cron.find_previous_occurrence(&self.at(ms)?, true).ok()?;
        u64::try_from(found.timestamp_millis()).ok()
    }
}

/// The next times of a schedule after `now_ms`, Unix milliseconds.
///
/// # Errors
/// [`CalendarError`]: it has none.
pub fn upcoming(schedule: &Schedule, now_ms: u64, count: usize) -> Result<Vec<u64>, CalendarError> {
    let times = Times::of(schedule)?;
    let next = |ms: &u64| times.after(*ms);
    let found: Vec<u64> = std::iter::successors(times.after(now_ms), next).take(count.clamp(1, UPCOMING_MAX)).collect();
    if found.is_empty() { Err(CalendarError::Never(schedule.cron.clone())) } else { Ok(found) }
}

/// The time of a schedule that counts at `now_ms`, if one does, and the first one after `now_ms`.
fn look(scheduled: &Scheduled, now_ms: u64) -> Result<(Option<u64>, Option<u64>), CalendarError> {
    let times = Times::of(&scheduled.schedule)?;
    let came = times.last(now_ms).filter(|at_ms| *at_ms > scheduled.after_ms());
    let is_missed = |at_ms: &u64| now_ms - at_ms > MISSED_MS;
    let counts = came.filter(|at_ms| scheduled.schedule.missed == Missed::RunOnce || !is_missed(at_ms));
    Ok((counts, times.after(now_ms)))
}

/// What is known of one schedule, until it changes or its next time comes.
#[derive(Debug)]
struct Known {
    since_ms: u64,
    after_ms: u64,
    next_ms: u64,
}

/// The runs that catch up, one after the other.
#[derive(Debug, Default)]
struct CatchUp {
    /// The schedule of the last one, and when that was said first.
    last: Option<(String, u64)>,
}

impl CatchUp {
    /// Until when a schedule waits that has to catch up; not at all if it is the next one, or the last one, which is said
    /// again.
    fn wait(&mut self, name: &str, now_ms: u64) -> Option<u64> {
        if let Some((last, said_ms)) = &self.last {
            let free_ms = said_ms + CATCH_UP_GAP_MS;
            if now_ms < free_ms {
                return (last != name).then_some(free_ms);
            }
        }
        self.last = Some((name.to_owned(), now_ms));
        None
    }
}

/// The schedules of a group as its leader looks at them.
#[derive(Debug, Default)]
pub(super) struct Calendar {
    known: BTreeMap<String, Known>,
    catch_up: CatchUp,
}

impl Calendar {
    /// What has come, and when the next time does.
    pub(super) fn due(&mut self, schedules: &Schedules, now_ms: u64) -> (Vec<Fire>, Option<u64>) {
        self.known.retain(|name, _| schedules.get(name).is_some());
        let mut fires = Vec::new();
        for scheduled in schedules.iter() {
            let (name, since_ms, after_ms) = (&scheduled.schedule.name, scheduled.since_ms, scheduled.after_ms());
            let known = self.known.get(name);
            if known.is_some_and(|it| (it.since_ms, it.after_ms) == (since_ms, after_ms) && now_ms < it.next_ms) {
                continue;
            }
            let (counts, next_ms) = look(scheduled, now_ms).unwrap_or_else(|error| {
                tracing::warn!(schedule = %name, %error, "a schedule has no times");
                (None, None)
            });
            let is_late = |at_ms: &u64| now_ms - at_ms > MISSED_MS;
            let waits_ms = counts.filter(is_late).and_then(|_| self.catch_up.wait(name, now_ms));
            let next_ms = match (waits_ms, counts) {
                (Some(free_ms), _) => free_ms,
                // What counts is said again until the state has it.
                (None, Some(at_ms)) => {
                    fires.push(Fire { name: name.clone(), at_ms, since_ms });
                    now_ms
                }
                (None, None) => next_ms.unwrap_or(u64::MAX),
            };
            self.known.insert(name.clone(), Known { since_ms, after_ms, next_ms });
        }
        (fires, self.known.values().map(|known| known.next_ms).filter(|ms| *ms < u64::MAX).min())
    }
}

#[cfg(test)]
mod tests;

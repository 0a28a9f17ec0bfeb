//! How much of what strangers tell of keys is verified, and passed on: by where they come from. Times are those since the
//! node began.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::keyring::{Origin, REFUSED_MAX, Selected, Withdrawal};
use althing_protocol::{Authored, Digest, KeyLog};

use crate::turns::Turns;

/// Signatures that strangers of one origin may have verified here, each second, and twice as many at once. At 80
/// microseconds each that is two percent of a core; the longest log has fewer.
const SIGNATURES: u32 = 256;
/// Origins whose work is counted at one time; beyond, those that owe nothing are dropped.
const ORIGINS_MAX: usize = 1_024;
/// What would wait longer than this is not done: an origin owes no more, whatever its nodes ask for.
const DEBT_MAX: Duration = Duration::from_secs(2);
/// News of publishers that nobody uses here, which are passed on all the same so that they reach those who do: of each
/// origin so many a second.
const RELAYED: u32 = 4;
/// Of them those that wait to be passed on.
const RELAYED_MAX: usize = 64;

/// What an origin may do at a bounded rate.
#[derive(Debug)]
pub(crate) struct OriginRates {
    rate: u32,
    of: BTreeMap<Origin, Turns>,
}

impl OriginRates {
    fn new(rate: u32) -> OriginRates {
        OriginRates { rate, of: BTreeMap::new() }
    }

    /// For verifying signatures.
    pub fn of_signatures() -> OriginRates {
        OriginRates::new(SIGNATURES)
    }

    /// How long to wait before `count` more are done for `origin`; `None`, and nothing is counted, where that is longer
    /// than `patience`.
    pub fn take(&mut self, origin: &Origin, count: usize, patience: Duration, now: Duration) -> Option<Duration> {
        if self.of.len() >= ORIGINS_MAX {
            self.of.retain(|_, turns| turns.owes(now));
        }
        let mut turns = self.of.get(origin).copied().unwrap_or_default();
        let wait = (0..count).map(|_| turns.take(self.rate, now)).last().unwrap_or_default();
        if wait > patience {
            return None;
        }
        self.of.insert(origin.clone(), turns);
        Some(wait)
    }

    /// The same, for work that may wait a while.
    pub fn take_patiently(&mut self, origin: &Origin, count: usize, now: Duration) -> Option<Duration> {
        self.take(origin, count, DEBT_MAX, now)
    }
}

/// The names of the last so many things.
#[derive(Debug, Default)]
struct Recent {
    names: BTreeSet<Digest>,
    order: VecDeque<Digest>,
}

impl Recent {
    fn insert(&mut self, name: Digest) {
        if self.names.insert(name) {
            self.order.push_back(name);
            if self.order.len() > REFUSED_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.names.remove(&oldest);
            }
        }
    }
}

/// What is passed on without being kept. All of it was verified.
#[derive(Debug)]
pub(crate) struct Relay {
    rates: OriginRates,
    seen: Recent,
    logs: Vec<Arc<KeyLog>>,
    withdrawals: Vec<(Arc<Authored<Withdrawal>>, Arc<KeyLog>)>,
}

impl Default for Relay {
    fn default() -> Relay {
        Relay { rates: OriginRates::new(RELAYED), seen: Recent::default(), logs: Vec::new(), withdrawals: Vec::new() }
    }
}

impl Relay {
    /// Is what has this name, a log's last event or a withdrawal, still to be passed on? It is passed on once.
    pub fn wants(&self, name: &Digest) -> bool {
        !self.seen.names.contains(name) && self.logs.len() + self.withdrawals.len() < RELAYED_MAX
    }

    /// Takes a log that came from `origin`, or from somebody who is trusted. False when it is not passed on.
    pub fn log(&mut self, log: Arc<KeyLog>, origin: Option<&Origin>, now: Duration) -> bool {
        let taken = self.take(log.head(), origin, now);
        if taken {
            self.logs.push(log);
        }
        taken
    }

    /// The same with a withdrawal, and the log that it is judged by.
    pub fn withdrawal(
        &mut self,
        withdrawal: Arc<Authored<Withdrawal>>,
        by: Arc<KeyLog>,
        origin: Option<&Origin>,
        now: Duration,
    ) -> bool {
        let taken = self.take(withdrawal.digest(), origin, now);
        if taken {
            self.withdrawals.push((withdrawal, by));
        }
        taken
    }

    fn take(&mut self, name: Digest, origin: Option<&Origin>, now: Duration) -> bool {
        let may =
            self.wants(&name) && origin.is_none_or(|origin| self.rates.take(origin, 1, Duration::ZERO, now).is_some());
        if may {
            self.seen.insert(name);
        }
        may
    }

    /// Adds all that waits to what is told now.
    pub fn drain_into(&mut self, news: &mut Selected) {
        for log in self.logs.drain(..) {
            news.add(&log);
        }
        for (withdrawal, by) in self.withdrawals.drain(..) {
            news.withdrawal(&withdrawal, Some(&by));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::{SecretKey, keylog};

    const SECOND: Duration = Duration::from_secs(1);

    fn origin(number: u8) -> Origin {
        format!("origin {number}").into()
    }

    fn log(number: u8) -> Arc<KeyLog> {
        let key = |at: u8| SecretKey::from_seed(&[number, at].repeat(16).try_into().expect("32 bytes"));
        let first = keylog::inception(&key(0), [key(1).public(), key(2).public()], 1_000);
        Arc::new(KeyLog::verify(&[first.bytes]).expect("an inception"))
    }

    #[test]
    fn an_origin_owes_two_seconds_of_work_at_most_whatever_it_asked_for() {
        let mut work = OriginRates::of_signatures();
        let asked: Vec<_> = (0..10_000).map(|_| work.take_patiently(&origin(1), 12, SECOND)).collect();
        let done = asked.iter().flatten().count();
        // A burst of two seconds, and two seconds that are waited for.
        assert_eq!(done, 4 * SIGNATURES as usize / 12, "of 10,000");
        assert!(asked.iter().flatten().all(|wait| *wait <= DEBT_MAX));
        assert_eq!(work.take_patiently(&origin(2), 12, SECOND), Some(Duration::ZERO), "others feel nothing of it");
        // It is gone again soon.
        assert_eq!(work.take_patiently(&origin(1), 12, SECOND + DEBT_MAX + SECOND), Some(Duration::ZERO));
    }

    #[test]
    fn origins_that_are_counted_are_bounded() {
        let mut work = OriginRates::of_signatures();
        for number in 0..10 * ORIGINS_MAX as u64 {
            let now = Duration::from_millis(number);
            work.take_patiently(&format!("{number}").into(), 1, now);
        }
        assert!(work.of.len() <= ORIGINS_MAX, "{}", work.of.len());
    }

    #[test]
    fn who_floods_the_relay_takes_no_place_of_others_and_each_thing_is_passed_on_once() {
        let mut relay = Relay::default();
        let flood = (0..100).filter(|number| relay.log(log(*number), Some(&origin(1)), SECOND)).count();
        assert_eq!(flood, 2 * RELAYED as usize);
        assert!(relay.log(log(200), Some(&origin(2)), SECOND) && relay.log(log(201), None, SECOND));
        assert!(!relay.wants(&log(200).head()) && !relay.log(log(200), None, SECOND));
        let mut news = Selected::default();
        relay.drain_into(&mut news);
        assert_eq!(news.to_news().logs.len(), flood + 2);
        assert!(!relay.wants(&log(200).head()), "it does not come round again");
    }
}

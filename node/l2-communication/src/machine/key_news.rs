//! Rate limits, by origin, on the key news of strangers that is verified and forwarded. Times are since the start of the node.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::keyring::{Origin, REFUSED_MAX, Selected, Withdrawal};
use althing_protocol::{Authored, Digest, KeyLog};

use crate::machine::rate_limiter::RateLimiter;

/// Signatures verified for the strangers of one origin in a second, with bursts of twice as many. At 80 microseconds each that is
/// two percent of a core; the longest log has fewer.
const SIGNATURES: u32 = 256;
/// Origins that are counted at one time; beyond, those with a full burst are dropped.
const ORIGINS_MAX: usize = 1_024;
/// Work that would wait longer than this is refused, however much an origin asks for.
const DELAY_MAX: Duration = Duration::from_secs(2);
/// News of publishers that are not in use here, which is forwarded to reach the nodes that use them: per origin and second.
const FORWARDED: u32 = 4;
/// News that waits to be forwarded.
const FORWARDED_MAX: usize = 64;

/// A rate limit for each origin.
#[derive(Debug)]
pub(crate) struct OriginRates {
    rate: u32,
    of: BTreeMap<Origin, RateLimiter>,
}

impl OriginRates {
    fn new(rate: u32) -> OriginRates {
        OriginRates { rate, of: BTreeMap::new() }
    }

    /// The rate limit of verifying signatures.
    pub fn of_signatures() -> OriginRates {
        OriginRates::new(SIGNATURES)
    }

    /// How long to wait before `count` more for `origin`; `None`, without counting them, where that exceeds `patience`.
    pub fn take(&mut self, origin: &Origin, count: usize, patience: Duration, now: Duration) -> Option<Duration> {
        if self.of.len() >= ORIGINS_MAX {
            self.of.retain(|_, limiter| !limiter.is_full(now));
        }
        let mut limiter = self.of.get(origin).copied().unwrap_or_default();
        let wait = (0..count).map(|_| limiter.take(self.rate, now)).last().unwrap_or_default();
        if wait > patience {
            return None;
        }
        self.of.insert(origin.clone(), limiter);
        Some(wait)
    }

    /// The same, for work that may wait a while.
    pub fn take_patiently(&mut self, origin: &Origin, count: usize, now: Duration) -> Option<Duration> {
        self.take(origin, count, DELAY_MAX, now)
    }
}

/// The digests of recent news.
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

/// Queues verified news to forward without storing it.
#[derive(Debug)]
pub(crate) struct Forwarder {
    rates: OriginRates,
    seen: Recent,
    logs: Vec<Arc<KeyLog>>,
    withdrawals: Vec<(Arc<Authored<Withdrawal>>, Arc<KeyLog>)>,
}

impl Default for Forwarder {
    fn default() -> Forwarder {
        Forwarder {
            rates: OriginRates::new(FORWARDED),
            seen: Recent::default(),
            logs: Vec::new(),
            withdrawals: Vec::new(),
        }
    }
}

impl Forwarder {
    /// Is the news of this digest, a log's last event or a withdrawal, to be forwarded? Each one is forwarded once.
    pub fn wants(&self, name: &Digest) -> bool {
        !self.seen.names.contains(name) && self.logs.len() + self.withdrawals.len() < FORWARDED_MAX
    }

    /// Queues a log from `origin`, or from a trusted peer (`None`). False when it is not forwarded.
    pub fn log(&mut self, log: Arc<KeyLog>, origin: Option<&Origin>, now: Duration) -> bool {
        let taken = self.take(log.head(), origin, now);
        if taken {
            self.logs.push(log);
        }
        taken
    }

    /// The same for a withdrawal, with the log that proves it.
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

    /// Moves the queued news into `news`.
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
    fn an_origin_is_delayed_two_seconds_at_most_whatever_it_asks_for() {
        let mut work = OriginRates::of_signatures();
        let asked: Vec<_> = (0..10_000).map(|_| work.take_patiently(&origin(1), 12, SECOND)).collect();
        let done = asked.iter().flatten().count();
        // A burst of two seconds, and two seconds that are waited for.
        assert_eq!(done, 4 * SIGNATURES as usize / 12, "of 10,000");
        assert!(asked.iter().flatten().all(|wait| *wait <= DELAY_MAX));
        assert_eq!(work.take_patiently(&origin(2), 12, SECOND), Some(Duration::ZERO), "other origins are not delayed");
        // The delay is over soon.
        assert_eq!(work.take_patiently(&origin(1), 12, SECOND + DELAY_MAX + SECOND), Some(Duration::ZERO));
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
    fn a_flood_leaves_room_for_other_origins_and_all_news_is_forwarded_once() {
        let mut forwarder = Forwarder::default();
        let flood = (0..100).filter(|number| forwarder.log(log(*number), Some(&origin(1)), SECOND)).count();
        assert_eq!(flood, 2 * FORWARDED as usize);
        assert!(forwarder.log(log(200), Some(&origin(2)), SECOND) && forwarder.log(log(201), None, SECOND));
        assert!(!forwarder.wants(&log(200).head()) && !forwarder.log(log(200), None, SECOND));
        let mut news = Selected::default();
        forwarder.drain_into(&mut news);
        assert_eq!(news.to_news().logs.len(), flood + 2);
        assert!(!forwarder.wants(&log(200).head()), "it is not forwarded again");
    }
}

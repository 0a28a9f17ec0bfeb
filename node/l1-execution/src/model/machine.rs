//! Estimates the time to the first token of endpoints, and orders them by it. Pure.

use std::time::Duration;

/// The weight of the newest answer in the moving averages is 1 / this.
const SMOOTHING: i64 = 8;
/// An answer is expected this many deviations above the mean.
const DEVIATIONS: i64 = 2;

/// The recent latency of an endpoint; moving averages in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LatencyEstimate {
    first: i64,
    deviation: i64,
    whole: i64,
    known: bool,
    waiting: i64,
    /// The requests that run, and the sum of the times at which they began.
    running: i64,
    begun: i64,
}

/// The expected latency of an endpoint now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExpectedLatency {
    /// The time to the first token; none before the first answer.
    pub first: Option<Duration>,
    /// Whether a request would queue.
    pub queued: bool,
}

impl LatencyEstimate {
    /// Changes the number of queued requests.
    pub fn queue(&mut self, more: i64) {
        self.waiting = (self.waiting + more).max(0);
    }

    /// A request has a slot from then on, since the endpoint was made.
    pub fn begin(&mut self, at: Duration) {
        self.running += 1;
        self.begun = self.begun.saturating_add(us(at));
    }

    /// A request that began then has its slot no more.
    pub fn end(&mut self, at: Duration) {
        self.running -= 1;
        self.begun = self.begun.saturating_sub(us(at));
    }

    /// Records the time to the first token and to the end of an answer.
    pub fn record(&mut self, first: Duration, whole: Duration) {
        let (first, whole) = (us(first), us(whole));
        if !self.known {
            (self.first, self.deviation, self.whole, self.known) = (first, first / 4, whole, true);
            return;
        }
        self.deviation += ((first - self.first).abs() - self.deviation) / SMOOTHING;
        self.first += (first - self.first) / SMOOTHING;
        self.whole += (whole - self.whole) / SMOOTHING;
    }

    /// The expectation with `free` of `slots` slots free, at that time since the endpoint was made.
    pub fn expected(&self, slots: usize, free: usize, now: Duration) -> ExpectedLatency {
        let queued = free == 0;
        if !self.known {
            return ExpectedLatency { first: None, queued };
        }
        let slots = i64::try_from(slots.max(1)).unwrap_or(i64::MAX);
        // Those that run take as long as they have run by now, at least: answers that got longer are not recorded before they end.
        let aged = if self.running > 0 { us(now).saturating_sub(self.begun / self.running) } else { 0 };
        // A slot becomes free each `whole / slots`; queued requests go first.
        let wait = if queued { (self.waiting + 1).saturating_mul(self.whole.max(aged)) / slots } else { 0 };
        let us = self.first.saturating_add(DEVIATIONS * self.deviation).saturating_add(wait);
        ExpectedLatency { first: Some(Duration::from_micros(u64::try_from(us).unwrap_or_default())), queued }
    }
}

fn us(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 16)
}

/// The order in which endpoints are tried: those that meet the target, as written, then the rest. If all of them queue and
/// none meets it, an error with the shortest expected time.
pub(super) fn order(expected: &[ExpectedLatency], aim: Duration) -> Result<Vec<usize>, Duration> {
    let keeps = |place: &usize| expected[*place].first.is_none_or(|first| first <= aim);
    let (mut order, rest): (Vec<usize>, Vec<usize>) = (0..expected.len()).partition(keeps);
    if order.is_empty() && expected.iter().all(|expected| expected.queued) {
        return Err(expected.iter().filter_map(|expected| expected.first).min().unwrap_or_default());
    }
    order.extend(rest);
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_is_unknown_is_tried_and_what_is_slow_comes_last() {
        let mut slow = LatencyEstimate::default();
        assert_eq!(slow.expected(2, 2, NOW), ExpectedLatency { first: None, queued: false });
        (0..50).for_each(|_| slow.record(ms(400), ms(1_000)));
        let expected = slow.expected(2, 1, NOW).first.expect("known");
        assert!((ms(395)..ms(420)).contains(&expected), "{expected:?}");
        let quick = ExpectedLatency { first: Some(ms(100)), queued: false };
        assert_eq!(order(&[slow.expected(2, 1, NOW), quick], ms(250)), Ok(vec![1, 0]));
        // Slow is better than nothing, as long as nobody waits for it.
        assert_eq!(order(&[slow.expected(2, 1, NOW)], ms(250)), Ok(vec![0]));
    }

    #[test]
    fn a_queue_that_breaks_the_aim_is_a_refusal() {
        let mut estimate = LatencyEstimate::default();
        (0..50).for_each(|_| estimate.record(ms(100), ms(1_000)));
        estimate.queue(3);
        let expected = estimate.expected(2, 0, NOW);
        // Four times half a second, and a tenth.
        assert!(expected.first.expect("known") >= ms(2_000), "{expected:?}");
        assert!(order(&[expected], ms(250)).is_err());
        assert_eq!(order(&[expected], ms(3_000)), Ok(vec![0]));
        estimate.queue(-9);
        assert!(estimate.expected(2, 0, NOW).first.expect("known") < ms(700));
    }

    #[test]
    fn requests_that_run_for_long_are_expected_to_go_on() {
        let mut estimate = LatencyEstimate::default();
        (0..50).for_each(|_| estimate.record(ms(100), ms(200)));
        let at = |estimate: &LatencyEstimate, now| estimate.expected(2, 0, now).first.expect("known");
        let recorded = at(&estimate, NOW);
        estimate.begin(ms(1_000));
        assert_eq!(at(&estimate, ms(1_050)), recorded, "it runs for less than what was recorded");
        estimate.begin(ms(3_000));
        // They have run for 20 s and for 18 s, of two slots.
        let expected = at(&estimate, ms(21_000));
        assert!((ms(9_500)..ms(9_700)).contains(&expected), "{expected:?}");
        assert!(order(&[estimate.expected(2, 0, ms(21_000))], ms(2_000)).is_err(), "a queue behind them is too long");
        estimate.end(ms(1_000));
        estimate.end(ms(3_000));
        assert_eq!(at(&estimate, ms(21_000)), recorded, "they are over");
    }
}

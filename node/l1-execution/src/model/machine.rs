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

    /// Records the time to the first token and to the end of an answer.
    pub fn record(&mut self, first: Duration, whole: Duration) {
        let us = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 16);
        let (first, whole) = (us(first), us(whole));
        if !self.known {
            (self.first, self.deviation, self.whole, self.known) = (first, first / 4, whole, true);
            return;
        }
        self.deviation += ((first - self.first).abs() - self.deviation) / SMOOTHING;
        self.first += (first - self.first) / SMOOTHING;
        self.whole += (whole - self.whole) / SMOOTHING;
    }

    /// The expectation with `free` of `slots` slots free.
    pub fn expected(&self, slots: usize, free: usize) -> ExpectedLatency {
        let queued = free == 0;
        if !self.known {
            return ExpectedLatency { first: None, queued };
        }
        let slots = i64::try_from(slots.max(1)).unwrap_or(i64::MAX);
        // A slot becomes free each `whole / slots`; queued requests go first.
        let wait = if queued { (self.waiting + 1).saturating_mul(self.whole) / slots } else { 0 };
        let us = self.first.saturating_add(DEVIATIONS * self.deviation).saturating_add(wait);
        ExpectedLatency { first: Some(Duration::from_micros(u64::try_from(us).unwrap_or_default())), queued }
    }
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

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_is_unknown_is_tried_and_what_is_slow_comes_last() {
        let mut slow = LatencyEstimate::default();
        assert_eq!(slow.expected(2, 2), ExpectedLatency { first: None, queued: false });
        (0..50).for_each(|_| slow.record(ms(400), ms(1_000)));
        let expected = slow.expected(2, 1).first.expect("known");
        assert!((ms(395)..ms(420)).contains(&expected), "{expected:?}");
        let quick = ExpectedLatency { first: Some(ms(100)), queued: false };
        assert_eq!(order(&[slow.expected(2, 1), quick], ms(250)), Ok(vec![1, 0]));
        // Slow is better than nothing, as long as nobody waits for it.
        assert_eq!(order(&[slow.expected(2, 1)], ms(250)), Ok(vec![0]));
    }

    #[test]
    fn a_queue_that_breaks_the_aim_is_a_refusal() {
        let mut estimate = LatencyEstimate::default();
        (0..50).for_each(|_| estimate.record(ms(100), ms(1_000)));
        estimate.queue(3);
        let expected = estimate.expected(2, 0);
        // Four times half a second, and a tenth.
        assert!(expected.first.expect("known") >= ms(2_000), "{expected:?}");
        assert!(order(&[expected], ms(250)).is_err());
        assert_eq!(order(&[expected], ms(3_000)), Ok(vec![0]));
        estimate.queue(-9);
        assert!(estimate.expected(2, 0).first.expect("known") < ms(700));
    }
}

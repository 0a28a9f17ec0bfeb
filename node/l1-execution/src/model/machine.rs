//! When a first word may be expected, and which endpoint is asked.

use std::time::Duration;

/// How much the newest answer weighs: one part of this.
const MEMORY: i64 = 8;
/// Deviations above the mean that are expected of an answer.
const DEVIATIONS: i64 = 2;

/// How an endpoint has been lately; moving averages in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pace {
    first: i64,
    deviation: i64,
    whole: i64,
    known: bool,
    waiting: i64,
}

/// What is to be expected of an endpoint now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    /// Until a first word; none where nothing is known yet.
    pub first: Option<Duration>,
    /// Whether it would have to be waited for.
    pub queued: bool,
}

impl Pace {
    /// So many more wait for a slot.
    pub fn waits(&mut self, more: i64) {
        self.waiting = (self.waiting + more).max(0);
    }

    /// An answer's first word came after `first`, its end after `whole`.
    pub fn took(&mut self, first: Duration, whole: Duration) {
        let us = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 16);
        let (first, whole) = (us(first), us(whole));
        if !self.known {
            (self.first, self.deviation, self.whole, self.known) = (first, first / 4, whole, true);
            return;
        }
        self.deviation += ((first - self.first).abs() - self.deviation) / MEMORY;
        self.first += (first - self.first) / MEMORY;
        self.whole += (whole - self.whole) / MEMORY;
    }

    /// With `free` of `slots` slots free.
    pub fn expected(&self, slots: usize, free: usize) -> Expected {
        let queued = free == 0;
        if !self.known {
            return Expected { first: None, queued };
        }
        let slots = i64::try_from(slots.max(1)).unwrap_or(i64::MAX);
        // A slot becomes free each `whole / slots`; who waits already goes first.
        let wait = if queued { (self.waiting + 1).saturating_mul(self.whole) / slots } else { 0 };
        let us = self.first.saturating_add(DEVIATIONS * self.deviation).saturating_add(wait);
        Expected { first: Some(Duration::from_micros(u64::try_from(us).unwrap_or_default())), queued }
    }
}

/// The order in which endpoints are tried: those that keep the aim as written, then the rest. Where all of them queue
/// and none keeps it, the shortest time that would pass.
pub(super) fn order(expected: &[Expected], aim: Duration) -> Result<Vec<usize>, Duration> {
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
        let mut slow = Pace::default();
        assert_eq!(slow.expected(2, 2), Expected { first: None, queued: false });
        (0..50).for_each(|_| slow.took(ms(400), ms(1_000)));
        let expected = slow.expected(2, 1).first.expect("known");
        assert!((ms(395)..ms(420)).contains(&expected), "{expected:?}");
        let quick = Expected { first: Some(ms(100)), queued: false };
        assert_eq!(order(&[slow.expected(2, 1), quick], ms(250)), Ok(vec![1, 0]));
        // Slow is better than nothing, as long as nobody waits for it.
        assert_eq!(order(&[slow.expected(2, 1)], ms(250)), Ok(vec![0]));
    }

    #[test]
    fn a_queue_that_breaks_the_aim_is_a_refusal() {
        let mut pace = Pace::default();
        (0..50).for_each(|_| pace.took(ms(100), ms(1_000)));
        pace.waits(3);
        let expected = pace.expected(2, 0);
        // Four times half a second, and a tenth.
        assert!(expected.first.expect("known") >= ms(2_000), "{expected:?}");
        assert!(order(&[expected], ms(250)).is_err());
        assert_eq!(order(&[expected], ms(3_000)), Ok(vec![0]));
        pace.waits(-9);
        assert!(pace.expected(2, 0).first.expect("known") < ms(700));
    }
}

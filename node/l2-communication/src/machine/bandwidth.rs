//! The bandwidth of a connection that was seen to be full, and the share of it that delay-tolerant frames get while others
//! write. Times are since the connection's first use.

use std::time::Duration;

/// A connection is full when no chunk had room on it for this long.
const FULL_FOR: Duration = Duration::from_millis(200);
/// The share of the measured bandwidth that delay-tolerant frames get: with a quarter left over no queue builds up, here or on
/// the path, and more urgent frames find the connection empty.
const SHARE: f64 = 0.75;
/// A measurement expires after this.
const MEASUREMENT_TTL: Duration = Duration::from_secs(30);
/// Other frames count as present for this long after one was written.
const OTHERS_RECENT: Duration = Duration::from_secs(1);

/// Measures one connection, and paces its delay-tolerant frames.
#[derive(Debug, Default)]
pub(crate) struct BandwidthEstimator {
    /// Since when no chunk had room, and the bytes that the connection had sent by then.
    full: Option<(Duration, u64)>,
    /// Bytes a second of all streams of the connection, and when that was measured.
    measured: Option<(f64, Duration)>,
    /// When a more urgent frame was last written.
    others: Option<Duration>,
    /// The earliest time of the next delay-tolerant chunk.
    next: Option<Duration>,
}

impl BandwidthEstimator {
    /// A more urgent frame is written.
    pub fn on_other(&mut self, now: Duration) {
        self.others = Some(now);
    }

    /// A delay-tolerant chunk was written; `waited` tells whether it had to wait for room, `sent` how many bytes the connection
    /// has sent, where that is counted.
    pub fn on_written(&mut self, bytes: usize, waited: bool, sent: Option<u64>, now: Duration) {
        match (waited, sent, self.full) {
            (true, Some(sent), None) => self.full = Some((now, sent)),
            (true, Some(sent), Some((since, had))) if now.saturating_sub(since) >= FULL_FOR => {
                let lasted = now.saturating_sub(since);
                self.measured = Some((sent.saturating_sub(had) as f64 / lasted.as_secs_f64(), now));
                self.full = None;
            }
            (true, Some(_), Some(_)) => {}
            (false, _, _) | (_, None, _) => self.full = None,
        }
        self.next = self.rate(now).map(|rate| {
            // A recent delay is made up for; a chunk that was early does not delay the next one.
            let due = self.next.filter(|next| now.saturating_sub(*next) < FULL_FOR).unwrap_or(now);
            due.min(now) + Duration::from_secs_f64(bytes as f64 / rate)
        });
    }

    /// When the next delay-tolerant chunk may be written, if it must wait.
    pub fn next(&self, now: Duration) -> Option<Duration> {
        self.rate(now).and(self.next)
    }

    /// Bytes a second, where there is a limit.
    fn rate(&self, now: Duration) -> Option<f64> {
        let others = self.others?;
        let (measured, at) = self.measured.filter(|(measured, _)| *measured >= 1.0)?;
        let applies = now.saturating_sub(others) < OTHERS_RECENT && now.saturating_sub(at) < MEASUREMENT_TTL;
        applies.then_some(measured * SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = 16 << 10;
    const START: Duration = Duration::from_secs(1_000);

    /// A connection that carries 100 chunks a second, filled for `chunks`, of which others write every other one.
    fn filled(link: &mut BandwidthEstimator, mut now: Duration, sent: &mut u64, chunks: u32) -> Duration {
        for at in 0..chunks {
            now += Duration::from_millis(10);
            *sent += CHUNK as u64;
            if at % 2 == 0 {
                link.on_written(CHUNK, true, Some(*sent), now);
            }
        }
        now
    }

    #[test]
    fn bulk_is_not_delayed_where_nobody_else_writes() {
        let (mut link, mut sent) = (BandwidthEstimator::default(), 0);
        let now = filled(&mut link, START, &mut sent, 100);
        assert_eq!(link.next(now), None);
    }

    #[test]
    fn three_quarters_of_a_full_connection_while_others_write() {
        let (mut link, mut sent) = (BandwidthEstimator::default(), 0);
        let begun = START;
        link.on_other(begun);
        assert_eq!(link.next(begun), None, "not measured yet");
        let mut now = filled(&mut link, begun, &mut sent, 60);
        let (from, mut chunks) = (now, 0);
        while now < from + Duration::from_secs(2) {
            link.on_other(now);
            now = link.next(now).unwrap_or(now).max(now);
            // Below the bandwidth no chunk waits for room; one that does for a moment changes no measurement.
            sent += CHUNK as u64;
            link.on_written(CHUNK, chunks % 3 == 0, Some(sent), now);
            chunks += 1;
        }
        assert!((140..=165).contains(&chunks), "{chunks} chunks in 2 s, of 200 that it carries");
    }

    // Neither the bytes of others nor the pace of the delay-tolerant frames themselves change the measured bandwidth.
    #[test]
    fn the_bandwidth_is_not_what_bulk_got() {
        let (mut link, mut sent) = (BandwidthEstimator::default(), 0);
        let mut now = START;
        for _ in 0..2_000 {
            link.on_other(now);
            now += Duration::from_millis(40);
            // Full all the time: three chunks of others for each of these.
            sent += 4 * CHUNK as u64;
            link.on_written(CHUNK, true, Some(sent), now);
        }
        let (carries, _) = link.measured.expect("it was full");
        assert!((carries - 100.0 * CHUNK as f64).abs() < CHUNK as f64, "{carries}");
    }

    #[test]
    fn the_limit_ends_with_the_others_and_the_measurement_expires() {
        let (mut link, mut sent) = (BandwidthEstimator::default(), 0);
        let begun = START;
        link.on_other(begun);
        let now = filled(&mut link, begun, &mut sent, 60);
        link.on_other(now);
        link.on_written(CHUNK, false, Some(sent), now);
        assert!(link.next(now).is_some());
        assert_eq!(link.next(now + OTHERS_RECENT), None);
        link.on_other(now + MEASUREMENT_TTL);
        assert_eq!(link.next(now + MEASUREMENT_TTL), None, "the measurement has expired");
    }
}

//! How fast delay-tolerant frames may go while others use the same connection; without a clock.

use std::time::Duration;

use tokio::time::Instant;

/// A connection is known to be full when there was no room on it for that long.
const FULL_FOR: Duration = Duration::from_millis(200);
/// Of what a full connection was seen to carry, delay-tolerant frames get three quarters: then nothing queues up, here
/// or on the way, and what is more urgent finds it empty.
const SHARE: f64 = 0.75;
/// What a connection was seen to carry is looked at again after this.
const KNOWN_FOR: Duration = Duration::from_secs(30);
/// Others use the connection when one of their frames was written this recently.
const BESIDE: Duration = Duration::from_secs(1);

/// What is known of one connection.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Since when there was no room for any chunk, and what the connection had sent then.
    full: Option<(Instant, u64)>,
    /// Bytes a second that it carries, all its streams together, and when that was seen.
    carries: Option<(f64, Instant)>,
    /// When somebody more urgent wrote last.
    others: Option<Instant>,
    /// Before this nothing more is written.
    next: Option<Instant>,
}

impl Pace {
    /// Somebody more urgent writes.
    pub fn beside(&mut self, now: Instant) {
        self.others = Some(now);
    }

    /// A delay-tolerant chunk was written; `waited` tells whether there was no room for it at first, `sent` what the
    /// connection sent so far, where that is counted.
    pub fn wrote(&mut self, bytes: usize, waited: bool, sent: Option<u64>, now: Instant) {
        match (waited, sent, self.full) {
            (true, Some(sent), None) => self.full = Some((now, sent)),
            (true, Some(sent), Some((since, had))) if now.saturating_duration_since(since) >= FULL_FOR => {
                let lasts = now.saturating_duration_since(since);
                self.carries = Some((sent.saturating_sub(had) as f64 / lasts.as_secs_f64(), now));
                self.full = None;
            }
            (true, Some(_), Some(_)) => {}
            (false, _, _) | (_, None, _) => self.full = None,
        }
        self.next = self.rate(now).map(|rate| {
            // What was late is made up for, if it is recent; what was early is no debt.
            let due = self.next.filter(|next| now.saturating_duration_since(*next) < FULL_FOR).unwrap_or(now);
            due.min(now) + Duration::from_secs_f64(bytes as f64 / rate)
        });
    }

    /// When the next delay-tolerant chunk may go, if it is to wait.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        self.rate(now).and(self.next)
    }

    /// Bytes a second, where there is a bound.
    fn rate(&self, now: Instant) -> Option<f64> {
        let others = self.others?;
        let (carries, seen) = self.carries.filter(|(carries, _)| *carries >= 1.0)?;
        let holds = now.saturating_duration_since(others) < BESIDE && now.saturating_duration_since(seen) < KNOWN_FOR;
        holds.then_some(carries * SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = 16 << 10;

    /// A connection that carries 100 chunks a second, filled for `chunks`, of which others write every other one.
    fn filled(pace: &mut Pace, mut now: Instant, sent: &mut u64, chunks: u32) -> Instant {
        for at in 0..chunks {
            now += Duration::from_millis(10);
            *sent += CHUNK as u64;
            if at % 2 == 0 {
                pace.wrote(CHUNK, true, Some(*sent), now);
            }
        }
        now
    }

    #[tokio::test]
    async fn nothing_is_held_back_where_nobody_else_writes() {
        let (mut pace, mut sent) = (Pace::default(), 0);
        let now = filled(&mut pace, Instant::now(), &mut sent, 100);
        assert_eq!(pace.next(now), None);
    }

    #[tokio::test]
    async fn three_quarters_of_a_full_connection_while_others_write() {
        let (mut pace, mut sent) = (Pace::default(), 0);
        let begun = Instant::now();
        pace.beside(begun);
        assert_eq!(pace.next(begun), None, "nothing is known of it yet");
        let mut now = filled(&mut pace, begun, &mut sent, 60);
        let (from, mut chunks) = (now, 0);
        while now < from + Duration::from_secs(2) {
            pace.beside(now);
            now = pace.next(now).unwrap_or(now).max(now);
            // Below what it carries, nothing waits for room; when something does, that changes nothing of what it carries.
            sent += CHUNK as u64;
            pace.wrote(CHUNK, chunks % 3 == 0, Some(sent), now);
            chunks += 1;
        }
        assert!((140..=165).contains(&chunks), "{chunks} chunks in 2 s, of 200 that it carries");
    }

    // What others take of the connection, and how slowly bulk is let go itself, say nothing of what it carries.
    #[tokio::test]
    async fn what_it_carries_is_not_what_bulk_got() {
        let (mut pace, mut sent) = (Pace::default(), 0);
        let mut now = Instant::now();
        for _ in 0..2_000 {
            pace.beside(now);
            now += Duration::from_millis(40);
            // Full all the time: three chunks of others for each of these.
            sent += 4 * CHUNK as u64;
            pace.wrote(CHUNK, true, Some(sent), now);
        }
        let (carries, _) = pace.carries.expect("it was full");
        assert!((carries - 100.0 * CHUNK as f64).abs() < CHUNK as f64, "{carries}");
    }

    #[tokio::test]
    async fn it_is_let_go_when_the_others_are_silent_and_looked_at_again() {
        let (mut pace, mut sent) = (Pace::default(), 0);
        let begun = Instant::now();
        pace.beside(begun);
        let now = filled(&mut pace, begun, &mut sent, 60);
        pace.beside(now);
        pace.wrote(CHUNK, false, Some(sent), now);
        assert!(pace.next(now).is_some());
        assert_eq!(pace.next(now + BESIDE), None);
        pace.beside(now + KNOWN_FOR);
        assert_eq!(pace.next(now + KNOWN_FOR), None, "it may carry more by now");
    }
}

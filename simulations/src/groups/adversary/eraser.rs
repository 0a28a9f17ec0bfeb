//! Says, as the leader of a later term, that entries which others have executed are of that term, and that no more than these are
//! committed: who believes it drops what it has executed (P-141).

use std::time::Duration;

use althing_coordination::consensus::wire::{self, Append, Ballot, EntryRecord, Payload, Position};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::Target;
use super::usurper::refusal;

/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(120);
/// How far behind its own node others may be: of what they have not executed yet, Raft believes a leader.
const BEHIND: u64 = 10;

/// What it writes down of a message that is refused, with the reason.
const REFUSED: &str = "the message of an eraser is not taken";

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        let (group, node) = (target.group, target.key.public());
        let mut rng = StdRng::seed_from_u64(target.seed);
        loop {
            tokio::time::sleep(EVERY).await;
            let status = target.running.groups.overview(group).ok().and_then(|overview| overview.replica);
            let Some((term, applied)) = status.and_then(|status| Some((status.term + 1, status.applied?))) else {
                continue;
            };
            let Some(most) = applied.checked_sub(BEHIND) else { continue };
            let at = Position { term, index: rng.random_range(0..=most) };
            let leader = Ballot { term, node, elected: true };
            let next = EntryRecord { at: Position { term, index: at.index + 1 }, payload: Payload::Blank };
            let victim = target.victim(&mut rng);
            for (committed, entries) in [(Some(at), Vec::new()), (None, vec![next])] {
                let append = Append { group, leader, previous: Some(at), committed, entries };
                if let Some(why) = refusal(&target, victim, "append", wire::write(&append)).await {
                    target.books.note(format_args!("{REFUSED}: {why}"));
                }
            }
        }
    }
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::super::tests::noted;
    use super::*;

    /// P-141, SG-2
    #[test]
    fn its_messages_are_refused_for_what_they_say_of_the_log() {
        let noted = noted("eraser");
        let is_meant = |line: &&str| line.contains(REFUSED) && line.contains("contradicts the log here");
        assert!(noted.lines().filter(is_meant).count() >= 10, "{noted}");
    }
}

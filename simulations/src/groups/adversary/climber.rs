//! Raises the terms of the others as far as one message may, and again, for each to another term: members whose terms are too far
//! apart would never hear each other again (P-101). Nor does it leave it at that: each time it claims a term beyond what one
//! message may.

use std::time::Duration;

use althing_coordination::consensus::wire::{self, Append, Appended, Ballot, TERM_AHEAD_MAX};
use althing_protocol::PublicKey;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::Target;
use super::usurper::refusal;

/// Between two steps: no member takes more of them.
const EVERY: Duration = Duration::from_millis(1_050);
/// How often, before it begins anew.
const STEPS: usize = 3;
/// A term that is so many steps above the first one is beyond what any of them may follow.
const BEYOND: u64 = STEPS as u64 + 1;

/// What it writes down: a member follows it to a term that is far above its own.
const RAISED: &str = "the term of a member was raised by a climber";
/// What it writes down of a term that is refused, with the reason.
const REFUSED: &str = "the term of a climber is not taken";

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        loop {
            let status = target.running.groups.overview(target.group).ok().and_then(|overview| overview.replica);
            let base = status.map_or(0, |status| status.term);
            for step in 1..=STEPS {
                tokio::time::sleep(EVERY).await;
                // The first is left alone, the next one takes one step, the one after it two.
                for (_, victim) in target.honest.iter().enumerate().filter(|(at, _)| at % STEPS >= step) {
                    raise(&target, *victim, base.saturating_add(step as u64 * TERM_AHEAD_MAX)).await;
                    claim(&target, *victim, base.saturating_add(BEYOND * TERM_AHEAD_MAX)).await;
                }
            }
        }
    }
    .boxed()
}

/// A message by which it leads in that term, and says nothing else.
fn message(target: &Target, term: u64) -> Vec<u8> {
    let leader = Ballot { term, node: target.key.public(), elected: true };
    let group = target.group;
    wire::write(&Append { group, leader, previous: None, committed: None, entries: Vec::new() })
}

/// Has a member follow it to a term, if that can be.
async fn raise(target: &Target, victim: PublicKey, term: u64) {
    let answer = target.send(victim, "append", message(target, term)).await;
    let answer = answer.and_then(|answer| wire::read::<Appended>(&answer).ok());
    // A member that has come to a later term meanwhile says so.
    if answer.is_some_and(|answer| !matches!(answer, Appended::Higher(_))) {
        target.books.note(format_args!("{RAISED}: {victim} to {term}"));
    }
}

/// Claims a term that no message may raise the member's to.
async fn claim(target: &Target, victim: PublicKey, term: u64) {
    if let Some(why) = refusal(target, victim, "append", message(target, term)).await {
        target.books.note(format_args!("{REFUSED}: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noted;
    use super::*;

    /// P-101, SG-3: terms rise by its word, by one step each time; and all that must hold does.
    #[test]
    fn it_raises_terms_as_far_as_one_message_may_and_no_farther() {
        let noted = noted("climber");
        let count =
            |what: &str, how: &str| noted.lines().filter(|line| line.contains(what) && line.contains(how)).count();
        assert!(count(RAISED, "") >= 1, "{noted}");
        assert!(count(REFUSED, "impossible term") >= 1, "{noted}");
    }
}

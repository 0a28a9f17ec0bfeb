//! A member does not count the leader's messages, and all others agree to each election: the time-out of elections is
//! ignored.

use althing_communication::{Answer, Request};
use althing_coordination::consensus::wire::{self, Append, Appended, Beats, BeatsHeard, Elected, Heard};
use althing_protocol::PublicKey;

use super::Flaw;

pub(super) struct LeaderUnheard;

impl Flaw for LeaderUnheard {
    fn name(&self) -> &'static str {
        "leader-unheard"
    }

    fn on_request(&self, node: PublicKey, request: &mut Request) -> Option<Answer> {
        if node != crate::key(2).public() {
            return None;
        }
        match request.operation.as_str() {
            "append" => {
                let append: Append = wire::read(&request.body).ok()?;
                append.entries.is_empty().then(|| Answer::Response(wire::write(&Appended::All)))
            }
            "heartbeats" => {
                let Beats { beats, .. } = wire::read(&request.body).ok()?;
                let heard = vec![Heard::Taken(Appended::All); beats.len()];
                Some(Answer::Response(wire::write(&BeatsHeard { heard })))
            }
            _ => None,
        }
    }

    fn on_answer(&self, _: PublicKey, operation: &str, answer: &mut Answer) {
        if let (Answer::Response(body), "pre-vote") = (answer, operation)
            && let Ok(elected) = wire::read::<Elected>(body)
        {
            *body = wire::write(&Elected { granted: true, ..elected });
        }
    }
}

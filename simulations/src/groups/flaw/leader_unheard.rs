//! A member does not count the leader's messages, and all others agree to each election: the time-out of elections is
//! ignored.

use althing_communication::{Answer, Request};
use althing_coordination::consensus::wire::{self, Append, Appended, Elected};
use althing_protocol::PublicKey;

use super::Flaw;

pub(super) struct LeaderUnheard;

impl Flaw for LeaderUnheard {
    fn name(&self) -> &'static str {
        "leader-unheard"
    }

    fn on_request(&self, node: PublicKey, request: &mut Request) -> Option<Answer> {
        let is_empty = |append: Append| append.entries.is_empty();
        let is_deaf = node == crate::key(2).public();
        let is_heartbeat = request.operation == "append" && wire::read(&request.body).is_ok_and(is_empty);
        (is_deaf && is_heartbeat).then(|| Answer::Response(wire::write(&Appended::All)))
    }

    fn on_answer(&self, _: PublicKey, operation: &str, answer: &mut Answer) {
        if let (Answer::Response(body), "pre-vote") = (answer, operation)
            && let Ok(elected) = wire::read::<Elected>(body)
        {
            *body = wire::write(&Elected { granted: true, ..elected });
        }
    }
}

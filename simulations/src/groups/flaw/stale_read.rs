//! A leader answers at once how far members that read must be, without asking whether it leads yet.

use althing_communication::{Answer, Request};
use althing_coordination::consensus::wire::{self, BarrierAnswer};
use althing_protocol::PublicKey;

use super::Flaw;

pub(super) struct StaleRead;

impl Flaw for StaleRead {
    fn name(&self) -> &'static str {
        "stale-read"
    }

    fn on_request(&self, _: PublicKey, request: &mut Request) -> Option<Answer> {
        (request.operation == "barrier").then(|| Answer::Response(wire::write(&BarrierAnswer::At(0))))
    }
}

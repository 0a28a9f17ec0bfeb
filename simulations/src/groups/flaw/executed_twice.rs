//! A batch that is delivered twice is executed twice: the second one counts as another one.

use althing_communication::Request;
use althing_coordination::consensus::wire::{self, Submit};
use althing_protocol::group::{Author, Batch};
use althing_protocol::{PublicKey, object};

use super::{Flaw, values_of};
use crate::NETWORK;

/// Numbers that no author has come to.
const LATER: u64 = 500;
/// Members have the keys of the first numbers.
const MEMBERS: u32 = 8;

pub(super) struct ExecutedTwice;

impl Flaw for ExecutedTwice {
    fn name(&self) -> &'static str {
        "executed-twice"
    }

    fn echo(&self, _: PublicKey, request: &Request) -> Option<Request> {
        let (submit, batch) = values_of(request)?;
        let Author::Node(author) = batch.author else { return None };
        let key = (1..=MEMBERS).map(crate::key).find(|key| key.public() == author)?;
        let again = Batch::new(batch.epoch, batch.author, batch.session, batch.sequence + LATER, batch.commands);
        let signed = object::sign(again, NETWORK, &Batch::scope(submit.group), &key).ok()?;
        let body = wire::write(&Submit { batch: signed.bytes.into(), ..submit });
        Some(Request::new("submit", body))
    }
}

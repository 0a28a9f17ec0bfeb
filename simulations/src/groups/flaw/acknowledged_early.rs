//! A leader acknowledges a value before it is committed, and then does not commit it.

use std::sync::atomic::{AtomicU64, Ordering};

use althing_communication::{Answer, Request};
use althing_coordination::consensus::wire::{self, Submitted};
use althing_coordination::machine::outcome::{Outcome, Reply};
use althing_protocol::PublicKey;

use super::{Flaw, values_of};

/// Of so many values one is acknowledged early.
const EVERY: u64 = 6;

#[derive(Default)]
pub(super) struct AcknowledgedEarly(AtomicU64);

impl Flaw for AcknowledgedEarly {
    fn name(&self) -> &'static str {
        "acknowledged-early"
    }

    fn on_request(&self, _: PublicKey, request: &mut Request) -> Option<Answer> {
        values_of(request)?;
        let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let done = Submitted::Done(Reply::Executed(vec![Outcome::Done(Some(count))]));
        count.is_multiple_of(EVERY).then(|| Answer::Response(wire::write(&done)))
    }
}

//! Looks at the answers of agents whose contracts have no gates: holds nothing back, and finds what failed in silence.

use std::sync::{Mutex, MutexGuard};

use a2a::Message;
use althing_execution::AgentError;
use althing_execution::agent::{Hold, Made, OutputGate};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::findings::Findings;
use super::shown;
use crate::machine::answer::Answer;

/// Bytes of one answer that are looked at; nothing is found of a longer one.
const WATCHED_BYTES_MAX: usize = 256 << 10;
/// Outputs of one answer that are looked at.
const WATCHED_MAX: usize = 4_096;

/// Sees what one turn emits.
pub(super) struct Watch {
    findings: Findings,
    notes: bool,
    seen: Mutex<Sightings>,
}

#[derive(Default)]
struct Sightings {
    message: String,
    made: Vec<Made>,
    bytes: usize,
    /// Whether it was more than is looked at.
    is_long: bool,
}

impl Watch {
    pub fn new(findings: Findings, notes: bool) -> Watch {
        Watch { findings, notes, seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Sightings> {
        self.seen.lock().expect("no holder of what was seen panics")
    }

    fn look(&self, made: &Made) {
        let mut seen = self.seen();
        if seen.is_long || shown::is_progress(made) || matches!(made, Made::Remember(_) | Made::Begun { .. }) {
            return;
        }
        seen.bytes = seen.bytes.saturating_add(made.bytes());
        if seen.bytes > WATCHED_BYTES_MAX || seen.made.len() >= WATCHED_MAX {
            seen.is_long = true;
            seen.made = Vec::new();
        } else {
            seen.made.push(made.clone());
        }
    }
}

impl OutputGate for Watch {
    fn admit(&self, message: &Message) -> Result<(), AgentError> {
        self.seen().message = Answer::of_message(&message.parts).text();
        Ok(())
    }

    fn hold(&self, made: Made) -> Hold {
        self.look(&made);
        Hold::Pass(made)
    }

    fn may_repair(&self) -> bool {
        false
    }

    /// What another gate held back it saw before.
    fn release(&self, held: Vec<Made>) -> BoxFuture<'_, Result<Vec<Made>, AgentError>> {
        let Sightings { message, made, is_long, .. } = std::mem::take(&mut *self.seen());
        if !is_long {
            self.findings.report(&message, &Answer::of(&made, self.notes));
        }
        std::future::ready(Ok(held)).boxed()
    }
}

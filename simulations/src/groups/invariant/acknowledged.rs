//! What was acknowledged to a client is in the committed log, with the same outcome.

use std::collections::BTreeMap;

use althing_protocol::group::Command;

use super::super::clients::{of_bytes, task_number};
use super::super::evidence::Deed;
use super::{Invariant, Seen};

pub(super) struct Acknowledged;

impl Invariant for Acknowledged {
    fn name(&self) -> &'static str {
        "the-acknowledged-is-kept"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        let (mut versions, mut numbers) = (BTreeMap::new(), BTreeMap::new());
        for (executed, returned) in seen.replay.done() {
            match &executed.command {
                Command::Set(set) => drop(of_bytes(&set.value).map(|value| versions.insert(value, returned))),
                Command::Submit(submit) => drop(numbers.insert(task_number(submit.task), returned)),
                _ => {}
            }
        }
        for operation in seen.evidence.history.iter().filter(|operation| operation.returned.is_some()) {
            let (kept, told) = match operation.deed {
                Deed::Write { value, version, .. } => (versions.get(&value), version),
                Deed::Replace { value, done: Some(Some(version)), .. } => (versions.get(&value), Some(version)),
                Deed::Submit { task, number } => (numbers.get(&task), number),
                _ => continue,
            };
            if kept != Some(&told) {
                return Err(format!("it was acknowledged, and the log says {kept:?}: {operation:?}"));
            }
        }
        Ok(())
    }
}

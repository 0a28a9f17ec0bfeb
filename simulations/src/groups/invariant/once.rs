//! Nothing is executed twice: no number of an author's batches, no command of a client, no completion of a task, no run of an attempt.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::group::Command;

use super::super::clients::of_bytes;
use super::{Invariant, Seen};

pub(super) struct Once;

impl Invariant for Once {
    fn name(&self) -> &'static str {
        "nothing-happens-twice"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        let (mut written, mut submitted, mut completed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut batches = BTreeMap::new();
        for (executed, _) in seen.replay.done() {
            let index = *batches.entry(executed.batch).or_insert(executed.index);
            if index != executed.index {
                return Err(format!(
                    "the entries {index} and {} have one number: {:?}",
                    executed.index, executed.batch
                ));
            }
            let is_new = match &executed.command {
                Command::Set(set) => of_bytes(&set.value).is_none_or(|value| written.insert(value)),
                Command::Submit(submit) => submitted.insert(submit.task),
                Command::Complete(complete) => completed.insert(complete.claim.task),
                _ => true,
            };
            if !is_new {
                return Err(format!("the entry {} did again: {:?}", executed.index, executed.command));
            }
        }
        let mut runs = BTreeSet::new();
        for begun in seen.evidence.begun.iter().filter(|begun| begun.between.1 != i64::MAX) {
            if !runs.insert((begun.task, begun.token)) {
                return Err(format!("an attempt ran twice: {begun:?}"));
            }
        }
        Ok(())
    }
}

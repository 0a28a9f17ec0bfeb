//! Fencing: each token is higher than all before it, and counts only until the next one for the same task is given; whoever
//! worked had a token that was given for that task.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::group::{Claim, Command};

use super::{Invariant, Seen};

pub(super) struct Fenced;

impl Invariant for Fenced {
    fn name(&self) -> &'static str {
        "tokens-fence"
    }

    fn check(&self, seen: &Seen) -> Result<(), String> {
        let (mut highest, mut last, mut given) = (0, BTreeMap::new(), BTreeSet::new());
        for (executed, returned) in seen.replay.done() {
            let task = match &executed.command {
                Command::Assign(assign) => Some(assign.task),
                Command::Steal(steal) => Some(steal.task),
                _ => None,
            };
            if let Some(task) = task {
                let token = returned.unwrap_or(0);
                if token <= highest {
                    return Err(format!("the entry {} gave the token {token} after {highest}", executed.index));
                }
                highest = token;
                last.insert(task, token);
                given.insert((task, token));
            }
            let claim: Option<&Claim> = match &executed.command {
                Command::Start(claim) | Command::Renew(claim) => Some(claim),
                Command::Complete(complete) => Some(&complete.claim),
                Command::Fail(fail) => Some(&fail.claim),
                Command::Decline(decline) => Some(&decline.claim),
                Command::Refuse(refuse) => Some(&refuse.claim),
                _ => None,
            };
            if let Some(claim) = claim.filter(|claim| last.get(&claim.task) != Some(&claim.token)) {
                let last = last.get(&claim.task);
                return Err(format!("the entry {} counted {claim:?}, after the token {last:?}", executed.index));
            }
        }
        let is_known = |begun: &&super::super::evidence::Begun| !given.contains(&(begun.task, begun.token));
        match seen.evidence.begun.iter().filter(|begun| begun.between.1 != i64::MAX).find(is_known) {
            Some(begun) => Err(format!("a worker ran with a token that nobody gave for the task: {begun:?}")),
            None => Ok(()),
        }
    }
}

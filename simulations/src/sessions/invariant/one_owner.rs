//! A handoff has one owner: the work is at one end at most, and at the end of the run at one of them. An end that accepted it and
//! denies that can be proven to lie.

use super::super::evidence::Evidence;
use super::super::handoff::HandoffEvent;
use super::Invariant;

pub(super) struct OneOwner;

impl Invariant for OneOwner {
    fn name(&self) -> &'static str {
        "a-handoff-has-one-owner"
    }

    fn check(&self, seen: &Evidence) -> Result<(), String> {
        let (mut begun, mut taken_back, mut given, mut doubt, mut proof) = (Vec::new(), false, None, false, None);
        for event in &seen.handoff {
            match event {
                HandoffEvent::Beginning { task } => begun.push(task),
                HandoffEvent::Keeping => taken_back = true,
                HandoffEvent::Giving { task } => given = Some(task),
                HandoffEvent::Doubt => doubt = true,
                HandoffEvent::Denial { is_proven } => proof = proof.or(Some(*is_proven)).map(|all| all && *is_proven),
                HandoffEvent::Verdict { .. } | HandoffEvent::Crash(_) => {}
            }
        }
        if let Some(is_proven) = proof {
            // Whoever denies may work in secret. It signed that it took the work.
            return if is_proven {
                Ok(())
            } else {
                Err("an end denies what it accepted, and there is no proof".to_owned())
            };
        }
        match (begun.as_slice(), taken_back, given) {
            ([_, _, ..], ..) => Err(format!("the work began more than once: {begun:?}")),
            ([task], true, _) => Err(format!("the work began as {task}, and was taken back")),
            (_, true, Some(task)) => Err(format!("the work was taken back, and given away as {task}")),
            ([task], false, Some(given)) if *task != given => Err(format!("it began as {task}, and not as {given}")),
            ([], false, Some(task)) => Err(format!("the work was given away as {task}, and never began")),
            (_, false, None) if !doubt => Err("nobody knows whose the work is".to_owned()),
            _ => Ok(()),
        }
    }
}

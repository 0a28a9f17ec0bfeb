//! A node answers the owners that it trusts, and from the moment at which it no longer trusts one, refuses it.

use super::{Called, Invariant, Truth};

/// How the error of a caller that is not trusted begins.
pub(crate) const REFUSED: &str = "CALLER_NOT_ALLOWED";

pub(super) struct Trusted;

impl Invariant for Trusted {
    fn name(&self) -> &'static str {
        "only-the-trusted-are-answered"
    }

    fn check_call(&mut self, called: &Called, _: &Truth) -> Result<(), String> {
        let answer = called.recalled.as_ref().unwrap_or(&called.task);
        let (caller, agent) = (called.caller, &called.agent);
        match (called.trusted, answer) {
            (Some(false), Ok(_)) => Err(format!("node {caller} was answered by {agent}, whose node does not trust it")),
            (Some(false), Err(why)) if called.undisturbed && !why.starts_with(REFUSED) => {
                Err(format!("node {caller} was not refused by {agent}, but: {why}"))
            }
            (Some(true), Err(why)) if why.starts_with(REFUSED) => {
                Err(format!("node {caller} was refused by {agent}, whose node trusts it: {why}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;
    use crate::mesh::Owner;

    #[test]
    fn an_answer_to_a_stranger_and_a_refusal_of_a_friend_break_it() {
        let agent = althing_protocol::AgentId::new(Owner::new(key(100)).id(), "agent").expect("a name");
        let good = Called {
            began_ms: 1_000,
            ended_ms: 1_100,
            caller: 2,
            agent,
            node: key(1).public(),
            task: Ok(("task".to_owned(), true)),
            recalled: None,
            undisturbed: true,
            trusted: Some(true),
        };
        let holds = |called: &Called| Trusted.check_call(called, &Truth::default()).is_ok();
        let refused = Err(format!("{REFUSED}: no"));
        assert!(holds(&good));
        assert!(!holds(&Called { task: refused.clone(), ..good.clone() }), "a friend is refused");
        let stranger = Called { trusted: Some(false), ..good.clone() };
        assert!(!holds(&stranger) && holds(&Called { task: refused.clone(), ..stranger.clone() }));
        // It had the task while it was trusted, and asks for it again.
        assert!(holds(&Called { recalled: Some(refused.clone()), ..stranger.clone() }));
        let lost = Called { task: Err("AGENT_UNREACHABLE: no".to_owned()), ..stranger };
        assert!(!holds(&lost) && holds(&Called { undisturbed: false, ..lost }));
        let changed = Called { trusted: None, ..good };
        assert!(holds(&changed) && holds(&Called { task: refused, ..changed }));
    }
}

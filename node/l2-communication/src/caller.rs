//! The caller check: finding is open, calling is not. Decided at the receiver, before anything runs.

use std::collections::BTreeSet;

use althing_protocol::PublicKey;

/// Who calls, as the stream proved it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The calling node.
    pub node: PublicKey,
    /// Whose node it is, when it proved that with a membership.
    pub owner: Option<PublicKey>,
}

/// Who may call an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerRule {
    /// Only through this node itself.
    ThisNode,
    /// The owner's own nodes, whatever is trusted.
    Own,
    /// The owner's own nodes, and nodes and owners that this node trusts: the default.
    Trusted,
    /// Everyone.
    Anyone,
    /// The owner's own nodes, and these nodes and owners.
    Listed(BTreeSet<PublicKey>),
}

/// What this node knows of itself and of whom it trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// This node.
    pub node: PublicKey,
    /// Whose node it is.
    pub owner: PublicKey,
    /// Trusted nodes and owners.
    pub trusted: BTreeSet<PublicKey>,
    /// This node's network is a private one: who is connected holds its key, and is trusted.
    pub private: bool,
}

/// A caller that may not call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{caller} may not call this agent: it answers {allowed}{}", if *.can_be_trusted { format!("; its owner can allow it with `althing trust {caller}`") } else { String::new() })]
pub struct CallerRefused {
    /// Who called: the owner where it is known, or else the node.
    pub caller: PublicKey,
    /// Who is answered, in words.
    pub allowed: &'static str,
    /// Whether trust would change it.
    pub can_be_trusted: bool,
}

impl Trust {
    /// May `caller` call an agent with this rule?
    ///
    /// # Errors
    /// [`CallerRefused`].
    pub fn check(&self, rule: &CallerRule, caller: &Caller) -> Result<(), CallerRefused> {
        let own = caller.node == self.node || caller.owner == Some(self.owner);
        let named = |set: &BTreeSet<PublicKey>| {
            set.contains(&caller.node) || caller.owner.is_some_and(|owner| set.contains(&owner))
        };
        let (allows, allowed) = match rule {
            CallerRule::ThisNode => (caller.node == self.node, "only callers on its own node"),
            CallerRule::Own => (own, "only its owner's nodes"),
            CallerRule::Trusted => {
                (own || self.private || named(&self.trusted), "only its owner's nodes and those it trusts")
            }
            CallerRule::Anyone => (true, "everyone"),
            CallerRule::Listed(set) => (own || named(set), "only its owner's nodes and a list of callers"),
        };
        let caller = caller.owner.unwrap_or(caller.node);
        let can_be_trusted = *rule == CallerRule::Trusted;
        if allows { Ok(()) } else { Err(CallerRefused { caller, allowed, can_be_trusted }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    fn key(seed: u8) -> PublicKey {
        SecretKey::from_seed(&[seed; 32]).public()
    }

    #[test]
    fn only_those_whom_the_rule_names_may_call() {
        let trust = Trust { node: key(1), owner: key(2), trusted: BTreeSet::from([key(7), key(8)]), private: false };
        let callers = [
            ("this node", Caller { node: key(1), owner: None }),
            ("own node", Caller { node: key(3), owner: Some(key(2)) }),
            ("trusted node", Caller { node: key(7), owner: None }),
            ("trusted owner's node", Caller { node: key(9), owner: Some(key(8)) }),
            ("listed", Caller { node: key(5), owner: None }),
            ("stranger", Caller { node: key(6), owner: Some(key(10)) }),
            ("node that is no owner", Caller { node: key(2), owner: None }),
        ];
        let rules = [
            (CallerRule::ThisNode, vec!["this node"]),
            (CallerRule::Own, vec!["this node", "own node"]),
            (CallerRule::Trusted, vec!["this node", "own node", "trusted node", "trusted owner's node"]),
            (CallerRule::Listed(BTreeSet::from([key(5)])), vec!["this node", "own node", "listed"]),
        ];
        for (rule, allowed) in rules {
            for (name, caller) in &callers {
                assert_eq!(trust.check(&rule, caller).is_ok(), allowed.contains(name), "{rule:?} {name}");
            }
        }
        assert!(callers.iter().all(|(_, caller)| trust.check(&CallerRule::Anyone, caller).is_ok()));

        // In a private network everybody is trusted, and nobody is more than that.
        let private = Trust { private: true, ..trust.clone() };
        for (name, caller) in &callers {
            assert!(private.check(&CallerRule::Trusted, caller).is_ok(), "{name}");
            for rule in [CallerRule::ThisNode, CallerRule::Own, CallerRule::Listed(BTreeSet::from([key(5)]))] {
                assert_eq!(private.check(&rule, caller), trust.check(&rule, caller), "{rule:?} {name}");
            }
        }
    }
}

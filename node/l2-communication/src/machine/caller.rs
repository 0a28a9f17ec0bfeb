//! The caller check: finding is open, calling is not. Decided at the receiver, before anything runs.

use std::collections::BTreeSet;

use althing_protocol::{CallerId, PublicKey, PublisherId};

/// The caller, as the stream proved it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The calling node.
    pub node: PublicKey,
    /// Whose node it is, when it proved that with a membership.
    pub owner: Option<PublisherId>,
}

impl Caller {
    /// The caller's id: that of the owner where it is proved, or else of the node.
    #[must_use]
    pub fn id(&self) -> CallerId {
        self.owner.map_or(CallerId::Node(self.node), CallerId::Publisher)
    }

    /// Is it in `set`? A node with an owner matches by either id.
    fn is_among(&self, set: &BTreeSet<CallerId>) -> bool {
        set.contains(&CallerId::Node(self.node))
            || self.owner.is_some_and(|owner| set.contains(&CallerId::Publisher(owner)))
    }
}

/// Who may call an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerRule {
    /// Only callers on this node itself.
    ThisNode,
    /// The owner's own nodes, whomever this node trusts.
    Own,
    /// The owner's own nodes, and nodes and owners that this node trusts: the default.
    Trusted,
    /// Everyone.
    Anyone,
    /// The owner's own nodes, and these nodes and owners.
    Listed(BTreeSet<CallerId>),
}

/// This node, its owner, and whom it trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// This node.
    pub node: PublicKey,
    /// Whose node it is.
    pub owner: PublisherId,
    /// Trusted nodes and trusted owners: trust in one does not extend to the other.
    pub trusted: BTreeSet<CallerId>,
    /// The network is private: every connected peer holds its key, and is trusted.
    pub private: bool,
}

/// A caller was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{caller} may not call this agent: it answers {allowed}{}", if *.can_be_trusted { format!("; its owner can allow it by trust in {caller}") } else { String::new() })]
pub struct CallerRefused {
    /// The caller's id.
    pub caller: CallerId,
    /// Which callers the agent answers, in words.
    pub allowed: &'static str,
    /// Whether trusting the caller would allow the call.
    pub can_be_trusted: bool,
}

impl Trust {
    /// The publishers among the trusted.
    pub fn publishers(&self) -> impl Iterator<Item = PublisherId> + '_ {
        self.trusted.iter().filter_map(|trusted| match trusted {
            CallerId::Publisher(publisher) => Some(*publisher),
            CallerId::Node(_) => None,
        })
    }

    /// May `caller` call an agent with this rule?
    ///
    /// # Errors
    /// [`CallerRefused`].
    pub fn check(&self, rule: &CallerRule, caller: &Caller) -> Result<(), CallerRefused> {
        let own = caller.node == self.node || caller.owner == Some(self.owner);
        let (allows, allowed) = match rule {
            CallerRule::ThisNode => (caller.node == self.node, "only callers on its own node"),
            CallerRule::Own => (own, "only its owner's nodes"),
            CallerRule::Trusted => {
                (own || self.private || caller.is_among(&self.trusted), "only its owner's nodes and those it trusts")
            }
            CallerRule::Anyone => (true, "everyone"),
            CallerRule::Listed(set) => (own || caller.is_among(set), "only its owner's nodes and a list of callers"),
        };
        let caller = caller.id();
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

    fn publisher(seed: u8) -> PublisherId {
        PublisherId::from_digest([seed; 32])
    }

    fn callers() -> Vec<(&'static str, Caller)> {
        vec![
            ("this node", Caller { node: key(1), owner: None }),
            ("own node", Caller { node: key(3), owner: Some(publisher(2)) }),
            ("trusted node", Caller { node: key(7), owner: None }),
            ("trusted owner's node", Caller { node: key(9), owner: Some(publisher(8)) }),
            ("listed", Caller { node: key(5), owner: None }),
            ("stranger", Caller { node: key(6), owner: Some(publisher(10)) }),
        ]
    }

    fn trust() -> Trust {
        let trusted = BTreeSet::from([CallerId::Node(key(7)), CallerId::Publisher(publisher(8))]);
        Trust { node: key(1), owner: publisher(2), trusted, private: false }
    }

    fn listed() -> CallerRule {
        CallerRule::Listed(BTreeSet::from([CallerId::Node(key(5))]))
    }

    #[test]
    fn only_those_whom_the_rule_names_may_call() {
        let trust = trust();
        let rules = [
            (CallerRule::ThisNode, vec!["this node"]),
            (CallerRule::Own, vec!["this node", "own node"]),
            (CallerRule::Trusted, vec!["this node", "own node", "trusted node", "trusted owner's node"]),
            (listed(), vec!["this node", "own node", "listed"]),
        ];
        for (rule, allowed) in rules {
            for (name, caller) in &callers() {
                assert_eq!(trust.check(&rule, caller).is_ok(), allowed.contains(name), "{rule:?} {name}");
            }
        }
        assert!(callers().iter().all(|(_, caller)| trust.check(&CallerRule::Anyone, caller).is_ok()));

        // In a private network every caller is trusted, and none is an owner's node by that.
        let private = Trust { private: true, ..trust.clone() };
        for (name, caller) in &callers() {
            assert!(private.check(&CallerRule::Trusted, caller).is_ok(), "{name}");
            for rule in [CallerRule::ThisNode, CallerRule::Own, listed()] {
                assert_eq!(private.check(&rule, caller), trust.check(&rule, caller), "{rule:?} {name}");
            }
        }
    }

    #[test]
    fn a_node_whose_key_has_the_bytes_of_an_owner_s_id_is_not_that_owner() {
        // An attacker may run a node with any key: that node is neither the owner nor trusted.
        let worn = key(8);
        let trust = Trust {
            owner: PublisherId::from_digest(*worn.as_bytes()),
            trusted: BTreeSet::from([CallerId::Publisher(PublisherId::from_digest(*worn.as_bytes()))]),
            ..trust()
        };
        let thief = Caller { node: worn, owner: None };
        let listed = CallerRule::Listed(trust.trusted.clone());
        for rule in [CallerRule::ThisNode, CallerRule::Own, CallerRule::Trusted, listed] {
            let refused = trust.check(&rule, &thief).expect_err("it is not trusted");
            assert_eq!(refused.caller, CallerId::Node(worn));
        }
    }

    #[test]
    fn a_trusted_node_does_not_speak_for_others() {
        let trust = trust();
        // The trusted node's key, read as a publisher's id, makes no other node trusted.
        let claimed = Caller { node: key(11), owner: Some(PublisherId::from_digest(*key(7).as_bytes())) };
        assert!(trust.check(&CallerRule::Trusted, &claimed).is_err());
    }
}

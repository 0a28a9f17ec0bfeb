//! Whom a call of an agent goes to, as the intent of the call keeps it: an agent, and the node that was chosen of those that host it.
//! These do not share the memory of keys (SPEC P-77), so a call that is made again goes to that node and to no other.

use std::fmt;

use althing_protocol::PublicKey;

/// Stands between the two. No id of an agent has it.
const BETWEEN: char = ' ';

/// Whom a call goes to; as text `urn:althing:zQm…:NAME did:key:z6Mk…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addressee<'a> {
    /// The id of the agent.
    pub agent: &'a str,
    /// The node; none where none was known, and in intents from before nodes were named in them.
    pub node: Option<PublicKey>,
}

impl<'a> Addressee<'a> {
    /// Reads what an intent has. What stands behind the agent and names no node counts as none.
    pub fn read(text: &'a str) -> Addressee<'a> {
        match text.split_once(BETWEEN) {
            Some((agent, node)) => Addressee { agent, node: PublicKey::from_did(node).ok() },
            None => Addressee { agent: text, node: None },
        }
    }
}

impl fmt::Display for Addressee<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.agent)?;
        self.node.map_or(Ok(()), |node| write!(formatter, "{BETWEEN}{node}"))
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    const AGENT: &str = "urn:althing:zQmY8AwLhikXv1eG4pSSeFts6oZGeDvasQgedDH3gvhJ2Pz:auditor";

    #[test]
    fn an_intent_names_the_node_and_is_read_as_it_was_written() {
        let node = SecretKey::from_seed(&[1; 32]).public();
        for addressee in [Addressee { agent: AGENT, node: Some(node) }, Addressee { agent: AGENT, node: None }] {
            assert_eq!(Addressee::read(&addressee.to_string()), addressee);
        }
        assert_eq!(Addressee { agent: AGENT, node: Some(node) }.to_string(), format!("{AGENT} {}", node.did()));
    }

    #[test]
    fn an_intent_from_before_nodes_were_named_has_the_agent_alone() {
        assert_eq!(Addressee::read(AGENT), Addressee { agent: AGENT, node: None });
        let other = format!("{AGENT} something else");
        assert_eq!(Addressee::read(&other), Addressee { agent: AGENT, node: None }, "of a later version");
    }
}

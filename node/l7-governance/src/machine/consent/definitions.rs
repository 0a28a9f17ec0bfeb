//! Which definition of each tool people know. One that changed is suspended until somebody agreed to the new one.

use std::collections::BTreeMap;

use althing_protocol::{AgentId, Digest};

/// Tools that are remembered.
pub const DEFINITIONS_MAX: usize = 8_192;

/// How a definition stands to the one that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionState {
    /// The tool was never seen; now it is known.
    New,
    /// It is the one that is known.
    Same,
    /// It is another one, of the tool or of whoever has it: no call is made, and no earlier yes counts.
    Changed,
    /// More tools are known than can be: nothing is decided about this one, so that it is asked about each time.
    Unknown,
}

/// A tool of an agent is not what it was, or somebody else has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolChange<'a> {
    /// Whose tool.
    pub agent: &'a AgentId,
    /// `server/tool`.
    pub action: &'a str,
    /// The digests of its definition and of whoever has it, as they are now; none where no more is known than that it is another one.
    pub now: Option<(Digest, Digest)>,
}

impl ToolChange<'_> {
    /// Whether what was asked about a tool, or agreed to, is about this one as it was before.
    pub(super) fn ends(&self, agent: &AgentId, action: &str, known: (Digest, Digest)) -> bool {
        self.agent == agent && self.action == action && self.now != Some(known)
    }
}

/// The definitions that are known, each with whoever has the tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definitions {
    known: BTreeMap<(String, String), (Digest, Digest)>,
}

impl Definitions {
    /// A tool of an agent is seen with a definition.
    pub fn see(&mut self, agent: &str, action: &str, definition: (Digest, Digest)) -> DefinitionState {
        let tool = (agent.to_owned(), action.to_owned());
        match self.known.get(&tool) {
            Some(known) if *known == definition => DefinitionState::Same,
            Some(_) => DefinitionState::Changed,
            None if self.known.len() >= DEFINITIONS_MAX => DefinitionState::Unknown,
            None => {
                self.known.insert(tool, definition);
                DefinitionState::New
            }
        }
    }

    /// A definition of a tool is not known after all.
    pub fn forget_tool(&mut self, agent: &str, action: &str) {
        self.known.remove(&(agent.to_owned(), action.to_owned()));
    }

    /// An agent is gone, and what was known of its tools with it.
    pub fn forget(&mut self, agent: &str) {
        self.known.retain(|(of, _), _| of != agent);
    }

    /// The row of a tool: its definition and whoever has it, one after the other.
    #[must_use]
    pub fn row(&self, agent: &str, action: &str) -> Option<[u8; 64]> {
        let (definition, server) = self.known.get(&(agent.to_owned(), action.to_owned()))?;
        let mut row = [0; 64];
        row[..32].copy_from_slice(definition);
        row[32..].copy_from_slice(server);
        Some(row)
    }

    /// Takes the row of a tool; false of one that is cut or one too many.
    pub fn take_row(&mut self, agent: &str, action: &str, row: &[u8]) -> bool {
        let Ok(row) = <&[u8; 64]>::try_from(row) else { return false };
        if self.known.len() >= DEFINITIONS_MAX {
            return false;
        }
        let (mut definition, mut server) = ([0; 32], [0; 32]);
        definition.copy_from_slice(&row[..32]);
        server.copy_from_slice(&row[32..]);
        self.known.insert((agent.to_owned(), action.to_owned()), (definition, server));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_changed_is_suspended_until_somebody_agrees() {
        let mut known = Definitions::default();
        let (one, other) = (([1; 32], [2; 32]), ([3; 32], [2; 32]));
        assert_eq!(known.see("echo", "shop/pay", one), DefinitionState::New);
        assert_eq!(known.see("echo", "shop/pay", one), DefinitionState::Same);
        for changed in [other, ([1; 32], [9; 32])] {
            assert_eq!(known.see("echo", "shop/pay", changed), DefinitionState::Changed);
            assert_eq!(
                known.see("echo", "shop/pay", changed),
                DefinitionState::Changed,
                "it does not become known by that"
            );
        }
        assert_eq!(known.see("other", "shop/pay", other), DefinitionState::New, "of another agent");
        known.forget("echo");
        assert_eq!(known.see("echo", "shop/pay", other), DefinitionState::New);
        assert_eq!(known.see("echo", "shop/pay", one), DefinitionState::Changed);

        let mut read = Definitions::default();
        let row = known.row("echo", "shop/pay").expect("it is known");
        assert!(read.take_row("echo", "shop/pay", &row));
        assert_eq!(read.see("echo", "shop/pay", other), DefinitionState::Same);
        assert!(!read.take_row("echo", "shop/search", &row[1..]));
        read.forget("echo");
        assert_eq!(read, Definitions::default());
    }

    #[test]
    fn more_tools_than_can_be_known_are_not_decided_about() {
        let mut known = Definitions::default();
        for number in 0..DEFINITIONS_MAX {
            known.see("echo", &format!("shop/{number}"), ([0; 32], [0; 32]));
        }
        assert_eq!(known.see("echo", "shop/more", ([0; 32], [0; 32])), DefinitionState::Unknown);
        assert_eq!(known.see("echo", "shop/0", ([1; 32], [0; 32])), DefinitionState::Changed);
    }
}

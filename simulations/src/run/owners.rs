//! What owners do with their keys.

use super::{World, pick};

impl World<'_> {
    /// Whose a node is.
    pub(super) fn owner_of(&self, number: u32) -> usize {
        (number % self.scenario.agents.owners) as usize
    }

    fn of_owner(&self, owner: u32) -> Vec<u32> {
        self.there().into_iter().filter(|number| self.owner_of(*number) == owner as usize).collect()
    }

    /// An owner takes its next key. Its nodes that are there have it at once, the others when they come back.
    pub(super) fn rotate(&mut self, owner: u32) {
        let rotated = self.owners[owner as usize].rotated(self.net.clock().now_ms());
        self.recorder.note(format_args!("owner {owner} takes its next key"));
        self.owners[owner as usize] = rotated.clone();
        for number in self.of_owner(owner) {
            if let Some(node) = &mut self.place_mut(number).node {
                node.rekey(rotated.clone());
            }
        }
    }

    /// An owner revokes its keys, and tells one node.
    pub(super) fn revoke(&mut self, owner: u32) {
        let log = self.owners[owner as usize].revocation(self.net.clock().now_ms());
        let there = self.there();
        let Some(told) = pick(&mut self.rng, &there) else { return };
        self.recorder.note(format_args!("owner {owner} revokes its keys, and tells node {told}"));
        self.truth.revoked_ms.insert(log.publisher(), self.now_ms());
        let Some(node) = &self.place(told).node else { return };
        if let Err(reason) = node.communication.keys().learn(log) {
            self.recorder.note(format_args!("node {told} does not believe it: {reason}"));
        }
    }
}

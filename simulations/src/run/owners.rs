//! Key rotation and revocation by owners.

use super::{World, pick};

impl World<'_> {
    /// An owner rotates its key. Its running nodes have the new key at once, the others when they restart.
    pub(super) fn rotate(&mut self, owner: u32) {
        let rotated = self.nodes.owners[owner as usize].rotated(self.nodes.net.clock().now_ms());
        self.recorder.note(format_args!("owner {owner} takes its next key"));
        self.nodes.owners[owner as usize] = rotated.clone();
        for number in self.nodes.of_owner(owner) {
            if let Some(node) = &mut self.nodes.slot_mut(number).node {
                node.rekey(rotated.clone());
            }
        }
    }

    /// An owner revokes its keys, and tells one node.
    pub(super) fn revoke(&mut self, owner: u32) {
        let log = self.nodes.owners[owner as usize].revocation(self.nodes.net.clock().now_ms());
        let running = self.nodes.running();
        let Some(told) = pick(&mut self.rng, &running) else { return };
        self.recorder.note(format_args!("owner {owner} revokes its keys, and tells node {told}"));
        self.judge.truth.revoked_ms.insert(log.publisher(), self.now_ms());
        let Some(node) = &self.nodes.slot(told).node else { return };
        if let Err(reason) = node.communication.keys().learn(log) {
            self.recorder.note(format_args!("node {told} does not believe it: {reason}"));
        }
    }
}

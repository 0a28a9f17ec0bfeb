//! Key rotation and revocation by owners, and trust in them.

use super::{World, pick};

/// An owner rotates its key. Its running nodes have the new key at once, the others when they restart.
pub(super) fn rotate(world: &mut World<'_>, owner: u32) {
    let rotated = world.nodes.owners[owner as usize].rotated(world.nodes.net.clock().now_ms());
    world.recorder.note(format_args!("owner {owner} takes its next key"));
    world.nodes.owners[owner as usize] = rotated.clone();
    for number in world.nodes.of_owner(owner) {
        if let Some(node) = &mut world.nodes.slot_mut(number).node {
            node.rekey(rotated.clone());
        }
    }
}

/// All running nodes of other owners trust an owner, or stop trusting it; the others do when they restart.
pub(super) async fn set_trust(world: &mut World<'_>, owner: u32, trusted: bool) {
    world.recorder.note(format_args!("owner {owner} is {}trusted", if trusted { "" } else { "no longer " }));
    world.nodes.trust_changes.push((owner, trusted));
    let now_ms = world.now_ms();
    world.judge.truth.trust_ms.insert(world.nodes.owners[owner as usize].id(), (now_ms, trusted));
    for number in world.nodes.running() {
        world.nodes.hear_trust(number).await;
    }
}

/// An owner revokes its keys, and tells one node.
pub(super) fn revoke(world: &mut World<'_>, owner: u32) {
    let log = world.nodes.owners[owner as usize].revocation(world.nodes.net.clock().now_ms());
    let running = world.nodes.running();
    let Some(told) = pick(&mut world.rng, &running) else { return };
    world.recorder.note(format_args!("owner {owner} revokes its keys, and tells node {told}"));
    world.judge.truth.revoked_ms.insert(log.publisher(), world.now_ms());
    let Some(node) = &world.nodes.slot(told).node else { return };
    if let Err(reason) = node.communication.keys().learn(log) {
        world.recorder.note(format_args!("node {told} does not believe it: {reason}"));
    }
}

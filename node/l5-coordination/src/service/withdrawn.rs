//! Brings to the group what this node learned of members that their owners withdrew.

use std::sync::Arc;

use althing_protocol::group::Command;
use althing_protocol::{KeyLog, PublicKey};

use super::Shared;
use crate::machine::group::{Group, is_later, withdrawal};

/// Has L2 keep withdrawals by the owners of the group's members, also while those are not connected.
pub(super) fn watch(shared: &Shared, state: &Group) {
    let owners = state.members().iter().map(|(_, member)| member.owner).collect();
    shared.communication.keys().set_members(state.id(), owners);
}

/// The next command for a member that was withdrawn, if there is one: the leader brings it, or whoever knows it where the leader is
/// the one that was withdrawn. Nothing is brought that the group would refuse.
pub(super) fn due(shared: &Shared, state: &Group, leader: Option<PublicKey>) -> Option<Command> {
    let keys = shared.communication.keys();
    state.members().iter().find_map(|(node, member)| {
        let brings = leader == Some(shared.here()) || leader == Some(*node);
        let withdrawal = brings.then(|| keys.withdrawal(member.owner, *node)).flatten()?;
        match withdrawal::check(state, &withdrawal) {
            Ok(()) => Some(Command::Withdraw(withdrawal.bytes.clone().into())),
            // It may be signed by a key that the group does not know yet.
            Err(_) => {
                let known = state.logs.get(&member.owner)?;
                let is_news = |log: &Arc<KeyLog>| is_later(log, known) && log != known;
                keys.log(member.owner).filter(is_news).map(|log| Command::Keys(super::events(&log)))
            }
        }
    })
}

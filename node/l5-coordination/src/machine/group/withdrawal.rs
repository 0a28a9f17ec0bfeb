//! Members whose owners withdrew them: a node is a member as its owner's, so it is none when that owner takes it back.

use althing_protocol::keyring::Withdrawal;
use althing_protocol::limits::CLOCK_SKEW_MAX_MS;
use althing_protocol::{Authored, object};

use super::Group;
use crate::machine::outcome::Refusal;

/// Whether the owner of a member withdrew it after it joined.
pub(crate) fn check(group: &Group, withdrawal: &Authored<Withdrawal>) -> Result<(), Refusal> {
    let Withdrawal { publisher, node, until_ms, .. } = withdrawal.body;
    let member = group.members.get(&node).ok_or(Refusal::NotAMember(node))?;
    if member.owner != publisher {
        return Err(Refusal::Author(format!("{publisher} does not own the member {node}")));
    }
    let unknown = || Refusal::Author(format!("the group does not know the publisher {publisher}"));
    let log = group.logs.get(&publisher).ok_or_else(unknown)?;
    log.accepts(withdrawal.signer, group.now_ms).map_err(|error| Refusal::Author(error.to_string()))?;
    let founded_ms = group.charters.first().map_or(0, |(_, at_ms)| *at_ms);
    let joined_ms = member.admission.as_ref().map_or(founded_ms, |admission| admission.at_ms);
    if until_ms < joined_ms {
        return Err(Refusal::Invalid(format!("{node} was withdrawn before it joined, not since")));
    }
    if until_ms > group.now_ms.saturating_add(CLOCK_SKEW_MAX_MS) {
        return Err(Refusal::Invalid("the withdrawal is of a time that has not come".to_owned()));
    }
    if group.members.len() == 1 { Err(Refusal::LastMember) } else { Ok(()) }
}

/// A member that its owner withdrew is none any more. The outcome is the epoch.
pub(super) fn withdraw(group: &mut Group, signed: &[u8]) -> Result<Option<u64>, Refusal> {
    group.founded()?;
    let opened = object::open::<Withdrawal>(signed, "", "");
    let withdrawal = opened.map_err(|error| Refusal::Author(format!("the withdrawal is not valid: {error}")))?;
    check(group, &withdrawal)?;
    group.expel(withdrawal.body.node)
}

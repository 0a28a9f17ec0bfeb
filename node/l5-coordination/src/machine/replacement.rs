//! Which voter a learner replaces, and when: a pure decision of the leader, by the rules that every member verifies.

use std::collections::BTreeMap;

use althing_protocol::PublicKey;
use althing_protocol::group::{Command, Replace};

use super::group::Group;
use super::group::owners::may_take_the_place;

/// After how long without a word the leader says that a voter is silent.
pub const SILENT_MS: u64 = 10_000;
/// How lately a learner must have been heard to take the place of a voter.
const HEARD_MS: u64 = 5_000;

/// What the leader knows of another member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// For how long it was not heard.
    pub silence_ms: u64,
    /// Whether it has almost the whole log.
    pub is_current: bool,
}

/// What the leader says next about voters that it does not hear; `now_ms` is its time.
#[must_use]
pub fn next(state: &Group, leader: PublicKey, seen: &BTreeMap<PublicKey, Seen>, now_ms: u64) -> Option<Command> {
    let after_ms = state.charter()?.policy.replaces_after_ms()?;
    let members = state.members();
    let is_silent = |node: &PublicKey| seen.get(node).is_none_or(|seen| seen.silence_ms >= SILENT_MS);
    let voters = members.voters().iter().filter(|voter| **voter != leader && is_silent(voter));
    let is_due = |since_ms: u64| now_ms >= since_ms.saturating_add(after_ms);
    for voter in voters {
        // Without a learner nothing can be done about it.
        let Some(learner) = successor(state, *voter, seen) else { continue };
        match members.silent_since(voter) {
            None => return Some(Command::Silent(*voter)),
            Some(since_ms) if is_due(since_ms) => return Some(Command::Replace(Replace { voter: *voter, learner })),
            Some(_) => {}
        }
    }
    None
}

/// The learner that votes in the place of `voter`: one of the same owner first, so that the votes of owners stay (and no other
/// where several owners must sign), then the one that joined first.
fn successor(state: &Group, voter: PublicKey, seen: &BTreeMap<PublicKey, Seen>) -> Option<PublicKey> {
    let members = state.members();
    let owner = members.get(&voter).map(|member| member.owner);
    let is_ready = |node: &PublicKey| {
        let is_there = seen.get(node).is_some_and(|seen| seen.silence_ms < HEARD_MS && seen.is_current);
        let learns = !members.voters().contains(node) && members.silent_since(node).is_none();
        is_there && learns && may_take_the_place(state, &voter, node)
    };
    let ready = members.iter().filter(|(node, _)| is_ready(node));
    ready.min_by_key(|(_, member)| (Some(member.owner) != owner, member.order)).map(|(node, _)| *node)
}

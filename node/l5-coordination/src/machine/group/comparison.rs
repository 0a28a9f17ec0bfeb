//! Whether the members have the same rules and the same state.
//!
//! Members of two builds may execute one log to different states, and a member may have been sent a state that is not the
//! group's. Therefore each ten minutes of the group's time begin with a mark: before the entry that begins them each member
//! takes the digest of its state, and declares it in the log beside the version of the rules that it knows. By what entry a
//! mark is taken follows from the times of entries alone, which all members have, whatever they made of them.
//!
//! The marks of a member are its own: they are not in the digest, and no rule reads them. So it need not take those of a time
//! that is long over, when it executes its log again.

use althing_protocol::group::{Declaration, RULES, StateMark};
use althing_protocol::{Digest, PublicKey};

use super::Group;
use crate::machine::members::{MARKS_KEPT, older};
use crate::machine::outcome::Refusal;
use crate::machine::rows::Row;
use crate::machine::workflow::FlowRow;

/// Between two marks, milliseconds of the group's time.
pub const MARK_MS: u64 = 10 * 60 * 1_000;

/// What a member's state is, beside the one here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// It declared none that is kept here.
    Unknown,
    /// It was the same when it was marked last.
    Same,
    /// It was another one.
    Differs,
}

/// The version of the rules by which the log is executed: the highest that all members declared to know. It never falls.
#[must_use]
pub fn rules(group: &Group) -> u32 {
    group.rules
}

/// The last mark of the state here.
#[must_use]
pub fn last_mark(group: &Group) -> Option<StateMark> {
    group.marks.last().copied()
}

/// Whether a member had the same state as this one.
#[must_use]
pub fn agreement(group: &Group, node: &PublicKey) -> Agreement {
    let declared = group.members().get(node).and_then(|member| member.mark);
    let ours = declared.and_then(|mark| group.marks.iter().find(|ours| ours.at == mark.at));
    match (declared, ours) {
        (Some(theirs), Some(ours)) if theirs == *ours => Agreement::Same,
        (Some(_), Some(_)) => Agreement::Differs,
        _ => Agreement::Unknown,
    }
}

/// The members that had another state. If they are most of them, it is this member that is alone with its own.
#[must_use]
pub fn differing(group: &Group) -> Vec<PublicKey> {
    let nodes = group.members().iter().map(|(node, _)| *node);
    nodes.filter(|node| agreement(group, node) == Agreement::Differs).collect()
}

/// The digest of all that the rules decide: of the rows, but for the marks themselves, and for texts that may differ.
#[must_use]
pub fn digest(group: &Group) -> Digest {
    group.each_row().fold([0; 32], |before, row| {
        let mut bytes = before.to_vec();
        minicbor::encode(decided(row), &mut bytes).expect("writing to a vector cannot fail");
        althing_protocol::digest(&bytes)
    })
}

/// The mark of the state before an entry of that time, if the entry begins another part of the group's time. It may take
/// most of a second.
#[must_use]
pub fn mark_before(group: &Group, at_ms: u64) -> Option<StateMark> {
    let at = at_ms / MARK_MS;
    let is_due = at > group.now_ms / MARK_MS && group.charter.is_some();
    is_due.then(|| StateMark { at, digest: digest(group) })
}

/// Keeps a mark, which was made of this state.
pub fn keep_mark(group: &mut Group, mark: StateMark) {
    group.marks.push(mark);
    let surplus = group.marks.len().saturating_sub(MARKS_KEPT);
    group.marks.drain(..surplus);
}

/// Whether this build knows the rules by which the log is executed. By those that it knows it would make another state of
/// it, and lead by that.
///
/// # Errors
/// What is to be done.
pub fn check_rules(group: &Group) -> Result<(), String> {
    if group.rules > RULES { Err(older(group.rules)) } else { Ok(()) }
}

/// A member declares which rules it knows, and what its state was. The outcome is the version by which the log is executed
/// from here on.
pub(super) fn declare(group: &mut Group, node: PublicKey, declaration: Declaration) -> Result<Option<u64>, Refusal> {
    if declaration.rules < group.rules {
        return Err(Refusal::Invalid(older(group.rules)));
    }
    group.members.declare(node, declaration)?;
    use_rules(group);
    Ok(Some(u64::from(group.rules)))
}

/// Goes over to the rules that all members know by now.
pub(super) fn use_rules(group: &mut Group) {
    group.rules = group.rules.max(group.members.known_rules());
}

/// A row without what members of one state may have different.
fn decided(row: Row) -> Row {
    match row {
        Row::Head(mut head) => {
            head.marks.clear();
            Row::Head(head)
        }
        Row::Flow(FlowRow::Step(run, mut step)) => {
            if let Some(why) = &mut step.why {
                why.clear();
            }
            Row::Flow(FlowRow::Step(run, step))
        }
        row => row,
    }
}

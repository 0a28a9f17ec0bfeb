//! What the policy of a group's charter leaves to its owners.

use althing_protocol::group::{Author, Charter, Rule};

use super::super::outcome::Refusal;
use super::Group;

/// Whether the author may write values.
pub(super) fn write(group: &Group, author: Author) -> Result<(), Refusal> {
    let charter = group.founded()?;
    permit(group, author, charter.policy.write, || owners_alone(charter, author, "write its values", "--write"))
}

/// Whether the author may give the group tasks, workflows and schedules.
pub(super) fn assign(group: &Group, author: Author) -> Result<(), Refusal> {
    let charter = group.founded()?;
    permit(group, author, charter.policy.assigners(), || owners_alone(charter, author, "give it work", "--assign"))
}

/// Whether an author may do what the policy leaves to these. An owner is one as the publisher that signs: a node of it does not
/// act for it by itself.
fn permit(group: &Group, author: Author, rule: Rule, why: impl FnOnce() -> String) -> Result<(), Refusal> {
    if rule == Rule::Members || group.is_owner(author) { Ok(()) } else { Err(Refusal::NotPermitted(why())) }
}

/// Why the author may not do it, and how it comes to be done.
fn owners_alone(charter: &Charter, author: Author, what: &str, option: &str) -> String {
    let name = &charter.name;
    format!(
        "only owners of {name} {what}, and {author} is none: do it on a node of an owner, or have the owners permit it \
         (`althing group amend {name} {option} members`)"
    )
}

//! What the policy of a group's charter leaves to its owners. Under which clause of it a command falls is told here alone:
//! members go by that when they execute the command, and a node when it chooses in whose name it signs it.

use althing_protocol::group::{Author, Command, Policy, Rule};

use super::super::outcome::Refusal;
use super::Group;

/// What a policy says of some commands.
struct Clause {
    /// Who may give them.
    rule: fn(&Policy) -> Rule,
    /// What is done by them, for people: `only owners of the group …`.
    what: &'static str,
    /// The option by which the owners change the rule.
    option: &'static str,
}

const WRITE: Clause = Clause { rule: |policy| policy.write, what: "write its values", option: "--write" };
const ASSIGN: Clause = Clause { rule: Policy::assigners, what: "give it work", option: "--assign" };

/// The clause under which a command falls; none where the policy says nothing of it.
fn clause(command: &Command) -> Option<Clause> {
    match command {
        Command::Set(_) | Command::Remove(_) => Some(WRITE),
        Command::Submit(_)
        | Command::Define(_)
        | Command::RunWorkflow(_)
        | Command::Approve(_)
        | Command::Schedule(_) => Some(ASSIGN),
        _ => None,
    }
}

/// Whether the policy lets an author give a command. An owner is one as the publisher that signs: a node of it does not act
/// for it by itself. Who is refused is told how it comes to be done.
pub(super) fn check(group: &Group, author: Author, command: &Command) -> Result<(), Refusal> {
    let Some(Clause { rule, what, option }) = clause(command) else { return Ok(()) };
    let charter = group.founded()?;
    if rule(&charter.policy) == Rule::Members || group.is_owner(author) {
        return Ok(());
    }
    let name = &charter.name;
    Err(Refusal::NotPermitted(format!(
        "only owners of {name} {what}, and {author} is none: do it on a node of an owner, or have the owners permit it \
         (`althing group amend {name} {option} members`)"
    )))
}

/// Whether a policy leaves a command to the owners.
pub(crate) fn is_for_owners(policy: &Policy, command: &Command) -> bool {
    clause(command).is_some_and(|clause| (clause.rule)(policy) == Rule::Owners)
}

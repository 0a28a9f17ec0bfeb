//! Which batches are executed.

use althing_protocol::group::{Author, Batch, Command, Outline};
use althing_protocol::{PublicKey, PublisherId};

use super::{Group, comparison};
use crate::machine::outcome::Refusal;

/// Whether a batch is worth verifying, by what it says of itself: a stranger brings what makes it a member, and nothing
/// else.
///
/// # Errors
/// Why it would be refused.
pub fn sift(group: &Group, outline: &Outline) -> Result<(), Refusal> {
    check_author(group, outline.epoch, outline.author, outline.signer, outline.introduces())
}

/// Whether a batch would be executed now, apart from its turn.
///
/// # Errors
/// Why not.
pub fn check(group: &Group, batch: &Batch, signer: PublicKey) -> Result<(), Refusal> {
    check_known(group, &batch.commands)?;
    check_signed(group, batch, signer)
}

/// Whether commands belong to the rules by which the group executes its log. A member that knows no others cannot read a batch
/// with later ones, so that nobody executes one.
///
/// # Errors
/// They belong to later rules: which, and what is to be done.
pub fn check_known(group: &Group, commands: &[Command]) -> Result<(), Refusal> {
    let (used, needed) = (comparison::rules(group), commands.iter().map(Command::rules).max());
    match needed.filter(|needed| *needed > used) {
        None => Ok(()),
        Some(needed) => Err(Refusal::Invalid(format!(
            "they belong to version {needed} of the rules, and the group uses version {used} until each of its members says that \
             it knows a later one; update the nodes of those that do not"
        ))),
    }
}

fn check_signed(group: &Group, batch: &Batch, signer: PublicKey) -> Result<(), Refusal> {
    let alone = |command: &Command| matches!(command, Command::Found(_) | Command::Join(_));
    let introduces = batch.commands.iter().any(alone);
    if introduces && batch.commands.len() != 1 {
        return Err(Refusal::Invalid("a founding and a join are alone in their batch".to_owned()));
    }
    check_author(group, batch.epoch, batch.author, signer, introduces)?;
    match batch.author {
        Author::Node(_) if !introduces => Ok(()),
        Author::Node(_) if group.sessions.has(batch.author, batch.session, batch.sequence) => Ok(()),
        Author::Node(node) => check_introduction(group, &batch.commands[0], node),
        Author::Publisher(publisher) => {
            let unknown = || Refusal::Author(format!("the group does not know the publisher {publisher}"));
            let log = group.logs.get(&publisher).ok_or_else(unknown)?;
            log.accepts(signer, group.now_ms).map_err(|error| Refusal::Author(error.to_string()))
        }
    }
}

/// Whether the group hears an author in this epoch, by the key that is said to have signed.
fn check_author(group: &Group, epoch: u64, author: Author, signer: PublicKey, introduces: bool) -> Result<(), Refusal> {
    if group.dissolution.is_some() {
        return Err(Refusal::Dissolved);
    }
    if epoch != group.epoch {
        return Err(Refusal::Epoch { signed: epoch, current: group.epoch });
    }
    match author {
        Author::Node(node) if node != signer => Err(Refusal::Author(format!("{signer} signed for {node}"))),
        Author::Node(node) if !introduces && group.members.get(&node).is_none() => Err(Refusal::NotAMember(node)),
        // Earlier owners are known too, but not obeyed.
        Author::Publisher(publisher) if !is_heard(group, publisher) => {
            Err(Refusal::NotPermitted(format!("{author} owns neither the group nor one of its members")))
        }
        Author::Node(_) | Author::Publisher(_) => Ok(()),
    }
}

/// Whether a founding or a join would succeed, as far as its invitation goes: strangers must not fill the log.
fn check_introduction(group: &Group, command: &Command, node: PublicKey) -> Result<(), Refusal> {
    match command {
        Command::Found(_) if group.charter.is_some() => Err(Refusal::Charter),
        Command::Join(join) => group.invited(join, node).map(drop),
        _ => Ok(()),
    }
}

/// Whether `publisher` is an owner of the group, or of one of its members.
pub(super) fn is_heard(group: &Group, publisher: PublisherId) -> bool {
    group.owns(publisher) || group.members.owns(&publisher)
}

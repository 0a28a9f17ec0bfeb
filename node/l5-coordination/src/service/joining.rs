//! Joins groups by their tickets.

use std::sync::Arc;

use althing_protocol::group::{Author, Command, GroupId, Join, RULES};

use super::member::Member;
use super::record::Record;
use super::submit::Sending;
use super::{Groups, events, only, owners};
use crate::error::GroupError;
use crate::machine::outcome::Refusal;
use crate::ticket::{Contact, Ticket};

/// See [`Groups::join`].
pub(super) async fn join(groups: &Groups, ticket: &Ticket) -> Result<GroupId, GroupError> {
    let shared = &groups.shared;
    let (id, here) = (ticket.group, shared.here());
    if ticket.network != shared.config.network {
        let (theirs, ours) = (ticket.network.clone(), shared.config.network.clone());
        return Err(GroupError::Network { theirs, here: ours });
    }
    let invitation = ticket.invitation()?;
    if invitation.node != here {
        return Err(GroupError::ForAnother { invited: invitation.node, here });
    }
    let owner = (shared.owner)();
    let proof = owner.proof.clone().ok_or(GroupError::NoOwner("it was withdrawn"))?;
    let sponsors = ticket.contacts.iter().map(|contact| contact.node).filter(|node| *node != here).collect();
    let signed = owners::countersigned(groups, ticket)?;
    let member = groups.enter(id, Record::guest(&ticket.name, sponsors, &invitation)).await?;
    let (log, addresses) = (events(&owner.log), shared.addresses());
    let (owner, rules) = (proof.as_ref().clone(), Some(RULES));
    let join = Join { invitation: signed, owner, log, addresses, rules };
    match ask_to_join(groups, &member, &ticket.contacts, join).await {
        Ok(()) => Ok(id),
        // It may have been executed: the replica waits for the leader to send it the state.
        Err(error @ GroupError::NoAnswer { .. }) => Err(error),
        Err(error) => {
            // Whoever was refused has no part in it.
            super::discard(groups, &member).await?;
            Err(error)
        }
    }
}

/// Asks members to admit this node, one after the other, and all of them for the same admission.
async fn ask_to_join(
    groups: &Groups,
    member: &Arc<Member>,
    contacts: &[Contact],
    join: Join,
) -> Result<(), GroupError> {
    let shared = &groups.shared;
    let (author, command) = (Author::Node(shared.here()), Command::Join(Box::new(join)));
    let mut sending = Sending::new(member, author, &shared.key, 0, vec![command]);
    let mut last = GroupError::Ticket("it names no member".to_owned());
    for contact in contacts {
        shared.reach(contact.node, contact.addresses.clone()).await;
        let sent = groups.deliver(member, &mut sending, Some(contact.node)).await;
        match sent.and_then(only) {
            // An earlier attempt was executed, though its answer was lost: only an invitation that is valid gets so far.
            Ok(_) | Err(GroupError::OutcomeUnknown) => return Ok(()),
            Err(error @ GroupError::NoAnswer { .. }) => last = error,
            // What another one was sent before may have been executed. Nothing is forgotten here, since nobody can tell.
            Err(GroupError::Refused(Refusal::SessionEnded | Refusal::AlreadyMember(_)))
                if matches!(last, GroupError::NoAnswer { .. }) =>
            {
                return Err(last);
            }
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

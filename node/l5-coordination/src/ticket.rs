//! Tickets: an invitation, with what the invited node needs to find the group. A text, so that it can be sent by any means.

use althing_protocol::group::{Endorsed, GroupId, Invitation};
use althing_protocol::limits::{AGENT_NAME_MAX, GROUP_OWNERS_MAX};
use althing_protocol::{PublicKey, PublisherId, cbor};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use minicbor::{Decode, Encode};

use crate::error::GroupError;

/// What a ticket begins with.
const PREFIX: &str = "althing-group-";
const TICKET_BYTES_MAX: usize = 16 << 10;
/// Members that a ticket names.
pub const CONTACTS_MAX: usize = 8;
/// Addresses of each.
pub const ADDRESSES_MAX: usize = 8;

/// What an invited node is handed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Ticket {
    /// The group's network.
    #[n(0)]
    pub network: String,
    /// The group.
    #[n(1)]
    pub group: GroupId,
    /// Its name, for people.
    #[n(2)]
    pub name: String,
    /// The signed invitation.
    #[n(3)]
    pub invitation: Endorsed,
    /// Members, of whom one is asked.
    #[n(4)]
    pub contacts: Vec<Contact>,
    /// Owners of the group, of whom one must sign it still: the joining node does, if it is one's.
    #[n(5)]
    pub asked: Vec<PublisherId>,
}

/// A member, and where it was last seen.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Contact {
    /// Its key.
    #[n(0)]
    pub node: PublicKey,
    /// Its addresses.
    #[n(1)]
    pub addresses: Vec<String>,
}

impl Ticket {
    /// The text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let bytes = minicbor::to_vec(self).expect("writing to a vector cannot fail");
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The ticket in a text.
    ///
    /// # Errors
    /// [`GroupError::Ticket`].
    pub fn read(text: &str) -> Result<Ticket, GroupError> {
        let wrong = |why: &dyn std::fmt::Display| GroupError::Ticket(why.to_string());
        let begins = || wrong(&format!("it does not begin with {PREFIX}"));
        // What is written below it is for people.
        let text = text.trim().lines().next().unwrap_or_default().trim().strip_prefix(PREFIX).ok_or_else(begins)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong(&"it is cut off or changed"))?;
        cbor::check(&bytes, TICKET_BYTES_MAX).map_err(|error| wrong(&error))?;
        let ticket: Ticket = minicbor::decode(&bytes).map_err(|error| wrong(&error))?;
        let crowded = |contact: &Contact| contact.addresses.len() > ADDRESSES_MAX;
        if ticket.name.len() > AGENT_NAME_MAX
            || ticket.asked.len() > GROUP_OWNERS_MAX
            || ticket.contacts.len() > CONTACTS_MAX
            || ticket.contacts.iter().any(crowded)
        {
            return Err(wrong(&"it names too many members or addresses, or its name is too long"));
        }
        Ok(ticket)
    }

    /// The invitation in it, whose signatures the group checks.
    ///
    /// # Errors
    /// [`GroupError::Endorsement`].
    pub fn invitation(&self) -> Result<Invitation, GroupError> {
        Ok(self.invitation.read(&self.network, &self.group.to_string())?)
    }
}

//! What a node tells a registry of itself: where it can be dialled, and which agents it may host.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::cbor::{self, CborError};
use crate::limits::{PRESENCE_BYTES_MAX, PRESENCE_GRANTS_MAX};
use crate::object::{self, Authored, Grant, ObjectError};
use crate::record::Contact;
use crate::{AgentId, PublicKey};

/// What a node tells a registry of itself. It is no entry of the log: a registry forgets it when it is not renewed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Presence {
    /// The node's signed contact.
    #[n(0)]
    pub contact: ByteVec,
    /// The publishers' signed grants for that node.
    #[n(1)]
    pub grants: Vec<ByteVec>,
}

/// A presence whose contact was verified. The keys of the grants are not: they are those of publishers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedPresence {
    /// The contact, signed by its node.
    pub contact: Authored<Contact>,
    /// Grants for that node, in force.
    pub grants: Vec<Authored<Grant>>,
}

/// Why a presence is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PresenceError {
    /// Not strict CBOR.
    #[error("the presence is not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the presence has the wrong shape: {0}")]
    Shape(String),
    /// The contact is invalid.
    #[error("contact: {0}")]
    Contact(ObjectError),
    /// A grant is invalid.
    #[error("grant {at}: {error}")]
    Grant {
        /// Its number, from 0.
        at: usize,
        /// Why.
        error: ObjectError,
    },
    /// A grant is for another node.
    #[error("grant {at} is for {node}, and the contact is of another node")]
    OtherNode {
        /// Its number, from 0.
        at: usize,
        /// The node that it is for.
        node: PublicKey,
    },
}

impl Presence {
    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads what a node sent; nothing in it is verified yet.
    ///
    /// # Errors
    /// [`PresenceError::Cbor`] or [`PresenceError::Shape`].
    pub fn decode(bytes: &[u8]) -> Result<Presence, PresenceError> {
        cbor::check(bytes, PRESENCE_BYTES_MAX)?;
        let read: Presence = minicbor::decode(bytes).map_err(|error| PresenceError::Shape(error.to_string()))?;
        if read.grants.len() > PRESENCE_GRANTS_MAX {
            return Err(PresenceError::Shape(format!("at most {PRESENCE_GRANTS_MAX} grants")));
        }
        if read.encode() != bytes {
            return Err(PresenceError::Shape("members that this version does not know".to_owned()));
        }
        Ok(read)
    }

    /// The node of which its contact says that it is. Verifies nothing.
    #[must_use]
    pub fn claimed_node(&self) -> Option<PublicKey> {
        object::claimed_member(&self.contact, 1)?.decode().ok()
    }

    /// The agents of which its grants say that they are. Verifies nothing.
    pub fn claimed_agents(&self) -> impl Iterator<Item = AgentId> {
        self.grants.iter().filter_map(|grant| claimed_agent(grant))
    }

    /// Verifies that the node itself signed the contact, and that all grants are for it.
    ///
    /// # Errors
    /// See [`PresenceError`].
    pub fn verify(&self, network: &str, now_ms: u64) -> Result<VerifiedPresence, PresenceError> {
        self.verify_those(network, now_ms, |_| true)
    }

    /// [`Presence::verify`] without the grants that say they are for other agents than the wanted ones: nothing of them is
    /// verified.
    ///
    /// # Errors
    /// See [`PresenceError`].
    pub fn verify_of(
        &self,
        network: &str,
        now_ms: u64,
        is_wanted: impl Fn(&AgentId) -> bool,
    ) -> Result<VerifiedPresence, PresenceError> {
        self.verify_those(network, now_ms, |grant| claimed_agent(grant).is_some_and(|agent| is_wanted(&agent)))
    }

    fn verify_those(
        &self,
        network: &str,
        now_ms: u64,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<VerifiedPresence, PresenceError> {
        let contact: Authored<Contact> = object::open(&self.contact, network, "").map_err(PresenceError::Contact)?;
        contact.in_force(now_ms).map_err(PresenceError::Contact)?;
        let mut grants = Vec::with_capacity(self.grants.len());
        for (at, bytes) in self.grants.iter().enumerate().filter(|(_, grant)| is_wanted(grant)) {
            let refused = |error| PresenceError::Grant { at, error };
            let grant: Authored<Grant> = object::open(bytes, network, "").map_err(refused)?;
            grant.body.in_force(now_ms).map_err(refused)?;
            if grant.body.node != contact.body.node {
                return Err(PresenceError::OtherNode { at, node: grant.body.node });
            }
            grants.push(grant);
        }
        Ok(VerifiedPresence { contact, grants })
    }
}

/// The agent for which a grant says that it is.
fn claimed_agent(grant: &[u8]) -> Option<AgentId> {
    object::claimed_member(grant, 1)?.decode().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PublisherId, SecretKey};

    const NOW: u64 = 1_800_000_000_000;

    fn key(seed: u8) -> SecretKey {
        SecretKey::from_seed(&[seed; 32])
    }

    fn contact(of: u8, by: u8) -> ByteVec {
        let body = Contact::new(key(of).public(), 1, NOW, NOW + 60_000, vec!["/ip4/192.0.2.1/tcp/1".to_owned()]);
        object::sign(body, "", "", &key(by)).expect("a contact").bytes.into()
    }

    fn grant(node: u8) -> ByteVec {
        let agent = AgentId::new(PublisherId::from_digest([7; 32]), "echo").expect("an id");
        let body = Grant::new(agent, key(node).public(), NOW - 1_000, NOW + 60_000);
        object::sign(body, "", "", &key(9)).expect("a grant").bytes.into()
    }

    #[test]
    fn a_node_tells_only_of_itself() {
        let good = Presence { contact: contact(1, 1), grants: vec![grant(1)] };
        assert_eq!(Presence::decode(&good.encode()), Ok(good.clone()));
        let verified = good.verify("", NOW).expect("it holds");
        assert_eq!((verified.contact.body.node, verified.grants.len()), (key(1).public(), 1));
        let stolen = Presence { contact: contact(1, 2), ..good.clone() };
        assert!(matches!(stolen.verify("", NOW), Err(PresenceError::Contact(ObjectError::WrongKey { .. }))));
        let others = Presence { grants: vec![grant(1), grant(2)], ..good.clone() };
        assert!(matches!(others.verify("", NOW), Err(PresenceError::OtherNode { at: 1, .. })));
        assert!(matches!(good.verify("", NOW + 120_000), Err(PresenceError::Contact(ObjectError::Expired { .. }))));
        assert!(matches!(good.verify("other", NOW), Err(PresenceError::Contact(_))));
        assert_eq!(good.claimed_node(), Some(key(1).public()));
        assert_eq!(good.claimed_agents().map(|agent| agent.name().to_owned()).collect::<Vec<_>>(), ["echo"]);
        let many = Presence { grants: vec![ByteVec::from(vec![0]); PRESENCE_GRANTS_MAX + 1], ..good };
        assert!(matches!(Presence::decode(&many.encode()), Err(PresenceError::Shape(_))));
    }

    /// SR-7
    #[test]
    fn nothing_is_verified_of_grants_that_nobody_wants() {
        let forged = ByteVec::from({
            let mut bytes = grant(1).to_vec();
            *bytes.last_mut().expect("a signature") ^= 1;
            bytes
        });
        let presence = Presence { contact: contact(1, 1), grants: vec![forged, ByteVec::from(vec![0])] };
        assert!(matches!(presence.verify("", NOW), Err(PresenceError::Grant { at: 0, .. })));
        let wanted = presence.verify_of("", NOW, |agent| agent.name() == "echo");
        assert!(matches!(wanted, Err(PresenceError::Grant { at: 0, .. })));
        let verified = presence.verify_of("", NOW, |agent| agent.name() == "other").expect("none is looked at");
        assert!(verified.grants.is_empty());
    }
}

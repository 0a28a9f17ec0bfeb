//! What an owner orders: that an agent stops or may run again, and which policy set holds on the owner's nodes.

use minicbor::{Decode, Encode};

use super::{Kind, ObjectError, Statement};
use crate::Digest;
use crate::identity::{AgentId, PublisherId};

/// What is ordered of an agent. The stricter word is the greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum OrderWord {
    /// It may run and be called.
    #[n(0)]
    Lift,
    /// The owner's nodes neither run nor call it.
    #[n(1)]
    Stop,
    /// The same, and nobody calls it.
    #[n(2)]
    Revoke,
}

/// What an order is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum OrderSubject {
    /// One agent of the owner, by its name.
    #[n(0)]
    Agent(#[n(0)] String, #[n(1)] OrderWord),
    /// All agents of the owner.
    #[n(1)]
    AllAgents(#[n(0)] OrderWord),
    /// The policy set of the owner's nodes, by the digest of its text.
    #[n(2)]
    PolicySet(#[cbor(n(0), with = "minicbor::bytes")] Digest),
}

/// An order, to be signed by the owner's current key, with an empty network and scope.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct OwnerOrder {
    #[n(0)]
    kind: Kind,
    /// Whose agents or nodes it is about; a key of theirs signs it.
    #[n(1)]
    pub publisher: PublisherId,
    /// What it is about.
    #[n(2)]
    pub subject: OrderSubject,
    /// Of two orders about the same thing the one with the lower serial is older. Unix milliseconds of when it was given, or one
    /// more than the one before.
    #[n(3)]
    pub serial: u64,
}

impl OwnerOrder {
    /// Not signed yet.
    #[must_use]
    pub fn new(publisher: PublisherId, subject: OrderSubject, serial: u64) -> OwnerOrder {
        OwnerOrder { kind: Kind::OwnerOrder, publisher, subject, serial }
    }

    /// Whether whoever uses the owner's agents is told of it, and not the owner's nodes alone.
    #[must_use]
    pub fn is_public(&self) -> bool {
        match self.subject {
            OrderSubject::Agent(_, word) | OrderSubject::AllAgents(word) => word != OrderWord::Stop,
            OrderSubject::PolicySet(_) => false,
        }
    }
}

impl Statement for OwnerOrder {
    const KIND: Kind = Kind::OwnerOrder;
    fn kind(&self) -> Kind {
        self.kind
    }
    fn check(&self) -> Result<(), ObjectError> {
        if self.serial == 0 {
            return Err(ObjectError::Shape("the first order has a serial above 0".to_owned()));
        }
        match &self.subject {
            OrderSubject::Agent(name, _) => {
                AgentId::new(self.publisher, name).map(drop).map_err(|error| ObjectError::Shape(error.to_string()))
            }
            OrderSubject::AllAgents(_) | OrderSubject::PolicySet(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::SecretKey;
    use crate::object;

    #[test]
    fn an_order_is_read_as_it_was_signed_and_a_bad_one_is_not_signed() {
        // P-214.
        let (key, publisher) = (SecretKey::from_seed(&[1; 32]), PublisherId::from_digest([2; 32]));
        let subjects = [
            (OrderSubject::Agent("echo".to_owned(), OrderWord::Revoke), true),
            (OrderSubject::Agent("echo".to_owned(), OrderWord::Stop), false),
            (OrderSubject::AllAgents(OrderWord::Lift), true),
            (OrderSubject::PolicySet([7; 32]), false),
        ];
        for (subject, is_public) in subjects {
            let order = OwnerOrder::new(publisher, subject, 1);
            assert_eq!(order.is_public(), is_public, "{order:?}");
            let signed = object::sign(order.clone(), "", "", &key).expect("an order");
            assert_eq!(object::open::<OwnerOrder>(&signed.bytes, "", "").expect("the same").body, order);
            assert!(object::open::<OwnerOrder>(&signed.bytes, "net", "").is_err(), "of no network");
        }
        for (subject, serial) in
            [(OrderSubject::Agent("No Name".to_owned(), OrderWord::Stop), 1), (OrderSubject::PolicySet([7; 32]), 0)]
        {
            let refused = object::sign(OwnerOrder::new(publisher, subject, serial), "", "", &key);
            assert!(matches!(refused, Err(ObjectError::Shape(_))), "{refused:?}");
        }
    }
}

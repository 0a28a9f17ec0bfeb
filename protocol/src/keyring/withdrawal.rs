//! Withdrawals: revocations of grants and memberships.

use minicbor::{Decode, Encode};

use crate::identity::{PublicKey, PublisherId};
use crate::limits::GRANT_LIFE_MAX_MS;
use crate::object::{Kind, Statement};

/// A publisher revokes the earlier grants and memberships of a node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Withdrawal {
    #[n(0)]
    kind: Kind,
    /// The publisher.
    #[n(1)]
    pub publisher: PublisherId,
    /// The node.
    #[n(2)]
    pub node: PublicKey,
    /// Grants and memberships that begin at this time or earlier are withdrawn, Unix milliseconds.
    #[n(3)]
    pub until_ms: u64,
}

impl Withdrawal {
    /// A withdrawal to be signed by the publisher's current key, with an empty network and scope.
    #[must_use]
    pub fn new(publisher: PublisherId, node: PublicKey, until_ms: u64) -> Withdrawal {
        Withdrawal { kind: Kind::Withdrawal, publisher, node, until_ms }
    }

    /// Whether it can still apply to anything: grants and memberships live a day at most.
    #[must_use]
    pub fn matters(&self, now_ms: u64) -> bool {
        now_ms <= self.until_ms.saturating_add(GRANT_LIFE_MAX_MS)
    }
}

impl Statement for Withdrawal {
    const KIND: Kind = Kind::Withdrawal;
    fn kind(&self) -> Kind {
        self.kind
    }
}

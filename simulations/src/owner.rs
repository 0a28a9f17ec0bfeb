//! Owners of simulated nodes, with the keys that they take later.

use althing_protocol::{KeyLog, PublisherId, SecretKey, keylog};

use crate::NOW_MS;

/// An owner of agents and nodes.
#[derive(Clone)]
pub struct Owner {
    /// Its key log.
    pub log: KeyLog,
    /// Its current key.
    pub key: SecretKey,
}

/// The numbers of owners' next keys begin here.
const NEXT: u32 = 800_000;
/// A day: longer than any clock skew.
const DAY_MS: u64 = 86_400_000;

impl Owner {
    /// An owner with its first key, a day old.
    #[must_use]
    pub fn new(key: SecretKey) -> Owner {
        let next = [crate::key(NEXT).public(), crate::key(NEXT + 1).public()];
        let event = keylog::inception(&key, next, NOW_MS - DAY_MS);
        Owner { log: KeyLog::verify(&[event.bytes]).expect("a key log"), key }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> PublisherId {
        self.log.publisher()
    }

    /// The same as the node takes it.
    pub(crate) fn to_node_owner(&self) -> althing_node::Owner {
        althing_node::Owner::new(self.key.clone(), self.log.clone())
    }

    /// The next key, to which the log commits.
    fn next(&self, later: u32) -> SecretKey {
        crate::key(NEXT + u32::try_from(self.log.len()).expect("a short log") - 1 + later)
    }

    /// The owner after a rotation to its next key.
    #[must_use]
    pub fn rotated(&self, now_ms: u64) -> Owner {
        let (key, after) = (self.next(0), self.next(2));
        Owner { log: self.log.rotate(&key, after.public(), now_ms, 0).expect("it may"), key }
    }

    /// Its log with a revocation.
    #[must_use]
    pub fn revocation(&self, now_ms: u64) -> KeyLog {
        self.log.revoke(&self.next(0), now_ms).expect("it may")
    }
}

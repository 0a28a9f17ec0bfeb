//! The key logs that a snapshot shows. Each may have 208 signatures, and they come before what proves that anybody needs them: so
//! each is kept as it came, and verified when the signature of its publisher is asked for, by a charter or an invitation of which
//! all before it was proven. Whoever makes publishers up has nothing verified.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use althing_protocol::{KeyLog, KeyLogError, PublisherId};
use minicbor::bytes::ByteVec;

use super::group::Group;

/// The events of a key log, as they came.
type Events = Vec<ByteVec>;

/// The key logs of a snapshot.
pub(super) struct ShownLogs {
    /// The publishers of which one is needed.
    needed: BTreeSet<PublisherId>,
    /// Those that were not verified yet.
    logs: BTreeMap<PublisherId, Events>,
}

/// Whose log it is; without its events' signatures, which prove nothing of that.
fn publisher_of(events: &Events) -> Result<PublisherId, String> {
    let first = events.first().ok_or("is a key log without events")?;
    Ok(PublisherId::from_digest(althing_protocol::digest(first)))
}

impl ShownLogs {
    /// None yet; only of these publishers are any taken.
    pub fn of(needed: BTreeSet<PublisherId>) -> ShownLogs {
        ShownLogs { needed, logs: BTreeMap::new() }
    }

    /// Of how many publishers a key log is needed.
    pub fn needed(&self) -> usize {
        self.needed.len()
    }

    /// Whether the key log of a publisher is needed.
    pub fn needs(&self, publisher: &PublisherId) -> bool {
        self.needed.contains(publisher)
    }

    /// Takes a key log.
    pub fn take(&mut self, events: Events) -> Result<(), String> {
        let publisher = publisher_of(&events)?;
        if !self.needs(&publisher) {
            return Err(format!("is a key log of {publisher}, which owns neither the group nor one of its members"));
        }
        match self.logs.insert(publisher, events) {
            None => Ok(()),
            Some(_) => Err(format!("is a second key log of {publisher}")),
        }
    }

    /// Verifies the logs of publishers, unless that was done, and lets the group know them. Those that there are not, nobody can
    /// have signed by.
    pub fn verify(&mut self, publishers: &[PublisherId], group: &mut Group) -> Result<(), String> {
        publishers.iter().try_for_each(|publisher| self.verify_one(*publisher, group))
    }

    fn verify_one(&mut self, publisher: PublisherId, group: &mut Group) -> Result<(), String> {
        let Some(events) = self.logs.remove(&publisher) else { return Ok(()) };
        let events: Vec<&[u8]> = events.iter().map(|event| event.as_slice()).collect();
        let wrong = |error: KeyLogError| format!("needs the key log of {publisher}, and that is invalid: {error}");
        group.logs.insert(publisher, Arc::new(KeyLog::verify(&events).map_err(wrong)?));
        Ok(())
    }

    /// Verifies all that are left, which charters and members need that were proven.
    pub fn finish(&mut self, group: &mut Group) -> Result<(), String> {
        let left: Vec<PublisherId> = self.logs.keys().copied().collect();
        self.verify(&left, group)
    }
}

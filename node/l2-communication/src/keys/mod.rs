//! Gossip of key logs and withdrawals (SPEC P-67 to P-70): this node asks each peer that connects for what it knows, and pushes
//! news to all connected peers, so that all reachable nodes refuse a revoked key.

mod compare;
mod receive;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::keyring::{Forgotten, Keyring, Origin, REFUSED_MAX, Row, Stored, Taken, Withdrawal};
use althing_protocol::{
    Authored, Digest, GroupId, KeyLog, KeyringError, PublicKey, PublisherId, VerifiedAgent, VerifiedOwner, object,
};

use crate::machine::key_news::{Forwarder, OriginRates};
use crate::watch;

pub(crate) use compare::run;
pub(crate) use receive::{Serving, ensure, note_owner, origin};

/// The stream protocol of key gossip.
pub const KEYS: &str = "/althing/keys/1";

/// The key logs and withdrawals that this node knows.
pub struct Keys {
    ring: Mutex<Keyring>,
    /// The publishers in use, by reason.
    uses: Mutex<Uses>,
    /// News that was not pushed to the peers yet.
    fresh: Mutex<BTreeSet<Digest>>,
    /// Refused logs, by their last events, and withdrawals: they are not asked for again.
    refused: Mutex<BTreeSet<Digest>>,
    /// The rate of verification for strangers, by origin.
    verifications: Mutex<OriginRates>,
    /// News to forward without storing it.
    forwarder: Mutex<Forwarder>,
    changed: watch::Sender<u64>,
    /// Rises when a publisher comes into use.
    wanted: watch::Sender<u64>,
}

#[derive(Default)]
struct Uses {
    /// The publishers of agents in the catalogue.
    listed: BTreeSet<PublisherId>,
    /// The owners that peers claim.
    owners: BTreeMap<PublicKey, PublisherId>,
    /// The owners of groups' members.
    members: BTreeMap<GroupId, BTreeSet<PublisherId>>,
}

impl Default for Keys {
    fn default() -> Keys {
        Keys {
            ring: Mutex::default(),
            uses: Mutex::default(),
            fresh: Mutex::default(),
            refused: Mutex::default(),
            verifications: Mutex::new(OriginRates::of_signatures()),
            forwarder: Mutex::default(),
            changed: watch::channel(0).0,
            wanted: watch::channel(0).0,
        }
    }
}

impl Keys {
    fn ring(&self) -> MutexGuard<'_, Keyring> {
        self.ring.lock().expect("no holder of the keyring panics")
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().expect("no holder of the uses panics")
    }

    fn fresh(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.fresh.lock().expect("no holder of the news panics")
    }

    fn refused(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.refused.lock().expect("no holder of the refusals panics")
    }

    /// The digests that peers need not send.
    fn known(&self) -> BTreeSet<Digest> {
        let mut known = self.ring().known();
        known.extend(self.refused().iter().copied());
        known
    }

    /// Wakes the pushing of news, if some was queued for forwarding.
    fn wake_forwarding(&self, queued: bool) {
        if queued {
            self.changed.send_modify(|version| *version += 1);
        }
    }

    fn note(&self, news: bool, name: Digest) -> bool {
        if news {
            self.fresh().insert(name);
            self.changed.send_modify(|version| *version += 1);
        }
        news
    }

    fn refuse(&self, name: Digest) {
        let mut refused = self.refused();
        if refused.len() >= REFUSED_MAX {
            // The reasons of old refusals may be gone.
            refused.clear();
        }
        refused.insert(name);
    }

    /// Reserves room for the key events of these publishers.
    pub fn watch(&self, publishers: impl IntoIterator<Item = PublisherId>) {
        let mut ring = self.ring();
        let before: BTreeSet<PublisherId> = ring.watched().map(|(publisher, _)| publisher).collect();
        ring.watch(publishers);
        let more = ring.watched().any(|(publisher, _)| !before.contains(&publisher));
        drop(ring);
        self.came_into_use(more);
    }

    /// Sets the publishers of agents in the catalogue, whose key events matter.
    pub fn set_listed(&self, publishers: BTreeSet<PublisherId>) {
        let mut uses = self.uses();
        uses.listed = publishers;
        self.apply(&uses);
    }

    /// Sets the owners of a group's members, who may withdraw them; none when this node has no part in it any more.
    pub fn set_members(&self, group: GroupId, owners: BTreeSet<PublisherId>) {
        let mut uses = self.uses();
        if uses.members.get(&group).cloned().unwrap_or_default() == owners {
            return;
        }
        if owners.is_empty() {
            uses.members.remove(&group);
        } else {
            uses.members.insert(group, owners);
        }
        self.apply(&uses);
    }

    /// A peer claims this owner.
    fn note_owner(&self, peer: PublicKey, owner: PublisherId) {
        let mut uses = self.uses();
        if uses.owners.insert(peer, owner) != Some(owner) {
            self.apply(&uses);
        }
    }

    /// A peer has disconnected.
    pub(crate) fn forget_peer(&self, peer: PublicKey) {
        let mut uses = self.uses();
        if uses.owners.remove(&peer).is_some() {
            self.apply(&uses);
        }
    }

    fn apply(&self, uses: &Uses) {
        let all =
            uses.listed.iter().chain(uses.owners.values()).chain(uses.members.values().flatten()).copied().collect();
        let more = self.ring().set_in_use(all);
        self.came_into_use(more);
        self.changed.send_modify(|version| *version += 1);
    }

    fn came_into_use(&self, more: bool) {
        if more {
            // News that was refused because its publisher was not in use may be wanted now.
            self.refused().clear();
            self.wanted.send_modify(|version| *version += 1);
        }
    }

    /// The watched publishers, with their logs where those have changed.
    #[must_use]
    pub fn watched(&self) -> Vec<(PublisherId, Option<Arc<KeyLog>>)> {
        self.ring().watched().map(|(publisher, log)| (publisher, log.cloned())).collect()
    }

    /// Whether something of a publisher matters here: it is watched, or in use.
    #[must_use]
    pub fn wants(&self, publisher: PublisherId) -> bool {
        self.ring().wants(publisher)
    }

    /// Takes a key log of this node's owner, of the DHT, or of the store, and pushes what is new in it to the peers.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn learn(&self, log: impl Into<Arc<KeyLog>>) -> Result<bool, KeyringError> {
        self.learn_from(log.into(), &Origin::default())
    }

    /// Takes a log that came with an agent: its publisher is in use until the next [`Keys::set_listed`].
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn learn_with_agent(&self, log: Arc<KeyLog>, origin: &Origin) -> Result<bool, KeyringError> {
        let more = self.ring().use_publisher(log.publisher());
        self.came_into_use(more);
        self.learn_from(log, origin)
    }

    fn learn_from(&self, log: Arc<KeyLog>, origin: &Origin) -> Result<bool, KeyringError> {
        let (name, publisher, revoked) = (log.head(), log.publisher(), log.revoked());
        let news = self.ring().learn(log, origin)?;
        if news {
            tracing::info!(%publisher, revoked, "a publisher has changed its keys");
        }
        Ok(self.note(news, name))
    }

    /// Takes a withdrawal of this node's own as it was signed, and tells the peers. `shown` is the log that it is judged by where none is
    /// known.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn withdraw(&self, bytes: &[u8], shown: Option<&Arc<KeyLog>>, now_ms: u64) -> Result<bool, KeyringError> {
        // Not under the lock: this is what takes time.
        let withdrawal = object::open::<Withdrawal>(bytes, "", "")?;
        let news = self.ring().withdraw(withdrawal, shown, &Origin::default(), now_ms)?;
        Ok(self.note(news, althing_protocol::digest(bytes)))
    }

    /// Takes a withdrawal that was kept before a restart, and was judged then.
    pub fn restore(&self, taken: Taken, now_ms: u64) {
        self.ring().restore(taken, now_ms);
    }

    /// Takes what was remembered of a publisher before a restart.
    pub fn recall(&self, forgotten: Forgotten) {
        self.ring().recall(forgotten);
    }

    /// The log of a publisher that has changed its keys, if it matters here.
    #[must_use]
    pub fn log(&self, publisher: PublisherId) -> Option<Arc<KeyLog>> {
        self.ring().log(publisher).cloned()
    }

    /// Is an agent, whose own evidence is valid, valid by the keys known here?
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn holds(&self, agent: &VerifiedAgent, now_ms: u64) -> Result<(), KeyringError> {
        self.ring().holds(agent, now_ms)
    }

    /// The owner of `node` by the proof that it showed.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn owns(&self, shown: &VerifiedOwner, node: PublicKey, now_ms: u64) -> Result<PublisherId, KeyringError> {
        self.ring().owns(shown, node, now_ms)
    }

    /// The withdrawal of `node` by `publisher`, if one is known.
    #[must_use]
    pub fn withdrawal(&self, publisher: PublisherId, node: PublicKey) -> Option<Arc<Authored<Withdrawal>>> {
        self.ring().withdrawal(publisher, node).map(|taken| taken.withdrawal.clone())
    }

    /// All stored logs and withdrawals.
    #[must_use]
    pub fn all(&self) -> (Vec<Arc<KeyLog>>, Vec<Taken>) {
        let ring = self.ring();
        (ring.logs().cloned().collect(), ring.withdrawals().cloned().collect())
    }

    /// Up to `max` rows that changed since the last call, for the store: new contents, or deletions.
    #[must_use]
    pub fn take_changed(&self, max: usize) -> Vec<(Row, Option<Stored>)> {
        self.ring().take_changed(max)
    }

    /// Marks rows as changed again, which could not be written.
    pub fn put_back(&self, rows: impl IntoIterator<Item = Row>) {
        self.ring().put_back(rows);
    }

    /// Rises with each change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn verifications(&self) -> MutexGuard<'_, OriginRates> {
        self.verifications.lock().expect("no holder of the rates panics")
    }

    fn forwarder(&self) -> MutexGuard<'_, Forwarder> {
        self.forwarder.lock().expect("no holder of the forwarder panics")
    }
}

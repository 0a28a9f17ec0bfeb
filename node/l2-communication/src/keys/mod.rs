//! What this node has heard of keys, and passes on (SPEC P-67 to P-70): each peer that connects is asked for what it
//! knows, and what is news goes to all who are connected, so that a revoked key is refused by all who can be reached.

mod compare;
mod receive;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::keyring::{Forgotten, Keyring, Origin, REFUSED_MAX, Row, Stored, Taken, Withdrawal};
use althing_protocol::{Digest, KeyLog, KeyringError, PublicKey, PublisherId, VerifiedAgent, VerifiedOwner, object};
use tokio::sync::watch;

use crate::machine::key_news::{OriginRates, Relay};

pub(crate) use compare::run;
pub(crate) use receive::{Serving, ensure, note_owner, origin};

/// The stream protocol on which nodes hear of keys.
pub const KEYS: &str = "/althing/keys/1";

/// What is known of keys.
pub struct Keys {
    ring: Mutex<Keyring>,
    /// Whose publishers are in use because of whom.
    uses: Mutex<Uses>,
    /// What was learned and not yet told to the peers.
    fresh: Mutex<BTreeSet<Digest>>,
    /// Logs, by their last events, and withdrawals that were not taken: they are not asked for again.
    refused: Mutex<BTreeSet<Digest>>,
    /// What strangers had verified, by where they come from.
    work: Mutex<OriginRates>,
    /// What is passed on without being kept.
    relay: Mutex<Relay>,
    changed: watch::Sender<u64>,
    /// Rises when a publisher comes into use that was not.
    wanted: watch::Sender<u64>,
}

#[derive(Default)]
struct Uses {
    /// Whose agents are listed here.
    listed: BTreeSet<PublisherId>,
    /// Whose nodes the peers say that they are.
    owners: BTreeMap<PublicKey, PublisherId>,
}

impl Default for Keys {
    fn default() -> Keys {
        Keys {
            ring: Mutex::default(),
            uses: Mutex::default(),
            fresh: Mutex::default(),
            refused: Mutex::default(),
            work: Mutex::new(OriginRates::of_signatures()),
            relay: Mutex::default(),
            changed: watch::Sender::new(0),
            wanted: watch::Sender::new(0),
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

    /// What peers need not tell.
    fn known(&self) -> BTreeSet<Digest> {
        let mut known = self.ring().known();
        known.extend(self.refused().iter().copied());
        known
    }

    /// What was taken to be passed on is told to the peers.
    fn pass_on(&self, taken: bool) {
        if taken {
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
            // There may be room for some of them by now.
            refused.clear();
        }
        refused.insert(name);
    }

    /// There is always room for what these publishers do with their keys.
    pub fn watch(&self, publishers: impl IntoIterator<Item = PublisherId>) {
        let mut ring = self.ring();
        let before: BTreeSet<PublisherId> = ring.watched().map(|(publisher, _)| publisher).collect();
        ring.watch(publishers);
        let more = ring.watched().any(|(publisher, _)| !before.contains(&publisher));
        drop(ring);
        self.came_into_use(more);
    }

    /// Agents of these publishers are listed here: what they do with their keys matters.
    pub fn set_listed(&self, publishers: BTreeSet<PublisherId>) {
        let mut uses = self.uses();
        uses.listed = publishers;
        self.apply(&uses);
    }

    /// The peer says that it is this owner's.
    fn note_owner(&self, peer: PublicKey, owner: PublisherId) {
        let mut uses = self.uses();
        if uses.owners.insert(peer, owner) != Some(owner) {
            self.apply(&uses);
        }
    }

    /// The peer is not connected any more.
    pub(crate) fn forget_peer(&self, peer: PublicKey) {
        let mut uses = self.uses();
        if uses.owners.remove(&peer).is_some() {
            self.apply(&uses);
        }
    }

    fn apply(&self, uses: &Uses) {
        let all = uses.listed.iter().chain(uses.owners.values()).copied().collect();
        let more = self.ring().set_in_use(all);
        self.came_into_use(more);
        self.changed.send_modify(|version| *version += 1);
    }

    fn came_into_use(&self, more: bool) {
        if more {
            // What was refused because nobody used it may be wanted now: it is asked for soon.
            self.refused().clear();
            self.wanted.send_modify(|version| *version += 1);
        }
    }

    /// Those publishers that are watched, and their logs where they have changed.
    #[must_use]
    pub fn watched(&self) -> Vec<(PublisherId, Option<Arc<KeyLog>>)> {
        self.ring().watched().map(|(publisher, log)| (publisher, log.cloned())).collect()
    }

    /// Takes a key log of this node's own, of the table, or of before a restart, and tells the peers what is new in it.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn learn(&self, log: impl Into<Arc<KeyLog>>) -> Result<bool, KeyringError> {
        self.learn_from(log.into(), &Origin::default())
    }

    /// Takes a log that came with an agent: its publisher is in use until [`Keys::set_listed`] says otherwise.
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

    /// Does an agent, which holds by its own evidence, hold by what was heard of keys?
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn holds(&self, agent: &VerifiedAgent, now_ms: u64) -> Result<(), KeyringError> {
        self.ring().holds(agent, now_ms)
    }

    /// Whose node is `node` by what it showed?
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn owns(&self, shown: &VerifiedOwner, node: PublicKey, now_ms: u64) -> Result<PublisherId, KeyringError> {
        self.ring().owns(shown, node, now_ms)
    }

    /// What is kept now: logs, and withdrawals.
    #[must_use]
    pub fn all(&self) -> (Vec<Arc<KeyLog>>, Vec<Taken>) {
        let ring = self.ring();
        (ring.logs().cloned().collect(), ring.withdrawals().cloned().collect())
    }

    /// Up to `max` things that are to be kept across restarts, or to be kept no longer, since this was asked last.
    #[must_use]
    pub fn take_changed(&self, max: usize) -> Vec<(Row, Option<Stored>)> {
        self.ring().take_changed(max)
    }

    /// These could not be kept, and are to be asked for again.
    pub fn put_back(&self, rows: impl IntoIterator<Item = Row>) {
        self.ring().put_back(rows);
    }

    /// Rises with all that is learned or forgotten.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn work(&self) -> MutexGuard<'_, OriginRates> {
        self.work.lock().expect("no holder of the work panics")
    }

    fn relay(&self) -> MutexGuard<'_, Relay> {
        self.relay.lock().expect("no holder of the relay panics")
    }
}

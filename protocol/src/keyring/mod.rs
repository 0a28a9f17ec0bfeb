//! The keyring: which keys are valid for which publisher, as far as the node knows (SPEC chapter 9): key logs of relevant
//! publishers, summaries of logs that were relevant once, and withdrawals. Pure: no network, no storage.
//!
//! **Inputs**: verified logs and withdrawals, the publishers that are watched (the owner and those whom the node trusts) and
//! in use (their agents are listed or their nodes connected here), the origin of a log. **Outputs**: whether a key is valid
//! for a publisher; what a peer does not know yet. **Invariants**: a log is never replaced by an older one; a stranger's log
//! is kept only while it is in use, in its origin's share.

mod forgotten;
mod news;
mod withdrawal;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use forgotten::Forgotten;
pub use news::{News, Selected, decode_known, encode_known};
pub use withdrawal::Withdrawal;

use crate::cbor::CborError;
use crate::identity::{PublicKey, PublisherId};
use crate::keylog::{KeyLog, KeyLogError, Relation};
use crate::limits::{GRANT_LIFE_MAX_MS, KEYRING_LOGS_MAX, KEYRING_STRANGERS_BYTES_MAX, KEYRING_WITHDRAWALS_MAX};
use crate::object::{self, Authored, ObjectError};
use crate::stream::VerifiedOwner;
use crate::{Digest, VerifiedAgent};

/// The part of the capacity for logs that is reserved for watched publishers.
const KEPT_FOR_WATCHED: usize = KEYRING_LOGS_MAX / 4;
/// Each origin of strangers may use 1 / this of their capacity.
const ORIGIN_SHARES: usize = 16;
/// Withdrawals of one publisher; more for a watched one.
const STRANGERS_WITHDRAWALS: usize = 16;
/// See [`STRANGERS_WITHDRAWALS`].
const WATCHED_WITHDRAWALS: usize = 1_024;
/// A withdrawal replaces another one that ends at least this much earlier.
const AGAIN_MS: u64 = 60_000;
/// Refused logs that are remembered, so that peers need not send them again.
pub const REFUSED_MAX: usize = 1_024;

/// Why a log, withdrawal or membership is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// Not strict CBOR.
    #[error("the news are not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the news have the wrong shape: {0}")]
    Shape(String),
    /// The key log is invalid, or does not accept the signer.
    #[error(transparent)]
    KeyLog(#[from] KeyLogError),
    /// It forks from the log that was seen first, and does not replace it.
    #[error("the key log of {0} contradicts the one that was seen before")]
    Forked(PublisherId),
    /// The publisher is not in use here.
    #[error("nothing of {0} is in use here")]
    NotInUse(PublisherId),
    /// An invalid withdrawal or membership.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The publisher withdrew it.
    #[error("{publisher} has withdrawn what it let {node} do")]
    Withdrawn {
        /// The publisher.
        publisher: PublisherId,
        /// The node.
        node: PublicKey,
    },
    /// The capacity for logs of strangers is exhausted.
    #[error("there is no room for the keys of more strangers")]
    Full,
}

/// The origin of a log: the address group of the peer that sent it; empty for this node itself.
pub type Origin = Arc<str>;

#[derive(Debug, Clone)]
struct StoredLog {
    log: Arc<KeyLog>,
    origin: Origin,
}

/// An accepted withdrawal.
#[derive(Debug, Clone)]
pub struct Taken {
    /// The signed withdrawal.
    pub withdrawal: Arc<Authored<Withdrawal>>,
    /// The log by which it was checked, for a publisher whose log is not kept.
    pub shown: Arc<KeyLog>,
}

#[derive(Debug, Clone)]
struct Withdrawn {
    taken: Taken,
    origin: Origin,
}

/// The keyring of a node.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    logs: BTreeMap<PublisherId, StoredLog>,
    /// The digests of their last events.
    heads: BTreeSet<Digest>,
    withdrawals: BTreeMap<(PublisherId, PublicKey), Withdrawn>,
    watched: BTreeSet<PublisherId>,
    in_use: BTreeSet<PublisherId>,
    forgotten: forgotten::Memory,
    /// Changes that [`Keyring::take_changed`] did not return yet.
    changed: BTreeSet<Row>,
}

/// The key of one item of a keyring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// The log of a publisher.
    Log(PublisherId),
    /// The withdrawal of a publisher for a node.
    Withdrawal(PublisherId, PublicKey),
    /// The summary of a publisher's log.
    Forgotten(PublisherId),
}

/// The value of a [`Row`].
#[derive(Debug, Clone)]
pub enum Stored {
    /// A log.
    Log(Arc<KeyLog>),
    /// A withdrawal.
    Withdrawal(Taken),
    /// The summary of a log.
    Forgotten(Forgotten),
}

impl Keyring {
    /// Sets the watched publishers, for which capacity is reserved.
    pub fn watch(&mut self, publishers: impl IntoIterator<Item = PublisherId>) {
        self.watched = publishers.into_iter().collect();
    }

    /// Sets the publishers that are in use. Logs of others that are not watched are reduced to summaries, which suffice to
    /// refuse older logs; their withdrawals stay while there is capacity. True if one of them was not in use before.
    pub fn set_in_use(&mut self, publishers: BTreeSet<PublisherId>) -> bool {
        let more = publishers.iter().any(|publisher| !self.in_use.contains(publisher));
        self.in_use = publishers;
        let unused: Vec<PublisherId> = self.logs.keys().copied().filter(|publisher| !self.wants(*publisher)).collect();
        for publisher in unused {
            self.forget(publisher);
        }
        more
    }

    /// Marks a publisher as in use until the next [`Keyring::set_in_use`]. True if it was not before.
    pub fn use_publisher(&mut self, publisher: PublisherId) -> bool {
        self.in_use.insert(publisher)
    }

    /// Whether a publisher is watched or in use.
    #[must_use]
    pub fn wants(&self, publisher: PublisherId) -> bool {
        self.watched.contains(&publisher) || self.in_use.contains(&publisher)
    }

    fn forget(&mut self, publisher: PublisherId) {
        let Some(kept) = self.logs.remove(&publisher) else { return };
        self.heads.remove(&kept.log.head());
        self.changed.insert(Row::Log(publisher));
        self.recall(Forgotten::of(&kept.log, &kept.origin));
    }

    /// Adds the summary of a log that is not kept. When it is full, the oldest summary of the origin with the most is
    /// removed.
    pub fn recall(&mut self, forgotten: Forgotten) {
        // A log with the inception alone holds nothing beyond its name.
        if forgotten.events > 1 {
            self.changed.insert(Row::Forgotten(forgotten.publisher));
            let evicted = self.forgotten.insert(forgotten);
            self.changed.extend(evicted.map(Row::Forgotten));
        }
    }

    /// Adds a log from `origin`. True if it is newer than the known one (SPEC P-48, P-67).
    ///
    /// # Errors
    /// [`KeyringError::NotInUse`], [`KeyringError::Forked`] or [`KeyringError::Full`].
    pub fn learn(&mut self, log: Arc<KeyLog>, origin: &Origin) -> Result<bool, KeyringError> {
        let publisher = log.publisher();
        if !self.wants(publisher) {
            return Err(KeyringError::NotInUse(publisher));
        }
        if let Some(known) = self.logs.get(&publisher) {
            match log.relation(&known.log) {
                Relation::Same | Relation::IsContinued => return Ok(false),
                Relation::IsDisplaced | Relation::Contradicts => return Err(KeyringError::Forked(publisher)),
                Relation::Continues | Relation::Displaces => {}
            }
        } else if self.forgotten.get(publisher).is_some_and(|forgotten| !forgotten.allows(&log)) {
            return Err(KeyringError::Forked(publisher));
        } else if log.len() == 1 {
            // The inception alone holds nothing beyond its name.
            return Ok(false);
        }
        if !self.has_room(&log, origin) {
            return Err(KeyringError::Full);
        }
        self.heads.insert(log.head());
        if let Some(before) = self.logs.insert(publisher, StoredLog { log, origin: origin.clone() }) {
            self.heads.remove(&before.log.head());
        }
        self.changed.insert(Row::Log(publisher));
        if self.forgotten.remove(publisher) {
            self.changed.insert(Row::Forgotten(publisher));
        }
        Ok(true)
    }

    fn has_room(&self, log: &KeyLog, origin: &Origin) -> bool {
        let publisher = log.publisher();
        if self.watched.contains(&publisher) {
            return self.logs.len() < KEYRING_LOGS_MAX || self.logs.contains_key(&publisher);
        }
        let strangers = || {
            let others = self.logs.iter().filter(|(other, _)| **other != publisher && !self.watched.contains(other));
            others.map(|(_, kept)| kept)
        };
        let (count_max, bytes_max) = (KEYRING_LOGS_MAX - KEPT_FOR_WATCHED, KEYRING_STRANGERS_BYTES_MAX);
        let bytes = |kept: &StoredLog| kept.log.size();
        let of_origin = || strangers().filter(|kept| kept.origin == *origin);
        strangers().count() < count_max
            && strangers().map(bytes).sum::<usize>() + log.size() <= bytes_max
            && of_origin().count() < count_max / ORIGIN_SHARES
            && of_origin().map(bytes).sum::<usize>() + log.size() <= bytes_max / ORIGIN_SHARES
    }

    /// Adds a verified withdrawal from `origin`. True if it is newer than the known one (SPEC P-68). `shown` is the log that
    /// came with it: logs of publishers that never rotated are not kept.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn withdraw(
        &mut self,
        withdrawal: Authored<Withdrawal>,
        shown: Option<&Arc<KeyLog>>,
        origin: &Origin,
        now_ms: u64,
    ) -> Result<bool, KeyringError> {
        let body = &withdrawal.body;
        let publisher = body.publisher;
        if !self.wants(publisher) {
            return Err(KeyringError::NotInUse(publisher));
        }
        self.judge(&withdrawal, shown, now_ms)?;
        let about = (publisher, body.node);
        if let Some(Withdrawn { taken: known, .. }) = self.withdrawals.get(&about) {
            // Slightly newer ones would cause endless gossip.
            let later_ms = known.withdrawal.body.until_ms.saturating_add(AGAIN_MS);
            if body.until_ms < later_ms && self.signer_speaks(known, now_ms) {
                return Ok(false);
            }
        } else {
            self.make_room_for_withdrawal(publisher, origin, now_ms)?;
        }
        let by = self.log(publisher).or(shown).ok_or(KeyLogError::Unknown(publisher))?;
        let shown = if self.logs.contains_key(&publisher) { Arc::new(by.inception()) } else { by.clone() };
        self.changed.insert(Row::Withdrawal(about.0, about.1));
        let taken = Taken { withdrawal: Arc::new(withdrawal), shown };
        self.withdrawals.insert(about, Withdrawn { taken, origin: origin.clone() });
        Ok(true)
    }

    /// Checks a verified withdrawal by the known log, or else by the one that is `shown`.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn judge(
        &self,
        withdrawal: &Authored<Withdrawal>,
        shown: Option<&Arc<KeyLog>>,
        now_ms: u64,
    ) -> Result<(), KeyringError> {
        let body = &withdrawal.body;
        self.accepts(body.publisher, withdrawal.signer, shown.map(Arc::as_ref), now_ms)?;
        object::in_time(body.until_ms, body.until_ms.saturating_add(GRANT_LIFE_MAX_MS), now_ms)?;
        Ok(())
    }

    fn make_room_for_withdrawal(
        &mut self,
        publisher: PublisherId,
        origin: &Origin,
        now_ms: u64,
    ) -> Result<(), KeyringError> {
        let is_watched = self.watched.contains(&publisher);
        let (max, most) = if is_watched {
            (KEYRING_WITHDRAWALS_MAX, WATCHED_WITHDRAWALS)
        } else {
            (KEYRING_WITHDRAWALS_MAX - KEPT_FOR_WATCHED, STRANGERS_WITHDRAWALS)
        };
        let matter = self.withdrawals.iter().filter(|(_, known)| known.taken.withdrawal.body.matters(now_ms));
        let of_publisher = matter.clone().filter(|((other, _), _)| *other == publisher).count();
        let of_origin = matter.filter(|((other, _), known)| known.origin == *origin && !self.watched.contains(other));
        let has_share = !is_watched && of_origin.count() >= max / ORIGIN_SHARES;
        if self.withdrawals.len() >= max {
            // Withdrawals of publishers that are not in use are kept while there is capacity: they often hit the last node that
            // was in use, which may come back.
            let Keyring { withdrawals, changed, watched, in_use, .. } = self;
            withdrawals.retain(|(publisher, node), known| {
                let used = watched.contains(publisher) || in_use.contains(publisher);
                let stays = used && known.taken.withdrawal.body.matters(now_ms);
                if !stays {
                    changed.insert(Row::Withdrawal(*publisher, *node));
                }
                stays
            });
        }
        let full = self.withdrawals.len() >= max || of_publisher >= most || has_share;
        if full { Err(KeyringError::Full) } else { Ok(()) }
    }

    /// Restores a withdrawal after a restart: it was checked when it arrived, and counts while its signer is valid.
    pub fn restore(&mut self, taken: Taken, now_ms: u64) {
        let body = &taken.withdrawal.body;
        if body.matters(now_ms) && self.withdrawals.len() < KEYRING_WITHDRAWALS_MAX {
            let about = (body.publisher, body.node);
            self.withdrawals.insert(about, Withdrawn { taken, origin: Origin::default() });
        } else {
            self.changed.insert(Row::Withdrawal(body.publisher, body.node));
        }
    }

    /// Whether the signer of a withdrawal is valid now.
    fn signer_speaks(&self, taken: &Taken, now_ms: u64) -> bool {
        let withdrawal = &taken.withdrawal;
        self.accepts(withdrawal.body.publisher, withdrawal.signer, Some(&taken.shown), now_ms).is_ok()
    }

    /// The log of a publisher that is watched or in use.
    #[must_use]
    pub fn log(&self, publisher: PublisherId) -> Option<&Arc<KeyLog>> {
        self.logs.get(&publisher).map(|kept| &kept.log)
    }

    /// Checks that `key` is valid for `publisher` at `now_ms`, by the known log, or else by the one that is `shown` (SPEC P-46,
    /// P-69).
    ///
    /// # Errors
    /// See [`KeyLogError`].
    pub fn accepts(
        &self,
        publisher: PublisherId,
        key: PublicKey,
        shown: Option<&KeyLog>,
        now_ms: u64,
    ) -> Result<(), KeyLogError> {
        if let Some(known) = self.logs.get(&publisher) {
            return known.log.accepts(key, now_ms);
        }
        let shown = shown.filter(|shown| shown.publisher() == publisher).ok_or(KeyLogError::Unknown(publisher))?;
        if self.forgotten.get(publisher).is_some_and(|forgotten| !forgotten.allows(shown)) {
            return Err(KeyLogError::Outdated(publisher));
        }
        shown.accepts(key, now_ms)
    }

    /// Checks that `publisher` did not withdraw what is valid for `node` from `begins_ms` on.
    ///
    /// # Errors
    /// [`KeyringError::Withdrawn`].
    pub fn stands(
        &self,
        publisher: PublisherId,
        node: PublicKey,
        begins_ms: u64,
        now_ms: u64,
    ) -> Result<(), KeyringError> {
        match self.withdrawals.get(&(publisher, node)) {
            Some(Withdrawn { taken: known, .. })
                if begins_ms <= known.withdrawal.body.until_ms && self.signer_speaks(known, now_ms) =>
            {
                Err(KeyringError::Withdrawn { publisher, node })
            }
            _ => Ok(()),
        }
    }

    /// Checks the membership that `node` showed (SPEC P-24).
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn owns(&self, shown: &VerifiedOwner, node: PublicKey, now_ms: u64) -> Result<PublisherId, KeyringError> {
        let body = &shown.membership.body;
        if body.node != node {
            return Err(ObjectError::WrongKey { signer: body.node, expected: node }.into());
        }
        body.in_force(now_ms)?;
        self.accepts(body.owner, shown.membership.signer, Some(&shown.inception), now_ms)?;
        self.stands(body.owner, node, body.not_before_ms, now_ms)?;
        Ok(body.owner)
    }

    /// Checks evidence, which was verified by its own key log, against the keyring.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn holds(&self, agent: &VerifiedAgent, now_ms: u64) -> Result<(), KeyringError> {
        let publisher = agent.agent.publisher();
        if self.logs.contains_key(&publisher) || self.forgotten.get(publisher).is_some() {
            self.accepts(publisher, agent.description.signer, Some(&agent.key_log), now_ms)?;
            self.accepts(publisher, agent.grant.signer, Some(&agent.key_log), now_ms)?;
        }
        self.stands(publisher, agent.node, agent.grant.body.not_before_ms, now_ms)
    }

    /// The watched publishers, with their logs if they have rotated.
    pub fn watched(&self) -> impl Iterator<Item = (PublisherId, Option<&Arc<KeyLog>>)> {
        self.watched.iter().map(|publisher| (*publisher, self.log(*publisher)))
    }

    /// The kept logs: those with rotations, of publishers that are watched or in use.
    pub fn logs(&self) -> impl Iterator<Item = &Arc<KeyLog>> {
        self.logs.values().map(|kept| &kept.log)
    }

    /// The summaries of logs that are not kept.
    pub fn forgotten(&self) -> impl Iterator<Item = &Forgotten> {
        self.forgotten.iter()
    }

    /// The withdrawal of a node by a publisher.
    #[must_use]
    pub fn withdrawal(&self, publisher: PublisherId, node: PublicKey) -> Option<&Taken> {
        self.withdrawals.get(&(publisher, node)).map(|known| &known.taken)
    }

    /// The withdrawals.
    pub fn withdrawals(&self) -> impl Iterator<Item = &Taken> {
        self.withdrawals.values().map(|known| &known.taken)
    }

    /// Takes up to `max` changed rows with their values, or none for deleted ones. Copies nothing: the caller may hold a
    /// lock.
    pub fn take_changed(&mut self, max: usize) -> Vec<(Row, Option<Stored>)> {
        let rows: Vec<Row> = std::iter::from_fn(|| self.changed.pop_first()).take(max).collect();
        rows.into_iter().map(|row| (row, self.stored(row))).collect()
    }

    /// Marks rows as changed again.
    pub fn put_back(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.changed.extend(rows);
    }

    fn stored(&self, row: Row) -> Option<Stored> {
        match row {
            Row::Log(publisher) => self.log(publisher).cloned().map(Stored::Log),
            Row::Withdrawal(publisher, node) => {
                self.withdrawals.get(&(publisher, node)).map(|known| Stored::Withdrawal(known.taken.clone()))
            }
            Row::Forgotten(publisher) => self.forgotten.get(publisher).cloned().map(Stored::Forgotten),
        }
    }

    /// Whether a log with this last event is known.
    #[must_use]
    pub fn knows(&self, head: &Digest) -> bool {
        self.heads.contains(head)
    }

    /// The digests of all known items: the last event of each log, and each withdrawal.
    #[must_use]
    pub fn known(&self) -> BTreeSet<Digest> {
        let withdrawals = self.withdrawals().map(|taken| taken.withdrawal.digest());
        self.heads.iter().copied().chain(withdrawals).collect()
    }

    /// The items that are not among `known`, up to the size of one message. Copies nothing: the caller may hold a lock.
    #[must_use]
    pub fn news(&self, known: &BTreeSet<Digest>, now_ms: u64) -> Selected {
        let mut selected = Selected::default();
        for Taken { withdrawal, shown } in self.withdrawals() {
            if withdrawal.body.matters(now_ms) && !known.contains(&withdrawal.digest()) {
                let by = self.log(withdrawal.body.publisher).unwrap_or(shown);
                selected.withdrawal(withdrawal, (!known.contains(&by.head())).then_some(by));
            }
        }
        for StoredLog { log, .. } in self.logs.values().filter(|kept| !known.contains(&kept.log.head())) {
            selected.add(log);
        }
        selected
    }
}

#[cfg(test)]
mod tests;

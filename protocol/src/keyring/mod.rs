//! Which keys speak for whom, as far as a node has heard (SPEC chapter 9): key logs of publishers that matter here, what is
//! remembered of those that mattered once, and withdrawals. Decides; hears and stores nothing by itself.
//!
//! **Inputs**: logs and withdrawals whose signatures were verified, which publishers are watched (the owner and those whom
//! the node trusts) and in use (something of theirs is listed or connected here), where a log came from. **Outputs**: does
//! a key speak for a publisher; what is news to a peer. **Invariants**: what was taken of a publisher is never replaced by
//! less; a stranger's log is kept only while it is in use, in its origin's share.

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

/// Part of the room for logs that only those have whom the node was told to watch.
const KEPT_FOR_WATCHED: usize = KEYRING_LOGS_MAX / 4;
/// Origins that can fill the room for what strangers do with their keys together: each has that part of it.
const ORIGIN_SHARES: usize = 16;
/// Withdrawals of one publisher; more of one that is watched.
const STRANGERS_WITHDRAWALS: usize = 16;
/// See [`STRANGERS_WITHDRAWALS`].
const WATCHED_WITHDRAWALS: usize = 1_024;
/// A withdrawal takes the place of another that ends this much earlier at least.
const AGAIN_MS: u64 = 60_000;
/// Logs that a node has refused, and does not want to be told of again.
pub const REFUSED_MAX: usize = 1_024;

/// Why what was heard of keys is not taken, or what was shown is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// Not strict CBOR.
    #[error("the news are not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the news have the wrong shape: {0}")]
    Shape(String),
    /// The key log does not hold, or does not accept who signed.
    #[error(transparent)]
    KeyLog(#[from] KeyLogError),
    /// It goes another way than the log that was seen first, and does not displace it.
    #[error("the key log of {0} contradicts the one that was seen before")]
    Forked(PublisherId),
    /// Nothing of the publisher is in use here.
    #[error("nothing of {0} is in use here")]
    NotInUse(PublisherId),
    /// A withdrawal or membership that does not hold.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The publisher took it back.
    #[error("{publisher} has withdrawn what it let {node} do")]
    Withdrawn {
        /// Who took it back.
        publisher: PublisherId,
        /// From whom.
        node: PublicKey,
    },
    /// No room for what strangers do with their keys.
    #[error("there is no room for the keys of more strangers")]
    Full,
}

/// Where a log came from: the group of addresses of the peer that sent it, or empty for this node itself.
pub type Origin = Arc<str>;

#[derive(Debug, Clone)]
struct Kept {
    log: Arc<KeyLog>,
    origin: Origin,
}

/// A withdrawal that was taken.
#[derive(Debug, Clone)]
pub struct Taken {
    /// As it was signed.
    pub withdrawal: Arc<Authored<Withdrawal>>,
    /// The log that it was judged by, for a publisher whose log is not kept.
    pub shown: Arc<KeyLog>,
}

#[derive(Debug, Clone)]
struct Withdrawn {
    taken: Taken,
    origin: Origin,
}

/// What is known of keys.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    logs: BTreeMap<PublisherId, Kept>,
    /// The digests of their last events.
    heads: BTreeSet<Digest>,
    withdrawals: BTreeMap<(PublisherId, PublicKey), Withdrawn>,
    watched: BTreeSet<PublisherId>,
    in_use: BTreeSet<PublisherId>,
    forgotten: forgotten::Memory,
    /// What changed and was not asked for by [`Keyring::take_changed`].
    changed: BTreeSet<Row>,
}

/// The name of one thing that a keyring keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// The log of a publisher.
    Log(PublisherId),
    /// What a publisher took back from a node.
    Withdrawal(PublisherId, PublicKey),
    /// What is remembered of a publisher's log.
    Forgotten(PublisherId),
}

/// What a keyring keeps under a [`Row`].
#[derive(Debug, Clone)]
pub enum Stored {
    /// A log.
    Log(Arc<KeyLog>),
    /// A withdrawal.
    Withdrawal(Taken),
    /// What is left of a log.
    Forgotten(Forgotten),
}

impl Keyring {
    /// There is always room for what these publishers do with their keys.
    pub fn watch(&mut self, publishers: impl IntoIterator<Item = PublisherId>) {
        self.watched = publishers.into_iter().collect();
    }

    /// Something of these publishers is in use here. Of others that are not watched the logs are forgotten, but for what
    /// refuses an older one later; what they withdrew stays as long as there is room. True when one of them was not in use
    /// before.
    pub fn set_in_use(&mut self, publishers: BTreeSet<PublisherId>) -> bool {
        let more = publishers.iter().any(|publisher| !self.in_use.contains(publisher));
        self.in_use = publishers;
        let unused: Vec<PublisherId> = self.logs.keys().copied().filter(|publisher| !self.wants(*publisher)).collect();
        for publisher in unused {
            self.forget(publisher);
        }
        more
    }

    /// Something of this publisher is in use here, until [`Keyring::set_in_use`] says otherwise. True when nothing was.
    pub fn use_publisher(&mut self, publisher: PublisherId) -> bool {
        self.in_use.insert(publisher)
    }

    /// Does it matter here what this publisher does with its keys?
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

    /// Takes what is remembered of a publisher whose log is not kept. Where there is no room, the oldest of the origin that
    /// has most is remembered no longer.
    pub fn recall(&mut self, forgotten: Forgotten) {
        // Of a log that never changed there is nothing that its name does not say.
        if forgotten.events > 1 {
            self.changed.insert(Row::Forgotten(forgotten.publisher));
            let evicted = self.forgotten.insert(forgotten);
            self.changed.extend(evicted.map(Row::Forgotten));
        }
    }

    /// Takes a log that came from `origin`. True when it says more than was known (SPEC P-48, P-67).
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
            // The beginning alone says nothing that its name does not.
            return Ok(false);
        }
        if !self.has_room(&log, origin) {
            return Err(KeyringError::Full);
        }
        self.heads.insert(log.head());
        if let Some(before) = self.logs.insert(publisher, Kept { log, origin: origin.clone() }) {
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
        let bytes = |kept: &Kept| kept.log.size();
        let of_origin = || strangers().filter(|kept| kept.origin == *origin);
        strangers().count() < count_max
            && strangers().map(bytes).sum::<usize>() + log.size() <= bytes_max
            && of_origin().count() < count_max / ORIGIN_SHARES
            && of_origin().map(bytes).sum::<usize>() + log.size() <= bytes_max / ORIGIN_SHARES
    }

    /// Takes a withdrawal whose signature was verified, and that came from `origin`. True when it says more than was known
    /// (SPEC P-68). `shown` is the log that came with it: of a publisher that never changed keys none is kept.
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
            // What is a little newer would be news without end.
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

    /// Does a withdrawal whose signature was verified hold now, by the log that was taken, or else by the one that is
    /// `shown`?
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
            // Those whose publisher is not in use are kept as long as nobody needs the room: what they shut out is often the
            // last that was in use, and may come back.
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

    /// Takes a withdrawal that was kept across a restart: it was judged when it came, and counts when its signer speaks.
    pub fn restore(&mut self, taken: Taken, now_ms: u64) {
        let body = &taken.withdrawal.body;
        if body.matters(now_ms) && self.withdrawals.len() < KEYRING_WITHDRAWALS_MAX {
            let about = (body.publisher, body.node);
            self.withdrawals.insert(about, Withdrawn { taken, origin: Origin::default() });
        } else {
            self.changed.insert(Row::Withdrawal(body.publisher, body.node));
        }
    }

    /// A withdrawal is worth what its signer's word is worth now.
    fn signer_speaks(&self, taken: &Taken, now_ms: u64) -> bool {
        let withdrawal = &taken.withdrawal;
        self.accepts(withdrawal.body.publisher, withdrawal.signer, Some(&taken.shown), now_ms).is_ok()
    }

    /// The log of a publisher that matters here.
    #[must_use]
    pub fn log(&self, publisher: PublisherId) -> Option<&Arc<KeyLog>> {
        self.logs.get(&publisher).map(|kept| &kept.log)
    }

    /// May `key` speak for `publisher` at `now_ms`, by the log that was taken, or else by the one that is `shown`
    /// (SPEC P-46, P-69)?
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

    /// Has `publisher` taken back what it let `node` do from `begins_ms` on?
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

    /// Is `node` its owner's by what it showed (SPEC P-24)?
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

    /// Does what was verified by the evidence's own key log also hold by what was heard?
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

    /// Those whom the node was told to watch, and their logs where they have changed.
    pub fn watched(&self) -> impl Iterator<Item = (PublisherId, Option<&Arc<KeyLog>>)> {
        self.watched.iter().map(|publisher| (*publisher, self.log(*publisher)))
    }

    /// The logs that are kept: those that have changed, of publishers that matter here.
    pub fn logs(&self) -> impl Iterator<Item = &Arc<KeyLog>> {
        self.logs.values().map(|kept| &kept.log)
    }

    /// What is remembered of publishers whose logs are not kept.
    pub fn forgotten(&self) -> impl Iterator<Item = &Forgotten> {
        self.forgotten.iter()
    }

    /// What was withdrawn.
    pub fn withdrawals(&self) -> impl Iterator<Item = &Taken> {
        self.withdrawals.values().map(|known| &known.taken)
    }

    /// Up to `max` things that changed since they were asked for, with what is to be kept of each, or nothing. Nothing is
    /// copied here: the caller may hold a lock.
    pub fn take_changed(&mut self, max: usize) -> Vec<(Row, Option<Stored>)> {
        let rows: Vec<Row> = std::iter::from_fn(|| self.changed.pop_first()).take(max).collect();
        rows.into_iter().map(|row| (row, self.stored(row))).collect()
    }

    /// These are to be asked for again.
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

    /// Is a log with this last event known?
    #[must_use]
    pub fn knows(&self, head: &Digest) -> bool {
        self.heads.contains(head)
    }

    /// Names of all that is known: the digest of each log's last event and of each withdrawal.
    #[must_use]
    pub fn known(&self) -> BTreeSet<Digest> {
        let withdrawals = self.withdrawals().map(|taken| taken.withdrawal.digest());
        self.heads.iter().copied().chain(withdrawals).collect()
    }

    /// What is not among `known`, as far as one message has room for it. Nothing is copied here: the caller may hold a lock.
    #[must_use]
    pub fn news(&self, known: &BTreeSet<Digest>, now_ms: u64) -> Selected {
        let mut selected = Selected::default();
        for Taken { withdrawal, shown } in self.withdrawals() {
            if withdrawal.body.matters(now_ms) && !known.contains(&withdrawal.digest()) {
                let by = self.log(withdrawal.body.publisher).unwrap_or(shown);
                selected.withdrawal(withdrawal, (!known.contains(&by.head())).then_some(by));
            }
        }
        for Kept { log, .. } in self.logs.values().filter(|kept| !known.contains(&kept.log.head())) {
            selected.add(log);
        }
        selected
    }
}

#[cfg(test)]
mod tests;

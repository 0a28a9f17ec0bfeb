//! One atomic write to the log. Its writes are judged in order; one that depends on another one of the batch waits for the
//! next batch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use althing_log::AppendError;
use althing_protocol::registry::{Audience, DomainFinding, Entry, EntryKind, Quarantine, Reach, Salt, Version};
use althing_protocol::{AgentId, PublisherId, digest};
use althing_store::Batch;
use tokio::sync::oneshot;

use super::RequestError;
use super::rows::{self, BUNDLES, META, STATEMENTS, THINGS, UNSCRUBBED};
use crate::machine::things::{
    Amount, Draft, Expected, Quotas, SALT_BYTES, Thing, ThingRecord, ThingRefusal, Things, Writer,
};
use crate::machine::{Judged, Opened, PurgedBy, RegistryState, Statement};

/// Bytes of rows from which on no more is added: with the largest submission they fit into one write to the store.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Gives random bytes.
pub type Random = Arc<dyn Fn() -> [u8; SALT_BYTES] + Send + Sync>;
/// Where somebody who writes is told what became of it.
pub type Answer<T, E> = oneshot::Sender<Result<T, E>>;
/// Tells somebody whether what was accepted is on disk.
pub type Tell = Box<dyn FnOnce(Result<(), AppendError>) + Send>;

/// What somebody wants to write, with the channel on which the outcome is answered.
pub enum PendingWrite {
    /// A publisher's statements.
    Submission(Box<Opened>, Answer<Vec<Accepted>, RequestError>),
    /// What was found of a domain; the answer is whether it says anything new.
    Finding(Box<DomainFinding>, Answer<bool, RequestError>),
    /// A Thing.
    Thing(Box<Change>, Answer<Changed, ChangeError>),
    /// A release that is purged; the answer is the entry.
    Purge(Box<PurgeOf>, Answer<u64, RequestError>),
    /// What the operator hides or shows again; the answer is whether it says anything new.
    Quarantine(Box<QuarantineOf>, Answer<bool, RequestError>),
}

impl PendingWrite {
    /// Whether nobody waits for it any more.
    pub fn is_abandoned(&self) -> bool {
        match self {
            PendingWrite::Submission(_, answer) => answer.is_closed(),
            PendingWrite::Finding(_, answer) => answer.is_closed(),
            PendingWrite::Thing(_, answer) => answer.is_closed(),
            PendingWrite::Purge(_, answer) => answer.is_closed(),
            PendingWrite::Quarantine(_, answer) => answer.is_closed(),
        }
    }
}

/// A statement that was accepted.
pub struct Accepted {
    /// Its entry.
    pub index: u64,
    /// What is new; none if it was accepted with another submission.
    pub new: Option<Added>,
}

/// A statement that was added.
pub struct Added {
    /// The signed bytes.
    pub bytes: Vec<u8>,
    /// When it was accepted, Unix milliseconds.
    pub at_ms: u64,
    /// What its entry is salted with.
    pub salt: Option<Salt>,
}

/// A release that is to be purged.
pub struct PurgeOf {
    /// The agent.
    pub agent: AgentId,
    /// The version.
    pub version: Version,
    /// Who wants it.
    pub by: PurgedBy,
}

/// What is to be hidden, or shown again.
pub struct QuarantineOf {
    /// The agent.
    pub agent: AgentId,
    /// The version; none means all.
    pub version: Option<Version>,
    /// Why it is hidden; none shows it again.
    pub reason: Option<String>,
}

/// What is to be done to a Thing.
pub struct Change {
    /// The id.
    pub id: String,
    /// The description that is written; none deletes the Thing.
    pub sent: Option<Written>,
    /// Who does it.
    pub writer: Writer,
    /// What the writer believes is there.
    pub expected: Expected,
    /// How much there may be.
    pub quotas: Quotas,
    /// Random.
    pub salt: [u8; SALT_BYTES],
}

/// A valid description.
pub struct Written {
    /// As it was sent.
    pub bytes: Vec<u8>,
    /// Its title.
    pub title: String,
    /// How long it is to stay, seconds.
    pub ttl_s: Option<u64>,
    /// When it is to end, Unix milliseconds.
    pub expires_ms: Option<u64>,
}

/// What became of a Thing.
pub struct Changed {
    /// The entry.
    pub index: u64,
    /// Whether the Thing is new.
    pub is_new: bool,
}

/// Why a Thing is not written or deleted.
#[derive(Debug)]
pub enum ChangeError {
    /// The directory does not accept it.
    Refused(ThingRefusal),
    /// What every request may fail with.
    Request(RequestError),
}

impl From<ThingRefusal> for ChangeError {
    fn from(refusal: ThingRefusal) -> ChangeError {
        ChangeError::Refused(refusal)
    }
}

impl From<RequestError> for ChangeError {
    fn from(error: RequestError) -> ChangeError {
        ChangeError::Request(error)
    }
}

/// Answers somebody, who may have gone away.
fn answer<T, E>(to: Answer<T, E>, outcome: Result<T, E>) {
    let _ = to.send(outcome);
}

/// What one write to the log holds.
pub struct WriteBatch {
    /// Entries for the log.
    pub entries: Vec<Vec<u8>>,
    /// What lies beside them.
    pub rows: Batch,
    /// What the entries say.
    pub statements: Vec<Statement>,
    /// Those who are told when it is on disk.
    pub untold: Vec<Tell>,
    /// The entries of descriptions that it takes away.
    pub gone: Vec<u64>,
    /// The descriptions of Things that it writes, by their entries.
    pub described: Vec<(u64, Arc<[u8]>)>,
    next: u64,
    now_ms: u64,
    random: Option<Random>,
    publishers: BTreeSet<PublisherId>,
    /// Whether it says something of an organisation, by which others may be judged.
    has_organisation: bool,
    things: BTreeSet<String>,
    /// What it adds, by the names of owners, and in all: at most so much.
    added: BTreeMap<String, Amount>,
    added_in_all: Amount,
}

impl WriteBatch {
    /// An empty one, whose first entry is `next`. Without randomness it takes nothing that is not for everybody.
    pub fn new(next: u64, now_ms: u64, random: Option<Random>) -> WriteBatch {
        WriteBatch {
            entries: Vec::new(),
            rows: Batch::new(),
            statements: Vec::new(),
            untold: Vec::new(),
            gone: Vec::new(),
            described: Vec::new(),
            next,
            now_ms,
            random,
            publishers: BTreeSet::new(),
            has_organisation: false,
            things: BTreeSet::new(),
            added: BTreeMap::new(),
            added_in_all: Amount::default(),
        }
    }

    /// Judges a write by the state before the batch, and adds it or answers its refusal. Gives it back if it has to wait for the
    /// state after the batch; the first of a batch never has to.
    pub fn judge(&mut self, write: PendingWrite, machine: &RegistryState) -> Option<PendingWrite> {
        if self.rows.bytes() >= BATCH_BYTES_MAX {
            return Some(write);
        }
        match write {
            PendingWrite::Submission(opened, to) => self.judge_submission(opened, to, machine),
            PendingWrite::Finding(finding, to) => self.judge_finding(finding, to, machine),
            PendingWrite::Thing(change, to) => self.judge_thing(change, to, machine.things()),
            PendingWrite::Purge(purge, to) => self.judge_purge(purge, to, machine),
            PendingWrite::Quarantine(wanted, to) => self.judge_quarantine(wanted, to, machine),
        }
    }

    /// The index that the next entry will have.
    fn index(&self) -> u64 {
        self.next + self.entries.len() as u64
    }

    fn add(&mut self, statement: Statement, salt: Option<Salt>) -> Added {
        let (bytes, at_ms) = (statement.bytes(), self.now_ms);
        let entry = match (statement.kind(), &salt) {
            (EntryKind::Signed(kind), Some(salt)) => Entry::salted(kind, &bytes, salt, at_ms),
            (kind, _) => Entry::of(kind, &bytes, at_ms),
        };
        self.rows.put(STATEMENTS, self.index().to_be_bytes(), rows::write(&statement, salt));
        self.entries.push(entry.encode());
        self.statements.push(statement);
        Added { bytes, at_ms, salt }
    }

    fn salt(&self) -> Result<Salt, RequestError> {
        Ok(self.random.as_ref().ok_or(RequestError::NoSalt)?())
    }

    fn judge_purge(
        &mut self,
        purge: Box<PurgeOf>,
        to: Answer<u64, RequestError>,
        machine: &RegistryState,
    ) -> Option<PendingWrite> {
        if self.has_organisation || !self.publishers.is_empty() {
            return Some(PendingWrite::Purge(purge, to));
        }
        let PurgeOf { agent, version, by } = &*purge;
        let judged = self.salt().and_then(|salt| Ok(machine.judge_purge((agent, version), *by, salt)?));
        match judged {
            Err(refusal) => answer(to, Err(refusal)),
            Ok((record, bundle)) => {
                // Nothing else in the batch may name the release or its bundle.
                self.has_organisation = true;
                let index = self.index();
                for entry in &record.entries {
                    self.rows.put(STATEMENTS, entry.to_be_bytes(), rows::purged());
                }
                if let Some(bundle) = bundle {
                    self.rows.delete(BUNDLES, bundle);
                }
                let gone = rows::unscrubbed(&record.entries, bundle);
                self.rows.put(META, [UNSCRUBBED, &index.to_be_bytes()].concat(), gone);
                self.add(Statement::Purge(Box::new(record)), None);
                self.tell_later(to, index);
            }
        }
        None
    }

    fn judge_quarantine(
        &mut self,
        wanted: Box<QuarantineOf>,
        to: Answer<bool, RequestError>,
        machine: &RegistryState,
    ) -> Option<PendingWrite> {
        if self.has_organisation || !self.publishers.is_empty() {
            return Some(PendingWrite::Quarantine(wanted, to));
        }
        let QuarantineOf { agent, version, reason } = *wanted;
        let judged = self.salt().and_then(|salt| {
            let record = Quarantine { agent, version, reason, salt };
            Ok((machine.judge_quarantine(&record)?, record))
        });
        match judged {
            Err(refusal) => answer(to, Err(refusal)),
            Ok((false, _)) => answer(to, Ok(false)),
            Ok((true, record)) => {
                self.has_organisation = true;
                self.add(Statement::Quarantine(Box::new(record)), None);
                self.tell_later(to, true);
            }
        }
        None
    }

    fn tell_later<T: Send + 'static, E: From<RequestError> + Send + 'static>(&mut self, to: Answer<T, E>, value: T) {
        self.untold.push(Box::new(move |outcome| {
            let outcome = outcome.map_err(|error| E::from(RequestError::from(error)));
            answer(to, outcome.map(|()| value));
        }));
    }

    fn judge_submission(
        &mut self,
        opened: Box<Opened>,
        to: Answer<Vec<Accepted>, RequestError>,
        machine: &RegistryState,
    ) -> Option<PendingWrite> {
        let (concerns, has_roster) = (opened.concerns(), opened.has_roster());
        let is_first = self.publishers.is_empty() && !self.has_organisation;
        if self.has_organisation || (has_roster && !is_first) || !self.publishers.is_disjoint(&concerns) {
            return Some(PendingWrite::Submission(opened, to));
        }
        match machine.judge(*opened, self.now_ms) {
            Err(refusal) => answer(to, Err(refusal.into())),
            Ok(judged) => {
                let mut private = Vec::with_capacity(judged.len());
                for one in &judged {
                    private.push(matches!(one, Judged::New(statement) if is_private(statement, machine, &judged)));
                }
                if private.contains(&true) && self.random.is_none() {
                    answer(to, Err(RequestError::NoSalt));
                    return None;
                }
                self.publishers.extend(concerns);
                self.has_organisation = has_roster;
                let mut accepted = Vec::with_capacity(judged.len());
                let mut private = private.into_iter();
                for one in judged {
                    let is_private = private.next().unwrap_or_default();
                    accepted.push(match one {
                        Judged::Known(index) => Accepted { index, new: None },
                        Judged::New(statement) => {
                            let index = self.index();
                            let salt = if is_private { self.salt().ok() } else { None };
                            Accepted { index, new: Some(self.add(statement, salt)) }
                        }
                    });
                }
                self.tell_later(to, accepted);
            }
        }
        None
    }

    fn judge_finding(
        &mut self,
        finding: Box<DomainFinding>,
        to: Answer<bool, RequestError>,
        machine: &RegistryState,
    ) -> Option<PendingWrite> {
        if self.has_organisation || !self.publishers.is_empty() {
            return Some(PendingWrite::Finding(finding, to));
        }
        match machine.organisations().is_news(&finding, self.now_ms) {
            Err(refusal) => answer(to, Err(refusal.into())),
            Ok(false) => answer(to, Ok(false)),
            Ok(true) => {
                self.has_organisation = true;
                self.add(Statement::Finding(finding, self.now_ms), None);
                self.tell_later(to, true);
            }
        }
        None
    }

    fn judge_thing(
        &mut self,
        change: Box<Change>,
        to: Answer<Changed, ChangeError>,
        things: &Things,
    ) -> Option<PendingWrite> {
        let must_wait = self.things.contains(&change.id)
            // Those that one entry does not forget all of are forgotten by one entry after the other.
            || (!self.things.is_empty() && things.has_more_to_forget(self.now_ms));
        if must_wait {
            return Some(PendingWrite::Thing(change, to));
        }
        match self.judge_change(&change, things) {
            // It may fit in when it is known what those before it leave.
            Err(ThingRefusal::WriterFull { .. } | ThingRefusal::Full { .. }) if !self.things.is_empty() => {
                return Some(PendingWrite::Thing(change, to));
            }
            Err(refusal) => answer(to, Err(refusal.into())),
            Ok(record) => {
                let index = self.index();
                let is_new = matches!(&record, ThingRecord::Written(written) if written.follows.is_none());
                self.add_thing(record, *change, things);
                self.tell_later(to, Changed { index, is_new });
            }
        }
        None
    }

    fn judge_change(&self, change: &Change, things: &Things) -> Result<ThingRecord, ThingRefusal> {
        let Change { id, sent, writer, expected, quotas, salt } = change;
        let Some(sent) = sent else {
            let deleted = things.judge_deletion(id, writer, *expected, self.now_ms, *salt)?;
            return Ok(ThingRecord::Deleted(deleted));
        };
        let owner = things.get(id, self.now_ms).map_or(&writer.name, |known| &known.written.owner);
        let added = self.added.get(owner).copied().unwrap_or_default();
        let left = Quotas { all: quotas.all.less(self.added_in_all), each: quotas.each.less(added) };
        let draft = Draft {
            id,
            title: &sent.title,
            body: digest(&sent.bytes),
            bytes: sent.bytes.len() as u64,
            ttl_s: sent.ttl_s,
            expires_ms: sent.expires_ms,
        };
        Ok(ThingRecord::Written(things.judge(&draft, writer, *expected, left, self.now_ms, *salt)?))
    }

    /// Adds what is said of a Thing, its description, and takes away those that are kept no more.
    fn add_thing(&mut self, record: ThingRecord, change: Change, things: &Things) {
        let known = things.get(&change.id, self.now_ms);
        let goes: Vec<u64> = match &record {
            // Beside the newest description the one before it is kept.
            ThingRecord::Written(_) => known.and_then(|known| known.written.follows).into_iter().collect(),
            ThingRecord::Deleted(_) => known.into_iter().flat_map(kept).collect(),
        };
        // The first entry forgets all Things whose time has passed.
        let ended = self.things.is_empty().then(|| things.forgotten(self.now_ms)).into_iter().flatten();
        for index in goes.into_iter().chain(ended.flat_map(kept)) {
            self.rows.delete(THINGS, index.to_be_bytes());
            self.gone.push(index);
        }
        if let (ThingRecord::Written(written), Some(sent)) = (&record, change.sent) {
            let added = self.added.entry(written.owner.clone()).or_default();
            *added = added.with(written.bytes);
            self.added_in_all = self.added_in_all.with(written.bytes);
            self.described.push((self.index(), sent.bytes.as_slice().into()));
            self.rows.put(THINGS, self.index().to_be_bytes(), sent.bytes);
        }
        self.things.insert(change.id);
        self.add(Statement::Thing(Box::new(record)), None);
    }
}

/// Whether a statement is not for everybody: a release, an approval of one, or a mark on one.
fn is_private(statement: &Statement, machine: &RegistryState, judged: &[Judged]) -> bool {
    let hides = |audience: &Audience| audience.reach != Reach::Public;
    let (agent, version) = match statement {
        Statement::Release(release, _) | Statement::Approval(release) => return hides(&release.body.audience),
        Statement::Mark(mark) => (&mark.body.agent, &mark.body.version),
        Statement::Attestation(attestation, _) => match (&attestation.body.agent, &attestation.body.version) {
            (Some(agent), Some(version)) => (agent, version),
            (Some(agent), None) => return machine.agent(agent).is_none_or(|all| all.public().next().is_none()),
            _ => return false,
        },
        _ => return false,
    };
    let known = machine.agent(agent).and_then(|versions| versions.get(version));
    if let Some(released) = known {
        return hides(&released.audience);
    }
    judged.iter().any(|one| match one {
        Judged::New(Statement::Release(release, _)) => {
            release.body.agent == *agent && release.body.version == *version && hides(&release.body.audience)
        }
        _ => false,
    })
}

/// The entries whose descriptions are kept for a Thing.
fn kept(thing: &Thing) -> impl Iterator<Item = u64> + use<> {
    std::iter::once(thing.index).chain(thing.written.follows)
}

//! Agents, their versions, and what may be said of them.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::limits::RELEASE_MARKS_MAX;
use althing_protocol::object::{Authored, Description, Kind, ObjectError};
use althing_protocol::registry::{
    Attestation, DomainFinding, EntryKind, Mark, Reach, Release, Roster, Salt, Standing, Version,
};
use althing_protocol::{AgentId, Digest, KeyLog, PublisherId};

use super::opened::{Described, Opened, Signed};
use super::purge::{Purge, PurgedBy};
use super::released::{Released, essence};
use super::shown::ShownAgents;
use super::things::{ThingRecord, Things};
use super::{HeldAttestations, Organisations, Refusal};

/// Versions of one agent.
const VERSIONS_MAX: usize = 1_024;
/// The index of what is new in a submission while it is judged: no entry has it.
const IN_SUBMISSION: u64 = u64::MAX;

/// A verified statement.
#[derive(Debug, Clone)]
pub enum Statement {
    /// A publisher's keys, as far as they go beyond those that were known.
    KeyLog(KeyLog),
    /// A release, with the description that it names.
    Release(Box<Authored<Release>>, Box<Authored<Description>>),
    /// A release once more, by one who approves it.
    Approval(Box<Authored<Release>>),
    /// A mark.
    Mark(Box<Authored<Mark>>),
    /// An organisation's roster.
    Roster(Box<Authored<Roster>>),
    /// What somebody found of an agent or a model, and when it was accepted, Unix milliseconds.
    Attestation(Box<Authored<Attestation>>, u64),
    /// What the registry found of a domain, and when, Unix milliseconds.
    Finding(Box<DomainFinding>, u64),
    /// What is said of a Thing, without a signature.
    Thing(Box<ThingRecord>),
    /// Something was purged.
    Purge(Box<Purge>),
    /// What is there no more of a statement that was purged.
    Gone(EntryKind),
}

impl Statement {
    /// The kind of its entry in the log.
    #[must_use]
    pub fn kind(&self) -> EntryKind {
        match self {
            Statement::KeyLog(_) => Kind::KeyEvent.into(),
            Statement::Release(..) | Statement::Approval(_) => Kind::Release.into(),
            Statement::Mark(_) => Kind::Mark.into(),
            Statement::Roster(_) => Kind::Roster.into(),
            Statement::Attestation(..) => Kind::Attestation.into(),
            Statement::Finding(..) => EntryKind::DomainFinding,
            Statement::Thing(record) => record.kind(),
            Statement::Purge(_) => EntryKind::Purge,
            Statement::Gone(kind) => *kind,
        }
    }

    /// The bytes that the entry names; of a key log, those of its newest event.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Statement::KeyLog(log) => log.to_bytes().pop().unwrap_or_default(),
            Statement::Release(release, _) | Statement::Approval(release) => release.bytes.clone(),
            Statement::Mark(mark) => mark.bytes.clone(),
            Statement::Roster(roster) => roster.bytes.clone(),
            Statement::Attestation(attestation, _) => attestation.bytes.clone(),
            Statement::Finding(finding, _) => finding.encode(),
            Statement::Thing(record) => record.encode(),
            Statement::Purge(purge) => purge.encode(),
            Statement::Gone(_) => Vec::new(),
        }
    }
}

/// What became of a statement.
#[derive(Debug, Clone)]
pub enum Judged {
    /// It is new.
    New(Statement),
    /// It was accepted before, with that index: sending it again is no error.
    Known(u64),
}

/// The versions of an agent.
#[derive(Debug, Clone, Default)]
pub struct Versions {
    versions: BTreeMap<Version, Released>,
    sequence: u64,
    /// Versions that were purged, and are never used again.
    purged: BTreeSet<Version>,
}

impl Versions {
    /// All of them, the lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Version, &Released)> {
        self.versions.iter()
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, version: &Version) -> Option<&Released> {
        self.versions.get(version)
    }

    /// Those that everybody sees, the lowest first.
    pub fn public(&self) -> impl Iterator<Item = (&Version, &Released)> {
        self.versions.iter().filter(|(_, released)| released.is_public())
    }

    /// The highest that everybody sees and a range chooses: neither yanked nor revoked.
    #[must_use]
    pub fn current(&self) -> Option<(&Version, &Released)> {
        let usable = |released: &Released| released.is_public() && released.standing <= Standing::Deprecated;
        self.versions.iter().rev().find(|(_, released)| usable(released))
    }

    /// The entries of the first release that everybody sees and of the current one; none if there is no current one.
    fn shown(&self) -> Option<(u64, u64)> {
        let (_, current) = self.current()?;
        let first = self.public().map(|(_, released)| released.index).min();
        Some((first.unwrap_or(current.index), current.index))
    }
}

/// Who may publish.
#[derive(Debug, Clone)]
pub enum Admission {
    /// These publishers.
    Publishers(BTreeSet<PublisherId>),
    /// Everybody.
    Anyone,
}

impl Admission {
    fn admits(&self, publisher: PublisherId) -> bool {
        match self {
            Admission::Publishers(admitted) => admitted.contains(&publisher),
            Admission::Anyone => true,
        }
    }
}

/// The state of a registry.
#[derive(Debug, Clone)]
pub struct Machine {
    network: String,
    admission: Admission,
    publishers: BTreeMap<PublisherId, (KeyLog, u64)>,
    pub(super) agents: BTreeMap<AgentId, Versions>,
    shown: ShownAgents,
    /// Agents with a release that has nothing to install.
    published_things: BTreeSet<AgentId>,
    /// Revoked releases, by the index of the mark.
    revoked: BTreeMap<u64, (AgentId, Version)>,
    things: Things,
    pub(super) attestations: HeldAttestations,
    pub(super) organisations: Organisations,
    /// Entries whose statements are gone, and of which no entry has said yet that they were purged.
    gone: BTreeSet<u64>,
    /// How many releases name a bundle.
    bundles: BTreeMap<Digest, usize>,
    /// Releases that too few approve.
    pub(super) unapproved: BTreeSet<(AgentId, Version)>,
}

impl Machine {
    /// The state of an empty log, for agents of that network.
    #[must_use]
    pub fn new(network: &str, admission: Admission) -> Machine {
        Machine {
            network: network.to_owned(),
            admission,
            publishers: BTreeMap::new(),
            agents: BTreeMap::new(),
            shown: ShownAgents::default(),
            published_things: BTreeSet::new(),
            revoked: BTreeMap::new(),
            things: Things::default(),
            attestations: HeldAttestations::default(),
            organisations: Organisations::default(),
            gone: BTreeSet::new(),
            bundles: BTreeMap::new(),
            unapproved: BTreeSet::new(),
        }
    }

    /// The organisations, and their domains.
    #[must_use]
    pub fn organisations(&self) -> &Organisations {
        &self.organisations
    }

    /// The agents of a publisher.
    pub fn of(&self, publisher: PublisherId) -> impl Iterator<Item = &AgentId> {
        self.agents_of(publisher).map(|(agent, _)| agent)
    }

    fn agents_of(&self, publisher: PublisherId) -> impl Iterator<Item = (&AgentId, &Versions)> {
        // Names are made of these characters and a hyphen inside: none sorts before this one.
        let first = AgentId::new(publisher, "0").ok();
        let from = first.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Included);
        let agents = self.agents.range((from, std::ops::Bound::Unbounded));
        agents.take_while(move |(agent, _)| agent.publisher() == publisher)
    }

    /// The agents that everybody sees.
    #[must_use]
    pub fn shown_agents(&self) -> &ShownAgents {
        &self.shown
    }

    /// The Things of the directory.
    #[must_use]
    pub fn things(&self) -> &Things {
        &self.things
    }

    /// Those with a release that has nothing to install, whoever sees it.
    pub fn published_things(&self) -> impl Iterator<Item = &AgentId> {
        self.published_things.iter()
    }

    /// Revoked releases whose marks have an index of at least `from`, in the order of the log.
    pub fn revoked(&self, from: u64) -> impl Iterator<Item = (u64, &AgentId, &Version)> {
        self.revoked.range(from..).map(|(index, (agent, version))| (*index, agent, version))
    }

    /// The keys of a publisher.
    #[must_use]
    pub fn key_log(&self, publisher: PublisherId) -> Option<&KeyLog> {
        self.publishers.get(&publisher).map(|(log, _)| log)
    }

    /// The versions of an agent.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> Option<&Versions> {
        self.agents.get(agent)
    }

    /// Agents after `after`, in the order of their ids.
    pub fn agents<'a>(
        &'a self,
        after: Option<&AgentId>,
    ) -> impl Iterator<Item = (&'a AgentId, &'a Versions)> + use<'a> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.agents.range((after.map_or(Unbounded, Excluded), Unbounded))
    }

    /// Whether a publisher may publish here at `now_ms`.
    ///
    /// # Errors
    /// [`Refusal::NotAdmitted`].
    pub fn admits(&self, publisher: PublisherId, now_ms: u64) -> Result<(), Refusal> {
        if !self.admission.admits(publisher)
            && !self.organisations.has_member(publisher, |organisation| self.admission.admits(organisation), now_ms)
        {
            return Err(Refusal::NotAdmitted(publisher));
        }
        Ok(())
    }

    /// Judges a submission: what is new in it, in the order in which it takes effect.
    ///
    /// # Errors
    /// [`Refusal`]: nothing of it is accepted.
    pub fn judge(&self, opened: Opened, now_ms: u64) -> Result<Vec<Judged>, Refusal> {
        let mut judged = Vec::new();
        // Statements may build on each other: each is judged in the state after those before it.
        let mut state = Machine::new(&self.network, self.admission.clone());
        let Opened { log, statements, descriptions } = opened;
        let log = self.judge_keys(log)?;
        let publisher = log.publisher();
        self.admits(publisher, now_ms)?;
        state.organisations = self.organisations.of(publisher);
        if let Some(known) = self.publishers.get(&publisher) {
            state.publishers.insert(publisher, known.clone());
        }
        if state.key_log(publisher) != Some(&log) {
            judged.push(Judged::New(Statement::KeyLog(log.clone())));
            state.apply(IN_SUBMISSION, &Statement::KeyLog(log.clone()));
        }
        for (at, signed) in statements.into_iter().enumerate() {
            let signed = signed?;
            if let Some(agent) = signed.agent() {
                state.bring(self, agent);
            }
            if matches!(signed, Signed::Attestation(_)) {
                state.attestations.bring(&self.attestations, publisher);
            }
            let one = state.judge_one((at, signed), &descriptions, &log, now_ms)?;
            match &one {
                Judged::New(statement) => state.apply(IN_SUBMISSION, statement),
                Judged::Known(IN_SUBMISSION) => return Err(Refusal::Twice { at }),
                Judged::Known(_) => {}
            }
            judged.push(one);
        }
        Ok(judged)
    }

    fn judge_keys(&self, log: KeyLog) -> Result<KeyLog, Refusal> {
        match self.key_log(log.publisher()) {
            Some(known) if known.continues(&log) => Ok(known.clone()),
            Some(known) if !log.continues(known) => Err(Refusal::OtherKeyLog(log.publisher())),
            _ => Ok(log),
        }
    }

    fn judge_one(
        &self,
        (at, signed): (usize, Signed),
        descriptions: &BTreeMap<Digest, Result<Described, ObjectError>>,
        log: &KeyLog,
        now_ms: u64,
    ) -> Result<Judged, Refusal> {
        let refused = |error| Refusal::Object { at, error };
        match signed {
            Signed::Release(release) => {
                log.accepts(release.signer, now_ms)?;
                release.body.made(now_ms).map_err(refused)?;
                if release.body.agent.publisher() != log.publisher() {
                    return self.judge_approval(release, log, now_ms);
                }
                self.judge_release(at, release, descriptions, log, now_ms)
            }
            Signed::Mark(mark) => {
                log.accepts(mark.signer, now_ms)?;
                mark.body.made(now_ms).map_err(refused)?;
                self.judge_mark(mark, log)
            }
            Signed::Roster(roster) => {
                log.accepts(roster.signer, now_ms)?;
                roster.body.in_force(now_ms).map_err(refused)?;
                self.judge_roster(roster, log)
            }
            Signed::Attestation(attestation) => {
                log.accepts(attestation.signer, now_ms)?;
                attestation.body.in_force(now_ms).map_err(refused)?;
                self.judge_attestation(at, attestation, log, now_ms)
            }
        }
    }

    fn judge_release(
        &self,
        at: usize,
        release: Authored<Release>,
        descriptions: &BTreeMap<Digest, Result<Described, ObjectError>>,
        log: &KeyLog,
        now_ms: u64,
    ) -> Result<Judged, Refusal> {
        let Release { agent, version, description, audience, by, sequence, .. } = release.body.clone();
        own(&agent, by, log)?;
        if audience.reach == Reach::Organisation && self.organisations.roster(agent.publisher()).is_none() {
            return Err(Refusal::Audience { agent });
        }
        let versions = self.agents.get(&agent);
        if let Some(known) = versions.and_then(|versions| versions.get(&version)) {
            let same = known.statement == release.digest();
            return if same { Ok(Judged::Known(known.index)) } else { Err(Refusal::VersionTaken { agent, version }) };
        }
        if versions.is_some_and(|versions| versions.purged.contains(&version)) {
            return Err(Refusal::VersionTaken { agent, version });
        }
        self.organisations.publishing(agent.publisher(), now_ms)?;
        if let Some(versions) = versions {
            if versions.versions.len() + versions.purged.len() >= VERSIONS_MAX {
                return Err(Refusal::VersionsFull { agent, max: VERSIONS_MAX });
            }
            rising(&agent, versions.sequence, sequence)?;
        }
        let Some(described) = descriptions.get(&description) else {
            return Err(Refusal::DescriptionMissing { agent, version });
        };
        let Described { signed: described, version: said } =
            described.clone().map_err(|error| Refusal::Object { at, error })?;
        log.accepts(described.signer, now_ms)?;
        let wrong = |reason: String| Refusal::Description { agent: agent.clone(), version: version.clone(), reason };
        if described.body.agent != agent {
            return Err(wrong(format!("it describes {}", described.body.agent)));
        }
        let said = said.map_err(wrong)?.unwrap_or_default();
        if said != version.to_string() {
            return Err(wrong(format!("it describes version {said:?}")));
        }
        Ok(Judged::New(Statement::Release(Box::new(release), Box::new(described))))
    }

    fn judge_mark(&self, mark: Authored<Mark>, log: &KeyLog) -> Result<Judged, Refusal> {
        let Mark { agent, version, standing, by, sequence, .. } = mark.body.clone();
        own(&agent, by, log)?;
        let Some((versions, released)) =
            self.agents.get(&agent).and_then(|versions| Some((versions, versions.get(&version)?)))
        else {
            return Err(Refusal::NoRelease { agent, version });
        };
        let digest = mark.digest();
        if let Some((index, _)) = released.marks.iter().find(|(_, known)| *known == digest) {
            return Ok(Judged::Known(*index));
        }
        if released.standing == Standing::Revoked {
            return Err(Refusal::Revoked { agent, version });
        }
        // The last place is kept for a revocation.
        let max = if standing == Standing::Revoked { RELEASE_MARKS_MAX } else { RELEASE_MARKS_MAX - 1 };
        if released.marks.len() >= max {
            return Err(Refusal::MarksFull { agent, version, max });
        }
        rising(&agent, versions.sequence, sequence)?;
        Ok(Judged::New(Statement::Mark(Box::new(mark))))
    }

    /// Applies a statement that the log has at `index`.
    pub fn apply(&mut self, index: u64, statement: &Statement) {
        match statement {
            Statement::KeyLog(log) => {
                self.publishers.insert(log.publisher(), (log.clone(), index));
            }
            Statement::Release(release, _) => {
                let versions = self.agents.entry(release.body.agent.clone()).or_default();
                versions.sequence = release.body.sequence;
                let mut released = Released {
                    index,
                    statement: release.digest(),
                    standing: Standing::Good,
                    reason: String::new(),
                    marks: Vec::new(),
                    is_thing: release.body.bundle.is_none(),
                    audience: release.body.audience.clone(),
                    essence: essence(&release.body),
                    approvals: Vec::new(),
                    is_approved: false,
                    bundle: release.body.bundle.map(|bundle| bundle.digest),
                    roster: None,
                };
                self.published_things.extend(released.is_thing.then(|| release.body.agent.clone()));
                self.organisations.count(&release.body.agent, &mut released);
                if !released.is_approved {
                    self.unapproved.insert((release.body.agent.clone(), release.body.version.clone()));
                }
                if let Some(bundle) = released.bundle {
                    *self.bundles.entry(bundle).or_default() += 1;
                }
                versions.versions.insert(release.body.version.clone(), released);
                self.show(index, &release.body.agent);
            }
            Statement::Approval(release) => {
                let versions = self.agents.get_mut(&release.body.agent);
                if let Some(released) = versions.and_then(|all| all.versions.get_mut(&release.body.version)) {
                    released.approvals.push((release.body.by, index, release.digest()));
                    self.organisations.count(&release.body.agent, released);
                    if released.is_approved {
                        self.unapproved.remove(&(release.body.agent.clone(), release.body.version.clone()));
                    }
                }
                self.show(index, &release.body.agent);
            }
            Statement::Roster(roster) => {
                self.organisations.apply_roster(index, roster.digest(), roster.body.clone());
            }
            Statement::Attestation(attestation, at_ms) => self.attestations.apply(index, attestation, *at_ms),
            Statement::Finding(finding, at_ms) => self.organisations.apply_finding(index, *at_ms, finding),
            Statement::Mark(mark) => {
                let Some(versions) = self.agents.get_mut(&mark.body.agent) else { return };
                versions.sequence = mark.body.sequence;
                if mark.body.standing == Standing::Revoked {
                    self.revoked.insert(index, (mark.body.agent.clone(), mark.body.version.clone()));
                }
                if let Some(released) = versions.versions.get_mut(&mark.body.version) {
                    released.marks.push((index, mark.digest()));
                    released.standing = mark.body.standing;
                    released.reason.clone_from(&mark.body.reason);
                }
                self.show(index, &mark.body.agent);
            }
            Statement::Thing(record) => self.things.apply(index, record),
            Statement::Purge(purge) => self.forget(purge),
            Statement::Gone(_) => {
                self.gone.insert(index);
            }
        }
    }

    /// What purging a release of an agent takes away, and the digest of its bundle if no other release names that.
    ///
    /// # Errors
    /// [`Refusal::NoRelease`].
    pub fn judge_purge(
        &self,
        (agent, version): (&AgentId, &Version),
        by: PurgedBy,
        salt: Salt,
    ) -> Result<(Purge, Option<Digest>), Refusal> {
        let (agent, version) = (agent.clone(), version.clone());
        let versions = self.agents.get(&agent);
        let Some((versions, released)) = versions.and_then(|all| Some((all, all.get(&version)?))) else {
            return Err(Refusal::NoRelease { agent, version });
        };
        if released.audience.reach == Reach::Public {
            return Err(Refusal::NotPurgeable { agent, version });
        }
        let bundle = released.bundle.filter(|bundle| self.bundles.get(bundle).is_none_or(|count| *count <= 1));
        let attested = self.attestations.of_release(&agent, &version);
        let (entries, sequence) = (released.entries().chain(attested).collect(), versions.sequence);
        Ok((Purge { agent, version, entries, by, sequence, salt }, bundle))
    }

    /// The first entry whose statement is gone although nothing says that it was purged.
    #[must_use]
    pub fn unexplained(&self) -> Option<u64> {
        self.gone.first().copied()
    }

    /// Whether a version was purged.
    #[must_use]
    pub fn is_purged(&self, agent: &AgentId, version: &Version) -> bool {
        self.agents.get(agent).is_some_and(|versions| versions.purged.contains(version))
    }

    /// Forgets what was purged: after a start its statements are not there, and the state is the same.
    fn forget(&mut self, purge: &Purge) {
        let versions = self.agents.entry(purge.agent.clone()).or_default();
        versions.sequence = versions.sequence.max(purge.sequence);
        versions.purged.insert(purge.version.clone());
        self.attestations.forget(&purge.agent, &purge.version);
        let bundle = versions.versions.remove(&purge.version).and_then(|released| released.bundle);
        if let Some(bundle) = bundle
            && let Some(count) = self.bundles.get_mut(&bundle)
        {
            *count -= 1;
            if *count == 0 {
                self.bundles.remove(&bundle);
            }
        }
        for index in &purge.entries {
            self.revoked.remove(index);
            self.gone.remove(index);
        }
        self.unapproved.remove(&(purge.agent.clone(), purge.version.clone()));
    }

    fn show(&mut self, index: u64, agent: &AgentId) {
        self.shown.update(index, agent, self.agents.get(agent).and_then(Versions::shown));
    }
}

/// Only the publisher itself speaks for its agents.
fn own(agent: &AgentId, by: PublisherId, log: &KeyLog) -> Result<(), Refusal> {
    if agent.publisher() == log.publisher() && by == log.publisher() {
        return Ok(());
    }
    Err(Refusal::NotYours { agent: agent.clone(), by: log.publisher() })
}

fn rising(agent: &AgentId, known: u64, given: u64) -> Result<(), Refusal> {
    if given > known { Ok(()) } else { Err(Refusal::Stale { agent: agent.clone(), known, given }) }
}

//! Agents, their versions, and what may be said of them.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::object::{Authored, Description, Kind};
use althing_protocol::registry::{
    Attestation, DomainFinding, EntryKind, Mark, Quarantine, Release, Roster, Standing, Version,
};
use althing_protocol::{AgentId, Digest, KeyLog, PublisherId};

use super::limited::Limited;
use super::purge::Purge;
use super::quarantined::Quarantined;
use super::quota::Room;
use super::released::Released;
use super::shown::ShownAgents;
use super::things::{ThingRecord, Things};
use super::{HeldAttestations, Organisations, Refusal};

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
    /// The operator hides something, or shows it again.
    Quarantine(Box<Quarantine>),
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
            Statement::Quarantine(_) => EntryKind::Quarantine,
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
            Statement::Quarantine(record) => record.encode(),
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
    pub(super) versions: BTreeMap<Version, Released>,
    pub(super) sequence: u64,
    /// Versions that were purged, and are never used again.
    pub(super) purged: BTreeSet<Version>,
}

impl Versions {
    /// How many there ever were.
    pub(super) fn count(&self) -> usize {
        self.versions.len() + self.purged.len()
    }

    /// All of them, the lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Version, &Released)> {
        self.versions.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Version, &mut Released)> {
        self.versions.iter_mut()
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

    /// Of those that somebody sees: the entry of the first one, and the highest one that a range chooses; none without that.
    #[must_use]
    pub fn seen(&self, is_seen: impl Fn(&Released) -> bool) -> Option<(u64, &Version, &Released)> {
        let usable = |released: &Released| released.standing <= Standing::Deprecated && is_seen(released);
        let (version, current) = self.versions.iter().rev().find(|(_, released)| usable(released))?;
        let first = self.versions.values().filter(|released| is_seen(released)).map(|released| released.index).min();
        Some((first.unwrap_or(current.index), version, current))
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

    /// The same, and these.
    #[must_use]
    pub fn with(&self, more: BTreeSet<PublisherId>) -> Admission {
        match self {
            Admission::Publishers(admitted) => Admission::Publishers(admitted.iter().copied().chain(more).collect()),
            Admission::Anyone => Admission::Anyone,
        }
    }
}

/// The state of a registry.
#[derive(Debug, Clone)]
pub struct RegistryState {
    pub(super) network: String,
    pub(super) admission: Admission,
    pub(super) publishers: BTreeMap<PublisherId, (KeyLog, u64)>,
    pub(super) agents: BTreeMap<AgentId, Versions>,
    shown: ShownAgents,
    limited: Limited,
    /// Those with a release that nodes do not host: Things that run elsewhere, and workflows.
    published_things: BTreeSet<AgentId>,
    /// Revoked releases, by the index of the mark.
    pub(super) revoked: BTreeMap<u64, (AgentId, Version)>,
    things: Things,
    pub(super) attestations: HeldAttestations,
    pub(super) organisations: Organisations,
    pub(super) quarantined: Quarantined,
    /// Entries whose statements are gone, and of which no entry has said yet that they were purged.
    pub(super) gone: BTreeSet<u64>,
    /// How many releases name a bundle.
    pub(super) bundles: BTreeMap<Digest, usize>,
    /// How much the releases of each publisher take.
    pub(super) room: Room,
    /// Releases that too few approve.
    pub(super) unapproved: BTreeSet<(AgentId, Version)>,
}

impl RegistryState {
    /// The state of an empty log, for agents of that network.
    #[must_use]
    pub fn new(network: &str, admission: Admission) -> RegistryState {
        RegistryState {
            network: network.to_owned(),
            admission,
            publishers: BTreeMap::new(),
            agents: BTreeMap::new(),
            shown: ShownAgents::default(),
            limited: Limited::default(),
            published_things: BTreeSet::new(),
            revoked: BTreeMap::new(),
            things: Things::default(),
            attestations: HeldAttestations::default(),
            organisations: Organisations::default(),
            quarantined: Quarantined::default(),
            gone: BTreeSet::new(),
            bundles: BTreeMap::new(),
            room: Room::default(),
            unapproved: BTreeSet::new(),
        }
    }

    /// Lets these publish from now on, and no others.
    pub fn admit(&mut self, admission: Admission) {
        self.admission = admission;
    }

    /// The organisations, and their domains.
    #[must_use]
    pub fn organisations(&self) -> &Organisations {
        &self.organisations
    }

    /// The attestations.
    #[must_use]
    pub fn attestations(&self) -> &HeldAttestations {
        &self.attestations
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

    /// Agents of which not everybody sees everything.
    #[must_use]
    pub fn limited(&self) -> &Limited {
        &self.limited
    }

    /// The Things of the directory.
    #[must_use]
    pub fn things(&self) -> &Things {
        &self.things
    }

    /// Those with a release that nodes do not host, Things that run elsewhere and workflows, whoever sees it.
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

    /// Whether the operator admits a publisher by name, or an organisation of which it is a member.
    #[must_use]
    pub fn names(&self, publisher: PublisherId, now_ms: u64) -> bool {
        matches!(self.admission, Admission::Publishers(_)) && self.admits(publisher, now_ms).is_ok()
    }

    /// Applies a statement that the log has at `index`.
    pub fn apply(&mut self, index: u64, statement: &Statement) {
        match statement {
            Statement::KeyLog(log) => {
                self.publishers.insert(log.publisher(), (log.clone(), index));
            }
            Statement::Release(release, description) => {
                let quarantine = self.quarantine_of(&release.body.agent, &release.body.version);
                let versions = self.agents.entry(release.body.agent.clone()).or_default();
                versions.sequence = release.body.sequence;
                self.limited.note(&release.body);
                let mut released = Released::of(release, description, index, quarantine);
                self.published_things.extend(released.is_unhosted.then(|| release.body.agent.clone()));
                self.organisations.count(&release.body.agent, &mut released);
                if !released.is_approved {
                    self.unapproved.insert((release.body.agent.clone(), release.body.version.clone()));
                }
                self.room.add(release.body.agent.publisher(), released.bundle_bytes);
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
            Statement::Quarantine(record) => self.apply_quarantine(index, record),
            Statement::Gone(_) => {
                self.gone.insert(index);
            }
        }
    }

    pub(super) fn show(&mut self, index: u64, agent: &AgentId) {
        self.shown.update(index, agent, self.agents.get(agent).and_then(Versions::shown));
    }
}

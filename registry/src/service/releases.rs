//! What a reader is shown of releases. What somebody may not see looks like what is not there: each answer is made from what
//! the reader sees alone.

use althing_protocol::registry::{Approval, Bundle, ReleaseEvidence, SaltedStatement, Standing, Version};
use althing_protocol::{AgentId, Digest, PublisherId, digest};
use althing_store::{Batch, Durability, Range};

use super::rows::{self, BUNDLES, STATEMENTS};
use super::{KEPT_BUNDLE_BYTES_MAX, Listed, Registry, RequestError, Seen};
use crate::machine::{RegistryState, Released, Statement, twins_of};

/// Who reads: a publisher that has shown who it is, or anybody.
pub type Reader = Option<PublisherId>;

/// The bytes of a bundle, which are those that its release names.
pub struct BundleContent {
    digest: Digest,
    bytes: Vec<u8>,
}

/// The releases of a registry, as a reader sees them.
pub struct Releases<'a>(pub(super) &'a Registry);

impl Releases<'_> {
    /// The releases of agents after `after`, in the order of their ids; at most `limit`, whole agents. To their publisher
    /// those too that the operator hides.
    #[must_use]
    pub fn list(&self, after: Option<&AgentId>, limit: usize, reader: Reader) -> Vec<Listed> {
        let (seen, now_ms) = (self.0.seen(), (self.0.clock)());
        let mut listed = Vec::new();
        for (agent, _) in seen.machine.agents(after) {
            if listed.len() >= limit {
                break;
            }
            if reader == Some(agent.publisher()) {
                listed.extend(named(&seen.machine, agent, reader, now_ms));
            } else {
                listed.extend(visible(&seen.machine, agent, reader, now_ms));
            }
        }
        listed
    }

    /// The versions of an agent, the lowest first.
    ///
    /// # Errors
    /// [`RequestError::NoAgent`].
    pub fn versions(&self, agent: &AgentId, reader: Reader) -> Result<Vec<Listed>, RequestError> {
        let seen = self.0.seen();
        // What the operator hides is named to others here and nowhere else, so that whoever has it learns why.
        let listed: Vec<Listed> = named(&seen.machine, agent, reader, (self.0.clock)()).collect();
        if listed.is_empty() { Err(RequestError::NoAgent(agent.clone())) } else { Ok(listed) }
    }

    /// Agents of others that everybody sees, that were here before and whose names look like that of an agent; the oldest first.
    /// They do not depend on what is hidden.
    #[must_use]
    pub fn twins(&self, agent: &AgentId) -> Vec<AgentId> {
        twins_of(&self.0.seen().machine, agent)
    }

    /// Releases whose revocations have an index of at least `from`, at most `limit`.
    #[must_use]
    pub fn revoked(&self, from: u64, limit: usize, reader: Reader) -> Vec<(u64, AgentId, Version)> {
        let (seen, now_ms) = (self.0.seen(), (self.0.clock)());
        let is_seen = |(_, agent, version): &(u64, &AgentId, &Version)| {
            let released = seen.machine.agent(agent).and_then(|versions| versions.get(version));
            // What the operator hides may run somewhere, and its revocation is heard.
            released.is_some_and(|released| seen.machine.would_see(reader, agent, released, now_ms))
        };
        let owned = |(index, agent, version): (u64, &AgentId, &Version)| (index, agent.clone(), version.clone());
        seen.machine.revoked(from).filter(is_seen).take(limit).map(owned).collect()
    }

    /// A release with all that verifies it.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn evidence(
        &self,
        agent: &AgentId,
        version: &Version,
        reader: Reader,
    ) -> Result<ReleaseEvidence, RequestError> {
        let released = match self.released(agent, version, reader) {
            // Whoever has it is shown that its publisher took it back.
            Err(hidden @ RequestError::Quarantined { .. }) => self.revoked_one(agent, version, reader).ok_or(hidden)?,
            released => released?,
        };
        self.evidence_of(agent, &released)
    }

    /// A release that waits for approvals, with what there is, for somebody who may approve it.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn waiting_evidence(
        &self,
        agent: &AgentId,
        version: &Version,
        who: PublisherId,
    ) -> Result<ReleaseEvidence, RequestError> {
        let waits = |seen: &Seen| {
            let mut waiting = seen.machine.waiting(who, (self.0.clock)());
            waiting.find(|(one, other, _)| (*one, *other) == (agent, version)).map(|(.., released)| released.clone())
        };
        let released = waits(&self.0.seen());
        let none = || RequestError::NoVersion(agent.clone(), version.clone());
        self.evidence_of(agent, &released.ok_or_else(none)?)
    }

    /// The statement that an entry names, if the reader sees what it is about; with its salt if the entry is salted (P-190).
    ///
    /// # Errors
    /// [`RequestError::NoStatement`].
    pub fn said(&self, index: u64, reader: Reader) -> Result<Vec<u8>, RequestError> {
        let none = RequestError::NoStatement(index);
        if index >= self.0.checkpoint().head.size {
            return Err(none);
        }
        let row = self.0.store.read(STATEMENTS, &index.to_be_bytes())?;
        let (_, statement) = self.0.statement(index)?;
        let is_seen = match &statement {
            Statement::KeyLog(_) | Statement::Roster(_) | Statement::Finding(..) => true,
            Statement::Release(release, _) | Statement::Approval(release) => {
                self.sees(&release.body.agent, &release.body.version, reader)
            }
            Statement::Mark(mark) => self.sees(&mark.body.agent, &mark.body.version, reader),
            // Who might see what it hides may read why.
            Statement::Quarantine(record) => self.might_see(&record.agent, record.version.as_ref(), reader),
            Statement::Attestation(attestation, _) => {
                let subject = attestation.body.subject();
                subject.is_some_and(|subject| self.0.attesting().sees(&subject, reader))
            }
            // Things are in the directory, which forgets.
            _ => false,
        };
        if !is_seen {
            return Err(none);
        }
        Ok(match row.as_deref().and_then(rows::salt) {
            Some(salt) => SaltedStatement { statement: statement.bytes().into(), salt: salt.into() }.encode(),
            None => statement.bytes(),
        })
    }

    /// A release that its publisher revoked and the operator hides.
    fn revoked_one(&self, agent: &AgentId, version: &Version, reader: Reader) -> Option<Released> {
        let (seen, now_ms) = (self.0.seen(), (self.0.clock)());
        let released = seen.machine.agent(agent)?.get(version)?;
        let is_it = released.standing == Standing::Revoked && seen.machine.would_see(reader, agent, released, now_ms);
        is_it.then(|| released.clone())
    }

    /// Whether a reader sees a version, or any, unless the operator hides it.
    fn might_see(&self, agent: &AgentId, version: Option<&Version>, reader: Reader) -> bool {
        let (seen, now_ms) = (self.0.seen(), (self.0.clock)());
        let versions = seen.machine.agent(agent).into_iter().flat_map(|versions| versions.iter());
        let mut meant = versions.filter(|(one, _)| version.is_none_or(|version| version == *one));
        meant.any(|(_, released)| seen.machine.would_see(reader, agent, released, now_ms))
    }

    fn sees(&self, agent: &AgentId, version: &Version, reader: Reader) -> bool {
        let (seen, now_ms) = (self.0.seen(), (self.0.clock)());
        let released = seen.machine.agent(agent).and_then(|versions| versions.get(version));
        released.is_some_and(|released| {
            let approves = reader.is_some_and(|who| seen.machine.organisations().approves(who, agent, now_ms));
            approves || seen.machine.sees(reader, agent, released, now_ms)
        })
    }

    /// What waits for the approval of somebody.
    #[must_use]
    pub fn waiting(&self, who: PublisherId) -> Vec<Listed> {
        let seen = self.0.seen();
        let waiting = seen.machine.waiting(who, (self.0.clock)());
        waiting.map(|(agent, version, released)| listed(agent, version, released)).collect()
    }

    /// How many must approve a release of an agent.
    #[must_use]
    pub fn approvals_wanted(&self, agent: &AgentId) -> u8 {
        let seen = self.0.seen();
        seen.machine.organisations().roster(agent.publisher()).map_or(1, |held| held.roster.approvals)
    }

    fn evidence_of(&self, agent: &AgentId, released: &Released) -> Result<ReleaseEvidence, RequestError> {
        let (entry, statement) = self.0.statement(released.index)?;
        let Statement::Release(_, described) = &statement else {
            return Err(RequestError::Damaged(released.index));
        };
        let indexes = released.marks.iter().map(|(index, _)| *index);
        let approved = released.approvals.iter().map(|(_, index, _)| *index);
        let all = indexes.clone().chain(approved).chain(released.roster).chain([released.index]);
        let checkpoint = self.0.witnessing().over(all.max().unwrap_or_default());
        let marks = indexes.map(|index| self.0.logged_at(index, &checkpoint)).collect::<Result<_, _>>()?;
        let mut approvals = Vec::new();
        for (by, index, _) in &released.approvals {
            let key_log = self.0.key_log(*by);
            approvals.push(Approval { key_log, release: self.0.logged_at(*index, &checkpoint)? });
        }
        Ok(ReleaseEvidence {
            key_log: self.0.key_log(agent.publisher()),
            release: self.0.logged(released.index, &entry, &statement, &checkpoint)?,
            description: described.bytes.clone().into(),
            marks,
            approvals,
            roster: released.roster.map(|index| self.0.logged_at(index, &checkpoint)).transpose()?,
        })
    }

    /// A release that the reader sees, or may approve.
    fn released(&self, agent: &AgentId, version: &Version, reader: Reader) -> Result<Released, RequestError> {
        let listed = self.versions(agent, reader)?;
        let found = listed.into_iter().find(|one| one.version == *version).map(|one| one.released);
        let released = found.ok_or_else(|| RequestError::NoVersion(agent.clone(), version.clone()))?;
        match &released.quarantine {
            Some(reason) if reader != Some(agent.publisher()) => {
                let (agent, version, reason) = (agent.clone().into(), version.clone().into(), reason.clone());
                Err(RequestError::Quarantined { agent, version, reason })
            }
            _ => Ok(released),
        }
    }

    /// What the bundle of a release must be.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn wants_bundle(&self, agent: &AgentId, version: &Version, reader: Reader) -> Result<Bundle, RequestError> {
        let wanted = self.bundle_of(agent, version, reader)?;
        let max = KEPT_BUNDLE_BYTES_MAX as u64;
        if wanted.bytes > max {
            return Err(RequestError::BundleTooLarge { bytes: wanted.bytes, max });
        }
        Ok(wanted)
    }

    /// Whether the bundle of a release is here already: before its megabytes are read.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn has_bundle(&self, agent: &AgentId, version: &Version, reader: Reader) -> Result<bool, RequestError> {
        let wanted = self.wants_bundle(agent, version, reader)?;
        self.is_kept(wanted.digest)
    }

    fn is_kept(&self, bundle: Digest) -> Result<bool, RequestError> {
        // The key alone: the bundle itself may have megabytes.
        Ok(!self.0.store.keys(BUNDLES, Range::prefix(bundle, 1))?.is_empty())
    }

    /// What was sent as the bundle of a release, if it is that: work for which nothing has to wait.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn bundle_content(
        &self,
        agent: &AgentId,
        version: &Version,
        sent: &[u8],
        reader: Reader,
    ) -> Result<BundleContent, RequestError> {
        let wanted = self.wants_bundle(agent, version, reader)?;
        if wanted.bytes != sent.len() as u64 || wanted.digest != digest(sent) {
            return Err(RequestError::OtherBundle);
        }
        Ok(BundleContent { digest: wanted.digest, bytes: sent.to_vec() })
    }

    /// Keeps the bundle of a release. It is on disk when this completes.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn keep_bundle(
        &self,
        agent: &AgentId,
        version: &Version,
        content: BundleContent,
        reader: Reader,
    ) -> Result<(), RequestError> {
        let BundleContent { digest: bundle, bytes } = content;
        // Others may have sent it at the same time.
        if !self.is_kept(bundle)? {
            let mut batch = Batch::new();
            batch.put(BUNDLES, bundle, bytes);
            self.0.store.write(batch, Durability::Synced).await?;
        }
        // The release may have been purged meanwhile, and then its bundle goes too.
        if let Err(gone) = self.wants_bundle(agent, version, reader) {
            self.0.purging().take_bundle(bundle).await?;
            return Err(gone);
        }
        Ok(())
    }

    /// The bundle of a release.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn bundle(&self, agent: &AgentId, version: &Version, reader: Reader) -> Result<Vec<u8>, RequestError> {
        let wanted = self.bundle_of(agent, version, reader)?;
        self.0.store.read(BUNDLES, &wanted.digest)?.ok_or(RequestError::NoBundle)
    }

    fn bundle_of(&self, agent: &AgentId, version: &Version, reader: Reader) -> Result<Bundle, RequestError> {
        let waiting = || self.waiting(reader?).into_iter().find(|one| one.agent == *agent && one.version == *version);
        let index = match self.released(agent, version, reader) {
            Ok(released) => released.index,
            // Its publisher sends the bundle before others have approved it.
            Err(absent) => waiting().ok_or(absent)?.released.index,
        };
        match self.0.statement(index)?.1 {
            Statement::Release(release, _) => release.body.bundle.ok_or(RequestError::BundleUnknown),
            _ => Err(RequestError::Damaged(index)),
        }
    }
}

/// The versions of an agent that a reader sees, the lowest first.
pub(super) fn visible<'a>(
    machine: &'a RegistryState,
    agent: &'a AgentId,
    reader: Reader,
    now_ms: u64,
) -> impl Iterator<Item = Listed> + 'a {
    let versions = machine.agent(agent).into_iter().flat_map(|versions| versions.iter());
    let visible = versions.filter(move |(_, released)| machine.sees(reader, agent, released, now_ms));
    visible.map(move |(version, released)| listed(agent, version, released))
}

/// The versions of an agent that a reader sees, and those that it would see if the operator did not hide them.
fn named<'a>(
    machine: &'a RegistryState,
    agent: &'a AgentId,
    reader: Reader,
    now_ms: u64,
) -> impl Iterator<Item = Listed> + 'a {
    let versions = machine.agent(agent).into_iter().flat_map(|versions| versions.iter());
    let named = versions.filter(move |(_, released)| machine.would_see(reader, agent, released, now_ms));
    named.map(move |(version, released)| listed(agent, version, released))
}

fn listed(agent: &AgentId, version: &Version, released: &Released) -> Listed {
    Listed { agent: agent.clone(), version: version.clone(), released: released.clone() }
}

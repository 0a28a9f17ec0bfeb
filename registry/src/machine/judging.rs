//! Who may say what of an agent: each statement of a submission is judged in the state after those before it.

use std::collections::BTreeMap;

use althing_protocol::limits::{RELEASE_APPROVALS_MAX, RELEASE_MARKS_MAX};
use althing_protocol::object::Authored;
use althing_protocol::registry::{Attestation, Mark, Reach, Release, Role, Roster, Standing, Subject};
use althing_protocol::{AgentId, Digest, KeyLog, PublisherId};

use super::opened::{Described, DescriptionFault, Opened, Signed};
use super::released::essence;
use super::{Judged, Refusal, RegistryState, Statement};

/// Versions of one agent.
const VERSIONS_MAX: usize = 1_024;
/// The index of what is new in a submission while it is judged: no entry has it.
const IN_SUBMISSION: u64 = u64::MAX;

impl RegistryState {
    /// Judges a submission: what is new in it, in the order in which it takes effect.
    ///
    /// # Errors
    /// [`Refusal`]: nothing of it is accepted.
    pub fn judge(&self, opened: Opened, now_ms: u64) -> Result<Vec<Judged>, Refusal> {
        let mut judged = Vec::new();
        // Statements may build on each other: each is judged in the state after those before it.
        let mut state = RegistryState::new(&self.network, self.admission.clone());
        let Opened { log, statements, descriptions } = opened;
        let log = self.judge_keys(log)?;
        let publisher = log.publisher();
        self.admits(publisher, now_ms)?;
        state.organisations = self.organisations.of(publisher);
        state.room = self.room.of(publisher);
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
            let judge = Judge { state: &state, descriptions: &descriptions, log: &log, now_ms };
            let one = judge.one(at, signed)?;
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
}

/// Judges the statements of one publisher.
struct Judge<'a> {
    state: &'a RegistryState,
    descriptions: &'a BTreeMap<Digest, Result<Described, DescriptionFault>>,
    log: &'a KeyLog,
    now_ms: u64,
}

impl Judge<'_> {
    fn one(&self, at: usize, signed: Signed) -> Result<Judged, Refusal> {
        let (log, now_ms) = (self.log, self.now_ms);
        let refused = |error| Refusal::Object { at, error };
        match signed {
            Signed::Release(release) => {
                log.accepts(release.signer, now_ms)?;
                release.body.made(now_ms).map_err(refused)?;
                if release.body.agent.publisher() != log.publisher() {
                    return self.approval(release);
                }
                self.release(at, release)
            }
            Signed::Mark(mark) => {
                log.accepts(mark.signer, now_ms)?;
                mark.body.made(now_ms).map_err(refused)?;
                self.mark(mark)
            }
            Signed::Roster(roster) => {
                log.accepts(roster.signer, now_ms)?;
                roster.body.in_force(now_ms).map_err(refused)?;
                self.roster(roster)
            }
            Signed::Attestation(attestation) => {
                log.accepts(attestation.signer, now_ms)?;
                attestation.body.in_force(now_ms).map_err(refused)?;
                self.attestation(at, attestation)
            }
        }
    }

    fn release(&self, at: usize, release: Authored<Release>) -> Result<Judged, Refusal> {
        let Release { agent, version, description, audience, by, sequence, .. } = release.body.clone();
        self.own(&agent, by)?;
        if audience.reach == Reach::Organisation && self.state.organisations.roster(agent.publisher()).is_none() {
            return Err(Refusal::Audience { agent });
        }
        let versions = self.state.agents.get(&agent);
        if let Some(known) = versions.and_then(|versions| versions.get(&version)) {
            let same = known.statement == release.digest();
            return if same { Ok(Judged::Known(known.index)) } else { Err(Refusal::VersionTaken { agent, version }) };
        }
        if self.state.is_purged(&agent, &version) {
            return Err(Refusal::VersionTaken { agent, version });
        }
        self.state.organisations.publishing(agent.publisher(), self.now_ms)?;
        if let Some(versions) = versions {
            if versions.count() >= VERSIONS_MAX {
                return Err(Refusal::VersionsFull { agent, max: VERSIONS_MAX });
            }
            rising(&agent, versions.sequence, sequence)?;
        }
        self.state.room.judge(agent.publisher(), release.body.bundle.map_or(0, |bundle| bundle.bytes))?;
        let Some(described) = self.descriptions.get(&description) else {
            return Err(Refusal::DescriptionMissing { agent, version });
        };
        let Described { signed: described, version: said } = described.clone().map_err(|fault| fault.refusal(at))?;
        self.log.accepts(described.signer, self.now_ms)?;
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

    fn mark(&self, mark: Authored<Mark>) -> Result<Judged, Refusal> {
        let Mark { agent, version, standing, by, sequence, .. } = mark.body.clone();
        self.own(&agent, by)?;
        let Some((versions, released)) =
            self.state.agents.get(&agent).and_then(|versions| Some((versions, versions.get(&version)?)))
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

    fn approval(&self, release: Authored<Release>) -> Result<Judged, Refusal> {
        let Release { agent, version, by, .. } = release.body.clone();
        let not_yours = || Refusal::NotYours { agent: agent.clone(), by };
        // Whoever may not approve learns nothing of what there is to approve.
        let held = self.state.organisations.publishing(agent.publisher(), self.now_ms)?.ok_or_else(not_yours)?;
        if by != self.log.publisher() || !held.roster.allows(by, Role::Approve, &agent) {
            return Err(not_yours());
        }
        let Some(released) = self.state.agents.get(&agent).and_then(|versions| versions.get(&version)) else {
            return Err(Refusal::NoRelease { agent, version });
        };
        let digest = release.digest();
        if let Some((_, index, known)) = released.approvals.iter().find(|(signer, ..)| *signer == by) {
            let same = *known == digest;
            return if same { Ok(Judged::Known(*index)) } else { Err(Refusal::ApprovedBefore { agent, version }) };
        }
        if released.is_approved {
            return Err(Refusal::ApprovedAlready { agent, version });
        }
        if released.essence != essence(&release.body) {
            return Err(Refusal::OtherRelease { agent, version });
        }
        if released.approvals.len() >= RELEASE_APPROVALS_MAX {
            return Err(Refusal::ApprovedAlready { agent, version });
        }
        // The description is the publisher's, and lies with its statement.
        Ok(Judged::New(Statement::Approval(Box::new(release))))
    }

    fn roster(&self, roster: Authored<Roster>) -> Result<Judged, Refusal> {
        let organisation = roster.body.organisation;
        if organisation != self.log.publisher() {
            return Err(Refusal::NotYourRoster { organisation, by: self.log.publisher() });
        }
        if let Some(known) = self.state.organisations.roster(organisation)
            && known.statement == roster.digest()
        {
            return Ok(Judged::Known(known.index));
        }
        self.state.organisations.judge_roster(&roster.body)?;
        Ok(Judged::New(Statement::Roster(Box::new(roster))))
    }

    fn attestation(&self, at: usize, attestation: Authored<Attestation>) -> Result<Judged, Refusal> {
        let by = attestation.body.by;
        if by != self.log.publisher() {
            return Err(Refusal::OtherSigner { at, by, signer: self.log.publisher() });
        }
        let Some(subject) = attestation.body.subject() else { return Err(Refusal::NoSubject { at }) };
        if !self.state.sees_subject(Some(by), &subject, self.now_ms) {
            return Err(match subject {
                Subject::Agent(agent, Some(version)) => Refusal::NoRelease { agent, version },
                Subject::Agent(agent, None) => Refusal::NoReleases(agent),
                Subject::Blueprint(_) => Refusal::NoSubject { at },
            });
        }
        if let Subject::Agent(agent, Some(version)) = &subject {
            let released = self.state.agent(agent).and_then(|versions| versions.get(version));
            if released.map(|released| released.content) != attestation.body.content {
                return Err(Refusal::OtherContent { at, agent: agent.clone(), version: version.clone() });
            }
        }
        let finding = (subject, attestation.body.name.clone());
        Ok(match self.state.attestations.judge(&attestation, &finding, self.now_ms)? {
            Some(index) => Judged::Known(index),
            None => Judged::New(Statement::Attestation(Box::new(attestation), self.now_ms)),
        })
    }

    /// Only the publisher itself speaks for its agents.
    fn own(&self, agent: &AgentId, by: PublisherId) -> Result<(), Refusal> {
        if agent.publisher() == self.log.publisher() && by == self.log.publisher() {
            return Ok(());
        }
        Err(Refusal::NotYours { agent: agent.clone(), by: self.log.publisher() })
    }
}

fn rising(agent: &AgentId, known: u64, given: u64) -> Result<(), Refusal> {
    if given > known { Ok(()) } else { Err(Refusal::Stale { agent: agent.clone(), known, given }) }
}

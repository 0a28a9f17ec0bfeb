//! What organisations have a say in: who sees a release, who approves it, and whose roster counts.

use althing_protocol::limits::RELEASE_APPROVALS_MAX;
use althing_protocol::object::Authored;
use althing_protocol::registry::{Reach, Release, Role, Roster, Version};
use althing_protocol::{AgentId, KeyLog, PublisherId};

use super::released::{Released, essence};
use super::{Judged, Machine, Refusal, Statement};

impl Machine {
    /// Whether a reader sees a release at `now_ms`. What is hidden looks like what is not there.
    #[must_use]
    pub fn sees(&self, reader: Option<PublisherId>, agent: &AgentId, released: &Released, now_ms: u64) -> bool {
        let publisher = agent.publisher();
        released.is_approved
            && match (released.audience.reach, reader) {
                (Reach::Public, _) => true,
                (_, None) => false,
                (_, Some(reader)) if reader == publisher => true,
                (Reach::Organisation, Some(reader)) => self.organisations.reads(reader, publisher, now_ms),
                (Reach::Listed, Some(reader)) => released.audience.readers.contains(&reader),
            }
    }

    /// Releases that wait for approvals, and that `who` may approve.
    pub fn waiting(&self, who: PublisherId, now_ms: u64) -> impl Iterator<Item = (&AgentId, &Version, &Released)> {
        let of = move |(agent, _): &&(AgentId, Version)| self.organisations.approves(who, agent, now_ms);
        let released = |(agent, version)| Some((agent, version, self.agents.get(agent)?.get(version)?));
        self.unapproved.iter().filter(of).map(|(agent, version)| (agent, version)).filter_map(released)
    }

    /// Takes over what is known of somebody else's agent.
    pub(super) fn bring(&mut self, whole: &Machine, agent: &AgentId) {
        self.organisations.bring(&whole.organisations, agent.publisher());
        if let Some(versions) = whole.agents.get(agent) {
            self.agents.entry(agent.clone()).or_insert_with(|| versions.clone());
        }
    }

    pub(super) fn judge_approval(
        &self,
        release: Authored<Release>,
        log: &KeyLog,
        now_ms: u64,
    ) -> Result<Judged, Refusal> {
        let Release { agent, version, by, .. } = release.body.clone();
        let not_yours = || Refusal::NotYours { agent: agent.clone(), by };
        // Whoever may not approve learns nothing of what there is to approve.
        let held = self.organisations.publishing(agent.publisher(), now_ms)?.ok_or_else(not_yours)?;
        if by != log.publisher() || !held.roster.allows(by, Role::Approve, &agent) {
            return Err(not_yours());
        }
        let Some(released) = self.agents.get(&agent).and_then(|versions| versions.get(&version)) else {
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

    pub(super) fn judge_roster(&self, roster: Authored<Roster>, log: &KeyLog) -> Result<Judged, Refusal> {
        let organisation = roster.body.organisation;
        if organisation != log.publisher() {
            return Err(Refusal::NotYourRoster { organisation, by: log.publisher() });
        }
        if let Some(known) = self.organisations.roster(organisation)
            && known.statement == roster.digest()
        {
            return Ok(Judged::Known(known.index));
        }
        self.organisations.judge_roster(&roster.body)?;
        Ok(Judged::New(Statement::Roster(Box::new(roster))))
    }
}

//! Domains, and the names of organisations' agents.

use althing_protocol::registry::{Domain, DomainFinding, Means, NameEvidence, Version};
use althing_protocol::{AgentId, PublisherId};

use super::releases::{Reader, visible};
use super::write_batch::PendingWrite;
use super::{Registry, RequestError};
use crate::machine::{HeldDomain, Refusal, TWINS_MAX, look_alike};

/// A domain, as everybody sees it.
#[derive(Debug, Clone)]
pub struct ShownDomain {
    /// Who holds it, and who waits for it.
    pub held: HeldDomain,
    /// Whether its proof counts now.
    pub is_proven: bool,
    /// Other domains here that look like it.
    pub twins: Vec<Domain>,
    /// The organisation's agents that the reader sees, with their highest versions.
    pub agents: Vec<(AgentId, Option<Version>)>,
}

/// Domains of organisations, and the names below them.
pub struct Names<'a>(pub(super) &'a Registry);

impl Names<'_> {
    /// Writes down what was found of a domain, unless it says nothing new; whether it did. It is on disk when this completes.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn found(&self, finding: DomainFinding) -> Result<bool, RequestError> {
        self.0.commit(|answer| PendingWrite::Finding(Box::new(finding), answer)).await
    }

    /// The domain that an organisation's roster names.
    ///
    /// # Errors
    /// [`Refusal::RosterOver`], and [`Refusal::NoDomain`] without a roster that names one.
    pub fn claimed_domain(&self, organisation: PublisherId) -> Result<Domain, RequestError> {
        let seen = self.0.seen();
        let held = seen.machine.organisations().roster(organisation).ok_or(Refusal::NoDomain(organisation))?;
        let over = |error| Refusal::RosterOver { organisation, error };
        held.roster.in_force((self.0.clock)()).map_err(over)?;
        Ok(held.roster.domain.clone().ok_or(Refusal::NoDomain(organisation))?)
    }

    /// The proofs that have to be looked for again.
    #[must_use]
    pub fn due_proofs(&self) -> Vec<(Domain, PublisherId, Means)> {
        self.0.seen().machine.organisations().due((self.0.clock)())
    }

    /// A domain.
    ///
    /// # Errors
    /// [`Refusal::DomainUnknown`].
    pub fn domain(&self, domain: &Domain, reader: Reader) -> Result<ShownDomain, RequestError> {
        let (seen, now_ms) = (self.0.seen(), (self.0.clock)());
        let organisations = seen.machine.organisations();
        let held = organisations.domain(domain).ok_or_else(|| Refusal::DomainUnknown(domain.clone()))?.clone();
        let twins = organisations.domains().map(|(other, _)| other).filter(|other| is_twin(domain, other));
        let twins = twins.take(TWINS_MAX).cloned().collect();
        let mut agents = Vec::new();
        if let Ok((_, roster)) = organisations.of_domain(domain, now_ms) {
            let members = roster.roster.members.iter().map(|member| member.publisher);
            let others = members.filter(|member| *member != held.organisation);
            let publishers: Vec<PublisherId> = std::iter::once(held.organisation).chain(others).collect();
            for agent in publishers.iter().flat_map(|publisher| seen.machine.of(*publisher)) {
                if roster.roster.names(agent) {
                    let mut listed = visible(&seen.machine, agent, reader, now_ms).peekable();
                    if listed.peek().is_some() {
                        agents.push((agent.clone(), listed.last().map(|one| one.version)));
                    }
                }
            }
        }
        Ok(ShownDomain { is_proven: held.holds(now_ms), held, twins, agents })
    }

    /// The agent that an organisation means by a name, with all that verifies it.
    ///
    /// # Errors
    /// [`RequestError::NoName`], also for a name whose agent the reader does not see; [`Refusal::DomainUnknown`] and
    /// [`Refusal::DomainNotProven`].
    pub fn name(&self, domain: &Domain, name: &str, reader: Reader) -> Result<NameEvidence, RequestError> {
        let now_ms = (self.0.clock)();
        let (agent, organisation, roster, finding) = {
            let seen = self.0.seen();
            let (held, roster) = seen.machine.organisations().of_domain(domain, now_ms)?;
            let sees = |agent: &AgentId| visible(&seen.machine, agent, reader, now_ms).next().is_some();
            let own = AgentId::new(held.organisation, name).ok();
            let members = roster.roster.members.iter().map(|member| member.publisher);
            let of_members = members.filter_map(|publisher| AgentId::new(publisher, name).ok());
            // The organisation's own agent comes first; of members' ones that which was there first.
            let of_members = of_members.filter(|agent| roster.roster.names(agent) && sees(agent));
            let first = |agent: &AgentId| {
                let versions = seen.machine.agent(agent)?;
                versions.iter().map(|(_, released)| released.index).min()
            };
            let agent = own.filter(|agent| sees(agent)).or_else(|| of_members.min_by_key(first));
            let none = || RequestError::NoName { domain: domain.clone(), name: name.chars().take(80).collect() };
            (agent.ok_or_else(none)?, held.organisation, roster.index, held.index)
        };
        let checkpoint = self.0.witnessing().over(roster.max(finding));
        Ok(NameEvidence {
            agent,
            key_log: self.0.key_log(organisation),
            roster: self.0.logged_at(roster, &checkpoint)?,
            finding: self.0.logged_at(finding, &checkpoint)?,
        })
    }
}

/// Whether two domains are easily taken for one another.
fn is_twin(one: &Domain, other: &Domain) -> bool {
    one != other && look_alike(one.as_str(), other.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_that_are_easily_confused_are_twins() {
        let twin = |one: &str, other: &str| {
            let domain = |text: &str| text.parse::<Domain>().expect("a domain");
            assert_eq!(is_twin(&domain(one), &domain(other)), is_twin(&domain(other), &domain(one)));
            is_twin(&domain(one), &domain(other))
        };
        for other in
            ["examp1e.org", "exarnple.org", "exampel.org", "exampe.org", "examplee.org", "exbmple.org", "ex-ample.org"]
        {
            assert!(twin("example.org", other), "{other}");
        }
        for other in ["example.org", "example.com", "sample.org", "elpmaxe.org"] {
            assert!(!twin("example.org", other), "{other}");
        }
        assert!(!twin("a.org", "b.org"), "short ones differ in one letter often");
    }
}

//! Organisations: their rosters and their domains, and what follows from them.

use std::collections::BTreeMap;

use althing_protocol::limits::{DOMAIN_PROOF_LIFE_MS, DOMAIN_WAIT_MS, GRANT_LIFE_MAX_MS};
use althing_protocol::registry::{Domain, DomainFinding, Means, Role, Roster};
use althing_protocol::{AgentId, Digest, PublisherId};

use super::Refusal;
use super::released::Released;

/// Domains that a registry knows.
const DOMAINS_MAX: usize = 65_536;
/// A proof is repeated when it is this old, milliseconds: a day, less what a look-up may be late.
const REPEAT_MS: u64 = GRANT_LIFE_MAX_MS - 60 * 60 * 1_000;
/// For how long a proof that lapsed is still looked for, milliseconds; whoever comes back later proves the domain anew.
const LAPSED_MS: u64 = DOMAIN_PROOF_LIFE_MS;

/// The newest roster of an organisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRoster {
    /// The index of its entry.
    pub index: u64,
    /// The digest of its signed bytes.
    pub statement: Digest,
    /// The roster.
    pub roster: Roster,
}

/// A domain, and the organisation that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldDomain {
    /// The organisation.
    pub organisation: PublisherId,
    /// The index of the newest finding about it.
    pub index: u64,
    /// When that was, Unix milliseconds.
    pub found_ms: u64,
    /// What was found.
    pub finding: DomainFinding,
    /// Another organisation that the domain names, and since when: it waits 30 days, and everybody sees it wait.
    pub claim: Option<Claim>,
}

/// An organisation that waits for a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The organisation.
    pub organisation: PublisherId,
    /// Where the domain names it.
    pub means: Means,
    /// Since when it waits, Unix milliseconds.
    pub since_ms: u64,
    /// When the domain was last found to name it, Unix milliseconds.
    pub found_ms: u64,
}

impl HeldDomain {
    /// Whether the proof counts at `now_ms`; if not, nothing is published under the domain.
    #[must_use]
    pub fn holds(&self, now_ms: u64) -> bool {
        self.finding.holds(self.found_ms, now_ms)
    }

    fn of(finding: &DomainFinding, index: u64, at_ms: u64) -> HeldDomain {
        let (organisation, finding) = (finding.organisation, finding.clone());
        HeldDomain { organisation, index, found_ms: at_ms, finding, claim: None }
    }

    /// What follows from one more finding.
    fn after(mut self, finding: &DomainFinding, index: u64, at_ms: u64) -> HeldDomain {
        if finding.organisation == self.organisation {
            // A domain may stop to name it in one place and go on in another.
            if finding.proven || finding.means == self.finding.means {
                // It names the holder: whoever waited does not any more.
                let claim = self.claim.filter(|_| !finding.proven);
                return HeldDomain { claim, ..HeldDomain::of(finding, index, at_ms) };
            }
            return self;
        }
        let waits = self.claim.take_if(|claim| claim.organisation == finding.organisation);
        if !finding.proven {
            return self;
        }
        let since_ms = waits.map_or(at_ms, |claim| claim.since_ms);
        if at_ms >= since_ms.saturating_add(DOMAIN_WAIT_MS) {
            return HeldDomain::of(finding, index, at_ms);
        }
        let (organisation, means) = (finding.organisation, finding.means);
        self.claim = Some(Claim { organisation, means, since_ms, found_ms: at_ms });
        self
    }
}

/// All organisations and domains of a registry.
#[derive(Debug, Clone, Default)]
pub struct Organisations {
    rosters: BTreeMap<PublisherId, HeldRoster>,
    domains: BTreeMap<Domain, HeldDomain>,
}

impl Organisations {
    /// The newest roster of an organisation, in force or not.
    #[must_use]
    pub fn roster(&self, organisation: PublisherId) -> Option<&HeldRoster> {
        self.rosters.get(&organisation)
    }

    /// A domain.
    #[must_use]
    pub fn domain(&self, domain: &Domain) -> Option<&HeldDomain> {
        self.domains.get(domain)
    }

    /// All domains.
    pub fn domains(&self) -> impl Iterator<Item = (&Domain, &HeldDomain)> {
        self.domains.iter()
    }

    /// The organisations of one publisher alone, to be judged with.
    pub(super) fn of(&self, publisher: PublisherId) -> Organisations {
        let mut own = Organisations::default();
        own.bring(self, publisher);
        own
    }

    /// Takes over the roster of a publisher, and its domain.
    pub(super) fn bring(&mut self, from: &Organisations, publisher: PublisherId) {
        let Some(held) = from.rosters.get(&publisher) else { return };
        self.rosters.entry(publisher).or_insert_with(|| held.clone());
        if let Some(domain) = &held.roster.domain
            && let Some(held) = from.domains.get(domain)
        {
            self.domains.entry(domain.clone()).or_insert_with(|| held.clone());
        }
    }

    /// Whether a publisher is a member of one of these organisations at `now_ms`.
    pub(super) fn has_member(&self, publisher: PublisherId, of: impl Fn(PublisherId) -> bool, now_ms: u64) -> bool {
        let has = |roster: &Roster| roster.in_force(now_ms).is_ok() && roster.has_reader(publisher);
        self.rosters.values().any(|held| of(held.roster.organisation) && has(&held.roster))
    }

    /// The roster under which an organisation may publish now; none if the publisher is no organisation.
    ///
    /// # Errors
    /// [`Refusal::RosterOver`], [`Refusal::DomainNotProven`].
    pub fn publishing(&self, publisher: PublisherId, now_ms: u64) -> Result<Option<&HeldRoster>, Refusal> {
        let Some(held) = self.roster(publisher) else { return Ok(None) };
        held.roster.in_force(now_ms).map_err(|error| Refusal::RosterOver { organisation: publisher, error })?;
        if let Some(domain) = &held.roster.domain
            && !self.holds(domain, publisher, now_ms)
        {
            return Err(Refusal::DomainNotProven { domain: domain.clone(), organisation: publisher });
        }
        Ok(Some(held))
    }

    /// Whether a domain is an organisation's now.
    #[must_use]
    pub fn holds(&self, domain: &Domain, organisation: PublisherId, now_ms: u64) -> bool {
        self.domain(domain).is_some_and(|held| held.organisation == organisation && held.holds(now_ms))
    }

    /// Whether somebody reads what an organisation releases for itself.
    #[must_use]
    pub fn reads(&self, reader: PublisherId, organisation: PublisherId, now_ms: u64) -> bool {
        let of = |held: &HeldRoster| held.roster.in_force(now_ms).is_ok() && held.roster.has_reader(reader);
        reader == organisation || self.roster(organisation).is_some_and(of)
    }

    /// Whether somebody may approve releases of an agent, and so sees what waits for approval.
    #[must_use]
    pub fn approves(&self, who: PublisherId, agent: &AgentId, now_ms: u64) -> bool {
        let of =
            |held: &HeldRoster| held.roster.in_force(now_ms).is_ok() && held.roster.allows(who, Role::Approve, agent);
        who == agent.publisher() || self.roster(agent.publisher()).is_some_and(of)
    }

    /// The organisation that a domain's name belongs to now, with its roster.
    ///
    /// # Errors
    /// [`Refusal::DomainUnknown`], [`Refusal::RosterOver`], [`Refusal::DomainNotProven`].
    pub fn of_domain(&self, domain: &Domain, now_ms: u64) -> Result<(&HeldDomain, &HeldRoster), Refusal> {
        let unknown = || Refusal::DomainUnknown(domain.clone());
        let held = self.domain(domain).ok_or_else(unknown)?;
        let roster = self.roster(held.organisation).ok_or_else(unknown)?;
        if roster.roster.domain.as_ref() != Some(domain) {
            return Err(unknown());
        }
        self.publishing(held.organisation, now_ms)?;
        Ok((held, roster))
    }

    /// Whether a roster is newer than the one that is known.
    pub(super) fn judge_roster(&self, roster: &Roster) -> Result<(), Refusal> {
        if let Some(known) = self.roster(roster.organisation)
            && roster.sequence <= known.roster.sequence
        {
            let (known, given) = (known.roster.sequence, roster.sequence);
            return Err(Refusal::RosterStale { organisation: roster.organisation, known, given });
        }
        Ok(())
    }

    /// Whether a finding says something that is not known yet.
    ///
    /// # Errors
    /// [`Refusal::DomainsFull`].
    pub fn is_news(&self, finding: &DomainFinding, at_ms: u64) -> Result<bool, Refusal> {
        let Some(held) = self.domain(&finding.domain) else {
            if self.domains.len() >= DOMAINS_MAX {
                return Err(Refusal::DomainsFull(DOMAINS_MAX));
            }
            return Ok(finding.proven);
        };
        let after = held.clone().after(finding, held.index, at_ms);
        // That a domain still does not name its holder is no news either: told again and again, it would never be over.
        if after == *held || (!finding.proven && *finding == held.finding) {
            return Ok(false);
        }
        let old = |found_ms: u64| at_ms >= found_ms.saturating_add(REPEAT_MS);
        let repeated = after.finding == held.finding && after.organisation == held.organisation;
        let same_claim = match (&after.claim, &held.claim) {
            (None, None) => true,
            (Some(after), Some(held)) => after.organisation == held.organisation && !old(held.found_ms),
            _ => false,
        };
        Ok(!(repeated && same_claim && (finding.organisation != held.organisation || !old(held.found_ms))))
    }

    /// What has to be looked for again at `now_ms`: the daily proofs of holders and of those who wait, but for those that
    /// lapsed long ago.
    #[must_use]
    pub fn due(&self, now_ms: u64) -> Vec<(Domain, PublisherId, Means)> {
        let is_due = |found_ms: u64, means, proven| {
            // What was found not to be proven lapsed when it was found.
            let lapses_ms = if proven { found_ms.saturating_add(DOMAIN_PROOF_LIFE_MS) } else { found_ms };
            let from_ms = found_ms.saturating_add(REPEAT_MS);
            means != Means::Operator && (from_ms..=lapses_ms.saturating_add(LAPSED_MS)).contains(&now_ms)
        };
        let mut due = Vec::new();
        for (domain, held) in &self.domains {
            if is_due(held.found_ms, held.finding.means, held.finding.proven) {
                due.push((domain.clone(), held.organisation, held.finding.means));
            }
            if let Some(claim) = held.claim.as_ref().filter(|claim| is_due(claim.found_ms, claim.means, true)) {
                due.push((domain.clone(), claim.organisation, claim.means));
            }
        }
        due
    }

    /// Counts who approves a release, by the newest roster.
    pub(super) fn count(&self, agent: &AgentId, released: &mut Released) {
        if released.is_approved {
            return;
        }
        let Some(held) = self.roster(agent.publisher()) else {
            released.is_approved = true;
            return;
        };
        let signers = released.approvals.iter().map(|(by, ..)| *by).chain([agent.publisher()]);
        let approved = signers.filter(|by| held.roster.allows(*by, Role::Approve, agent)).count();
        if approved >= usize::from(held.roster.approvals) {
            (released.is_approved, released.roster) = (true, Some(held.index));
        }
    }

    pub(super) fn apply_roster(&mut self, index: u64, statement: Digest, roster: Roster) {
        self.rosters.insert(roster.organisation, HeldRoster { index, statement, roster });
    }

    pub(super) fn apply_finding(&mut self, index: u64, at_ms: u64, finding: &DomainFinding) {
        let after = match self.domains.remove(&finding.domain) {
            Some(held) => held.after(finding, index, at_ms),
            None if finding.proven => HeldDomain::of(finding, index, at_ms),
            None => return,
        };
        self.domains.insert(finding.domain.clone(), after);
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::registry::RosterMember;

    use super::*;

    const DAY: u64 = GRANT_LIFE_MAX_MS;

    fn org(seed: u8) -> PublisherId {
        PublisherId::from_digest([seed; 32])
    }

    fn finding(seed: u8, means: Means, proven: bool) -> DomainFinding {
        DomainFinding { domain: "example.org".parse().expect("a domain"), organisation: org(seed), means, proven }
    }

    fn domain() -> Domain {
        "example.org".parse().expect("a domain")
    }

    #[test]
    fn a_proof_is_repeated_daily_and_lapses_when_it_is_not() {
        let mut all = Organisations::default();
        assert_eq!(all.is_news(&finding(1, Means::Dns, false), 0), Ok(false), "nothing is known that could lapse");
        assert_eq!(all.is_news(&finding(1, Means::Dns, true), 0), Ok(true));
        all.apply_finding(0, 0, &finding(1, Means::Dns, true));
        assert!(all.holds(&domain(), org(1), 2 * DAY));
        assert!(!all.holds(&domain(), org(1), 2 * DAY + 1), "nobody could look for two days");
        assert!(!all.holds(&domain(), org(2), 0));
        assert_eq!(all.due(DAY / 2), []);
        assert_eq!(all.due(DAY), [(domain(), org(1), Means::Dns)]);
        assert_eq!(all.is_news(&finding(1, Means::Dns, true), DAY / 2), Ok(false), "it was found just before");
        assert_eq!(all.is_news(&finding(1, Means::Dns, true), DAY), Ok(true));
        // Not found where it was: it lapses at once. Not found elsewhere says nothing.
        assert_eq!(all.is_news(&finding(1, Means::WellKnown, false), 5), Ok(false));
        all.apply_finding(1, DAY, &finding(1, Means::Dns, false));
        assert!(!all.holds(&domain(), org(1), DAY));
        all.apply_finding(2, DAY + 1, &finding(1, Means::WellKnown, true));
        assert!(all.holds(&domain(), org(1), DAY + 1));
    }

    #[test]
    fn a_proof_that_lapsed_long_ago_is_not_looked_for() {
        let mut all = Organisations::default();
        all.apply_finding(0, 0, &finding(1, Means::Dns, true));
        all.apply_finding(1, 0, &finding(2, Means::WellKnown, true));
        let both = [(domain(), org(1), Means::Dns), (domain(), org(2), Means::WellKnown)];
        assert_eq!(
            all.due(4 * DAY),
            both,
            "it lapsed after two days, two days ago; and so did that of the one who waits"
        );
        assert_eq!(all.due(4 * DAY + 1), []);
        // Who is back says so (`althing org prove`), and is looked for daily again.
        all.apply_finding(2, 9 * DAY, &finding(1, Means::Dns, true));
        assert_eq!(all.due(10 * DAY), both[..1]);
        // What was found not to be proven lapsed at once, and is written down once.
        all.apply_finding(3, 10 * DAY, &finding(1, Means::Dns, false));
        assert_eq!(all.is_news(&finding(1, Means::Dns, false), 11 * DAY), Ok(false));
        assert_eq!((all.due(12 * DAY), all.due(12 * DAY + 1)), (both[..1].to_vec(), vec![]));
        assert_eq!(all.is_news(&finding(1, Means::Dns, true), 20 * DAY), Ok(true));
    }

    #[test]
    fn the_operators_word_is_not_repeated() {
        let mut all = Organisations::default();
        all.apply_finding(0, 0, &finding(1, Means::Operator, true));
        assert!(all.holds(&domain(), org(1), u64::MAX));
        assert_eq!(all.due(u64::MAX), []);
        all.apply_finding(1, 9, &finding(1, Means::Operator, false));
        assert!(!all.holds(&domain(), org(1), 9));
    }

    #[test]
    fn another_key_waits_for_thirty_days_in_public() {
        let mut all = Organisations::default();
        all.apply_finding(0, 0, &finding(1, Means::Dns, true));
        for day in 1..=30 {
            let at_ms = day * DAY;
            assert_eq!(all.is_news(&finding(2, Means::Dns, true), at_ms), Ok(true), "day {day}");
            all.apply_finding(day, at_ms, &finding(2, Means::Dns, true));
            let held = all.domain(&domain()).expect("it is known");
            assert_eq!(held.organisation, org(1), "day {day}");
            assert_eq!(held.claim.as_ref().map(|claim| claim.since_ms), Some(DAY));
        }
        let mut back = all.clone();
        all.apply_finding(31, 31 * DAY, &finding(2, Means::Dns, true));
        assert!(all.holds(&domain(), org(2), 31 * DAY));
        assert!(!all.holds(&domain(), org(1), 31 * DAY));
        // The domain names the holder again: the wait begins anew.
        back.apply_finding(31, 31 * DAY - 2, &finding(1, Means::Dns, true));
        back.apply_finding(32, 31 * DAY, &finding(2, Means::Dns, true));
        let held = back.domain(&domain()).expect("it is known");
        assert_eq!((held.organisation, held.claim.as_ref().map(|claim| claim.since_ms)), (org(1), Some(31 * DAY)));
        // And a domain that names the other no more has no claim.
        back.apply_finding(33, 32 * DAY, &finding(2, Means::Dns, false));
        assert_eq!(back.domain(&domain()).and_then(|held| held.claim.clone()), None);
    }

    #[test]
    fn a_member_is_one_for_as_long_as_the_roster_lives() {
        let mut all = Organisations::default();
        let member = RosterMember { publisher: org(2), roles: vec![Role::Approve], names: vec![] };
        all.apply_roster(0, [0; 32], Roster::new(org(1), vec![member], 1, 0, DAY));
        assert!(all.has_member(org(2), |organisation| organisation == org(1), DAY));
        assert!(!all.has_member(org(2), |organisation| organisation == org(3), DAY));
        assert!(!all.has_member(org(2), |_| true, DAY + 1));
        assert!(!all.has_member(org(3), |_| true, 0));
    }

    #[test]
    fn who_has_no_valid_roster_or_domain_publishes_nothing() {
        let mut all = Organisations::default();
        let mut roster = Roster::new(org(1), vec![], 1, 0, DAY);
        assert_eq!(all.publishing(org(1), 0), Ok(None), "no organisation");
        all.apply_roster(0, [0; 32], roster.clone());
        assert!(matches!(all.publishing(org(1), DAY), Ok(Some(_))));
        assert!(matches!(all.publishing(org(1), DAY + 1), Err(Refusal::RosterOver { .. })));
        roster.domain = Some(domain());
        all.apply_roster(1, [1; 32], roster);
        assert!(matches!(all.publishing(org(1), 0), Err(Refusal::DomainNotProven { .. })));
        all.apply_finding(2, 0, &finding(2, Means::Dns, true));
        assert!(matches!(all.publishing(org(1), 0), Err(Refusal::DomainNotProven { .. })), "it is somebody else's");
        assert!(matches!(all.of_domain(&domain(), 0), Err(Refusal::DomainUnknown(_))));
    }
}

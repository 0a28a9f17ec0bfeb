//! What must be attested of a release before it is installed here. Pure.

use std::fmt;

use althing_protocol::{AgentId, PublisherId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// Attestations, and attesters, of one requirement.
const WANTED_MAX: usize = 8;

/// What agents must have to be installed. Once there is one, nothing is installed that none names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// Which agents: `urn:althing:zQm…:name` or `example.org/name`; what ends with `*` means all that begin so.
    pub agents: String,
    /// The names of attestations, each of which one of `by` must have made; none: these agents need none.
    #[serde(default)]
    pub attestations: Vec<String>,
    /// Ids of the publishers whose attestations count.
    #[serde(default)]
    pub by: Vec<String>,
    /// How old an attestation may be; 0: as old as it likes, while it is in force.
    #[serde(default)]
    pub max_age_days: u32,
}

/// An attestation, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttestedRow {
    /// Its name.
    pub name: String,
    /// Who found it.
    pub by: PublisherId,
    /// Of which version; none: of all.
    pub version: Option<String>,
    /// The finding.
    pub finding: Value,
    /// When it was made, as its signer says, and no later than the registry accepted it, Unix milliseconds.
    pub made_ms: u64,
    /// When the registry accepted it, Unix milliseconds.
    pub accepted_ms: u64,
    /// Until when it is in force, Unix milliseconds.
    pub until_ms: u64,
}

/// What is missing of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// No requirement names the agent.
    Unnamed,
    /// Nobody who counts has found that.
    Absent {
        /// The name of the attestation.
        name: String,
        /// Who could have.
        by: Vec<PublisherId>,
    },
    /// Somebody found that it is not so.
    Negative {
        /// The name of the attestation.
        name: String,
        /// Who found it.
        by: PublisherId,
    },
    /// It was found too long ago.
    Old {
        /// The name of the attestation.
        name: String,
        /// Who found it.
        by: PublisherId,
        /// How many days ago.
        days: u64,
        /// How many it may be.
        max: u32,
    },
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Unnamed => write!(
                f,
                "`install` in the configuration says what agents must have, and none of it is for this one: add an entry for \
                 it, with `attestations = []` if it needs none"
            ),
            Lack::Absent { name, by } => {
                let by: Vec<String> = by.iter().map(PublisherId::to_string).collect();
                write!(
                    f,
                    "it must have the attestation {name:?} of {}, and the registry shows none that is in force",
                    by.join(" or ")
                )
            }
            Lack::Negative { name, by } => write!(f, "{by} attests that it does not pass {name:?}"),
            Lack::Old { name, by, days, max } => {
                write!(f, "the attestation {name:?} of {by} is {days} days old, and it may be {max}: ask for a new one")
            }
        }
    }
}

impl Requirement {
    /// What is wrong with it.
    ///
    /// # Errors
    /// Says it, and what to do.
    pub fn check(&self) -> Result<(), String> {
        let star = self.agents.find('*');
        let stars = |at: usize| at + 1 == self.agents.len() && (at == 0 || self.agents[..at].ends_with(['/', ':']));
        if self.agents.is_empty() || star.is_some_and(|at| !stars(at)) {
            return Err(format!(
                "`agents` is an agent's id or name, or begins one up to / or : and ends with *, not {:?}",
                self.agents
            ));
        }
        if self.attestations.len() > WANTED_MAX || self.by.len() > WANTED_MAX {
            return Err(format!("`attestations` and `by` have at most {WANTED_MAX} entries each"));
        }
        if !self.attestations.is_empty() && self.by.is_empty() {
            return Err("`by` names those whose attestations count; anybody can attest anything".to_owned());
        }
        match self.by.iter().find(|by| by.parse::<PublisherId>().is_err()) {
            Some(wrong) => Err(format!("`by` has {wrong:?}, which is no id of a publisher: urn:althing:…")),
            None => Ok(()),
        }
    }

    fn names(&self, agent: &AgentId, named: Option<&str>) -> bool {
        let is = |name: &str| match self.agents.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == self.agents,
        };
        is(&agent.to_string()) || named.is_some_and(is)
    }

    fn signers(&self) -> Vec<PublisherId> {
        self.by.iter().filter_map(|by| by.parse().ok()).collect()
    }
}

/// The names of attestations that an agent must have, each with those whose count.
#[must_use]
pub fn wanted(requirements: &[Requirement], agent: &AgentId, named: Option<&str>) -> Vec<(String, PublisherId)> {
    let of = requirements.iter().filter(|one| one.names(agent, named));
    of.flat_map(|one| {
        let signers = one.signers();
        one.attestations.iter().flat_map(move |name| signers.clone().into_iter().map(move |by| (name.clone(), by)))
    })
    .collect()
}

/// Whether an agent has all that it must have: all requirements that name it, one at least. Gives the attestations that count.
///
/// # Errors
/// [`Lack`]: the first thing that is missing.
pub fn satisfied(
    requirements: &[Requirement],
    (agent, named): (&AgentId, Option<&str>),
    attested: &[AttestedRow],
    now_ms: u64,
) -> Result<Vec<AttestedRow>, Lack> {
    let mut counting = Vec::new();
    let mut of = requirements.iter().filter(|one| one.names(agent, named)).peekable();
    if !requirements.is_empty() && of.peek().is_none() {
        return Err(Lack::Unnamed);
    }
    for requirement in of {
        for name in &requirement.attestations {
            counting.push(one_of(requirement, name, attested, now_ms)?.clone());
        }
    }
    Ok(counting)
}

/// The attestation that a requirement demands, by one of those whose count. One of them who finds the contrary counts more.
fn one_of<'a>(
    requirement: &Requirement,
    name: &str,
    attested: &'a [AttestedRow],
    now_ms: u64,
) -> Result<&'a AttestedRow, Lack> {
    let by = requirement.signers();
    let of = |row: &&AttestedRow| row.name == name && by.contains(&row.by);
    if let Some(row) = attested.iter().filter(of).find(|row| !passes(&row.finding)) {
        return Err(Lack::Negative { name: name.to_owned(), by: row.by });
    }
    let newest = attested.iter().filter(of).max_by_key(|row| row.made_ms);
    let row = newest.ok_or_else(|| Lack::Absent { name: name.to_owned(), by: by.clone() })?;
    let (days, max) = (now_ms.saturating_sub(row.made_ms) / DAY_MS, requirement.max_age_days);
    if max > 0 && now_ms.saturating_sub(row.made_ms) > u64::from(max) * DAY_MS {
        return Err(Lack::Old { name: name.to_owned(), by: row.by, days, max });
    }
    Ok(row)
}

/// Whether a finding says that all is well: `true`, or an object whose `passed` is true.
fn passes(finding: &Value) -> bool {
    finding.as_bool().or_else(|| finding.get("passed")?.as_bool()).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: u64 = 100 * DAY_MS;

    fn publisher(seed: u8) -> PublisherId {
        PublisherId::from_digest([seed; 32])
    }

    fn agent() -> AgentId {
        AgentId::new(publisher(1), "billing").expect("a name")
    }

    fn requires(agents: &str, attestations: &[&str], by: &[u8], max_age_days: u32) -> Requirement {
        Requirement {
            agents: agents.to_owned(),
            attestations: attestations.iter().map(|name| (*name).to_owned()).collect(),
            by: by.iter().map(|seed| publisher(*seed).to_string()).collect(),
            max_age_days,
        }
    }

    fn row(name: &str, by: u8, finding: Value, days_ago: u64) -> AttestedRow {
        let (by, made_ms) = (publisher(by), NOW - days_ago * DAY_MS);
        AttestedRow { name: name.to_owned(), by, version: None, finding, made_ms, accepted_ms: NOW, until_ms: u64::MAX }
    }

    fn lack(all: &[Requirement], rows: &[AttestedRow]) -> Result<usize, Lack> {
        satisfied(all, (&agent(), Some("example.org/billing")), rows, NOW).map(|counting| counting.len())
    }

    #[test]
    fn without_requirements_everything_is_let_in_and_with_one_nothing_that_none_names() {
        assert_eq!(lack(&[], &[]), Ok(0));
        assert_eq!(lack(&[requires("example.com/*", &[], &[], 0)], &[]), Err(Lack::Unnamed));
        for agents in ["*", "example.org/*", "example.org/billing", &agent().to_string(), "urn:althing:z*"] {
            assert_eq!(lack(&[requires(agents, &[], &[], 0)], &[]), Ok(0), "{agents}");
        }
        assert_eq!(lack(&[requires("example.org/bill", &[], &[], 0)], &[]), Err(Lack::Unnamed));
    }

    #[test]
    fn each_attestation_is_demanded_of_one_of_those_that_count() {
        let all = [requires("*", &["audit", "build"], &[2, 3], 0)];
        let audit = row("audit", 2, json!(true), 0);
        let build = row("build", 3, json!({ "passed": true, "by": "ci" }), 0);
        assert_eq!(lack(&all, &[audit.clone(), build.clone()]), Ok(2));
        let absent = Lack::Absent { name: "build".to_owned(), by: vec![publisher(2), publisher(3)] };
        assert_eq!(lack(&all, std::slice::from_ref(&audit)), Err(absent.clone()));
        assert_eq!(lack(&all, &[audit.clone(), row("build", 4, json!(true), 0)]), Err(absent), "anybody's counts not");
        for finding in [json!(false), json!({ "passed": false }), json!("yes"), json!(1), json!({})] {
            let negative = Lack::Negative { name: "build".to_owned(), by: publisher(3) };
            assert_eq!(lack(&all, &[audit.clone(), row("build", 3, finding, 0)]), Err(negative));
        }
        // One who finds the contrary counts more than another who does not.
        let both = [audit, build, row("build", 2, json!(false), 0)];
        assert!(matches!(lack(&all, &both), Err(Lack::Negative { .. })));
    }

    #[test]
    fn an_attestation_may_be_so_old() {
        let all = [requires("*", &["audit"], &[2], 30)];
        assert_eq!(lack(&all, &[row("audit", 2, json!(true), 30)]), Ok(1));
        let old = Lack::Old { name: "audit".to_owned(), by: publisher(2), days: 31, max: 30 };
        assert_eq!(lack(&all, &[row("audit", 2, json!(true), 31)]), Err(old));
    }

    #[test]
    fn all_requirements_that_name_an_agent_hold() {
        let all = [requires("*", &[], &[], 0), requires("example.org/*", &["audit"], &[2], 0)];
        assert!(matches!(lack(&all, &[]), Err(Lack::Absent { .. })));
        assert_eq!(wanted(&all, &agent(), Some("example.org/billing")), [("audit".to_owned(), publisher(2))]);
        assert_eq!(wanted(&all, &agent(), None), []);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        assert_eq!(requires("example.org/*", &["audit"], &[2], 1).check(), Ok(()));
        assert!(requires("", &[], &[], 0).check().is_err());
        assert!(requires("*.org", &[], &[], 0).check().is_err());
        assert!(requires("*", &["audit"], &[], 0).check().is_err());
        let named = Requirement { by: vec!["alice".to_owned()], ..requires("*", &[], &[], 0) };
        assert!(named.check().is_err());
    }
}

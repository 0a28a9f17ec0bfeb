//! Channels of LMOS: capabilities with ranges of versions, for each of which the agent with the highest version is chosen. A
//! channel has an agent for all of them, or nothing is resolved.

use std::collections::BTreeSet;

use althing_calls::{Among, Asker, Purpose};
use althing_discovery::machine::range::Wanted;
use althing_discovery::{Found, Query};
use althing_protocol::object::Health;
use althing_protocol::registry::Standing;
use serde::Serialize;

use crate::routing::error::{ChannelNeed, NEEDS_MAX};
use crate::routing::{NodeRouter, RoutingError};

/// Agents with one capability whose standing is asked for.
const ASKED_MAX: usize = 16;
/// Versions that are named where none will do.
const VERSIONS_SHOWN: usize = 8;

/// The agent for one capability of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    /// What the channel wants.
    pub capability: String,
    /// The agent's identifier.
    pub agent: String,
    /// Its name.
    pub name: String,
    /// The node that it runs on.
    pub node: String,
    /// The version of the capability; empty for one without.
    pub version: String,
}

/// Whether a release of that standing may be chosen; by its exact version a yanked one too.
fn will_do(standing: Option<Standing>, is_exact: bool) -> bool {
    match standing {
        None | Some(Standing::Good | Standing::Deprecated) => true,
        Some(Standing::Yanked) => is_exact,
        Some(Standing::Revoked) => false,
    }
}

impl NodeRouter<'_> {
    /// The agents for the capabilities of a channel, each the one with the highest version in its range whose release was not
    /// withdrawn: for all of them, or an error that names those that have none.
    ///
    /// # Errors
    /// [`RoutingError::Needs`] and [`RoutingError::Unresolved`].
    pub async fn channel(&self, needs: &[String], among: Among) -> Result<Vec<Resolved>, RoutingError> {
        if needs.is_empty() || needs.len() > NEEDS_MAX {
            return Err(RoutingError::Needs);
        }
        let (mut resolved, mut missing) = (Vec::new(), Vec::new());
        for need in needs {
            match self.one(need, among).await {
                Ok(one) => resolved.push(one),
                Err(need) => missing.push(need),
            }
        }
        if missing.is_empty() { Ok(resolved) } else { Err(RoutingError::Unresolved(missing)) }
    }

    /// The agent for one capability.
    async fn one(&self, need: &str, among: Among) -> Result<Resolved, ChannelNeed> {
        let wanted = Wanted::read(need);
        let (mut seen, mut withdrawn) = (BTreeSet::new(), 0);
        // In the order of `find`: the highest version first, then the least load.
        for found in self.able(need, among).await {
            let (agent, description) = (&found.candidate.verified.agent, &found.candidate.description);
            if seen.len() >= ASKED_MAX || !seen.insert(agent.clone()) {
                continue;
            }
            let standing = match description.version() {
                Some(release) => self.0.registries.standing(agent, release).await,
                None => None,
            };
            if !will_do(standing, wanted.is_exact()) {
                withdrawn += 1;
                continue;
            }
            let version = wanted.version(description.capabilities()).map(|version| version.to_string());
            let version = version.or_else(|| {
                let has = description.capabilities().iter().find(|has| has.id == wanted.id);
                has.and_then(|has| has.version.clone())
            });
            return Ok(Resolved {
                capability: need.to_owned(),
                agent: agent.to_string(),
                name: agent.name().to_owned(),
                node: found.node.did(),
                version: version.unwrap_or_default(),
            });
        }
        let others = self.able(wanted.id, among).await;
        let mut versions: Vec<semver::Version> = others
            .iter()
            .flat_map(|found| found.candidate.description.capabilities())
            .filter(|has| has.id == wanted.id)
            .filter_map(|has| has.version.as_deref()?.parse().ok())
            .collect();
        versions.sort_unstable_by(|one, other| other.cmp(one));
        versions.dedup();
        let versions = versions.iter().take(VERSIONS_SHOWN).map(ToString::to_string).collect();
        Err(ChannelNeed { capability: need.to_owned(), versions, withdrawn })
    }

    /// The agents that have a capability and may be called.
    async fn able(&self, capability: &str, among: Among) -> Vec<Found> {
        let query = Query { capability: Some(capability.to_owned()), ..Query::default() };
        let (mut found, _) = self.0.discovery.search(&query).await;
        found.retain(|found| {
            let agent = &found.candidate.verified.agent;
            found.health != Health::Leaving && self.0.calls.offers(&Asker::Owner, agent, among, Purpose::Call)
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_withdrawn_is_not_chosen_but_a_yanked_one_by_its_exact_version() {
        for (standing, by_range, exactly) in [
            (None, true, true),
            (Some(Standing::Good), true, true),
            (Some(Standing::Deprecated), true, true),
            (Some(Standing::Yanked), false, true),
            (Some(Standing::Revoked), false, false),
        ] {
            assert_eq!((will_do(standing, false), will_do(standing, true)), (by_range, exactly), "{standing:?}");
        }
    }
}

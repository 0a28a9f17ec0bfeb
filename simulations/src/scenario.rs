//! Scenario files: what happens to which nodes, and when. Times are milliseconds of virtual time.

use std::path::Path;
use std::time::Duration;

use althing_discovery::{Bounds, DiscoveryConfig};
use althing_simnet::LinkConfig;
use althing_store::file::{FileError, read_text};
use serde::Deserialize;

/// Bytes of a scenario's file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Nodes of one scenario.
const NODES_MAX: u32 = 5_000;
/// The longest scenario: an hour.
const FOR_MAX_MS: u64 = 3_600_000;

/// A scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it shows.
    pub about: String,
    /// Nodes.
    pub nodes: u32,
    /// Its duration.
    pub for_ms: u64,
    /// The seeds that it is run with by default.
    pub seeds: Vec<u64>,
    /// How links behave.
    #[serde(default)]
    pub link: Link,
    /// How nodes join.
    #[serde(default)]
    pub join: Join,
    /// The agents that nodes host.
    #[serde(default)]
    pub agents: Agents,
    /// The bounds of the nodes' catalogues.
    #[serde(default)]
    pub catalogue: Catalogue,
    /// The searches.
    #[serde(default)]
    pub finds: Finds,
    /// The calls.
    pub calls: Option<Calls>,
    /// Nodes that crash and restart.
    pub churn: Option<Churn>,
    /// Events that happen once.
    #[serde(default)]
    pub at: Vec<Event>,
    /// Nodes that break the rules.
    #[serde(default)]
    pub adversary: Vec<AdversaryOf>,
    /// What must hold throughout.
    pub invariants: Vec<String>,
}

/// `[link]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Link {
    /// One way.
    pub latency_ms: u64,
    /// Added to it, from 0 to this; more than the latency makes streams overtake each other.
    pub jitter_ms: u64,
    /// Share of segments that are lost and sent again.
    pub loss: f64,
    /// The delay of a retransmission.
    pub retransmit_ms: u64,
    /// A connection whose link is cut for this long ends.
    pub dead_after_ms: u64,
}

impl Default for Link {
    fn default() -> Link {
        Link { latency_ms: 10, jitter_ms: 5, loss: 0.0, retransmit_ms: 200, dead_after_ms: 6_000 }
    }
}

impl Link {
    /// The configuration of the simulated network.
    #[must_use]
    pub fn config(&self) -> LinkConfig {
        LinkConfig {
            latency: Duration::from_millis(self.latency_ms),
            jitter: Duration::from_millis(self.jitter_ms),
            loss: self.loss,
            retransmit: Duration::from_millis(self.retransmit_ms),
            dead_after: Duration::from_millis(self.dead_after_ms),
        }
    }
}

/// `[join]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Join {
    /// Between two that join.
    pub every_ms: u64,
    /// How many of the first nodes are the bootstrap peers of all.
    pub through: u32,
}

impl Default for Join {
    fn default() -> Join {
        Join { every_ms: 20, through: 3 }
    }
}

/// `[agents]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Agents {
    /// One in this many nodes hosts an agent.
    pub each: u32,
    /// Distinct capabilities.
    pub capabilities: u32,
    /// Owners of the nodes, who trust each other.
    pub owners: u32,
}

impl Default for Agents {
    fn default() -> Agents {
        Agents { each: 1, capabilities: 50, owners: 1 }
    }
}

/// `[catalogue]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Catalogue {
    /// Nodes.
    pub nodes: usize,
    /// Bytes of what is kept of them.
    pub bytes: usize,
}

impl Default for Catalogue {
    fn default() -> Catalogue {
        let Bounds { nodes, bytes, .. } = DiscoveryConfig::default().bounds;
        Catalogue { nodes, bytes }
    }
}

/// `[finds]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Finds {
    /// Between two.
    pub every_ms: u64,
    /// The first.
    pub from_ms: u64,
    /// How long after a fault searches must succeed again.
    pub healed_after_ms: u64,
    /// The only capability that is searched for, if not all of them.
    pub only: Option<String>,
    /// The share of searches with a node to find that must succeed; below 1 only where adversaries may prevent some.
    pub share: f64,
}

impl Default for Finds {
    fn default() -> Finds {
        Finds { every_ms: 250, from_ms: 10_000, healed_after_ms: 15_000, only: None, share: 1.0 }
    }
}

/// `[calls]`: a node searches for an agent and gives it a task; later it asks for that task again.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// Between two.
    pub every_ms: u64,
    /// The first.
    pub from_ms: u64,
    /// How long after its end a task is asked for again.
    pub again_after_ms: u64,
}

/// `[churn]`: nodes crash and restart.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Churn {
    /// From when on.
    pub from_ms: u64,
    /// Until when.
    pub until_ms: u64,
    /// Between two crashes.
    pub every_ms: u64,
    /// A crashed node restarts after this.
    pub back_after_ms: u64,
}

/// `[[at]]`: an event that happens once.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When.
    pub ms: u64,
    /// What.
    #[serde(rename = "do")]
    pub what: EventKind,
    /// Which share of the nodes, or owners, it happens to.
    #[serde(default)]
    pub share: f64,
    /// The skew of clocks, milliseconds; behind when negative.
    #[serde(default)]
    pub skew_ms: i64,
}

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// Cuts the links between the nodes of the share and the others.
    Partition,
    /// Restores all links.
    Heal,
    /// Nodes stop without closing their connections.
    Crash,
    /// All crashed nodes restart.
    Restart,
    /// Clocks are skewed.
    Skew,
    /// Owners rotate their keys, on all their running nodes.
    Rotate,
    /// Owners revoke their keys, and one node learns of it.
    Revoke,
}

/// `[[adversary]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdversaryOf {
    /// Its kind: the name of its file.
    pub is: String,
    /// How many.
    pub count: u32,
    /// From when on.
    #[serde(default)]
    pub from_ms: u64,
    /// The number of their addresses; 0: private ones, which have no group.
    #[serde(default)]
    pub addresses: u32,
    /// The number of networks (/24) of those addresses.
    #[serde(default = "one")]
    pub networks: u32,
}

/// Why a scenario is refused.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// It cannot be read.
    #[error("{path}: {reason}")]
    Read {
        /// Which file.
        path: String,
        /// Why not.
        reason: FileError,
    },
    /// It is not a scenario.
    #[error("{path}: {reason}")]
    Parse {
        /// Which file.
        path: String,
        /// What is wrong.
        reason: Box<toml::de::Error>,
    },
    /// A value is out of range.
    #[error("{path}: `{field}` {rule}")]
    Rule {
        /// Which file.
        path: String,
        /// Which field.
        field: &'static str,
        /// What it must be.
        rule: String,
    },
}

fn one() -> u32 {
    1
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// See [`ScenarioError`].
    pub fn read(path: &Path) -> Result<Scenario, ScenarioError> {
        let shown = path.display().to_string();
        let text =
            read_text(path, FILE_BYTES_MAX).map_err(|reason| ScenarioError::Read { path: shown.clone(), reason })?;
        Scenario::parse(&text, &shown)
    }

    /// Reads a scenario's text; `path` is for errors.
    ///
    /// # Errors
    /// See [`ScenarioError`].
    pub fn parse(text: &str, path: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = toml::from_str(text)
            .map_err(|reason| ScenarioError::Parse { path: path.to_owned(), reason: Box::new(reason) })?;
        match scenario.invalid() {
            None => Ok(scenario),
            Some((field, rule)) => Err(ScenarioError::Rule { path: path.to_owned(), field, rule }),
        }
    }

    /// A field whose event would begin after the end, and its time.
    fn too_late(&self) -> Option<(&'static str, u64)> {
        let at = self.at.iter().map(|at| ("at.ms", at.ms));
        let adversaries = self.adversary.iter().map(|adversary| ("adversary.from_ms", adversary.from_ms));
        let churn = self.churn.iter().map(|churn| ("churn.from_ms", churn.from_ms));
        let calls = self.calls.iter().map(|calls| ("calls.from_ms", calls.from_ms));
        let mut all = at.chain(adversaries).chain(churn).chain(calls).chain([("finds.from_ms", self.finds.from_ms)]);
        all.find(|(_, ms)| *ms >= self.for_ms)
    }

    fn invalid(&self) -> Option<(&'static str, String)> {
        let share = |share: f64| (0.0..=1.0).contains(&share);
        if !(2..=NODES_MAX).contains(&self.nodes) {
            return Some(("nodes", format!("is 2 to {NODES_MAX}")));
        }
        if self.for_ms == 0 || self.for_ms > FOR_MAX_MS {
            return Some(("for_ms", format!("is 1 to {FOR_MAX_MS}")));
        }
        if self.seeds.is_empty() {
            return Some(("seeds", "names one at least".to_owned()));
        }
        if !share(self.link.loss) || self.link.loss > 0.9 {
            return Some(("link.loss", "is 0 to 0.9".to_owned()));
        }
        if self.join.through == 0 || self.join.through >= self.nodes {
            return Some(("join.through", "is at least 1, and less than all nodes".to_owned()));
        }
        if self.agents.each == 0 || self.agents.capabilities == 0 || self.agents.owners == 0 {
            return Some(("agents", "has `each`, `capabilities` and `owners` of at least 1".to_owned()));
        }
        let intervals =
            [self.churn.as_ref().map(|churn| churn.every_ms), self.calls.as_ref().map(|calls| calls.every_ms)];
        if self.finds.every_ms == 0 || intervals.contains(&Some(0)) {
            return Some(("every_ms", "is at least 1".to_owned()));
        }
        if !share(self.finds.share) {
            return Some(("finds.share", "is 0 to 1".to_owned()));
        }
        let nth = |capability: &str| capability.strip_prefix("doing.thing-")?.parse::<u32>().ok();
        if let Some(only) = &self.finds.only
            && nth(only).is_none_or(|number| number >= self.agents.capabilities)
        {
            return Some(("finds.only", format!("is doing.thing-0 to doing.thing-{}", self.agents.capabilities - 1)));
        }
        if self.at.iter().any(|at| !share(at.share)) {
            return Some(("at.share", "is 0 to 1".to_owned()));
        }
        if let Some((field, ms)) = self.too_late() {
            return Some((
                field,
                format!("is less than `for_ms`, {}, and not {ms}: it would never happen", self.for_ms),
            ));
        }
        let known = crate::invariant::names();
        if let Some(unknown) = self.invariants.iter().find(|name| !known.contains(&name.as_str())) {
            return Some(("invariants", format!("has {unknown:?}; there are {}", known.join(", "))));
        }
        if self.adversary.iter().any(|adversary| adversary.networks == 0 || adversary.networks > 200) {
            return Some(("adversary.networks", "is 1 to 200".to_owned()));
        }
        let known = crate::adversary::names();
        if let Some(unknown) = self.adversary.iter().find(|adversary| !known.contains(&adversary.is.as_str())) {
            return Some(("adversary.is", format!("is {:?}; there are {}", unknown.is, known.join(", "))));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "about = \"x\"\nnodes = 2\nfor_ms = 60000\nseeds = [1]\ninvariants = []\njoin.through = 1\n";

    #[test]
    fn an_invalid_scenario_is_refused_with_the_field() {
        assert!(Scenario::parse(SMALL, "x").is_ok());
        for (more, expected) in [
            ("link.loss = 2.0", "link.loss"),
            ("link.latncy_ms = 1", "latncy_ms"),
            ("[[adversary]]\nis = \"poisner\"\ncount = 1", "there are"),
            ("[[at]]\nms = 1\ndo = \"heel\"", "heel"),
            ("agents.each = 0", "agents"),
            ("finds.share = 1.1", "finds.share"),
            ("finds.from_ms = 60000", "finds.from_ms"),
            ("[[at]]\nms = 60001\ndo = \"heal\"", "at.ms"),
            ("finds.only = \"doing.thing-50\"", "doing.thing-49"),
        ] {
            let error = Scenario::parse(&format!("{SMALL}{more}"), "x.toml").expect_err(more).to_string();
            assert!(error.contains(expected) && error.starts_with("x.toml"), "{error}");
        }
        let unknown = SMALL.replace("invariants = []", "invariants = [\"none\"]");
        assert!(Scenario::parse(&unknown, "x").expect_err("unknown").to_string().contains("there are"));
    }
}

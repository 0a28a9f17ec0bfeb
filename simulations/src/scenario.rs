//! Scenario files: what happens to which nodes, and when. Times are milliseconds of virtual time.

mod check;

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
    /// How many of the next agents each agent may ask; none if it is 0.
    pub asks: u32,
}

impl Default for Agents {
    fn default() -> Agents {
        Agents { each: 1, capabilities: 50, owners: 1, asks: 0 }
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
    /// The share of them that may succeed; below 1 only where the scenario is about adversaries that hide what is looked for.
    pub share_max: f64,
}

impl Default for Finds {
    fn default() -> Finds {
        Finds { every_ms: 250, from_ms: 10_000, healed_after_ms: 15_000, only: None, share: 1.0, share_max: 1.0 }
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
    /// The nodes of all others stop trusting owners.
    Distrust,
    /// The nodes of all others trust owners again.
    Trust,
    /// The agents of nodes ask the agents of other nodes.
    Ask,
    /// Nodes interrupt agents of other nodes in their turns.
    Interrupt,
    /// Nodes reserve capacity on a few others.
    Reserve,
}

impl EventKind {
    /// Whether it happens to owners, not to nodes.
    #[must_use]
    pub fn is_of_owners(self) -> bool {
        matches!(self, EventKind::Rotate | EventKind::Revoke | EventKind::Distrust | EventKind::Trust)
    }

    /// Whether the network needs time to heal from it.
    #[must_use]
    pub fn is_fault(self) -> bool {
        match self {
            EventKind::Distrust | EventKind::Trust | EventKind::Ask | EventKind::Interrupt | EventKind::Reserve => {
                false
            }
            EventKind::Partition | EventKind::Heal | EventKind::Crash | EventKind::Restart => true,
            EventKind::Skew | EventKind::Rotate | EventKind::Revoke => true,
        }
    }
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
}

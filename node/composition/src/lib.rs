//! The composition root of every program that is a node: it connects all layers and opens nothing itself. Network, store,
//! clock, randomness, the agent host and the owner's keys are handed in ([`Ports`]), so that the program that runs on a
//! machine and the one that simulates a thousand start the same layers in the same way.
//!
//! **Inputs**: [`Ports`] and a [`NodeConfig`]; agent files, trust, reservations. **Outputs**: a running [`Node`], whose parts
//! faces use; what is published to peers.
//!
//! **Invariants**: an agent's description and tool definitions stay those that its owner agreed to; nothing is signed for
//! the node after its owner withdrew it.
//!
//! **Never knows**: HTTP, the command line, the configuration file, exit codes.

mod adopt;
mod agents;
mod agreements;
mod assemble;
mod bindings;
mod blocking;
pub mod blueprints;
mod collector;
mod config;
pub mod doctor;
mod error;
mod event_sources;
mod events;
mod group_agents;
mod group_orders;
mod group_work;
mod identity;
mod keys;
mod known_peers;
mod lan;
mod machine;
pub mod network_key;
mod node;
pub mod owner;
mod programs;
pub mod publish;
mod push;
mod reach;
pub mod registries;
mod rights;
mod rights_change;
mod routing;
mod secrets;
mod trust;

pub use althing_communication::{Passed, Tapped, Taps};

pub use adopt::{
    AdoptError, Adoption, Change, Draft, Offer, adopted, changes, drop_environment, keep_environment, kept_environment,
};
pub use agents::{Agents, agent_statuses};
pub use assemble::{Execution, LanPort, MakeDecide, Ports};
pub use bindings::{Bindings, SealedBinding};
pub use collector::{Collector, CollectorNews, CollectorTrouble};
pub use config::{Adopted, Embeddings, NodeConfig, Policies, Things};
pub use error::{NodeError, PolicyError};
pub use events::{Event, EventEntry, EventFollower, EventNews, Events, TaskCounts};
pub use group_orders::GroupOrders;
pub use group_work::words;
pub use identity::{Identity, KeyState};
pub use lan::{IntroductionPaths, Introductions, LanPresence};
pub use node::{FAMILIES, Node};
pub use owner::{Owner, OwnerError};
pub use reach::{FileFolder, reach};
pub use rights::{Rights, RightsChanges};
pub use rights_change::RightsChange;
pub use routing::{
    ChannelNeed, Choice, Embedded, EmbeddingsError, EvalReport, NodeRouter, Resolved, RouteMode, Routed, RouterAgent,
    Routing, RoutingError,
};
pub use secrets::{SECRET_BYTES_MAX, SecretError, Secrets};
pub use trust::{TRUSTED, TrustedPeers};

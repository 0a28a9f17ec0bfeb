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

mod admission;
mod agent_records;
mod agent_standing;
mod agent_starts;
mod agent_versions;
mod agents;
mod agreements;
mod assemble;
mod bindings;
mod blocking;
mod config;
mod error;
mod event_sources;
mod events;
mod group_port;
mod identity;
mod keys;
mod known_peers;
mod lan;
pub mod machine;
mod names;
mod node;
mod node_profile;
pub mod orders;
mod own_policy_sets;
pub mod owner;
pub mod publish;
mod push;
mod revocation_check;
pub mod revocations;
pub mod rollouts;
mod smooth;
mod trust;

pub use althing_communication::{Passed, Tapped, Taps};
pub use althing_governance::{Act, Gates, Governance, NodeProfile, admit_by, ask_grants};

pub use agent_standing::{end_revoked, end_stopped, is_stopped_by_owner};
pub use agent_starts::AgentStarts;
pub use agents::{Agents, agent_statuses, is_revoked_install};
pub use agreements::AgreementRows;
pub use assemble::{Execution, LanPort, MakeDecide, Ports};
pub use bindings::{Bindings, SealedBinding};
pub use blocking::run_blocking;
pub use config::{Adopted, AuditWitness, GovernanceTerms, NodeConfig, Policies, Things};
pub use error::{NodeError, PolicyError};
pub use events::{Event, EventEntry, EventFollower, EventNews, Events, TaskCounts};
pub use group_port::{GroupHook, MakeWorker};
pub use identity::{Identity, KeyState};
pub use lan::{IntroductionPaths, Introductions, LanPresence};
pub use names::{NameHolder, Names};
pub use node::{FAMILIES, Node};
pub use owner::{Owner, OwnerError};
pub use trust::{TRUSTED, TrustedPeers};

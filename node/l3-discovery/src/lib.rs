//! L3: finds nodes on the LAN and agents by what they can do.
//!
//! **Inputs**: sightings of nodes, signed placements that peers push, evidence for the agents in them, the agents that
//! this node hosts. **Outputs**: connections to keep, placements to push, answers to `find`.
//!
//! **Invariants**: an agent is found only after its publisher's description and its node's hosting grant were verified;
//! of two placements of a node the one with the higher sequence wins, whatever their order of arrival; a node that is
//! silent for its placement's time to live is gone.
//!
//! **Never knows**: A2A, tasks, how agents run, who may call them.

pub mod config;
mod dialler;
mod error;
mod evidence;
mod exchange;
mod hints;
mod instance;
mod intake;
mod key_changes;
mod known;
pub mod lan;
pub mod machine;
mod placement;
mod publisher;
mod relations;
mod search;
mod serve;
mod service;
mod state;
mod subscriptions;
pub mod things;

pub use althing_fetch::{Fetch, FetchError, Given, Limits, Method, Net, SystemResolver, Url};
pub use config::DiscoveryConfig;
pub use error::FindError;
pub use hints::HostHints;
pub use machine::catalogue::{Candidate, Learned};
pub use machine::known_peers::{AbsentPeer, KnownPeer, Remembered};
pub use machine::query::{Among, Explanation, Found, Query, SearchReport, TrustRelation};
pub use machine::rank::Bounds;
pub use machine::things::Thing;
pub use service::{Discovery, Status, Troubles};
pub use state::{LocalAgent, NodeLoad, Relations};

/// Stream protocol on which placements are pushed.
pub const PLACEMENTS: &str = "/althing/placements/1";
/// Stream protocol on which agents' evidence is asked for.
pub const DESCRIBE: &str = "/althing/describe/1";

//! L2: signed calls between nodes, over any [`Network`] that can open streams.
//!
//! **Inputs**: a node's key, a [`Network`], streams and bytes from peers. **Outputs**: verified requests handed to
//! [`Inbound`]; answers or typed errors to those who call.
//!
//! **Invariants**: nothing reaches [`Inbound`] before its signature, audience, stream and counter were verified;
//! every queue, stream count and frame is bounded; a call that is dropped is cancelled at the other side.
//!
//! **Never knows**: A2A, tasks, agents' descriptions, where peers were found, or what a body means.

pub mod admission;
pub mod caller;
pub mod config;
pub mod error;
mod frames;
pub mod groups;
mod inbound;
pub mod keys;
mod lanes;
pub mod machine;
pub mod network;
mod outbound;
mod pace;
mod places;
pub mod ports;
pub mod reach;
pub mod records;
pub mod refusal;
pub mod routing;
mod service;
mod signed;
#[cfg(test)]
#[path = "../simnet/src/lib.rs"]
#[expect(dead_code, unused_imports, reason = "these tests need a part of it")]
mod simnet;
mod tally;
pub mod turns;
mod uses;

// Tests of what L2 keeps to itself run over the simulated network, which this crate cannot depend on.
#[cfg(test)]
extern crate self as althing_communication;

pub use caller::{Caller, CallerRefused, CallerRule, Trust};
pub use config::CommunicationConfig;
pub use error::{CallError, StreamError};
pub use inbound::{Answer, Inbound};
pub use keys::{KEYS, Keys};
pub use lanes::Priority;
pub use machine::frame_budget::FrameLimits;
pub use machine::nearness::{Crowd, Holder, Nearness};
pub use machine::reachability::Verdict;
pub use network::{AcceptError, BoxedStream, DialError, Network, OpenError, PeerEvent, PeerInfo, Standing};
pub use outbound::Events;
pub use places::StreamLimits;
pub use ports::{Entropy, WallClock};
pub use reach::{Asked, REACH};
pub use routing::{Kept, LookupStats, Provider, Routing, RoutingError};
pub use service::{Communication, Request};

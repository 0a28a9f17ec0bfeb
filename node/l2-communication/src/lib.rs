//! L2: signed calls between nodes, over any [`Network`] that can open streams.
//!
//! **Inputs**: a node's key, a [`Network`], streams and bytes from peers. **Outputs**: verified requests handed to
//! [`Inbound`]; answers or typed errors to callers.
//!
//! **Invariants**: nothing reaches [`Inbound`] before its signature, audience, stream and counter were verified;
//! every queue, stream count and frame is bounded; dropping a call cancels it at the peer.
//!
//! **Never knows**: A2A, tasks, agents' descriptions, where peers were found, or what a body means.

pub mod config;
pub mod error;
mod frames;
mod inbound;
pub mod keys;
mod lanes;
pub mod machine;
pub mod network;
mod outbound;
pub mod ports;
pub mod reach;
pub mod refusal;
mod request;
pub mod routing;
mod service;
mod shared;
mod signed;
#[cfg(test)]
#[path = "../simnet/src/lib.rs"]
#[expect(dead_code, unused_imports, reason = "these tests need a part of it")]
mod simnet;
mod stream_pool;
mod stream_slots;
mod tap;
mod uses;
pub mod watch;

// Tests of this crate's private items run over the simulated network, on which this crate cannot depend.
#[cfg(test)]
extern crate self as althing_communication;

pub use config::CommunicationConfig;
pub use error::{CallError, StreamError};
pub use inbound::{Answer, Inbound};
pub use keys::{KEYS, Keys};
pub use lanes::Priority;
pub use machine::caller::{Caller, CallerRefused, CallerRule, Trust};
pub use machine::frame_budget::FrameLimits;
pub use machine::origin::Origin;
pub use machine::reachability::{DialReport, ReachabilityReport};
pub use machine::trust_level::{Holder, QuotaGroup, TrustLevel};
pub use machine::{address_groups, connection_admission, dial_addresses, rate_limiter, records};
pub use network::{AcceptError, BoxedStream, DialError, Network, OpenError, PeerEvent, PeerInfo, Reachability};
pub use outbound::Events;
pub use ports::{Entropy, WallClock};
pub use reach::{DialBackResult, REACH};
pub use request::{Request, SignedFrame};
pub use routing::{DhtRouting, LookupStats, Provider, RoutingError, TableStats};
pub use service::Communication;
pub use stream_slots::StreamLimits;
pub use tap::{Passed, Tapped, Taps};

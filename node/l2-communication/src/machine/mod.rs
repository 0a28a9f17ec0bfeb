//! What L2 decides, without clocks or sockets: plain data in, plain data out.

pub mod address_groups;
pub(crate) mod bandwidth;
pub mod caller;
pub mod connection_admission;
pub mod dial_addresses;
pub(crate) mod frame_budget;
pub(crate) mod key_news;
pub mod origin;
pub(crate) mod peer_rate_limits;
pub mod rate_limiter;
pub mod reachability;
pub mod records;
pub(crate) mod stream_admission;
pub(crate) mod tally;
pub mod trust_level;

//! What L2 decides: no clocks, no sockets.

pub(crate) mod frame_budget;
pub(crate) mod key_news;
pub(crate) mod manners;
pub mod nearness;
pub mod reachability;
pub(crate) mod stream_admission;

//! What L2 decides: no clocks, no sockets.

pub(crate) mod manners;
pub mod reachability;

//! What L2 decides: no clocks, no sockets.

pub mod reachability;

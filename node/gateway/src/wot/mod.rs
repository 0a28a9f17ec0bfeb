//! W3C Web of Things: what strangers read of this node's public agents.

mod introductions;

pub use introductions::{introductions, paths};

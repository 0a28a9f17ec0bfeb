//! What the log of a node is opened with.

use std::sync::Arc;

use althing_communication::{Entropy, WallClock};
use althing_protocol::{PublicKey, PublisherId};
use althing_store::Store;

use super::ledger::SignCheckpoint;

/// What an audit log is given.
#[derive(Clone)]
pub struct AuditPorts {
    /// Where it is, with all [`FAMILIES`](super::FAMILIES).
    pub store: Arc<dyn Store>,
    /// When.
    pub clock: WallClock,
    /// Of ids, salts, keys and nonces.
    pub entropy: Entropy,
    /// The node whose log it is.
    pub node: PublicKey,
    /// Whose node it is.
    pub owner: PublisherId,
    /// Signs with the node's key.
    pub sign: SignCheckpoint,
}

//! Whom the owner trusts.

use serde::{Deserialize, Serialize};

/// Trusts a node or publisher, or stops to trust it.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrustRequest {
    /// A node's did:key, or a publisher's urn.
    pub id: String,
    /// Whether it is trusted from now on.
    pub trusted: bool,
}

//! What a host says that redirects a call (SPEC P-195).

use althing_protocol::PublicKey;

/// A host of an agent names another one, which does what it cannot do itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redirect {
    /// The host that does it.
    pub member: PublicKey,
    /// How far the log that the hosts share had come at the one that redirects: of two redirects the lower one is older.
    pub fence: u64,
}

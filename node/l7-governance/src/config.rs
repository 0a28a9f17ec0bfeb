//! What governance is handed, and what the store keeps for it.

use std::path::PathBuf;
use std::sync::Arc;

use althing_communication::{Entropy, WallClock};
use althing_protocol::{PublicKey, PublisherId};
use althing_store::{Family, Store};

use crate::audit::{self, SignCheckpoint};
use crate::machine::node_profile::NodeProfile;

/// Questions to people, what was shown of them, and what was last agreed to.
pub(crate) const ASKS: Family = Family("governance.asks");
/// Each yes that counts more than once.
pub(crate) const STANDING: Family = Family("governance.standing");
/// The definitions of tools that are known.
pub(crate) const DEFINITIONS: Family = Family("governance.definitions");
/// The newest decisions.
pub(crate) const DECISIONS: Family = Family("governance.decisions");

/// What is configured beside the files of governance, as it was when it was recorded last.
pub(crate) const SETTINGS: Family = Family("governance.settings");

/// What the store of a node with governance has besides.
pub const FAMILIES: [Family; OWN.len() + audit::FAMILIES.len()] = {
    let mut all = [ASKS; OWN.len() + audit::FAMILIES.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < OWN.len() { OWN[at] } else { audit::FAMILIES[at - OWN.len()] };
        at += 1;
    }
    all
};
const OWN: [Family; 5] = [ASKS, STANDING, DEFINITIONS, DECISIONS, SETTINGS];

/// How long people have for an answer, milliseconds (24 h); silence until then is a denial.
pub const ASK_LIFE_MS: u64 = 24 * 60 * 60 * 1_000;

/// What governance is handed.
#[derive(Clone)]
pub struct Ports {
    /// The store; it has [`FAMILIES`].
    pub store: Arc<dyn Store>,
    /// The time of day.
    pub clock: WallClock,
    /// Randomness.
    pub entropy: Entropy,
    /// The key that names the node.
    pub node: PublicKey,
    /// Whose node it is.
    pub owner: PublisherId,
    /// The folder of `policy.cedar` and `people.yaml`; nothing of a node that has no disk, whose sets are in memory alone.
    pub folder: Option<PathBuf>,
    /// Signs checkpoints of the audit log.
    pub sign: SignCheckpoint,
    /// What is demanded of the node.
    pub profile: NodeProfile,
}

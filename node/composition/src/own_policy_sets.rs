//! The policy sets of this node, as orders of its owner put them in force.

use althing_governance::{Actor, Governance};
use althing_protocol::{Digest, digest, digest_of_hex};
use futures::future::BoxFuture;

use crate::orders::PolicySets;

/// The set in force, which orders name by the digest of its text, and everything else by its own.
pub struct OwnPolicySets(pub Governance);

impl PolicySets for OwnPolicySets {
    fn in_force(&self) -> Option<Digest> {
        self.0.policy_text().map(|text| digest(text.as_bytes()))
    }

    fn set_digest(&self) -> Option<Digest> {
        self.0.policy().digest.and_then(|digest| digest_of_hex(&digest))
    }

    fn text(&self, wanted: &Digest) -> Option<String> {
        self.0.policy_text().filter(|text| digest(text.as_bytes()) == *wanted)
    }

    fn load(&self, text: String) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let loaded = self.0.load_policy(&text, Actor::Owner).await;
            loaded.map(|_| ()).map_err(|error| error.to_string())
        })
    }
}

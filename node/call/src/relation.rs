//! How near a publisher is to this node's owner.

use althing_communication::Trust;
use althing_discovery::TrustRelation;
use althing_protocol::{CallerId, PublisherId};

/// How near `publisher` is: the owner itself, trusted, or a stranger.
#[must_use]
pub fn of_publisher(trust: &Trust, publisher: PublisherId) -> TrustRelation {
    match publisher {
        own if own == trust.owner => TrustRelation::Own,
        // Every node of a private network holds its key.
        other if trust.private || trust.trusted.contains(&CallerId::Publisher(other)) => TrustRelation::Trusted,
        _ => TrustRelation::Stranger,
    }
}

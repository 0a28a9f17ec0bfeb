//! Public keys and libp2p's peer ids.

use althing_protocol::PublicKey;
use libp2p::PeerId;

pub(crate) fn peer_id(key: PublicKey) -> PeerId {
    PeerId::from_bytes(&key.peer_id_bytes()).expect("an ed25519 key always has a peer id")
}

/// `None` for an identity that is no ed25519 key.
pub(crate) fn public_key(peer: PeerId) -> Option<PublicKey> {
    PublicKey::from_peer_id_bytes(&peer.to_bytes())?.ok()
}

//! How near peers and publishers are, and where peers connect from.

use std::net::IpAddr;

use althing_communication::Origin;
use althing_protocol::{AgentId, PublicKey};

use crate::machine::query::TrustRelation;
use crate::machine::rank::{Holder, Rank, Source};
use crate::state::Shared;

impl Shared {
    /// Is a peer a node of the owner, or of somebody whom the owner trusts?
    pub(crate) fn trusts(&self, peer: PublicKey) -> bool {
        self.relation(peer) != TrustRelation::Stranger
    }

    /// How near a peer is: it decides which agents the peer may know of.
    pub(crate) fn relation(&self, peer: PublicKey) -> TrustRelation {
        (self.relations.of_node)(peer)
    }

    /// How near a node is, as far as room goes.
    pub(crate) fn rank(&self, node: PublicKey) -> Rank {
        let relation = (self.relations.of_node)(node);
        let now_ms = self.now().monotonic_ms;
        Rank::of(relation, relation == TrustRelation::Stranger && self.lock().in_use.contains(node, now_ms))
    }

    /// How near the publisher of an agent is.
    pub(crate) fn publisher_rank(&self, agent: &AgentId) -> Rank {
        Rank::of((self.relations.of_publisher)(agent), false)
    }

    /// What a node counts as. Where it connects from is looked up once for as long as it is in the catalogue.
    pub(crate) fn source(&self, node: PublicKey) -> Source {
        let rank = self.rank(node);
        let known = self.lock().catalogue.node(node).map(|node| node.source.holder);
        let holder = known.unwrap_or_else(|| {
            let address = self.communication.network().peer(node).map(|info| info.address);
            holder(node, &address.unwrap_or_default())
        });
        Source { rank, holder }
    }

    /// Those who are connected, and what they count as.
    pub(crate) fn connected_sources(&self) -> Vec<(PublicKey, Source)> {
        let infos = self.communication.network().peers().into_iter();
        infos
            .map(|info| (info.peer, Source { rank: self.rank(info.peer), holder: holder(info.peer, &info.address) }))
            .collect()
    }

    /// Those who are connected.
    pub(crate) fn connected(&self) -> Vec<PublicKey> {
        self.communication.network().connected()
    }
}

/// With whom a node at that address is counted.
pub(crate) fn holder(node: PublicKey, address: &str) -> Holder {
    let mut parts = address.split('/').skip(1);
    let kind = parts.next().filter(|kind| matches!(*kind, "ip4" | "ip6"));
    let ip: Option<IpAddr> = kind.and_then(|_| parts.next()?.parse().ok());
    match ip {
        _ if address.contains("/p2p-circuit") => Holder::Origin(Origin::Relayed(ip)),
        Some(ip) => Holder::Origin(Origin::of(ip)),
        None => Holder::Node(node),
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    #[test]
    fn nodes_are_counted_by_where_they_connect_from() {
        let [a, b] = [1, 2].map(|seed| SecretKey::from_seed(&[seed; 32]).public());
        assert_eq!(holder(a, "/ip4/9.9.9.9/tcp/7"), holder(b, "/ip4/9.9.9.10/udp/8/quic-v1"));
        assert_ne!(holder(a, "/ip4/10.0.0.1/tcp/7"), holder(a, "/ip4/10.0.0.2/tcp/7"));
        let relayed = "/ip4/9.9.9.9/tcp/7/p2p/12D/p2p-circuit";
        assert_eq!(holder(a, relayed), holder(b, relayed), "whoever a relay passes on");
        assert_ne!(holder(a, relayed), holder(a, "/ip4/9.9.9.9/tcp/7"));
        assert_ne!(holder(a, "sim:1"), holder(b, "sim:1"));
    }
}

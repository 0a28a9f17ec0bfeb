//! The [`Network`] port as one simulated node has it.

use althing_protocol::PublicKey;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::{broadcast, mpsc};
use tokio::time::sleep_until;

use super::{ACCEPT_QUEUE, SEGMENT, SimNetwork};
use althing_communication::Origin;
use althing_communication::network::{
    AcceptError, BoxedStream, DialError, Incoming, Network, OpenError, PeerEvent, PeerInfo,
};
use althing_communication::routing::DhtRouting;

fn info(peer: PublicKey, dialled: bool) -> PeerInfo {
    PeerInfo { peer, connections: 1, address: format!("sim:{peer}"), dialled, round_trip: None }
}

impl SimNetwork {
    async fn open_stream(&self, peer: PublicKey, protocol: &'static str) -> Result<BoxedStream, OpenError> {
        let closed = {
            let state = self.net.lock();
            state.connection(self.local, peer).map(|held| held.closed.clone()).ok_or(OpenError::NotConnected)?
        };
        sleep_until(self.net.arrival()).await;
        let accepting = {
            let state = self.net.lock();
            let node = state.nodes.get(&peer).ok_or(OpenError::NotConnected)?;
            node.accepting.get(protocol).cloned().ok_or(OpenError::Unsupported(protocol))?
        };
        let (mine, near) = tokio::io::duplex(SEGMENT);
        let (theirs, far) = tokio::io::duplex(SEGMENT);
        let (near_read, near_write) = tokio::io::split(near);
        let (far_read, far_write) = tokio::io::split(far);
        tokio::spawn(self.net.clone().carry((self.local, peer), near_read, far_write, closed.clone()));
        tokio::spawn(self.net.clone().carry((peer, self.local), far_read, near_write, closed));
        let theirs: BoxedStream = Box::new(theirs);
        accepting.send((self.local, theirs)).await.map_err(|_| OpenError::Unsupported(protocol))?;
        Ok(Box::new(mine))
    }
}

impl Network for SimNetwork {
    fn local(&self) -> PublicKey {
        self.local
    }

    fn open(&self, peer: PublicKey, protocol: &'static str) -> BoxFuture<'_, Result<BoxedStream, OpenError>> {
        self.open_stream(peer, protocol).boxed()
    }

    fn accept(&self, protocol: &'static str) -> Result<Incoming, AcceptError> {
        let mut state = self.net.lock();
        let node = state.nodes.get_mut(&self.local).ok_or(AcceptError::Taken(protocol))?;
        if node.accepting.contains_key(protocol) {
            return Err(AcceptError::Taken(protocol));
        }
        let (sender, receiver) = mpsc::channel(ACCEPT_QUEUE);
        node.accepting.insert(protocol, sender);
        Ok(receiver)
    }

    fn dial(&self, peer: Option<PublicKey>, addresses: Vec<String>) -> BoxFuture<'_, Result<PublicKey, DialError>> {
        async move {
            let parse = |address: &String| {
                let did = address.strip_prefix("sim:").and_then(|did| PublicKey::from_did(did).ok());
                did.ok_or_else(|| DialError::Address(address.clone()))
            };
            let there = addresses.iter().map(parse).collect::<Result<Vec<PublicKey>, _>>()?;
            if let Some(peer) = peer.filter(|peer| self.net.connected(self.local, *peer)) {
                return Ok(peer);
            }
            let mut there = there;
            if let Some(peer) = peer.filter(|peer| there.is_empty() && self.nodes().contains(peer)) {
                there.push(peer);
            }
            let mut last = DialError::Failed("no address was given".to_owned());
            for there in there {
                if there == self.local || peer.is_some_and(|peer| peer != there) {
                    last = DialError::Failed(format!("{there} answers there"));
                    continue;
                }
                sleep_until(self.net.arrival()).await;
                match self.net.connect(self.local, there) {
                    Ok(()) => return Ok(there),
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
        .boxed()
    }

    fn disconnect(&self, peer: PublicKey) {
        self.net.disconnect(self.local, peer);
    }

    fn events(&self) -> broadcast::Receiver<PeerEvent> {
        let state = self.net.lock();
        state
            .nodes
            .get(&self.local)
            .map_or_else(|| broadcast::Sender::new(1).subscribe(), |node| node.events.subscribe())
    }

    fn peers(&self) -> Vec<PeerInfo> {
        self.net.peers_of(self.local).into_iter().map(|(peer, dialled)| info(peer, dialled)).collect()
    }

    fn peer(&self, peer: PublicKey) -> Option<PeerInfo> {
        self.net.lock().connection(self.local, peer).map(|held| info(peer, held.dialler == self.local))
    }

    fn connected(&self) -> Vec<PublicKey> {
        self.net.peers_of(self.local).into_iter().map(|(peer, _)| peer).collect()
    }

    fn is_connected(&self, peer: PublicKey) -> bool {
        self.net.connected(self.local, peer)
    }

    fn origin(&self, peer: PublicKey) -> Option<Origin> {
        self.net.lock().nodes.get(&peer)?.ip.map(Origin::of)
    }

    fn listening(&self) -> Vec<String> {
        vec![format!("sim:{}", self.local)]
    }

    fn listens_at(&self, peer: PublicKey) -> Vec<String> {
        if self.net.connected(self.local, peer) { vec![format!("sim:{peer}")] } else { Vec::new() }
    }

    fn routing(&self) -> &dyn DhtRouting {
        self
    }
}

//! The [`Network`] port, by commands to the swarm's task and its shared state.

use althing_communication::network::Incoming;
use althing_communication::{
    AcceptError, BoxedStream, DhtRouting, DialError, Network, OpenError, Origin, PeerEvent, PeerInfo, Reachability,
    TrustLevel,
};
use althing_protocol::PublicKey;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use libp2p::core::Multiaddr;
use tokio::sync::{broadcast, oneshot};

use crate::connection_limits::origin_of;
use crate::swarm::{Command, Libp2pNetwork};

impl Libp2pNetwork {
    async fn command_dial(&self, peer: Option<PublicKey>, addresses: Vec<Multiaddr>) -> Result<PublicKey, DialError> {
        let (done, outcome) = oneshot::channel();
        let command = Command::Dial { peer, addresses, done };
        self.commands.send(command).await.map_err(|_| DialError::Stopped)?;
        outcome.await.map_err(|_| DialError::Stopped)?
    }
}

impl Network for Libp2pNetwork {
    fn local(&self) -> PublicKey {
        self.local
    }

    fn open(&self, peer: PublicKey, protocol: &'static str) -> BoxFuture<'_, Result<BoxedStream, OpenError>> {
        async move {
            let connection = self.shared.connections().preferred_connection(peer).ok_or(OpenError::NotConnected)?;
            self.streams.open(connection, protocol).await
        }
        .boxed()
    }

    fn accept(&self, protocol: &'static str) -> Result<Incoming, AcceptError> {
        self.streams.accept(protocol)
    }

    fn dial(&self, peer: Option<PublicKey>, addresses: Vec<String>) -> BoxFuture<'_, Result<PublicKey, DialError>> {
        async move {
            let parse = |text: &String| text.parse().map_err(|_| DialError::Address(text.clone()));
            let addresses = addresses.iter().map(parse).collect::<Result<Vec<Multiaddr>, _>>()?;
            if peer.is_some() {
                return self.command_dial(peer, addresses).await;
            }
            // One after another: without a peer id libp2p dials only one address.
            let mut last = DialError::Failed("no address was given".to_owned());
            for address in addresses {
                match self.command_dial(None, vec![address]).await {
                    Err(DialError::Failed(reason)) => last = DialError::Failed(reason),
                    outcome => return outcome,
                }
            }
            Err(last)
        }
        .boxed()
    }

    fn disconnect(&self, peer: PublicKey) {
        // A full queue means that the swarm is overloaded; the connection then stays until its next failure.
        let _ = self.commands.try_send(Command::Disconnect(peer));
    }

    fn events(&self) -> broadcast::Receiver<PeerEvent> {
        self.shared.events.subscribe()
    }

    fn peers(&self) -> Vec<PeerInfo> {
        self.shared.connections().infos()
    }

    fn peer(&self, peer: PublicKey) -> Option<PeerInfo> {
        self.shared.connections().info(peer)
    }

    fn connected(&self) -> Vec<PublicKey> {
        self.shared.connections().peers()
    }

    fn is_connected(&self, peer: PublicKey) -> bool {
        self.shared.connections().contains(peer)
    }

    fn origin(&self, peer: PublicKey) -> Option<Origin> {
        origin_of(&self.shared.connections().remote(peer)?)
    }

    fn set_trust(&self, peer: PublicKey, trust: TrustLevel) {
        if self.shared.connections().trust_level(peer).is_some_and(|before| before != trust)
            // A full queue means that the swarm is overloaded; L2 repeats the trust levels.
            && self.commands.try_send(Command::SetTrust(peer, trust)).is_ok()
        {
            self.shared.connections().set_trust(peer, trust);
        }
    }

    fn listening(&self) -> Vec<String> {
        let listening = self.shared.listening.lock().expect("no holder of the addresses panics");
        listening.iter().map(Multiaddr::to_string).collect()
    }

    fn listens_at(&self, peer: PublicKey) -> Vec<String> {
        self.shared.connections().listens_at(peer)
    }

    fn routing(&self) -> &dyn DhtRouting {
        self
    }

    fn announced(&self) -> Vec<String> {
        let confirmed = self.shared.reachability().confirmed.clone();
        let listening = self.shared.listening.lock().expect("no holder of the addresses panics").clone();
        let (relayed, own): (Vec<Multiaddr>, Vec<Multiaddr>) = listening.into_iter().partition(crate::is_relayed);
        let mut all: Vec<Multiaddr> = Vec::new();
        for address in confirmed.into_iter().chain(relayed).chain(own) {
            if !all.contains(&address) {
                all.push(address);
            }
        }
        all.iter().map(Multiaddr::to_string).collect()
    }

    fn probe(&self, peer: PublicKey, address: String) -> BoxFuture<'_, Result<(), DialError>> {
        async move {
            let address: Multiaddr = address.parse().map_err(|_| DialError::Address(address))?;
            let (done, outcome) = oneshot::channel();
            let command = Command::Probe { peer, address, done };
            self.commands.send(command).await.map_err(|_| DialError::Stopped)?;
            outcome.await.map_err(|_| DialError::Stopped)?.map(drop)
        }
        .boxed()
    }

    fn expect_probes(&self, peer: PublicKey) {
        self.shared.probes().expect(peer, self.shared.now());
    }

    fn probes_seen(&self, peer: PublicKey) -> usize {
        self.shared.probes().seen(peer)
    }

    fn set_reachability(&self, reachability: Reachability) {
        // A full queue means that the swarm is overloaded; L2 repeats the reachability.
        let _ = self.commands.try_send(Command::SetReachability(reachability));
    }

    fn relays(&self) -> Vec<PublicKey> {
        self.shared.reachability().relays.clone()
    }
}

//! The [`Routing`] part of the port, by commands to the swarm's task.

use althing_communication::{Kept, LookupStats, Provider, Routing, RoutingError};
use althing_protocol::PublicKey;
use althing_protocol::record::RecordKey;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use crate::lookups::Wanted;
use crate::swarm::{Command, Libp2pNetwork};

impl Libp2pNetwork {
    /// Begins a look-up and waits for its end.
    async fn look(&self, wanted: Wanted) -> Result<LookupStats, RoutingError> {
        let (done, outcome) = oneshot::channel();
        self.commands.send(Command::Look(wanted, done)).await.map_err(|_| RoutingError::Stopped)?;
        outcome.await.map_err(|_| RoutingError::Stopped)?
    }
}

impl Routing for Libp2pNetwork {
    fn provide(&self, key: RecordKey) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        self.look(Wanted::Provide(key)).boxed()
    }

    fn stop_providing(&self, key: RecordKey) {
        // A full queue means that the swarm is drowning in dials; what is provided is asked of this node itself then.
        let _ = self.commands.try_send(Command::Withdraw(key));
    }

    fn providers(
        &self,
        key: RecordKey,
        found: mpsc::Sender<Provider>,
    ) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        self.look(Wanted::Providers(key, found)).boxed()
    }

    fn put(&self, key: RecordKey, value: Vec<u8>) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        self.look(Wanted::Put(key, value)).boxed()
    }

    fn get(&self, key: RecordKey, found: mpsc::Sender<Vec<u8>>) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        self.look(Wanted::Get(key, found)).boxed()
    }

    fn nodes(&self) -> Vec<PublicKey> {
        self.table().1.to_vec()
    }

    fn kept(&self) -> Kept {
        self.table().0
    }
}

//! The [`DhtRouting`] part of the port, by commands to the swarm's task.

use althing_communication::{DhtRouting, LookupStats, Provider, RoutingError, TableStats};
use althing_protocol::PublicKey;
use althing_protocol::record::RecordKey;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use crate::lookups::Query;
use crate::swarm::{Command, Libp2pNetwork};

impl Libp2pNetwork {
    /// Runs a Kademlia query.
    async fn query(&self, query: Query) -> Result<LookupStats, RoutingError> {
        let (done, outcome) = oneshot::channel();
        self.commands.send(Command::StartQuery(query, done)).await.map_err(|_| RoutingError::Stopped)?;
        outcome.await.map_err(|_| RoutingError::Stopped)?
    }
}

impl DhtRouting for Libp2pNetwork {
    fn provide(&self, key: RecordKey) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        self.query(Query::Provide(key)).boxed()
    }

    fn stop_providing(&self, key: RecordKey) {
        // A full queue means that the swarm is overloaded; the key is then provided until it is withdrawn again.
        let _ = self.commands.try_send(Command::Withdraw(key));
    }

    fn providers(
        &self,
        key: RecordKey,
        found: mpsc::Sender<Provider>,
    ) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        self.query(Query::Providers(key, found)).boxed()
    }

    fn put(&self, key: RecordKey, value: Vec<u8>) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        self.query(Query::Put(key, value)).boxed()
    }

    fn get(&self, key: RecordKey, found: mpsc::Sender<Vec<u8>>) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        self.query(Query::Get(key, found)).boxed()
    }

    fn nodes(&self) -> Vec<PublicKey> {
        self.table().1.to_vec()
    }

    fn stats(&self) -> TableStats {
        self.table().0
    }
}

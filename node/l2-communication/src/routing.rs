//! The `DhtRouting` part of the [`Network`](crate::Network) port: a distributed hash table (DHT) of provider records and values.
//! What it returns is a hint, which the node that it leads to must confirm.

use std::time::Duration;

use althing_protocol::PublicKey;
use althing_protocol::record::RecordKey;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

/// The nodes that store a record, and that a look-up ends with (Kademlia's k).
pub const K: usize = 20;
/// The concurrency of a look-up (Kademlia's α).
pub const ALPHA: usize = 3;
/// The capacity of a look-up's result channel.
pub const RESULTS: usize = 64;

/// A provider of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// The node, which only a connection proves.
    pub node: PublicKey,
    /// Its addresses, if the record has any.
    pub addresses: Vec<String>,
}

/// The cost of a look-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LookupStats {
    /// Requests to other nodes.
    pub requests: u32,
    /// Those that were answered.
    pub answered: u32,
    /// From the first request to the last answer.
    pub took: Duration,
}

/// The size of this node's part of the DHT.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Nodes in the routing table.
    pub nodes: usize,
    /// Values.
    pub values: usize,
    /// Provider records.
    pub providers: usize,
    /// Values and provider records that were refused since the start.
    pub refused: u64,
}

/// Why a look-up failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The routing table is empty.
    #[error("this node knows no other node yet")]
    Alone,
    /// No node answered.
    #[error("none of the nodes that were asked answered")]
    Unanswered,
    /// Too many look-ups wait.
    #[error("too many look-ups are under way")]
    Busy,
    /// The node is shutting down.
    #[error("the network is shut down")]
    Stopped,
}

/// A distributed hash table. Dropping a look-up's future ends the look-up.
pub trait DhtRouting: Send + Sync + 'static {
    /// Stores provider records for `key` at the nodes closest to it. They expire after
    /// [`PROVIDER_TTL_MS`](crate::machine::records::PROVIDER_TTL_MS); republish them before.
    fn provide(&self, key: RecordKey) -> BoxFuture<'_, Result<LookupStats, RoutingError>>;
    /// Stops answering as a provider of `key`; records at other nodes expire.
    fn stop_providing(&self, key: RecordKey);
    /// Looks up the providers of `key`; each is sent to `found` as it arrives.
    fn providers(
        &self,
        key: RecordKey,
        found: mpsc::Sender<Provider>,
    ) -> BoxFuture<'_, Result<LookupStats, RoutingError>>;
    /// Stores `value` at the nodes closest to `key`.
    fn put(&self, key: RecordKey, value: Vec<u8>) -> BoxFuture<'_, Result<LookupStats, RoutingError>>;
    /// Looks up the values under `key`. They are unverified; the newest valid one counts.
    fn get(&self, key: RecordKey, found: mpsc::Sender<Vec<u8>>) -> BoxFuture<'_, Result<LookupStats, RoutingError>>;
    /// The nodes in the routing table.
    fn nodes(&self) -> Vec<PublicKey>;
    /// The size of this node's part of the table.
    fn stats(&self) -> TableStats;
}

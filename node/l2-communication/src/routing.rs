//! The `Routing` part of the [`Network`](crate::Network) port: a distributed hash table, in which nodes keep for each
//! other where things are. What comes out of it is a hint, and is confirmed by whom it leads to.

use std::time::Duration;

use althing_protocol::PublicKey;
use althing_protocol::record::RecordKey;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

/// Nodes that a record is kept on, and that a look-up ends with (Kademlia's k).
pub const K: usize = 20;
/// Nodes that a look-up asks at one time (Kademlia's α).
pub const ALPHA: usize = 3;
/// Results of a look-up that wait to be taken.
pub const RESULTS: usize = 64;

/// Who has what a key stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// The node; proven only when it is dialled.
    pub node: PublicKey,
    /// Where it can be dialled, as far as was said.
    pub addresses: Vec<String>,
}

/// What a look-up took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LookupStats {
    /// Requests to other nodes.
    pub requests: u32,
    /// Those that were answered.
    pub answered: u32,
    /// From the first request to the last answer.
    pub took: Duration,
}

/// What this node keeps for others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// Nodes in the routing table.
    pub nodes: usize,
    /// Values.
    pub values: usize,
    /// Provider records.
    pub providers: usize,
    /// Values and provider records that were refused since the start.
    pub refused: u64,
}

/// Why the table could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// Nobody else is in the table yet.
    #[error("this node knows no other node yet")]
    Alone,
    /// Nobody took it, or answered.
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
pub trait Routing: Send + Sync + 'static {
    /// Tells the nodes nearest to `key` that this node has what it stands for. They forget it after
    /// [`PROVIDER_TTL_MS`](crate::records::PROVIDER_TTL_MS): say it again before.
    fn provide(&self, key: RecordKey) -> BoxFuture<'_, Result<LookupStats, RoutingError>>;
    /// This node no longer says that it has it; others forget it by themselves.
    fn stop_providing(&self, key: RecordKey);
    /// Looks for those who have what `key` stands for; they are given to `found` as they are heard of.
    fn providers(
        &self,
        key: RecordKey,
        found: mpsc::Sender<Provider>,
    ) -> BoxFuture<'_, Result<LookupStats, RoutingError>>;
    /// Gives `value` to the nodes nearest to `key`.
    fn put(&self, key: RecordKey, value: Vec<u8>) -> BoxFuture<'_, Result<LookupStats, RoutingError>>;
    /// Looks for the values under `key`. They come unverified; of several the newest that holds is the right one.
    fn get(&self, key: RecordKey, found: mpsc::Sender<Vec<u8>>) -> BoxFuture<'_, Result<LookupStats, RoutingError>>;
    /// The nodes in the routing table.
    fn nodes(&self) -> Vec<PublicKey>;
    /// What this node keeps for others.
    fn kept(&self) -> Kept;
}

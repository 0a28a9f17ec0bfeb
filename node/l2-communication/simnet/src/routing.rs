//! The DHT of simulated nodes: Kademlia's look-ups over the simulated links, with the routing table, records and limits of each
//! node. A node's answers can be made hostile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::record::{RecordKey, Value};
use althing_protocol::{Digest, PublicKey};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::table::Table;
use super::{SimNet, SimNetwork};
use althing_communication::address_groups::AddressGroup;
use althing_communication::records::{RecordLimits, Records, distance, position_of_key, position_of_node};
use althing_communication::routing::{ALPHA, DhtRouting, K, LookupStats, Provider, RoutingError, TableStats};

/// A node that does not answer within this is skipped.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A request to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The nodes closest to a position.
    Closest(Digest),
    /// The providers of a key.
    Providers(RecordKey),
    /// The value under a key.
    Value(RecordKey),
    /// Store that the asker provides a key.
    Provide(RecordKey),
    /// Store a value.
    Put(RecordKey, Vec<u8>),
}

/// The answer of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Nodes close to the requested position.
    pub closer: Vec<PublicKey>,
    /// The providers.
    pub providers: Vec<Provider>,
    /// The value.
    pub value: Option<Vec<u8>>,
}

/// The answers of a hostile node.
pub trait Hostile: Send + Sync + 'static {
    /// What it answers in place of `honest`; `None` for no answer.
    fn reply(&self, asker: PublicKey, question: &Question, honest: Reply) -> Option<Reply>;
}

/// A node's part of the DHT.
pub(super) struct DhtNode {
    table: Table,
    records: Records,
    provided: BTreeSet<RecordKey>,
    refused: u64,
    pub group: Option<AddressGroup>,
    pub hostile: Option<Arc<dyn Hostile>>,
}

impl DhtNode {
    pub fn new(local: PublicKey, group: Option<AddressGroup>) -> DhtNode {
        DhtNode {
            table: Table::new(local),
            records: Records::new(local, RecordLimits::default()),
            provided: BTreeSet::new(),
            refused: 0,
            group,
            hostile: None,
        }
    }

    /// Nodes in its routing table.
    pub fn size(&self) -> usize {
        self.table.len()
    }

    /// Had contact with a node, which may be added to the routing table.
    pub fn on_contact(&mut self, node: PublicKey, group: Option<AddressGroup>) {
        self.table.insert(node, group);
    }
}

/// A question for the nodes closest to a position.
struct Lookup {
    position: Digest,
    question: Question,
}

impl SimNet {
    /// Makes a node answer as `hostile` does.
    pub fn corrupt(&self, node: PublicKey, hostile: Arc<dyn Hostile>) {
        if let Some(node) = self.lock().nodes.get_mut(&node) {
            node.dht.hostile = Some(hostile);
        }
    }

    /// The values that a node stores for others.
    #[must_use]
    pub fn values(&self, node: PublicKey) -> Vec<(RecordKey, Vec<u8>)> {
        let now_ms = self.now_ms();
        let state = self.lock();
        let Some(node) = state.nodes.get(&node) else { return Vec::new() };
        node.dht.records.values(now_ms).map(|(key, bytes)| (key, bytes.to_vec())).collect()
    }

    /// What `to` answers `from`, which it may add to its routing table.
    fn answer(&self, from: PublicKey, to: PublicKey, question: &Question) -> Option<Reply> {
        let now_ms = self.now_ms();
        let mut state = self.lock();
        let group = state.nodes.get(&from)?.dht.group;
        let network = state.network.clone();
        let dht = &mut state.nodes.get_mut(&to)?.dht;
        dht.on_contact(from, group);
        let mut honest = Reply::default();
        match question {
            Question::Closest(place) => honest.closer = dht.table.closest(place, K),
            Question::Providers(key) => {
                honest.closer = dht.table.closest(&position_of_key(*key), K);
                honest.providers = dht.records.providers(now_ms, *key);
                if dht.provided.contains(key) {
                    honest.providers.push(Provider { node: to, addresses: vec![format!("sim:{to}")] });
                }
            }
            Question::Value(key) => {
                honest.closer = dht.table.closest(&position_of_key(*key), K);
                honest.value = dht.records.value(now_ms, *key).map(<[u8]>::to_vec);
            }
            Question::Provide(key) => {
                let kept = dht.records.provide(now_ms, (from, group), *key, vec![format!("sim:{from}")]);
                dht.refused += u64::from(kept.is_err());
            }
            Question::Put(key, bytes) => {
                let kept = dht.store(now_ms, (from, group), *key, bytes, &network);
                dht.refused += u64::from(!kept);
            }
        }
        honest.closer.retain(|node| *node != from);
        match dht.hostile.clone() {
            None => Some(honest),
            Some(hostile) => {
                drop(state);
                hostile.reply(from, question, honest)
            }
        }
    }

    /// Sends a question over the link, and awaits the answer.
    async fn ask(&self, from: PublicKey, to: PublicKey, question: Question) -> (PublicKey, Option<Reply>) {
        let asking = async {
            sleep_until(self.arrival()).await;
            self.passable(from, to).await;
            let Some(reply) = self.answer(from, to, &question) else { return std::future::pending().await };
            sleep_until(self.arrival()).await;
            self.passable(from, to).await;
            reply
        };
        let reply = tokio::time::timeout(TIMEOUT, asking).await.ok();
        let group = self.lock().nodes.get(&to).and_then(|node| node.dht.group);
        if let Some(node) = self.lock().nodes.get_mut(&from) {
            match reply {
                Some(_) => node.dht.on_contact(to, group),
                None => node.dht.table.remove(to),
            }
        }
        (to, reply)
    }
}

impl DhtNode {
    /// Verifies a value and stores it.
    fn store(
        &mut self,
        now_ms: u64,
        sender: (PublicKey, Option<AddressGroup>),
        key: RecordKey,
        bytes: &[u8],
        network: &str,
    ) -> bool {
        let Ok(value) = Value::open(key, bytes, network, now_ms) else { return false };
        let until_ms = value.not_after_ms().unwrap_or(u64::MAX);
        self.records.put(now_ms, sender, key, value, until_ms).is_ok()
    }
}

/// The state of a node in a look-up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    NotYet,
    Waiting,
    Answered,
    Silent,
}

impl SimNetwork {
    /// Asks ever closer nodes until the k closest have answered; each answer goes to `on_reply`.
    async fn iterate(
        &self,
        lookup: Lookup,
        mut on_reply: impl FnMut(Reply) + Send,
    ) -> Result<(Vec<PublicKey>, LookupStats), RoutingError> {
        let begun = Instant::now();
        let near = |node: PublicKey| distance(&position_of_node(node), &lookup.position);
        let first = {
            let state = self.net.lock();
            let node = state.nodes.get(&self.local).ok_or(RoutingError::Stopped)?;
            node.dht.table.closest(&lookup.position, K)
        };
        if first.is_empty() {
            return Err(RoutingError::Alone);
        }
        let mut nodes: BTreeMap<Digest, (PublicKey, Asked)> =
            first.into_iter().map(|node| (near(node), (node, Asked::NotYet))).collect();
        let mut stats = LookupStats::default();
        let mut waiting = FuturesUnordered::new();
        loop {
            // The k closest of those that may still answer count.
            let count = nodes.values().filter(|(_, asked)| *asked != Asked::Silent).count().min(K);
            let best = nodes.values_mut().filter(|(_, asked)| *asked != Asked::Silent).take(count);
            for (node, asked) in best {
                if waiting.len() < ALPHA && *asked == Asked::NotYet {
                    *asked = Asked::Waiting;
                    stats.requests += 1;
                    waiting.push(self.net.ask(self.local, *node, lookup.question.clone()));
                }
            }
            let Some((node, reply)) = waiting.next().await else { break };
            let Some(reply) = reply else {
                nodes.insert(near(node), (node, Asked::Silent));
                continue;
            };
            stats.answered += 1;
            nodes.insert(near(node), (node, Asked::Answered));
            for closer in reply.closer.iter().filter(|closer| **closer != self.local).take(K) {
                nodes.entry(near(*closer)).or_insert((*closer, Asked::NotYet));
            }
            on_reply(reply);
        }
        stats.took = begun.elapsed();
        let answered = nodes.into_values().filter(|(_, asked)| *asked == Asked::Answered).map(|(node, _)| node);
        let closest: Vec<PublicKey> = answered.take(K).collect();
        if closest.is_empty() { Err(RoutingError::Unanswered) } else { Ok((closest, stats)) }
    }

    /// Looks up the nodes closest to `key`, and sends `what` to each of them.
    async fn store_at_closest(&self, key: RecordKey, what: Question) -> Result<LookupStats, RoutingError> {
        let place = position_of_key(key);
        let lookup = Lookup { position: place, question: Question::Closest(place) };
        let (closest, mut stats) = self.iterate(lookup, |_| {}).await?;
        let telling = closest.into_iter().map(|node| self.net.ask(self.local, node, what.clone()));
        let told = futures::future::join_all(telling).await;
        stats.requests += u32::try_from(told.len()).unwrap_or(u32::MAX);
        let taken = told.iter().filter(|(_, reply)| reply.is_some()).count();
        stats.answered += u32::try_from(taken).unwrap_or(u32::MAX);
        if taken == 0 { Err(RoutingError::Unanswered) } else { Ok(stats) }
    }

    /// Looks itself up, as a joining node does, so that the closest nodes know it.
    pub(super) async fn refresh(&self) {
        let place = position_of_node(self.local);
        // After a failure it is repeated when the next peer connects.
        let _ = self.iterate(Lookup { position: place, question: Question::Closest(place) }, |_| {}).await;
        if let Some(node) = self.net.lock().nodes.get_mut(&self.local) {
            node.joining = false;
        }
    }

    /// Calls `with` on this node's part of the DHT; a default when the node was removed.
    fn dht<T: Default>(&self, with: impl FnOnce(&mut DhtNode) -> T) -> T {
        let mut state = self.net.lock();
        state.nodes.get_mut(&self.local).map(|node| with(&mut node.dht)).unwrap_or_default()
    }
}

impl DhtRouting for SimNetwork {
    fn provide(&self, key: RecordKey) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        self.dht(|dht| dht.provided.insert(key));
        self.store_at_closest(key, Question::Provide(key)).boxed()
    }

    fn stop_providing(&self, key: RecordKey) {
        self.dht(|dht| dht.provided.remove(&key));
    }

    fn providers(
        &self,
        key: RecordKey,
        found: mpsc::Sender<Provider>,
    ) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        async move {
            let now_ms = self.net.now_ms();
            let mut told = BTreeSet::new();
            let mut tell = move |providers: Vec<Provider>| {
                for provider in providers.into_iter().take(K) {
                    if told.insert(provider.node) {
                        // The receiver may have enough.
                        let _ = found.try_send(provider);
                    }
                }
            };
            tell(self.dht(|dht| dht.records.providers(now_ms, key)));
            let lookup = Lookup { position: position_of_key(key), question: Question::Providers(key) };
            Ok(self.iterate(lookup, |reply| tell(reply.providers)).await?.1)
        }
        .boxed()
    }

    fn put(&self, key: RecordKey, value: Vec<u8>) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        async move {
            let (now_ms, network) = (self.net.now_ms(), self.net.lock().network.clone());
            self.dht(|dht| dht.store(now_ms, (self.local, None), key, &value, &network));
            self.store_at_closest(key, Question::Put(key, value)).await
        }
        .boxed()
    }

    fn get(&self, key: RecordKey, found: mpsc::Sender<Vec<u8>>) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        async move {
            let now_ms = self.net.now_ms();
            if let Some(held) = self.dht(|dht| dht.records.value(now_ms, key).map(<[u8]>::to_vec)) {
                let _ = found.try_send(held);
            }
            let lookup = Lookup { position: position_of_key(key), question: Question::Value(key) };
            let tell = |reply: Reply| {
                if let Some(value) = reply.value {
                    let _ = found.try_send(value);
                }
            };
            Ok(self.iterate(lookup, tell).await?.1)
        }
        .boxed()
    }

    fn nodes(&self) -> Vec<PublicKey> {
        self.dht(|dht| dht.table.nodes())
    }

    fn stats(&self) -> TableStats {
        self.dht(|dht| {
            let (values, providers) = dht.records.len();
            TableStats { nodes: dht.table.len(), values, providers, refused: dht.refused }
        })
    }
}

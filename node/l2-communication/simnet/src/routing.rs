//! The table among simulated nodes: Kademlia's look-ups, with the routing tables, the records and the filters of each
//! node, over the same links as everything else. A node's answers can be made hostile.

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
use althing_communication::groups::Group;
use althing_communication::records::{RecordLimits, Records, distance, place_of_key, place_of_node};
use althing_communication::routing::{ALPHA, K, Kept, LookupStats, Provider, Routing, RoutingError};

/// Who does not answer within this is left out.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a node is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Who is nearest to a place?
    Closest(Digest),
    /// Who provides that?
    Providers(RecordKey),
    /// What is kept under that?
    Value(RecordKey),
    /// The asker provides that.
    Provide(RecordKey),
    /// Keep that.
    Put(RecordKey, Vec<u8>),
}

/// What a node answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Nodes near the place asked about.
    pub closer: Vec<PublicKey>,
    /// Who provides it.
    pub providers: Vec<Provider>,
    /// The value.
    pub value: Option<Vec<u8>>,
}

/// A node that answers as it likes.
pub trait Hostile: Send + Sync + 'static {
    /// What it says where an honest node would say `honest`; nothing: it is silent.
    fn reply(&self, asker: PublicKey, question: &Question, honest: Reply) -> Option<Reply>;
}

/// A node's part of the table.
pub(super) struct Part {
    table: Table,
    records: Records,
    provided: BTreeSet<RecordKey>,
    refused: u64,
    pub group: Option<Group>,
    pub hostile: Option<Arc<dyn Hostile>>,
}

impl Part {
    pub fn new(local: PublicKey, group: Option<Group>) -> Part {
        Part {
            table: Table::new(local),
            records: Records::new(local, RecordLimits::default()),
            provided: BTreeSet::new(),
            refused: 0,
            group,
            hostile: None,
        }
    }

    /// Nodes in its table.
    pub fn size(&self) -> usize {
        self.table.len()
    }

    /// A node was met.
    pub fn meet(&mut self, node: PublicKey, group: Option<Group>) {
        self.table.insert(node, group);
    }
}

/// What is asked for, or to be done, at the nodes nearest to a place.
struct Lookup {
    place: Digest,
    question: Question,
}

impl SimNet {
    /// Lets a node answer as `hostile` likes.
    pub fn corrupt(&self, node: PublicKey, hostile: Arc<dyn Hostile>) {
        if let Some(node) = self.lock().nodes.get_mut(&node) {
            node.part.hostile = Some(hostile);
        }
    }

    /// The values that a node keeps for others.
    #[must_use]
    pub fn values(&self, node: PublicKey) -> Vec<(RecordKey, Vec<u8>)> {
        let now_ms = self.now_ms();
        let state = self.lock();
        let Some(node) = state.nodes.get(&node) else { return Vec::new() };
        node.part.records.values(now_ms).map(|(key, bytes)| (key, bytes.to_vec())).collect()
    }

    /// What `to` says to `from`, who may then know each other.
    fn answer(&self, from: PublicKey, to: PublicKey, question: &Question) -> Option<Reply> {
        let now_ms = self.now_ms();
        let mut state = self.lock();
        let group = state.nodes.get(&from)?.part.group;
        let network = state.network.clone();
        let part = &mut state.nodes.get_mut(&to)?.part;
        part.meet(from, group);
        let mut honest = Reply::default();
        match question {
            Question::Closest(place) => honest.closer = part.table.closest(place, K),
            Question::Providers(key) => {
                honest.closer = part.table.closest(&place_of_key(*key), K);
                honest.providers = part.records.providers(now_ms, *key);
                if part.provided.contains(key) {
                    honest.providers.push(Provider { node: to, addresses: vec![format!("sim:{to}")] });
                }
            }
            Question::Value(key) => {
                honest.closer = part.table.closest(&place_of_key(*key), K);
                honest.value = part.records.value(now_ms, *key).map(<[u8]>::to_vec);
            }
            Question::Provide(key) => {
                let kept = part.records.provide(now_ms, (from, group), *key, vec![format!("sim:{from}")]);
                part.refused += u64::from(kept.is_err());
            }
            Question::Put(key, bytes) => {
                let kept = part.keep(now_ms, (from, group), *key, bytes, &network);
                part.refused += u64::from(!kept);
            }
        }
        honest.closer.retain(|node| *node != from);
        match part.hostile.clone() {
            None => Some(honest),
            Some(hostile) => {
                drop(state);
                hostile.reply(from, question, honest)
            }
        }
    }

    /// A question and its answer, over the link.
    async fn ask(&self, from: PublicKey, to: PublicKey, question: Question) -> (PublicKey, Option<Reply>) {
        let asking = async {
            sleep_until(self.arrival()).await;
            self.passable(from, to).await;
            let Some(reply) = self.answer(from, to, &question) else { return std::future::pending().await };
            sleep_until(self.arrival()).await;
            self.passable(from, to).await;
            reply
        };
        let reply = tokio::time::timeout(PATIENCE, asking).await.ok();
        let group = self.lock().nodes.get(&to).and_then(|node| node.part.group);
        if let Some(node) = self.lock().nodes.get_mut(&from) {
            match reply {
                Some(_) => node.part.meet(to, group),
                None => node.part.table.remove(to),
            }
        }
        (to, reply)
    }
}

impl Part {
    /// Verifies a value and keeps it.
    fn keep(
        &mut self,
        now_ms: u64,
        sender: (PublicKey, Option<Group>),
        key: RecordKey,
        bytes: &[u8],
        network: &str,
    ) -> bool {
        let Ok(value) = Value::open(key, bytes, network, now_ms) else { return false };
        let until_ms = value.not_after_ms().unwrap_or(u64::MAX);
        self.records.put(now_ms, sender, key, value, until_ms).is_ok()
    }
}

/// How far a node of a look-up is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    NotYet,
    Waiting,
    Answered,
    Silent,
}

impl SimNetwork {
    /// Asks ever nearer nodes until the k nearest have answered; each answer goes to `heard`.
    async fn iterate(
        &self,
        lookup: Lookup,
        mut heard: impl FnMut(Reply) + Send,
    ) -> Result<(Vec<PublicKey>, LookupStats), RoutingError> {
        let begun = Instant::now();
        let near = |node: PublicKey| distance(&place_of_node(node), &lookup.place);
        let first = {
            let state = self.net.lock();
            let node = state.nodes.get(&self.local).ok_or(RoutingError::Stopped)?;
            node.part.table.closest(&lookup.place, K)
        };
        if first.is_empty() {
            return Err(RoutingError::Alone);
        }
        let mut nodes: BTreeMap<Digest, (PublicKey, Asked)> =
            first.into_iter().map(|node| (near(node), (node, Asked::NotYet))).collect();
        let mut stats = LookupStats::default();
        let mut waiting = FuturesUnordered::new();
        loop {
            // Of those that may still answer, the k nearest count.
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
            heard(reply);
        }
        stats.took = begun.elapsed();
        let answered = nodes.into_values().filter(|(_, asked)| *asked == Asked::Answered).map(|(node, _)| node);
        let closest: Vec<PublicKey> = answered.take(K).collect();
        if closest.is_empty() { Err(RoutingError::Unanswered) } else { Ok((closest, stats)) }
    }

    /// Looks for the nodes nearest to `key`, and tells each of them `what`.
    async fn spread(&self, key: RecordKey, what: Question) -> Result<LookupStats, RoutingError> {
        let place = place_of_key(key);
        let lookup = Lookup { place, question: Question::Closest(place) };
        let (closest, mut stats) = self.iterate(lookup, |_| {}).await?;
        let telling = closest.into_iter().map(|node| self.net.ask(self.local, node, what.clone()));
        let told = futures::future::join_all(telling).await;
        stats.requests += u32::try_from(told.len()).unwrap_or(u32::MAX);
        let taken = told.iter().filter(|(_, reply)| reply.is_some()).count();
        stats.answered += u32::try_from(taken).unwrap_or(u32::MAX);
        if taken == 0 { Err(RoutingError::Unanswered) } else { Ok(stats) }
    }

    /// Looks itself up, so that those who are near know it, as a node does that joins.
    pub(super) async fn refresh(&self) {
        let place = place_of_node(self.local);
        // Failing, it is done again when the next peer connects.
        let _ = self.iterate(Lookup { place, question: Question::Closest(place) }, |_| {}).await;
        if let Some(node) = self.net.lock().nodes.get_mut(&self.local) {
            node.joining = false;
        }
    }

    /// Does something with this node's part of the table, while the node is there.
    fn part<T: Default>(&self, with: impl FnOnce(&mut Part) -> T) -> T {
        let mut state = self.net.lock();
        state.nodes.get_mut(&self.local).map(|node| with(&mut node.part)).unwrap_or_default()
    }
}

impl Routing for SimNetwork {
    fn provide(&self, key: RecordKey) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        self.part(|part| part.provided.insert(key));
        self.spread(key, Question::Provide(key)).boxed()
    }

    fn stop_providing(&self, key: RecordKey) {
        self.part(|part| part.provided.remove(&key));
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
                        // Who looks takes as many as it wants.
                        let _ = found.try_send(provider);
                    }
                }
            };
            tell(self.part(|part| part.records.providers(now_ms, key)));
            let lookup = Lookup { place: place_of_key(key), question: Question::Providers(key) };
            Ok(self.iterate(lookup, |reply| tell(reply.providers)).await?.1)
        }
        .boxed()
    }

    fn put(&self, key: RecordKey, value: Vec<u8>) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        async move {
            let (now_ms, network) = (self.net.now_ms(), self.net.lock().network.clone());
            self.part(|part| part.keep(now_ms, (self.local, None), key, &value, &network));
            self.spread(key, Question::Put(key, value)).await
        }
        .boxed()
    }

    fn get(&self, key: RecordKey, found: mpsc::Sender<Vec<u8>>) -> BoxFuture<'_, Result<LookupStats, RoutingError>> {
        async move {
            let now_ms = self.net.now_ms();
            if let Some(held) = self.part(|part| part.records.value(now_ms, key).map(<[u8]>::to_vec)) {
                let _ = found.try_send(held);
            }
            let lookup = Lookup { place: place_of_key(key), question: Question::Value(key) };
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
        self.part(|part| part.table.nodes())
    }

    fn kept(&self) -> Kept {
        self.part(|part| {
            let (values, providers) = part.records.len();
            Kept { nodes: part.table.len(), values, providers, refused: part.refused }
        })
    }
}

//! How the owner's other nodes are reached by news of rollouts, what wakes the telling, and what waits to be remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, OnceLock};

use althing_communication::Communication;
use althing_communication::rate_limiter::RateLimiter;
use althing_protocol::{Digest, PublicKey, PublisherId};
use althing_verification::machine::rollout::{RolloutNews, RolloutWord};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// The stream protocol of news of rollouts.
pub const ROLLOUTS_PROTOCOL: &str = "/althing/rollouts/1";

/// Messages of one node in a second, and twice as many at once: nodes of one owner tell what was decided, and ask every few seconds.
const MESSAGES: u32 = 8;
/// Nodes whose messages are counted.
const NODES_MAX: usize = 1_024;
/// News that wait to be remembered; of more, some are heard again later.
const WAITING_MAX: usize = 1_024;

/// By what a node tells the others of its owner of rollouts, and hears of theirs.
pub(super) struct RolloutNewsPort {
    owner: PublisherId,
    communication: OnceLock<Communication>,
    /// The agents of which something was decided that was not pushed yet.
    fresh: Mutex<BTreeSet<String>>,
    /// Rises with each of them.
    decided: watch::Sender<u64>,
    /// Rises with each rollout that begins: others may know what came of its version.
    begun: watch::Sender<u64>,
    /// That versions went back, of agents whose calls are not divided here; and which node told it.
    waiting: Mutex<BTreeMap<(String, Digest), (PublicKey, RolloutNews)>>,
    waits: Notify,
    rates: Mutex<BTreeMap<PublicKey, RateLimiter>>,
    started: Instant,
}

impl RolloutNewsPort {
    pub fn new(owner: PublisherId) -> RolloutNewsPort {
        RolloutNewsPort {
            owner,
            communication: OnceLock::new(),
            fresh: Mutex::default(),
            decided: watch::Sender::new(0),
            begun: watch::Sender::new(0),
            waiting: Mutex::default(),
            waits: Notify::new(),
            rates: Mutex::default(),
            started: Instant::now(),
        }
    }

    /// Whose nodes tell each other.
    pub fn owner(&self) -> PublisherId {
        self.owner
    }

    /// Others are told, and asked, from now on; only the first call has an effect.
    pub fn connect(&self, communication: &Communication) {
        let _ = self.communication.set(communication.clone());
    }

    /// How others are asked, once that is known.
    pub fn communication(&self) -> Option<&Communication> {
        self.communication.get()
    }

    /// Whether a peer proved to be a node of the owner.
    pub fn is_own(&self, peer: PublicKey) -> bool {
        self.communication.get().is_some_and(|communication| communication.owner(peer) == Some(self.owner))
    }

    /// Those of the owner's other nodes that are connected.
    pub fn own_peers(&self) -> BTreeSet<PublicKey> {
        let connected = self.communication.get().map(|communication| communication.network().connected());
        connected.into_iter().flatten().filter(|peer| self.is_own(*peer)).collect()
    }

    /// Something was decided of an agent: others are to be told.
    pub fn tell(&self, agent: &str) {
        self.fresh().insert(agent.to_owned());
        self.decided.send_modify(|number| *number += 1);
    }

    /// The agents that others are to be told of, which are not among them then.
    pub fn take_fresh(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.fresh())
    }

    /// A rollout began: others are to be asked.
    pub fn ask(&self) {
        self.begun.send_modify(|number| *number += 1);
    }

    /// What says that others are to be told, and to be asked.
    pub fn changes(&self) -> (watch::Receiver<u64>, watch::Receiver<u64>) {
        (self.decided.subscribe(), self.begun.subscribe())
    }

    /// News of an agent whose calls are not divided here wait to be remembered: only that a version went back says anything there.
    pub fn put_off(&self, from: PublicKey, news: RolloutNews) {
        let mut waiting = self.waiting();
        if news.word == RolloutWord::Back && waiting.len() < WAITING_MAX {
            waiting.insert((news.agent.clone(), news.version), (from, news));
            self.waits.notify_one();
        }
    }

    /// The next news that wait, once there are some, with the node that told them.
    pub async fn next_waiting(&self) -> (PublicKey, RolloutNews) {
        loop {
            let first = self.waiting().pop_first();
            if let Some((_, news)) = first {
                return news;
            }
            self.waits.notified().await;
        }
    }

    /// Whether a message of that node is looked at now.
    pub fn admits(&self, node: PublicKey) -> bool {
        let now = self.started.elapsed();
        let mut limiters = self.rates.lock().expect("no holder of the rates panics");
        if limiters.len() >= NODES_MAX {
            limiters.retain(|_, limiter| !limiter.is_full(now));
        }
        let mut limiter = limiters.get(&node).copied().unwrap_or_default();
        let is_admitted = limiter.take(MESSAGES, now).is_zero() && limiters.len() < NODES_MAX;
        if is_admitted {
            limiters.insert(node, limiter);
        }
        is_admitted
    }

    fn fresh(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.fresh.lock().expect("no holder of the news panics")
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<(String, Digest), (PublicKey, RolloutNews)>> {
        self.waiting.lock().expect("no holder of what waits panics")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use althing_protocol::SecretKey;

    use super::*;

    fn port() -> RolloutNewsPort {
        RolloutNewsPort::new(PublisherId::from_digest([7; 32]))
    }

    fn key(number: u8) -> PublicKey {
        SecretKey::from_seed(&[number; 32]).public()
    }

    fn news(agent: &str, word: RolloutWord) -> RolloutNews {
        RolloutNews { agent: agent.to_owned(), version: [1; 32], word, at_ms: 1 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_tells_without_end_waits_and_keeps_nobody_else_from_being_heard() {
        let port = port();
        let admitted = (0..100).filter(|_| port.admits(key(1))).count();
        assert_eq!(admitted, 16);
        assert!(port.admits(key(2)));
        tokio::time::advance(Duration::from_secs(1)).await;
        let admitted = (0..100).filter(|_| port.admits(key(1))).count();
        assert_eq!(admitted, 8);
    }

    #[tokio::test]
    async fn what_waits_is_what_went_back_once_each_and_not_more_than_there_is_room_for() {
        let port = port();
        port.put_off(key(1), news("shop", RolloutWord::Promoted));
        port.put_off(key(1), news("shop", RolloutWord::Back));
        port.put_off(key(2), news("shop", RolloutWord::Back));
        assert_eq!(port.next_waiting().await, (key(2), news("shop", RolloutWord::Back)));
        (0..2 * WAITING_MAX).for_each(|number| port.put_off(key(1), news(&format!("a{number}"), RolloutWord::Back)));
        assert_eq!(port.waiting().len(), WAITING_MAX);
        port.tell("shop");
        port.tell("shop");
        assert_eq!((port.take_fresh().len(), port.take_fresh().len()), (1, 0));
    }
}

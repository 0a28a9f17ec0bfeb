//! The orders that a node knows: what holds, what is written, and what peers are still to be told.

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock, RwLock, RwLockReadGuard};
use std::time::Duration;

use althing_communication::{Communication, Priority, Request, WallClock};
use althing_governance::machine::orders::{
    ORDERS_OF_OTHERS_MAX, ORDERS_OWN_MAX, OrderBook, OrderNews, ProvenOrder, SignedOrder,
};
use althing_protocol::keyring::Origin;
use althing_protocol::object::{self, OrderSubject, OrderWord, OwnerOrder};
use althing_protocol::{AgentId, PublicKey, PublisherId};
use althing_store::{Batch, Durability, Family, Range, Store};
use tokio::sync::watch;

use super::news_queue::NewsQueue;
use super::port::PolicySetPort;
use super::rates::SignatureRates;
use crate::error::NodeError;
use crate::owner::Owner;

/// Orders that are kept, with the keys that prove them.
pub const ORDERS: Family = Family("governance.orders");
/// The stream protocol of orders.
pub const ORDERS_PROTOCOL: &str = "/althing/orders/1";

/// How long an order of this node's may take to reach another node of its owner that is connected.
const TELL_OWN: Duration = Duration::from_secs(2);

/// Which of the owner's connected nodes heard an order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderReport {
    /// Each of them, and why it did not hear it, if it did not.
    pub nodes: Vec<(PublicKey, Result<(), String>)>,
}

/// The orders that this node knows.
pub struct Orders {
    book: RwLock<OrderBook>,
    owner: PublisherId,
    store: Arc<dyn Store>,
    clock: WallClock,
    communication: OnceLock<Communication>,
    queue: NewsQueue,
    rates: SignatureRates,
    /// Rises with each order that counts.
    changed: watch::Sender<u64>,
    /// One row is written at a time, and always what counts by then.
    writing: tokio::sync::Mutex<()>,
    sets: PolicySetPort,
}

impl Orders {
    /// Those that the store has.
    pub(crate) fn open(store: Arc<dyn Store>, owner: PublisherId, clock: WallClock) -> Result<Orders, NodeError> {
        let mut book = OrderBook::new(owner);
        for (key, row) in store.scan(ORDERS, Range::all(ORDERS_OWN_MAX + ORDERS_OF_OTHERS_MAX))? {
            // One that is lost would let a stopped agent run.
            let read =
                SignedOrder::decode(&row).and_then(|order| order.open(None)).and_then(|order| book.restore(order));
            read.map_err(|why| NodeError::Orders {
                of: String::from_utf8_lossy(&key).into_owned(),
                why: why.to_string(),
            })?;
        }
        let sets = PolicySetPort::open(store.clone())?;
        Ok(Orders {
            book: RwLock::new(book),
            owner,
            store,
            clock,
            communication: OnceLock::new(),
            queue: NewsQueue::default(),
            rates: SignatureRates::default(),
            changed: watch::Sender::new(0),
            writing: tokio::sync::Mutex::default(),
            sets,
        })
    }

    /// Peers are told, and asked, from now on; only the first call has an effect.
    pub(super) fn connect(&self, communication: &Communication) {
        let _ = self.communication.set(communication.clone());
    }

    pub(super) fn book(&self) -> RwLockReadGuard<'_, OrderBook> {
        self.book.read().expect("no holder of the orders panics")
    }

    /// What peers are still to be told.
    pub(super) fn queue(&self) -> &NewsQueue {
        &self.queue
    }

    /// Whose node it is.
    pub(super) fn owner(&self) -> PublisherId {
        self.owner
    }

    /// How peers are asked, once that is known.
    pub(super) fn communication(&self) -> Option<&Communication> {
        self.communication.get()
    }

    /// The policy sets of the node.
    pub(super) fn sets(&self) -> &PolicySetPort {
        &self.sets
    }

    /// The time of day, Unix milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Wakes whoever follows the orders.
    pub(super) fn wake(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Why an agent neither runs nor is called here, if somebody who may say so ordered it.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn why_stopped(&self, agent: &AgentId) -> Option<String> {
        match self.book().word_of(agent) {
            OrderWord::Lift => None,
            OrderWord::Stop => Some(format!("{agent} was stopped by its owner")),
            OrderWord::Revoke => Some(format!("{agent} was revoked by its owner")),
        }
    }

    /// What holds for an agent.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn word_of(&self, agent: &AgentId) -> OrderWord {
        self.book().word_of(agent)
    }

    /// What holds for all agents of the owner of which nothing newer was ordered.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn word_of_all(&self) -> OrderWord {
        self.book().word_of_all()
    }

    /// Rises with each order that counts.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Gives an order of the owner: it holds here at once, and then on the owner's nodes that are connected; others hear of it as of
    /// a withdrawal.
    ///
    /// # Errors
    /// [`NodeError::OwnerRevoked`], [`NodeError::Order`], and those of the store: then it holds until the node ends.
    pub async fn give(&self, subject: OrderSubject, owner: &Owner) -> Result<OrderReport, NodeError> {
        if owner.log.revoked() {
            return Err(NodeError::OwnerRevoked);
        }
        let serial = self.book().next_serial(&subject, self.clock.now_ms());
        let signed = object::sign(OwnerOrder::new(owner.id(), subject, serial), "", "", &owner.key)?;
        let proven = ProvenOrder { order: Arc::new(signed), log: Arc::new(owner.log.clone()) };
        // Nobody waits for the disk of this node.
        let (kept, report) = tokio::join!(self.keep(proven.clone()), self.tell_own(&proven));
        kept.map(|_| report)
    }

    /// Signs the owner's orders with its key of now: those by an old key do not count any more for whoever hears of them.
    pub(crate) async fn sign_anew(&self, owner: &Owner) -> Result<(), NodeError> {
        let old: Vec<ProvenOrder> = {
            let book = self.book();
            book.own().filter(|proven| proven.order.signer != owner.key.public()).cloned().collect()
        };
        for proven in old {
            let OwnerOrder { publisher, subject, serial, .. } = proven.order.body.clone();
            if matches!(subject, OrderSubject::PolicySet(_)) && self.sets.is_followed(serial) {
                // It says nothing new.
                self.sets.follow(serial.saturating_add(1)).await;
            }
            // Each node of the owner signs the same.
            let body = OwnerOrder::new(publisher, subject, serial.saturating_add(1));
            let order = Arc::new(object::sign(body, "", "", &owner.key)?);
            self.keep(ProvenOrder { order, log: Arc::new(owner.log.clone()) }).await?;
        }
        Ok(())
    }

    /// Takes an order, and writes it; whether it is new. It holds before it is written.
    pub(super) async fn keep(&self, proven: ProvenOrder) -> Result<bool, NodeError> {
        let (digest, now_ms) = (proven.order.digest(), self.clock.now_ms());
        let is_new = self.book.write().expect("no holder of the orders panics").take(proven.clone(), now_ms)?;
        if !is_new {
            return Ok(false);
        }
        tracing::info!(about = proven.row_key(), "an owner gave an order");
        self.queue.push(digest);
        self.wake();
        let _writing = self.writing.lock().await;
        let current = self.book().current(&proven).map(|current| SignedOrder::of(current).encode());
        let mut batch = Batch::new();
        batch.put(ORDERS, proven.row_key().into_bytes(), current.unwrap_or_default());
        self.store.write(batch, Durability::Synced).await?;
        Ok(true)
    }

    /// Tells an order to the owner's nodes that are connected, all at once.
    async fn tell_own(&self, proven: &ProvenOrder) -> OrderReport {
        let Some(communication) = self.communication.get() else { return OrderReport::default() };
        let body = OrderNews::of(std::iter::once(proven)).encode();
        let peers = communication.network().connected().into_iter().filter(|peer| self.is_own(*peer));
        let told = peers.map(|peer| {
            let request =
                Request { deadline: Some(TELL_OWN), priority: Priority::Urgent, ..Request::new("news", body.clone()) };
            async move {
                let told = communication.call(peer, ORDERS_PROTOCOL, request).await;
                (peer, told.map(drop).map_err(|error| error.to_string()))
            }
        });
        OrderReport { nodes: futures::future::join_all(told).await }
    }

    /// Whether a peer proved to be a node of this node's owner.
    pub(super) fn is_own(&self, peer: PublicKey) -> bool {
        self.communication.get().is_some_and(|communication| communication.owner(peer) == Some(self.owner))
    }

    /// Whether so many signatures are verified for a stranger now.
    pub(super) fn admits(&self, origin: &Origin, signatures: usize) -> bool {
        self.rates.admits(origin, signatures)
    }
}

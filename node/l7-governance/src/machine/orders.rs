//! What owners ordered: which agents are stopped or revoked, and which policy set holds. Of two orders about the same thing the one
//! with the higher serial counts, whoever told it and whenever it came.

mod news;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use althing_protocol::cbor::CborError;
use althing_protocol::limits::CLOCK_SKEW_MAX_MS;
use althing_protocol::object::{OrderSubject, OrderWord, OwnerOrder};
use althing_protocol::{AgentId, Authored, Digest, KeyLog, KeyLogError, ObjectError, PublisherId};

pub use news::{OrderNews, SignedOrder};

/// Orders of this node's owner that are kept.
pub const ORDERS_OWN_MAX: usize = 1_024;
/// Those of one other publisher.
pub const ORDERS_OF_PUBLISHER_MAX: usize = 64;
/// Those of all other publishers.
pub const ORDERS_OF_OTHERS_MAX: usize = 2_048;

/// Bytes of these, with the keys that prove them.
pub const ORDERS_OF_OTHERS_BYTES_MAX: usize = 8 << 20;

/// Why an order does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// Not strict CBOR.
    #[error("the orders are not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the orders have the wrong shape: {0}")]
    Shape(String),
    /// The order itself is invalid.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Its signer does not speak for the owner.
    #[error(transparent)]
    Keys(#[from] KeyLogError),
    /// It came with the keys of somebody else.
    #[error("the order of {0} came with the keys of another owner")]
    Foreign(PublisherId),
    /// It is for the nodes of another owner.
    #[error("the order of {0} is for its own nodes")]
    Private(PublisherId),
    /// Its serial is a time that has not come.
    #[error("the order of {publisher} was given {ahead_ms} ms from now: compare the clocks of both machines")]
    Early {
        /// Whose order it is.
        publisher: PublisherId,
        /// How far ahead, milliseconds.
        ahead_ms: u64,
    },
    /// No more orders of that publisher are kept.
    #[error("there is no room for more orders of {0}")]
    Full(PublisherId),
}

/// What orders are about; one order about each counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderTopic {
    /// All agents of the owner.
    AllAgents,
    /// The policy set of the owner's nodes.
    PolicySet,
    /// One agent, by its name.
    Agent(String),
}

impl OrderTopic {
    /// What a subject is about.
    #[must_use]
    pub fn of(subject: &OrderSubject) -> OrderTopic {
        match subject {
            OrderSubject::Agent(name, _) => OrderTopic::Agent(name.clone()),
            OrderSubject::AllAgents(_) => OrderTopic::AllAgents,
            OrderSubject::PolicySet(_) => OrderTopic::PolicySet,
        }
    }

    /// Its name in the key of a row: no agent's name has these signs.
    fn name(&self) -> &str {
        match self {
            OrderTopic::AllAgents => "*",
            OrderTopic::PolicySet => "=policy",
            OrderTopic::Agent(name) => name,
        }
    }
}

/// An order with the key log by which its signer speaks for the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenOrder {
    /// The order, with its signed bytes.
    pub order: Arc<Authored<OwnerOrder>>,
    /// The owner's key log.
    pub log: Arc<KeyLog>,
}

impl ProvenOrder {
    /// Bytes of it and of the keys.
    fn size(&self) -> usize {
        self.order.bytes.len() + self.log.size()
    }

    /// The key of its row.
    #[must_use]
    pub fn row_key(&self) -> String {
        let OwnerOrder { publisher, subject, .. } = &self.order.body;
        format!("{publisher} {}", OrderTopic::of(subject).name())
    }
}

/// All orders that count, on the node of one owner.
#[derive(Debug, Clone)]
pub struct OrderBook {
    owner: PublisherId,
    entries: BTreeMap<(PublisherId, OrderTopic), ProvenOrder>,
    digests: BTreeSet<Digest>,
}

impl OrderBook {
    /// Without any order.
    #[must_use]
    pub fn new(owner: PublisherId) -> OrderBook {
        OrderBook { owner, entries: BTreeMap::new(), digests: BTreeSet::new() }
    }

    /// Takes an order that was heard, or was just given here. True where it is newer than what was known.
    ///
    /// # Errors
    /// [`OrderError`]: it does not count.
    pub fn take(&mut self, proven: ProvenOrder, now_ms: u64) -> Result<bool, OrderError> {
        let Authored { body, signer, .. } = proven.order.as_ref();
        let publisher = body.publisher;
        if proven.log.publisher() != publisher {
            return Err(OrderError::Foreign(publisher));
        }
        proven.log.accepts(*signer, now_ms)?;
        if publisher != self.owner && !body.is_public() {
            return Err(OrderError::Private(publisher));
        }
        // Else one wrong clock, or one stolen key, would have the last word for ever.
        if body.serial > now_ms.saturating_add(CLOCK_SKEW_MAX_MS) {
            return Err(OrderError::Early { publisher, ahead_ms: body.serial - now_ms });
        }
        self.put(proven)
    }

    /// Takes an order that was checked before a restart.
    ///
    /// # Errors
    /// [`OrderError::Full`].
    pub fn restore(&mut self, proven: ProvenOrder) -> Result<bool, OrderError> {
        self.put(proven)
    }

    fn put(&mut self, proven: ProvenOrder) -> Result<bool, OrderError> {
        let body = &proven.order.body;
        let key = (body.publisher, OrderTopic::of(&body.subject));
        match self.entries.get(&key) {
            // Two nodes of an owner may give one in the same millisecond: all nodes prefer the same one, the stricter.
            Some(known) if (body.serial, &body.subject) <= (known.order.body.serial, &known.order.body.subject) => {
                return Ok(false);
            }
            known => self.check_room(key.0, known.is_none(), proven.size())?,
        }
        self.digests.insert(proven.order.digest());
        if let Some(before) = self.entries.insert(key, proven) {
            self.digests.remove(&before.order.digest());
        }
        Ok(true)
    }

    fn check_room(&self, publisher: PublisherId, is_another: bool, bytes: usize) -> Result<(), OrderError> {
        let of_publisher = self.of(publisher).count();
        let is_full = if publisher == self.owner {
            is_another && of_publisher >= ORDERS_OWN_MAX
        } else {
            let others = || self.entries.iter().filter(|((other, _), _)| *other != self.owner);
            let held = others().map(|(_, proven)| proven.size()).sum::<usize>();
            let has_many = of_publisher >= ORDERS_OF_PUBLISHER_MAX || others().count() >= ORDERS_OF_OTHERS_MAX;
            (is_another && has_many) || held + bytes > ORDERS_OF_OTHERS_BYTES_MAX
        };
        if is_full { Err(OrderError::Full(publisher)) } else { Ok(()) }
    }

    /// The orders of a publisher.
    fn of(&self, publisher: PublisherId) -> impl Iterator<Item = &ProvenOrder> {
        let first = (publisher, OrderTopic::AllAgents);
        self.entries.range(first..).take_while(move |((of, _), _)| *of == publisher).map(|(_, proven)| proven)
    }

    /// The orders of this node's owner.
    pub fn own(&self) -> impl Iterator<Item = &ProvenOrder> {
        self.of(self.owner)
    }

    /// What holds for an agent: the newer one of what was ordered of it and of all agents of its owner.
    #[must_use]
    pub fn word_of(&self, agent: &AgentId) -> OrderWord {
        if self.entries.is_empty() {
            return OrderWord::Lift;
        }
        let word = |topic: OrderTopic| {
            let body = &self.entries.get(&(agent.publisher(), topic))?.order.body;
            match body.subject {
                OrderSubject::Agent(_, word) | OrderSubject::AllAgents(word) => Some((body.serial, word)),
                OrderSubject::PolicySet(_) => None,
            }
        };
        let words = [word(OrderTopic::AllAgents), word(OrderTopic::Agent(agent.name().to_owned()))];
        words.into_iter().flatten().max().map_or(OrderWord::Lift, |(_, word)| word)
    }

    /// What holds for all agents of this node's owner of which nothing newer was ordered.
    #[must_use]
    pub fn word_of_all(&self) -> OrderWord {
        let of_all = self.entries.get(&(self.owner, OrderTopic::AllAgents)).map(|proven| &proven.order.body.subject);
        match of_all {
            Some(OrderSubject::AllAgents(word)) => *word,
            _ => OrderWord::Lift,
        }
    }

    /// The policy set of the owner's nodes: its digest, and the serial of the order.
    #[must_use]
    pub fn policy_set(&self) -> Option<(Digest, u64)> {
        let body = &self.entries.get(&(self.owner, OrderTopic::PolicySet))?.order.body;
        match body.subject {
            OrderSubject::PolicySet(digest) => Some((digest, body.serial)),
            _ => None,
        }
    }

    /// The serial of the owner's next order about something: none that is known about it is as new.
    #[must_use]
    pub fn next_serial(&self, subject: &OrderSubject, now_ms: u64) -> u64 {
        let topic = OrderTopic::of(subject);
        let also = match topic {
            OrderTopic::Agent(_) => Some(OrderTopic::AllAgents),
            OrderTopic::AllAgents | OrderTopic::PolicySet => None,
        };
        let known = std::iter::once(topic).chain(also).filter_map(|topic| self.entries.get(&(self.owner, topic)));
        // What was ordered of single agents does not hold against a later word about all of them.
        let of_agents = self.own().filter(|_| matches!(subject, OrderSubject::AllAgents(_)));
        let of_agents = of_agents.filter(|proven| !matches!(proven.order.body.subject, OrderSubject::PolicySet(_)));
        let latest = known.chain(of_agents).map(|proven| proven.order.body.serial).max();
        latest.map_or(now_ms, |latest| now_ms.max(latest.saturating_add(1))).max(1)
    }

    /// The order that counts about what another one is about.
    #[must_use]
    pub fn current(&self, other: &ProvenOrder) -> Option<&ProvenOrder> {
        let OwnerOrder { publisher, subject, .. } = &other.order.body;
        self.entries.get(&(*publisher, OrderTopic::of(subject)))
    }

    /// Whether an order is known, by its digest.
    #[must_use]
    pub fn has(&self, digest: &Digest) -> bool {
        self.digests.contains(digest)
    }

    /// The digests of all orders, which peers need not tell.
    #[must_use]
    pub fn digests(&self) -> &BTreeSet<Digest> {
        &self.digests
    }

    /// What a peer is told that knows these digests, the owner's orders first. Only the owner's nodes are told what is not public.
    #[must_use]
    pub fn news(&self, is_own: bool, wants: impl Fn(&Digest) -> bool) -> OrderNews {
        let others =
            self.entries.iter().filter(|((publisher, _), _)| *publisher != self.owner).map(|(_, proven)| proven);
        let told = self.own().chain(others).filter(|proven| is_own || proven.order.body.is_public());
        OrderNews::of(told.filter(|proven| wants(&proven.order.digest())))
    }
}

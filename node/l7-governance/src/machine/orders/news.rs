//! How orders are told, and kept.

use std::sync::Arc;

use althing_protocol::keylog::Relation;
use althing_protocol::limits::{BODY_BYTES_MAX, KEYLOG_EVENTS_MAX};
use althing_protocol::object::{self, OwnerOrder};
use althing_protocol::{Digest, KeyLog, PublisherId, cbor, digest};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::{OrderError, ProvenOrder};

/// Orders of one message.
const ORDERS_AT_ONCE: usize = 64;
/// CBOR items of one message, of the 4,096 that it may have.
const ITEMS_MAX: usize = 3_500;
/// Bytes of one message.
const BYTES_MAX: usize = BODY_BYTES_MAX / 2;

/// An order as it travels, of which nothing was verified.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SignedOrder {
    /// The signed bytes.
    #[n(0)]
    pub(super) order: ByteVec,
    /// All events of the owner's key log.
    #[n(1)]
    pub(super) log: Vec<ByteVec>,
}

impl SignedOrder {
    /// An order as it is told.
    #[must_use]
    pub fn of(proven: &ProvenOrder) -> SignedOrder {
        let log = proven.log.to_bytes().into_iter().map(ByteVec::from).collect();
        SignedOrder { order: proven.order.bytes.clone().into(), log }
    }

    /// Of the signed bytes; two nodes compare what they know by it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        digest(self.order.as_slice())
    }

    /// Whose it would be.
    #[must_use]
    pub fn claimed(&self) -> Option<PublisherId> {
        KeyLog::claimed(&self.events())
    }

    /// How many signatures are verified to open it where that log is known.
    #[must_use]
    pub fn signatures(&self, known: Option<&KeyLog>) -> usize {
        1 + KeyLog::unverified(known, &self.events())
    }

    /// Verifies its signatures. The owner's keys are those that are known, unless what came with it goes on from them.
    ///
    /// # Errors
    /// [`OrderError`].
    pub fn open(&self, known: Option<&Arc<KeyLog>>) -> Result<ProvenOrder, OrderError> {
        let shown = KeyLog::verify_onto(known.map(Arc::as_ref), &self.events())?;
        let log = match known {
            Some(known) => match shown.relation(known) {
                Relation::Continues | Relation::Displaces => Arc::new(shown),
                Relation::Same | Relation::IsContinued | Relation::IsDisplaced | Relation::Contradicts => known.clone(),
            },
            None => Arc::new(shown),
        };
        let order = object::open::<OwnerOrder>(self.order.as_slice(), "", "")?;
        Ok(ProvenOrder { order: Arc::new(order), log })
    }

    /// Its row.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads a row.
    ///
    /// # Errors
    /// [`OrderError::Cbor`] or [`OrderError::Shape`].
    pub fn decode(bytes: &[u8]) -> Result<SignedOrder, OrderError> {
        cbor::check(bytes, BODY_BYTES_MAX)?;
        let order: SignedOrder = minicbor::decode(bytes).map_err(|error| OrderError::Shape(error.to_string()))?;
        order.check()?;
        Ok(order)
    }

    fn events(&self) -> Vec<&[u8]> {
        self.log.iter().map(|event| event.as_slice()).collect()
    }

    fn bytes(&self) -> usize {
        self.order.len() + self.log.iter().map(|event| event.len() + 8).sum::<usize>()
    }

    fn check(&self) -> Result<(), OrderError> {
        if self.log.is_empty() || self.log.len() > KEYLOG_EVENTS_MAX {
            let message = format!("the key log of an order has 1 to {KEYLOG_EVENTS_MAX} events");
            return Err(OrderError::Shape(message));
        }
        Ok(())
    }
}

/// A message with orders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct OrderNews {
    /// As many as one message has room for, or fewer.
    #[n(0)]
    pub orders: Vec<SignedOrder>,
}

impl OrderNews {
    /// As many of these as one message has room for.
    #[must_use]
    pub fn of<'a>(orders: impl Iterator<Item = &'a ProvenOrder>) -> OrderNews {
        let mut news = OrderNews::default();
        orders.take(ORDERS_AT_ONCE).map(SignedOrder::of).for_each(|order| news.add(order));
        news
    }

    /// Adds an order, if there is room for it; else peers ask for it later.
    pub fn add(&mut self, order: SignedOrder) {
        let items = self.orders.iter().chain([&order]).map(|order| order.log.len() + 6).sum::<usize>();
        let bytes = self.orders.iter().chain([&order]).map(|order| order.bytes() + 16).sum::<usize>();
        if self.orders.len() < ORDERS_AT_ONCE && items <= ITEMS_MAX && bytes <= BYTES_MAX {
            self.orders.push(order);
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads a message of a peer; nothing in it is verified.
    ///
    /// # Errors
    /// [`OrderError::Cbor`] or [`OrderError::Shape`].
    pub fn decode(bytes: &[u8]) -> Result<OrderNews, OrderError> {
        cbor::check(bytes, BODY_BYTES_MAX)?;
        let news: OrderNews = minicbor::decode(bytes).map_err(|error| OrderError::Shape(error.to_string()))?;
        if news.orders.len() > ORDERS_AT_ONCE || news.encode() != bytes {
            let message = "too many orders, or members that this version does not know";
            return Err(OrderError::Shape(message.to_owned()));
        }
        news.orders.iter().try_for_each(SignedOrder::check)?;
        Ok(news)
    }
}

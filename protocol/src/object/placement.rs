//! Placements: the state of a node, with the agents that it hosts.

use minicbor::{Decode, Encode};

use super::{Authored, Kind, ObjectError, Statement, in_time, life};
use crate::Digest;
use crate::contract::{Grade, Latency};
use crate::identity::{AgentId, PublicKey};
use crate::limits::{CLOCK_SKEW_MAX_MS, PLACEMENT_AGENTS_MAX, PLACEMENT_TTL_MAX_MS};

/// One agent that a node hosts, in its placement.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Hosted {
    /// The agent.
    #[n(0)]
    pub agent: AgentId,
    /// Digest of the signed description.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub description: Digest,
    /// Digest of the signed grant.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub grant: Digest,
}

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Health {
    /// Accepts calls.
    #[n(0)]
    Healthy,
    /// Accepts calls, but prefers not to get more.
    #[n(1)]
    Busy,
    /// Leaving: its entries must be dropped at once.
    #[n(2)]
    Leaving,
}

/// The agents that a node hosts, and its load.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Placement {
    #[n(0)]
    kind: Kind,
    /// The node, which signs it.
    #[n(1)]
    pub node: PublicKey,
    /// Increases with each placement, also across restarts.
    #[n(2)]
    pub sequence: u64,
    /// Unix milliseconds.
    #[n(3)]
    pub issued_at_ms: u64,
    /// Its lifetime after it was received, milliseconds.
    #[n(4)]
    pub ttl_ms: u64,
    /// The load of the node, thousandths.
    #[n(5)]
    pub load_permille: u16,
    /// The state of the node.
    #[n(6)]
    pub health: Health,
    /// The hosted agents.
    #[n(7)]
    pub agents: Vec<Hosted>,
    /// Its machine; absent until it was probed.
    #[n(8)]
    pub machine: Option<Machine>,
    /// The load of each of `agents`, in the same order; absent if the node does not publish it.
    #[cbor(n(9), with = "packed")]
    pub loads: Option<Vec<AgentLoad>>,
    /// Of the turns of each of `agents` that were judged, those that went well, whole percents, in the same order; none of an agent
    /// of which the node does not tell it. Absent if it tells it of none.
    #[cbor(n(10), with = "percents")]
    pub successes: Option<Vec<Option<u8>>>,
}

/// The load of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentLoad {
    /// The latency class of its contract.
    pub latency: Latency,
    /// Its running and waiting turns.
    pub turns: u32,
}

/// Loads as one byte string, five bytes each: maps would exceed the limit of items in a message.
mod packed {
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};

    use super::{AgentLoad, Latency};

    pub fn encode<C, W: Write>(
        loads: &Option<Vec<AgentLoad>>,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        let of = |load: &AgentLoad| {
            let [a, b, c, d] = load.turns.to_be_bytes();
            [load.latency as u8, a, b, c, d]
        };
        let bytes: Vec<u8> = loads.iter().flatten().flat_map(of).collect();
        e.bytes(&bytes)?;
        Ok(())
    }

    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Option<Vec<AgentLoad>>, DecodeError> {
        let (loads, rest) = d.bytes()?.as_chunks::<5>();
        let of = |[latency, turns @ ..]: &[u8; 5]| {
            let latency = match latency {
                0 => Latency::Hrt,
                1 => Latency::Srt,
                2 => Latency::Dt,
                _ => return Err(DecodeError::message("there is no such latency class")),
            };
            Ok(AgentLoad { latency, turns: u32::from_be_bytes(*turns) })
        };
        if !rest.is_empty() {
            return Err(DecodeError::message("a load has five bytes"));
        }
        loads.iter().map(of).collect::<Result<_, _>>().map(Some)
    }
}

/// Percents as one byte string, a byte each.
mod percents {
    use minicbor::decode::Error as DecodeError;
    use minicbor::encode::{Error as EncodeError, Write};
    use minicbor::{Decoder, Encoder};

    /// The byte of an agent of which nothing is told.
    const UNTOLD: u8 = 255;

    pub fn encode<C, W: Write>(
        percents: &Option<Vec<Option<u8>>>,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        let bytes: Vec<u8> = percents.iter().flatten().map(|percent| percent.unwrap_or(UNTOLD)).collect();
        e.bytes(&bytes)?;
        Ok(())
    }

    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Option<Vec<Option<u8>>>, DecodeError> {
        let of = |percent: &u8| match *percent {
            UNTOLD => Ok(None),
            percent @ 0..=100 => Ok(Some(percent)),
            _ => Err(DecodeError::message("there are no more than 100 percent")),
        };
        d.bytes()?.iter().map(of).collect::<Result<_, _>>().map(Some)
    }
}

/// The machine of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Machine {
    /// Its real-time grade.
    #[n(0)]
    pub grade: Grade,
    /// Processor cores.
    #[n(1)]
    pub cores: u16,
    /// Memory, MiB.
    #[n(2)]
    pub memory_mib: u32,
    /// The share guaranteed to hard real-time agents on the core with most capacity left, thousandths.
    #[n(3)]
    pub promised_permille: u16,
}

impl Placement {
    /// An empty placement of `node`, to be filled and signed by that node.
    #[must_use]
    pub fn new(node: PublicKey, sequence: u64, issued_at_ms: u64, ttl_ms: u64) -> Placement {
        Placement {
            kind: Kind::Placement,
            node,
            sequence,
            issued_at_ms,
            ttl_ms,
            load_permille: 0,
            health: Health::Healthy,
            agents: Vec::new(),
            machine: None,
            loads: None,
            successes: None,
        }
    }
}

impl Authored<Placement> {
    /// Checks that the node itself signed it, and that it is recent.
    ///
    /// # Errors
    /// [`ObjectError::WrongKey`], [`ObjectError::Expired`] or [`ObjectError::NotYetValid`].
    pub fn believable(&self, now_ms: u64) -> Result<(), ObjectError> {
        let body = &self.body;
        if self.signer != body.node {
            return Err(ObjectError::WrongKey { signer: self.signer, expected: body.node });
        }
        let until_ms = body.issued_at_ms.saturating_add(body.ttl_ms).saturating_add(CLOCK_SKEW_MAX_MS);
        in_time(body.issued_at_ms, until_ms, now_ms)
    }
}

impl Statement for Placement {
    const KIND: Kind = Kind::Placement;
    fn kind(&self) -> Kind {
        self.kind
    }
    fn check(&self) -> Result<(), ObjectError> {
        if self.agents.len() > PLACEMENT_AGENTS_MAX {
            return Err(ObjectError::Shape(format!("more than {PLACEMENT_AGENTS_MAX} agents in a placement")));
        }
        if !self.agents.is_sorted_by(|a, b| a.agent < b.agent) {
            return Err(ObjectError::Shape("agents of a placement are sorted, each named once".to_owned()));
        }
        if self.load_permille > 1_000 {
            return Err(ObjectError::Shape("load is 0 to 1000 thousandths".to_owned()));
        }
        if self.machine.is_some_and(|machine| machine.cores == 0 || machine.promised_permille > 1_000) {
            return Err(ObjectError::Shape(
                "a machine has a core, and promises 0 to 1000 thousandths of one".to_owned(),
            ));
        }
        if self.loads.as_ref().is_some_and(|loads| loads.len() != self.agents.len()) {
            return Err(ObjectError::Shape("loads are of each agent of the placement, or of none".to_owned()));
        }
        let is_success = |told: &Vec<Option<u8>>| {
            told.len() == self.agents.len() && told.iter().flatten().all(|percent| *percent <= 100)
        };
        if self.successes.as_ref().is_some_and(|told| !is_success(told)) {
            return Err(ObjectError::Shape(
                "successes are percents of each agent of the placement, or of none".to_owned(),
            ));
        }
        life(0, self.ttl_ms, PLACEMENT_TTL_MAX_MS)
    }
}

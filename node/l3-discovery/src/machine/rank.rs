//! Who gets room when there is not enough of it: nearer ones before farther ones, and of equals whoever has less.

use std::collections::BTreeMap;

use althing_communication::Origin;
use althing_protocol::PublicKey;

/// How near the publisher of an agent is to this node's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrustRelation {
    /// It is the owner.
    Own,
    /// The owner trusts it.
    Trusted,
    /// Anybody else.
    Stranger,
}

impl TrustRelation {
    /// All of them.
    pub(crate) const ALL: [TrustRelation; 3] = [TrustRelation::Own, TrustRelation::Trusted, TrustRelation::Stranger];

    /// Its place in [`TrustRelation::ALL`].
    pub(crate) fn place(self) -> usize {
        match self {
            TrustRelation::Own => 0,
            TrustRelation::Trusted => 1,
            TrustRelation::Stranger => 2,
        }
    }
}

/// How near a node, or a publisher, is to this node, as far as room goes. The nearest is the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The owner's own.
    Own,
    /// The owner trusts it.
    Trusted,
    /// A stranger that was recently called from here.
    InUse,
    /// Anybody else.
    Stranger,
}

/// How many ranks there are.
pub(crate) const RANKS: usize = 4;

impl Rank {
    /// All, the farthest first.
    pub(crate) const FARTHEST_FIRST: [Rank; RANKS] = [Rank::Stranger, Rank::InUse, Rank::Trusted, Rank::Own];

    /// That of somebody so near; `in_use` says whether it was recently called from here.
    #[must_use]
    pub fn of(relation: TrustRelation, in_use: bool) -> Rank {
        match relation {
            TrustRelation::Own => Rank::Own,
            TrustRelation::Trusted => Rank::Trusted,
            TrustRelation::Stranger if in_use => Rank::InUse,
            TrustRelation::Stranger => Rank::Stranger,
        }
    }

    pub(crate) fn at(self) -> usize {
        self as usize
    }
}

/// Who is counted together: keys are free, and addresses are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// All that connect from there.
    Origin(Origin),
    /// A node whose address says nothing.
    Node(PublicKey),
}

/// What a node counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// How near it is.
    pub rank: Rank,
    /// With whom it is counted.
    pub holder: Holder,
}

impl Source {
    /// A stranger of which nothing is known.
    #[must_use]
    pub fn stranger(node: PublicKey) -> Source {
        Source { rank: Rank::Stranger, holder: Holder::Node(node) }
    }

    /// With whom it shares: whoever is near answers for itself, whatever its address.
    pub(crate) fn shares_with(&self, node: PublicKey, rank: Rank) -> Holder {
        if rank <= Rank::Trusted { Holder::Node(node) } else { self.holder }
    }
}

/// How much a catalogue holds.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Nodes.
    pub nodes: usize,
    /// Bytes of all that is kept of other nodes that are there.
    pub bytes: usize,
    /// The same of one of them.
    pub node_bytes: usize,
    /// Bytes of all that is kept of nodes that went silent.
    pub gone_bytes: usize,
}

impl Bounds {
    /// As nodes have them. 10,000 agents with usual descriptions have room.
    #[must_use]
    pub fn for_nodes(nodes: usize) -> Bounds {
        Bounds { nodes, bytes: BYTES_MAX, node_bytes: NODE_BYTES_MAX, gone_bytes: GONE_BYTES_MAX }
    }
}

/// Bytes of what is kept of one other node. A description is counted [`DESCRIPTION_COPIES`] times, so that 4 MiB of them
/// are most of it.
pub const NODE_BYTES_MAX: usize = 12 << 20;
/// Bytes of what is kept of all other nodes that are there: twelve that have as much as one may.
pub const BYTES_MAX: usize = 144 << 20;
/// Bytes of what is kept of nodes that went silent, beside that.
const GONE_BYTES_MAX: usize = 16 << 20;

/// A node, without what it hosts.
pub(crate) const NODE_BYTES: usize = 512;
/// What a placement says of one agent, and a second time where that is not asked for again for a while: an id of at most
/// 100 bytes, two digests, and what holds them together.
pub(crate) const HOSTED_BYTES: usize = 512;
/// A description as it was signed, the TD in it, and what was read in that.
pub(crate) const DESCRIPTION_COPIES: usize = 3;
/// An agent, beside its description, its grant, its words and its publisher's keys.
pub(crate) const AGENT_BYTES: usize = 1_024;
/// A word of an agent in the text index: its entry among the documents of that word and among the words of that document,
/// and a list of its own for a word that nobody else has.
pub(crate) const WORD_BYTES: usize = 96;
/// An event of a key log: the bytes as signed, at most 350, and what was read in them.
pub(crate) const EVENT_BYTES: usize = 640;

/// Of some that want the same room: who has most, when that is more than somebody has who wants `more`.
pub(crate) fn richest(shares: &BTreeMap<Holder, usize>, mine: Holder, more: usize) -> Option<Holder> {
    let own = shares.get(&mine).copied().unwrap_or(0) + more;
    let (holder, most) = shares.iter().filter(|(holder, _)| **holder != mine).max_by_key(|(_, bytes)| **bytes)?;
    (*most > own).then_some(*holder)
}

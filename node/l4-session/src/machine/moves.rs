//! Tasks that move: which home of a task a caller believes (SPEC P-205), and what the new home takes (P-204).
//!
//! The node that had the task signs where it went. A move is one step: of a task that moved three times there are three
//! proofs, each signed by who had it then, with a higher fence than the one before.

use std::sync::Arc;

use althing_protocol::object::{self, Authored, TaskMove};
use althing_protocol::{AgentId, Digest, ObjectError, PublicKey, SecretKey, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::machine::record::{RECORD_BYTES_MAX, Record};
use crate::machine::task;

/// The form of the rows in a [`TaskPack`]: those that this version keeps on its own disk.
const PACK_VERSION: u8 = 1;
/// Push notification configurations of one task, and so rows of them in a pack.
pub(crate) const PUSH_ROWS_MAX: usize = 16;
/// Bytes of such a row: a URL, a token and credentials of the longest are less than half of it.
const PUSH_ROW_BYTES_MAX: usize = 16 << 10;

/// Who this node is, for what it signs and believes of tasks that move.
#[derive(Debug, Clone)]
pub struct Signer {
    /// With which it signs, and by whose public half others know it.
    pub key: SecretKey,
    /// The network's name, in which alone its signatures are valid.
    pub network: Arc<str>,
}

impl Signer {
    /// By which id others know this node.
    pub(crate) fn node(&self) -> PublicKey {
        self.key.public()
    }
}

/// A task on its way to another node: its rows as they are on disk, and the proof that they are handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPack {
    /// The form of the rows; a node takes those of its own version alone.
    pub version: u8,
    /// The move (SPEC P-204) as the node that had the task signed it.
    pub proof: Vec<u8>,
    /// The row of the task: its messages and artifacts, whose it is, its label, and what its runtime remembers.
    pub record: Vec<u8>,
    /// The rows of the task's push notification configurations, at most 16.
    pub push: Vec<Vec<u8>>,
}

/// Why a move is not believed, or what came with it is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoveError {
    /// The proof is not base64url.
    #[error("the proof is no text of base64url")]
    Text,
    /// It is no move that was signed in this network.
    #[error("the proof is not valid: {0}")]
    Proof(#[from] ObjectError),
    /// Another node signed it.
    #[error("{signer} signed the proof, and {expected} hands the task over")]
    Signer {
        /// The node whose signature it has.
        signer: PublicKey,
        /// The node that hands the task over.
        expected: PublicKey,
    },
    /// It is a move of something else.
    #[error("the proof is of task {task:?} of {agent}, which is not the one that was meant")]
    OtherTask {
        /// The task that moved by it.
        task: String,
        /// The agent that works on that task.
        agent: AgentId,
    },
    /// It hands the task to another node.
    #[error("the proof hands the task to {to}: give it to that node")]
    OtherNode {
        /// The node that may take the task.
        to: PublicKey,
    },
    /// The task is known from another node than the one that hands it over.
    #[error("the task is known from {known}, and {from} cannot hand it over")]
    NotItsHome {
        /// Who would have to hand it over.
        known: PublicKey,
        /// The node that says it does.
        from: PublicKey,
    },
    /// It is not newer than what is known: it was heeded already, or the task has moved on since.
    #[error(
        "the proof has the fence {fence}, and {known} is known: it was used before, or the task has moved on since"
    )]
    Older {
        /// The fence of the proof.
        fence: u64,
        /// The highest one that is known of the task.
        known: u64,
    },
    /// The task is on this node.
    #[error("this node has the task itself")]
    Here,
    /// The rows are of another version.
    #[error(
        "the rows are of version {version}, and this node takes version {}: run the same version on both nodes",
        PACK_VERSION
    )]
    Version {
        /// The version that the pack says.
        version: u8,
    },
    /// The rows are not those that were handed over.
    #[error("the rows are not those that the proof is of: ask the node that had the task for them again")]
    Contents,
    /// They are what was handed over, and no task that this node can take.
    #[error("the rows are of no task that can be taken: {why}")]
    Record {
        /// What is wrong with them.
        why: &'static str,
    },
}

/// Where a task is known to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home {
    pub node: PublicKey,
    /// Of the move by which it came there; 0 where it began.
    pub fence: u64,
}

/// The proof of a move, as it is stored and sent.
pub(crate) fn text_of(proof: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(proof)
}

/// Reads what [`text_of`] wrote, whoever signed it.
pub(crate) fn read(text: &str, network: &str) -> Result<Authored<TaskMove>, MoveError> {
    let proof = URL_SAFE_NO_PAD.decode(text).map_err(|_| MoveError::Text)?;
    Ok(object::open(&proof, network, "")?)
}

/// Whether a move is of the agent, and of the task if a certain one was meant.
pub(crate) fn check_subject(moved: &TaskMove, agent: &AgentId, task: Option<&str>) -> Result<(), MoveError> {
    if moved.agent == *agent && task.is_none_or(|task| task == moved.task) {
        return Ok(());
    }
    Err(MoveError::OtherTask { task: moved.task.clone(), agent: moved.agent.clone() })
}

/// Where a caller at `me` asks for a task next, since `from` showed that move of it. `known` is where it knew the task to be.
///
/// Only the home that is known can send the caller elsewhere; of a task that nothing is known of, whoever says that it had it;
/// and this node itself, whose own mark is as good as a home that it remembers.
pub(crate) fn next_home(
    known: Option<Home>,
    me: PublicKey,
    from: PublicKey,
    moved: &Authored<TaskMove>,
) -> Result<Home, MoveError> {
    if moved.signer != from {
        return Err(MoveError::Signer { signer: moved.signer, expected: from });
    }
    let news = Home { node: moved.body.to, fence: moved.body.fence };
    let Some(known) = known else { return Ok(news) };
    let is_newer = news.fence > known.fence;
    if from != known.node && !is_newer {
        // It moved on since, which this caller knows and `from` does not.
        return Ok(known);
    }
    if !is_newer {
        return Err(MoveError::Older { fence: news.fence, known: known.fence });
    }
    if from == known.node || from == me { Ok(news) } else { Err(MoveError::NotItsHome { known: known.node, from }) }
}

/// The digest of what is handed over: of the version, and of the digest of each row.
fn contents(version: u8, record: &[u8], push: &[Vec<u8>]) -> Digest {
    let rows = std::iter::once(record).chain(push.iter().map(Vec::as_slice));
    let all: Vec<u8> = std::iter::once(version).chain(rows.flat_map(digest)).collect();
    digest(&all)
}

/// Packs a task for the node `to`; its record's fence is already that of the move.
pub(crate) fn pack(
    signer: &Signer,
    agent: &AgentId,
    to: PublicKey,
    (record, row): (&Record, Vec<u8>),
    push: Vec<Vec<u8>>,
) -> Result<TaskPack, MoveError> {
    let contents = contents(PACK_VERSION, &row, &push);
    let moved = TaskMove::new(agent.clone(), record.task.id.clone(), to, record.fence, contents);
    let proof = object::sign(moved, &signer.network, "", &signer.key)?.bytes;
    Ok(TaskPack { version: PACK_VERSION, proof, record: row, push })
}

/// The task in a pack that `from` hands over to this node, `here`, for an agent.
pub(crate) fn unpack(pack: &TaskPack, agent: &AgentId, from: PublicKey, here: &Signer) -> Result<Record, MoveError> {
    if pack.version != PACK_VERSION {
        return Err(MoveError::Version { version: pack.version });
    }
    let moved = object::open::<TaskMove>(&pack.proof, &here.network, "")?;
    if moved.signer != from {
        return Err(MoveError::Signer { signer: moved.signer, expected: from });
    }
    check_subject(&moved.body, agent, None)?;
    if moved.body.to != here.node() {
        return Err(MoveError::OtherNode { to: moved.body.to });
    }
    let wrong = |why| Err(MoveError::Record { why });
    if pack.record.len() > RECORD_BYTES_MAX {
        return wrong("it is larger than a task may be");
    }
    if pack.push.len() > PUSH_ROWS_MAX || pack.push.iter().any(|row| row.len() > PUSH_ROW_BYTES_MAX) {
        return wrong("more is to be told of it than may be");
    }
    if contents(pack.version, &pack.record, &pack.push) != moved.body.contents {
        return Err(MoveError::Contents);
    }
    let mut rest = pack.record.as_slice();
    let mut record: Record = match ciborium::from_reader(&mut rest) {
        Ok(record) if rest.is_empty() => record,
        _ => return wrong("it cannot be read"),
    };
    if record.task.id != moved.body.task || record.agent != agent.name() || record.fence != moved.body.fence {
        return wrong("it is not the task that the proof names");
    }
    if record.departed.is_some() || !task::is_idle(&record.task.status.state) {
        return wrong("it is at work, or handed over already");
    }
    // A turn goes on where its journal is, and nowhere else.
    (record.begin, record.ask) = (None, None);
    record.crowd = None;
    Ok(record)
}

/// Whether a task that was handed over may be written here, where `known` is what is on disk under its id.
pub(crate) fn may_arrive(known: Option<&Record>, arriving: &Record) -> Result<(), MoveError> {
    let Some(known) = known else { return Ok(()) };
    if known.fence >= arriving.fence {
        return Err(MoveError::Older { fence: arriving.fence, known: known.fence });
    }
    let is_it = known.agent == arriving.agent && known.scope == arriving.scope;
    // Nobody else can hand over what is here: only what went away comes back.
    if is_it && known.departed.is_some() { Ok(()) } else { Err(MoveError::Here) }
}

#[cfg(test)]
mod tests;

//! What is kept of handoffs on disk.

use std::sync::Arc;

use althing_protocol::object::{self, Authored, Handoff};
use althing_protocol::{Digest, ObjectError, PublicKey, cbor};
use althing_store::{Batch, Family};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::machine::handoff::{Acquaintance, End, Entry, HandoffId, Phase, Stage};

/// What the agents of this node were offered, by the agent's name and the handoff's id.
pub const HANDOFFS_IN: Family = Family("session.handoffs-in");
/// Work of this node's agents that is given away, by the task.
pub const HANDOFFS_OUT: Family = Family("session.handoffs-out");

/// Bytes of a row of [`HANDOFFS_IN`]: two ids of tasks and one of an agent.
const ENTRY_BYTES_MAX: usize = 2 << 10;
/// Bytes of a row of [`HANDOFFS_OUT`]: the largest object, and an answer to it.
const OUT_BYTES_MAX: usize = (1 << 20) + (16 << 10);
/// Between the agent's name and the id in a key.
const SEPARATOR: u8 = 0;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct EntryRow {
    #[cbor(n(0), with = "minicbor::bytes")]
    digest: Digest,
    #[n(1)]
    sender: String,
    #[n(2)]
    sender_task: String,
    #[n(3)]
    task: String,
    #[n(4)]
    not_after_ms: u64,
    #[n(5)]
    acceptances: u64,
    #[n(6)]
    phase: PhaseRow,
    #[n(7)]
    until_ms: u64,
    /// The digest of the origin of a stranger. Rows from before that was noted have none.
    #[n(8)]
    origin: Option<ByteVec>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
enum PhaseRow {
    #[n(0)]
    Accepted,
    #[n(1)]
    Begun,
    #[n(2)]
    Ended,
}

fn entry_key((agent, id): (&str, &HandoffId)) -> Vec<u8> {
    [agent.as_bytes(), &[SEPARATOR], id].concat()
}

/// Adds what an agent's recipient knows of a handoff.
pub(super) fn put_entry(batch: &mut Batch, key: (&str, &HandoffId), entry: &Entry) {
    let (phase, until_ms) = match entry.phase {
        Phase::Accepted { until_ms } => (PhaseRow::Accepted, until_ms),
        Phase::Begun => (PhaseRow::Begun, 0),
        Phase::Ended => (PhaseRow::Ended, 0),
    };
    let origin = match entry.acquaintance {
        Acquaintance::Known => None,
        Acquaintance::Stranger(origin) => Some(origin.to_vec().into()),
    };
    let row = EntryRow {
        digest: entry.digest,
        sender: entry.sender.to_string(),
        sender_task: entry.sender_task.clone(),
        task: entry.task.clone(),
        not_after_ms: entry.not_after_ms,
        acceptances: entry.acceptances,
        phase,
        until_ms,
        origin,
    };
    batch.put(HANDOFFS_IN, entry_key(key), minicbor::to_vec(&row).expect("writing to a vector cannot fail"));
}

/// Deletes it.
pub(super) fn delete_entry(batch: &mut Batch, key: (&str, &HandoffId)) {
    batch.delete(HANDOFFS_IN, entry_key(key));
}

/// A row of [`HANDOFFS_IN`]: whose it is, of which handoff, and what it says; none if it is damaged.
pub(super) fn read_entry(key: &[u8], value: &[u8]) -> Option<(String, HandoffId, Entry)> {
    let (head, id) = key.split_last_chunk::<16>()?;
    let (&SEPARATOR, agent) = head.split_last()? else { return None };
    let agent = String::from_utf8(agent.to_vec()).ok()?;
    cbor::check(value, ENTRY_BYTES_MAX).ok()?;
    let row: EntryRow = minicbor::decode(value).ok()?;
    let phase = match row.phase {
        PhaseRow::Accepted => Phase::Accepted { until_ms: row.until_ms },
        PhaseRow::Begun => Phase::Begun,
        PhaseRow::Ended => Phase::Ended,
    };
    let acquaintance = match row.origin {
        None => Acquaintance::Known,
        Some(origin) => Acquaintance::Stranger(origin.as_slice().try_into().ok()?),
    };
    let entry = Entry {
        digest: row.digest,
        sender: row.sender.parse().ok()?,
        acquaintance,
        sender_task: row.sender_task,
        task: row.task,
        not_after_ms: row.not_after_ms,
        acceptances: row.acceptances,
        phase,
    };
    Some((agent, *id, entry))
}

/// Work that is given away, as far as it is known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutRow {
    /// The handoff, as it was signed here.
    pub signed: Arc<Authored<Handoff>>,
    /// How far its sender is.
    pub stage: Stage,
    /// The node that accepted it last: only that one can refuse a commit.
    pub host: PublicKey,
    /// Its acceptance, as that node signed it: it cannot deny that it gave one.
    pub answer: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct StoredOut<'b> {
    #[cbor(b(0), with = "minicbor::bytes")]
    handoff: &'b [u8],
    #[n(1)]
    stage: StageRow,
    #[n(2)]
    task: String,
    #[n(3)]
    acceptance: u64,
    #[n(4)]
    host: PublicKey,
    #[cbor(b(5), with = "minicbor::bytes")]
    answer: &'b [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
enum StageRow {
    #[n(0)]
    Committing,
    #[n(1)]
    Renewing,
    #[n(2)]
    Given,
}

/// Why what is kept of work that was given away cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutRowError {
    /// It is no row.
    #[error("its row is damaged")]
    Row,
    /// The handoff in it is not what was signed.
    #[error(transparent)]
    Handoff(#[from] ObjectError),
}

impl OutRow {
    /// Adds it; nothing of what the sender still has, or of what is over.
    pub fn put(&self, batch: &mut Batch) {
        let (stage, task, acceptance) = match &self.stage {
            Stage::Committing { task, acceptance, .. } => (StageRow::Committing, task.clone(), *acceptance),
            Stage::Renewing { .. } => (StageRow::Renewing, String::new(), 0),
            Stage::Ended(End::Given { task }) => (StageRow::Given, task.clone(), 0),
            Stage::Offering { .. } | Stage::Accepted { .. } | Stage::Ended(_) => return,
        };
        let (handoff, answer) = (self.signed.bytes.as_slice(), self.answer.as_slice());
        let row = StoredOut { handoff, stage, task, acceptance, host: self.host, answer };
        // Beside these a task and three numbers.
        let mut bytes = Vec::with_capacity(handoff.len() + answer.len() + ENTRY_BYTES_MAX);
        minicbor::encode(&row, &mut bytes).expect("writing to a vector cannot fail");
        batch.put(HANDOFFS_OUT, self.signed.body.task_id.as_bytes(), bytes);
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`OutRowError`].
    pub fn read(value: &[u8], network: &str) -> Result<OutRow, OutRowError> {
        cbor::check(value, OUT_BYTES_MAX).map_err(|_| OutRowError::Row)?;
        let row: StoredOut<'_> = minicbor::decode(value).map_err(|_| OutRowError::Row)?;
        let stage = match row.stage {
            StageRow::Committing => Stage::Committing { task: row.task, acceptance: row.acceptance, tries: 0 },
            StageRow::Renewing => Stage::Renewing { tries: 0 },
            StageRow::Given => Stage::Ended(End::Given { task: row.task }),
        };
        let signed = Arc::new(object::open::<Handoff>(row.handoff, network, "")?);
        Ok(OutRow { signed, stage, host: row.host, answer: row.answer.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::{AgentId, PublisherId, SecretKey};
    use althing_store::{Durability, MemoryStore, Range, Store as _};

    use super::*;

    const ID: HandoffId = [0x01, 0x8b, 0xcf, 0xe5, 0x68, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 0xaa];
    const NETWORK: &str = "testnet";

    fn agent(name: &str) -> AgentId {
        AgentId::new(PublisherId::from_digest([1; 32]), name).expect("a name")
    }

    #[tokio::test]
    async fn what_a_recipient_knows_is_read_as_it_was_written_and_damage_is_none() {
        let stranger = Acquaintance::Stranger([4; 32]);
        for (phase, acquaintance) in
            [(Phase::Accepted { until_ms: 7 }, Acquaintance::Known), (Phase::Begun, stranger), (Phase::Ended, stranger)]
        {
            let store = MemoryStore::new(&[HANDOFFS_IN]);
            let entry = Entry {
                digest: [3; 32],
                sender: agent("clerk"),
                acquaintance,
                sender_task: "t-1".to_owned(),
                task: "t-2".to_owned(),
                not_after_ms: 9,
                acceptances: 2,
                phase,
            };
            let mut batch = Batch::new();
            put_entry(&mut batch, ("auditor", &ID), &entry);
            store.write(batch, Durability::Synced).await.expect("written");
            let rows = store.scan(HANDOFFS_IN, Range::all(2)).expect("readable");
            let [(key, value)] = &rows[..] else { panic!("one row") };
            assert_eq!(read_entry(key, value), Some(("auditor".to_owned(), ID, entry)));
            assert_eq!(read_entry(&key[1..key.len() - 1], value), None, "another key");
            assert_eq!(read_entry(key, &value[1..]), None, "another row");
            let mut batch = Batch::new();
            delete_entry(&mut batch, ("auditor", &ID));
            store.write(batch, Durability::Synced).await.expect("written");
            assert!(store.scan(HANDOFFS_IN, Range::all(2)).expect("readable").is_empty());
        }
    }

    #[tokio::test]
    async fn work_that_was_given_away_is_read_as_it_was_written_and_no_other_work_is() {
        let key = SecretKey::from_seed(&[1; 32]);
        let body = Handoff::new(ID, "t-1", (agent("clerk"), agent("auditor")), 1, 2);
        let signed = Arc::new(object::sign(body, NETWORK, "", &key).expect("a good shape"));
        let of = |stage| OutRow { signed: signed.clone(), stage, host: key.public(), answer: b"answer".to_vec() };
        let task = || "t-2".to_owned();
        for stage in [
            Stage::Committing { task: task(), acceptance: 3, tries: 0 },
            Stage::Renewing { tries: 0 },
            Stage::Ended(End::Given { task: task() }),
        ] {
            let store = MemoryStore::new(&[HANDOFFS_OUT]);
            let mut batch = Batch::large();
            of(stage.clone()).put(&mut batch);
            store.write(batch, Durability::Synced).await.expect("written");
            let row = store.read(HANDOFFS_OUT, b"t-1").expect("readable").expect("a row");
            assert_eq!(OutRow::read(&row, NETWORK).expect("it is one"), of(stage));
            assert!(matches!(OutRow::read(&row, "othernet"), Err(OutRowError::Handoff(_))));
            assert!(matches!(OutRow::read(&row[1..], NETWORK), Err(OutRowError::Row)));
        }
        let mut batch = Batch::large();
        of(Stage::Offering { tries: 0 }).put(&mut batch);
        assert!(batch.is_empty(), "the sender has it");
    }
}

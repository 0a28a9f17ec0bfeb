//! Planted bugs, one file each: what the group is handed, or what it does, is rewritten at its ports, as if the program had
//! the bug. The product has no switch for any of them. Each must be caught by an invariant.

mod acknowledged_early;
mod entry_skipped;
mod executed_twice;
mod leader_unheard;
mod lease_endless;
mod member_unsigned;
mod none;
mod row_missing;
mod run_twice;
mod stale_read;
mod sync_skipped;
mod token_reused;
mod truncation_forgotten;
mod vote_forgotten;

use std::sync::Arc;

use althing_communication::{Answer, Request};
use althing_coordination::consensus::wire::{self, Submit};
use althing_coordination::{Assigned, ReplicaConfig};
use althing_protocol::group::{Batch as Commands, Command};
use althing_protocol::{PublicKey, object};
use althing_store::{Batch, Family, MemoryStore, Rows};

use crate::NETWORK;

/// What becomes of a write.
pub struct Changed {
    /// What is written.
    pub batch: Batch,
    /// Whether a sync makes it durable.
    pub is_durable: bool,
}

impl Changed {
    /// A write as it should be.
    #[must_use]
    pub fn nothing(batch: Batch) -> Changed {
        Changed { batch, is_durable: true }
    }
}

/// A planted bug. Without one, everything is as it should be.
pub trait Flaw: Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> &'static str;

    /// A node writes to its disk.
    fn on_write(&self, _node: PublicKey, batch: Batch, _live: &MemoryStore) -> Changed {
        Changed::nothing(batch)
    }

    /// A node reads rows of its disk.
    fn on_read(&self, _node: PublicKey, _family: Family, _rows: &mut Rows) {}

    /// A node receives a request of another one: it may be changed, or answered without the node.
    fn on_request(&self, _node: PublicKey, _request: &mut Request) -> Option<Answer> {
        None
    }

    /// A request that the node receives in addition to this one, a moment later.
    fn echo(&self, _node: PublicKey, _request: &Request) -> Option<Request> {
        None
    }

    /// A node answers a request of this operation.
    fn on_answer(&self, _node: PublicKey, _operation: &str, _answer: &mut Answer) {}

    /// A worker is handed a task: how often it runs.
    fn on_task(&self, _task: &mut Assigned) -> usize {
        1
    }

    /// The time of day at a node, Unix milliseconds.
    fn time_of_day(&self, now_ms: u64) -> u64 {
        now_ms
    }

    /// How a replica behaves.
    fn configure(&self, _config: &mut ReplicaConfig) {}

    /// Whether a client that reads waits for what was acknowledged before.
    fn reads_wait(&self) -> bool {
        true
    }
}

type Make = fn() -> Arc<dyn Flaw>;

/// All planted bugs.
const ALL: &[Make] = &[
    || Arc::new(acknowledged_early::AcknowledgedEarly::default()),
    || Arc::new(entry_skipped::EntrySkipped),
    || Arc::new(executed_twice::ExecutedTwice),
    || Arc::new(leader_unheard::LeaderUnheard),
    || Arc::new(lease_endless::LeaseEndless),
    || Arc::new(member_unsigned::MemberUnsigned),
    || Arc::new(row_missing::RowMissing),
    || Arc::new(run_twice::RunTwice),
    || Arc::new(stale_read::StaleRead),
    || Arc::new(sync_skipped::SyncSkipped),
    || Arc::new(token_reused::TokenReused),
    || Arc::new(truncation_forgotten::TruncationForgotten),
    || Arc::new(vote_forgotten::VoteForgotten),
];

/// The program as it is.
#[must_use]
pub fn none() -> Arc<dyn Flaw> {
    Arc::new(none::None)
}

/// The names of all planted bugs.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|make| make().name()).collect()
}

/// The planted bug of a name.
#[must_use]
pub fn named(name: &str) -> Option<Arc<dyn Flaw>> {
    ALL.iter().map(|make| make()).find(|flaw| flaw.name() == name)
}

/// The changes of a batch that are kept.
fn kept(batch: &Batch, is_kept: impl Fn(Family, &[u8], Option<&[u8]>) -> bool) -> Batch {
    let mut kept = Batch::new();
    for (family, key, value) in batch.changes().filter(|(family, key, value)| is_kept(*family, key, *value)) {
        match value {
            Some(value) => kept.put(family, key, value),
            None => kept.delete(family, key),
        };
    }
    kept
}

/// A request that submits a batch of one value, and the batch.
fn values_of(request: &Request) -> Option<(Submit, Commands)> {
    if request.operation != "submit" {
        return None;
    }
    let submit: Submit = wire::read(&request.body).ok()?;
    let batch = object::open::<Commands>(&submit.batch, NETWORK, &Commands::scope(submit.group)).ok()?.body;
    matches!(batch.commands.as_slice(), [Command::Set(_)]).then_some((submit, batch))
}

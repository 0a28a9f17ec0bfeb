//! Leaves that many write at once, each on disk before the next one of the same writer, beside the same rows without an audit log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use althing_governance::FAMILIES;
use althing_governance::audit::{AuditLog, LeafDraft};
use althing_protocol::Label;
use althing_protocol::audit::{AuditLeaf, AuditStage, BodyRole};
use althing_protocol::contract::DataLabel;
use althing_store::{Batch, Durability, Store};

use super::office;
use crate::figures::{Goals, median};
use crate::sessions::desk::{FLOOR, store_with};

const ROUNDS: usize = 7;
const WRITERS: u32 = 64;
/// Leaves of each writer in a round.
const EACH: u32 = 100;
/// Leaves a second, as a share of the rows' own.
const RATIO_MIN: f64 = 0.8;

/// The intent of a call with a few arguments.
fn draft() -> LeafDraft {
    let agent = office::agent();
    let mut leaf = AuditLeaf::new(AuditStage::Intent, office::now_ms());
    leaf.principals = vec!["local".to_owned()];
    leaf.accountable = Some("owner".to_owned());
    leaf.version = Some(agent.version.to_string());
    leaf.agent = Some(agent.id);
    leaf.contract = Some([2; 32]);
    leaf.policy = Some([3; 32]);
    leaf.deciding = vec!["all".to_owned()];
    leaf.action = Some(office::TOOL.to_owned());
    leaf.definition = Some([4; 32]);
    leaf.label = Some(Label { level: DataLabel::Internal, trusted: true });
    LeafDraft::new(leaf).about("owner").with(BodyRole::Arguments, vec![b'x'; 256])
}

/// Rows whose keys and values have so many bytes, which nobody wrote before.
fn rows_of(sizes: &[(usize, usize)]) -> Batch {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut batch = Batch::new();
    for (key_bytes, value_bytes) in sizes {
        let mut key = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes().to_vec();
        key.resize((*key_bytes).max(key.len()), 0);
        batch.put(FLOOR, key, vec![7; *value_bytes]);
    }
    batch
}

/// Batches a second that are on disk, of all writers.
async fn rate(store: &Arc<dyn Store>, batch: impl Fn() -> Batch + Clone + Send + Sync + 'static) -> f64 {
    let begun = Instant::now();
    let writers = (0..WRITERS).map(|_| {
        let (store, batch) = (store.clone(), batch.clone());
        tokio::spawn(async move {
            for _ in 0..EACH {
                store.write(batch(), Durability::Synced).await.expect("it is written");
            }
        })
    });
    for ended in futures::future::join_all(writers).await {
        ended.expect("no writer panics");
    }
    f64::from(WRITERS * EACH) / begun.elapsed().as_secs_f64()
}

/// Prints the figure.
pub async fn run(goals: &mut Goals) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store_with(&folder.path().join("store"), &FAMILIES);
    let governance = office::open(store.clone(), folder.path()).await;
    let log: AuditLog = governance.audit().clone();
    // The first one brings the key of its subject.
    let first = log.entry(draft()).expect("it is taken");
    store.write(first, Durability::Synced).await.expect("it is written");
    let sample = log.entry(draft()).expect("it is taken");
    let sizes: Vec<(usize, usize)> =
        sample.changes().map(|(_, key, value)| (key.len(), value.map_or(0, <[u8]>::len))).collect();
    // As in a node, leaves are moved into the log meanwhile.
    let moving = log.clone();
    let keeping = tokio::spawn(async move { moving.keep().await });
    let (mut ratios, mut rates, mut floors, mut moved) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (drafting, sizes) = (log.clone(), sizes.clone());
        let begun = Instant::now();
        let ours = rate(&store, move || drafting.entry(draft()).expect("it is taken")).await;
        log.drain().await.expect("they are moved");
        let in_log = f64::from(WRITERS * EACH) / begun.elapsed().as_secs_f64();
        let floor = rate(&store, move || rows_of(&sizes)).await;
        if round == 0 {
            continue; // warming up
        }
        ratios.push(ours / floor);
        rates.push(ours);
        floors.push(floor);
        moved.push(in_log);
    }
    keeping.abort();
    let ratio = median(ratios);
    println!(
        "  leaves of {WRITERS} writers: {:.0} a second on disk, {:.0} until they are in the log; their rows alone: {:.0}; ratio {ratio:.2} {}",
        median(rates),
        median(moved),
        median(floors),
        goals.at_least(ratio, RATIO_MIN),
    );
}

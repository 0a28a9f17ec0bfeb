//! The log over a store in memory, with a clock and randomness of the tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use althing_communication::{Entropy, WallClock};
use althing_protocol::audit::{AuditLeaf, AuditOutcome, AuditStage, BodyRole};
use althing_protocol::tlog::{AddCheckpoint, Checkpoint, Head, NoteKey, NoteKeyKind, WitnessRefusal};
use althing_protocol::{AgentId, PublisherId, SecretKey, digest};
use althing_store::{Batch, Durability, Family, MemoryStore, Range, Rows, Store};
use futures::future::BoxFuture;

use super::*;

mod adversaries;
mod crashes;
mod life;
mod lookups;

const NOW_MS: u64 = 1_790_000_000_000;

/// What a test has of the world: the clock, and randomness that does not repeat.
#[derive(Clone)]
struct World {
    now_ms: Arc<AtomicU64>,
    drawn: Arc<AtomicU64>,
}

impl World {
    fn new() -> World {
        World { now_ms: Arc::new(AtomicU64::new(NOW_MS)), drawn: Arc::default() }
    }

    fn ports(&self, store: Arc<dyn Store>) -> AuditPorts {
        let (now_ms, drawn) = (self.now_ms.clone(), self.drawn.clone());
        let fill = move |bytes: &mut [u8]| {
            for chunk in bytes.chunks_mut(32) {
                let random = digest(&drawn.fetch_add(1, Ordering::SeqCst).to_be_bytes());
                chunk.copy_from_slice(&random[..chunk.len()]);
            }
        };
        AuditPorts {
            store,
            clock: WallClock::new(move || now_ms.load(Ordering::SeqCst)),
            entropy: Entropy::new(fill),
            node: node().public(),
            owner: PublisherId::from_digest([3; 32]),
            sign: Arc::new(|name: &str, head: Head| Checkpoint::sign(name, head, &node())),
        }
    }

    async fn open(&self, store: &MemoryStore) -> AuditLog {
        self.open_with(store, AuditConfig::default()).await
    }

    async fn open_with(&self, store: &MemoryStore, config: AuditConfig) -> AuditLog {
        AuditLog::open(self.ports(Arc::new(store.clone())), config).await.expect("it opens")
    }
}

fn node() -> SecretKey {
    SecretKey::from_seed(&[5; 32])
}

fn memory() -> MemoryStore {
    MemoryStore::new(&FAMILIES)
}

/// The intent of a call, numbered by its action.
fn intent(number: u64) -> LeafDraft {
    let mut leaf = AuditLeaf::new(AuditStage::Intent, NOW_MS + number);
    leaf.agent = Some(AgentId::new(PublisherId::from_digest([3; 32]), "buyer").expect("a good name"));
    leaf.action = Some(format!("shop/order-{number}"));
    leaf.principals = vec!["ada".to_owned()];
    LeafDraft::new(leaf)
}

fn outcome(number: u64) -> LeafDraft {
    let mut draft = intent(number);
    (draft.leaf.stage, draft.leaf.outcome) = (AuditStage::Outcome, Some(AuditOutcome::Done));
    draft
}

async fn write(store: &impl Store, rows: Batch) {
    store.write(rows, Durability::Synced).await.expect("it is written");
}

/// Records a leaf as its cause would; gives its id.
async fn record(log: &AuditLog, store: &impl Store, draft: LeafDraft) -> LeafId {
    let (id, rows) = log.named_entry(draft).expect("it has room");
    write(store, rows).await;
    id
}

/// The actions in the log, the oldest first.
async fn actions(log: &AuditLog) -> Vec<String> {
    let page = log.query(&AuditFilter::default(), 1_000).await.expect("it is whole");
    assert_eq!(page.next, None);
    page.records.into_iter().rev().filter_map(|record| record.leaf.action).collect()
}

fn all_rows(store: &MemoryStore, family: Family) -> Rows {
    store.scan(family, Range::all(usize::MAX)).expect("it is whole")
}

/// A store with the same rows, that goes its own way.
async fn copied(store: &MemoryStore) -> MemoryStore {
    let copy = memory();
    let mut rows = Batch::large();
    for family in FAMILIES {
        for (key, value) in all_rows(store, family) {
            rows.put(family, key, value);
        }
    }
    write(&copy, rows).await;
    copy
}

/// A witness of this node's logs, as C2SP says.
struct Watcher {
    name: &'static str,
    key: SecretKey,
    known: Mutex<BTreeMap<String, Head>>,
}

impl Watcher {
    fn new() -> Watcher {
        Watcher::of("witness.example", 9)
    }

    /// The one of that name, whose key has that seed.
    fn of(name: &'static str, seed: u8) -> Watcher {
        Watcher { name, key: SecretKey::from_seed(&[seed; 32]), known: Mutex::default() }
    }

    fn note_key(&self) -> NoteKey {
        NoteKey::new(self.name, NoteKeyKind::Cosignature, self.key.public()).expect("a good name")
    }

    fn answer(&self, request: &str) -> WitnessAnswer {
        let asked: AddCheckpoint = request.parse().expect("a request");
        let mut known = self.known.lock().expect("no panic");
        let log = |origin: &str| NoteKey::new(origin, NoteKeyKind::Note, node().public()).ok();
        match asked.judge(log, |origin| known.get(origin).copied().unwrap_or_default()) {
            Ok(checkpoint) => {
                let origin = Checkpoint::claimed_origin(&asked.checkpoint).expect("it was judged");
                known.insert(origin, checkpoint.head);
                let line = checkpoint.cosign(self.name, 1_790_000_000, &self.key).expect("a good name");
                WitnessAnswer { status: 200, body: line }
            }
            Err(WitnessRefusal::Stale { known }) => WitnessAnswer { status: 409, body: format!("{known}\n") },
            Err(WitnessRefusal::Forked { .. }) => WitnessAnswer { status: 409, body: "two histories".to_owned() },
            Err(WitnessRefusal::Proof(_)) => WitnessAnswer { status: 422, body: "it does not go on".to_owned() },
            Err(other) => WitnessAnswer { status: 400, body: other.to_string() },
        }
    }
}

impl AskWitness for Watcher {
    fn ask(&self, request: String) -> BoxFuture<'_, Result<WitnessAnswer, String>> {
        let answer = self.answer(&request);
        Box::pin(async move { Ok(answer) })
    }
}

/// The arguments of a call as its body.
fn with_body(number: u64, about: &str) -> LeafDraft {
    intent(number).about(about).with(BodyRole::Arguments, format!("{{\"number\":{number}}}"))
}

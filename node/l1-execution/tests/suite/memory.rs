//! What agents keep: who may read it, how long, how much, in clear or not, and answers that must cite it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use althing_execution::Ports;
use althing_execution::memory::{
    Embedder, MEMORY, Memories, Memory, MemoryError, MemoryServer, Removal, TEXT_BYTES_MAX,
};
use althing_execution::tools::{ContractGate, ToolError, Tools};
use althing_protocol::contract;
use althing_store::{MemoryStore, Range, RocksStore, Store, StoreConfig};
use serde_json::json;

/// A node's memory, with a clock and secrets to turn.
struct World {
    store: Arc<dyn Store>,
    now_ms: Arc<AtomicU64>,
    secrets: Arc<Mutex<BTreeMap<String, String>>>,
}

impl World {
    fn new() -> World {
        World::on(Arc::new(MemoryStore::new(&[MEMORY])))
    }

    fn on(store: Arc<dyn Store>) -> World {
        let secrets = BTreeMap::from([("key".to_owned(), "correct horse".to_owned())]);
        World { store, now_ms: Arc::new(AtomicU64::new(1_000_000)), secrets: Arc::new(Mutex::new(secrets)) }
    }

    /// As after a start of the node.
    fn memories(&self) -> Memories {
        let (now_ms, secrets, drawn) = (self.now_ms.clone(), self.secrets.clone(), AtomicU64::new(0));
        Memories::new(
            self.store.clone(),
            Arc::new(move || now_ms.load(Ordering::SeqCst)),
            Arc::new(move |bytes| {
                for byte in bytes.iter_mut() {
                    *byte = drawn.fetch_add(1, Ordering::SeqCst).to_le_bytes()[0];
                }
            }),
            Arc::new(move |name| Ok(secrets.lock().expect("secrets").get(name).cloned())),
        )
    }

    fn later(&self, seconds: u64) {
        self.now_ms.fetch_add(seconds * 1_000, Ordering::SeqCst);
    }

    /// Whether the store's bytes hold that text.
    fn holds(&self, text: &str) -> bool {
        let rows = self.store.scan(MEMORY, Range::all(100_000)).expect("rows");
        let has = |bytes: &Vec<u8>| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        rows.iter().any(|(key, value)| has(key) || has(value))
    }
}

fn terms(more: impl FnOnce(&mut contract::Memory)) -> contract::Memory {
    let mut terms = contract::Memory::default();
    more(&mut terms);
    terms
}

async fn open(memories: &Memories, agent: &str, terms: &contract::Memory) -> Result<Memory, MemoryError> {
    let memory = memories.open(agent, terms, Arc::new(Embedder::Words))?;
    memory.adopt().await?;
    Ok(memory)
}

const TOWN: &str = "Bicycles may be parked in the cellar of the town hall from seven to nine.\n\n\
                    A dog costs ninety euro of tax in a year, a second one twice as much.";

#[tokio::test]
async fn values_and_passages_outlive_the_node() {
    let world = World::new();
    {
        let memory = open(&world.memories(), "clerk", &terms(|_| {})).await.expect("opened");
        memory.put("last", b"42").await.expect("kept");
        memory.put("other", &[0, 255]).await.expect("kept");
        assert_eq!(memory.remember("rules.txt", TOWN).await, Ok(1));
    }
    let memory = open(&world.memories(), "clerk", &terms(|_| {})).await.expect("opened");
    assert_eq!(memory.get("last").await, Ok(Some(b"42".to_vec())));
    assert_eq!(memory.get("other").await, Ok(Some(vec![0, 255])));
    assert_eq!(memory.get("none").await, Ok(None));
    assert_eq!(memory.keys("l").await, Ok(vec!["last".to_owned()]));
    let recalled = memory.recall("What is the tax for my dog?", 4).await.expect("recalled");
    let passage = &recalled[0];
    assert!(passage.text.contains("ninety euro") && passage.similarity > 0.1, "{passage:?}");
    assert_eq!((passage.source.as_str(), passage.kept_ms, passage.source_hash.len()), ("rules.txt", 1_000_000, 64));
    assert_eq!(memory.delete("last").await, Ok(true));
    assert_eq!((memory.delete("last").await, memory.get("last").await), (Ok(false), Ok(None)));
}

#[tokio::test]
async fn a_source_is_replaced_whole() {
    let world = World::new();
    let memory = open(&world.memories(), "clerk", &terms(|_| {})).await.expect("opened");
    let long: String = (0..200).map(|line| format!("Line {line} of the first edition says something. ")).collect();
    let first = memory.remember("book", &long).await.expect("kept");
    assert!(first > 5, "{first} passages");
    assert_eq!(memory.remember("book", "The second edition is short.").await, Ok(1));
    assert_eq!(memory.sources().await, Ok(BTreeMap::from([("book".to_owned(), 1)])));
    let old = memory.recall("first edition", 32).await.expect("recalled");
    assert!(old.iter().all(|passage| passage.text.contains("second")), "{old:?}");
    let id = old[0].id.clone();
    assert_eq!(memory.forget("book").await, Ok(1));
    assert_eq!((memory.passage(&id).await, memory.recall("second edition", 4).await), (Ok(None), Ok(Vec::new())));
    assert_eq!(memory.tombstone(&id), Ok(Some((1_000_000, Removal::Forgotten))));
    assert_eq!(memory.bytes().await, Ok(0));
}

#[tokio::test]
async fn a_namespace_is_its_owners_and_whom_it_names() {
    let world = World::new();
    let memories = world.memories();
    let owner =
        open(&memories, "clerk", &terms(|memory| memory.share_with = vec!["helper".to_owned()])).await.expect("opened");
    owner.put("a", b"1").await.expect("kept");
    let clerks = |memory: &mut contract::Memory| memory.namespace = Some("clerk".to_owned());
    for memories in [memories, world.memories()] {
        let stranger = open(&memories, "stranger", &terms(clerks)).await;
        assert!(matches!(stranger.err(), Some(MemoryError::NotShared { .. })));
        let helper = open(&memories, "helper", &terms(clerks)).await.expect("shared");
        assert_eq!(helper.get("a").await, Ok(Some(b"1".to_vec())));
        // Its own is another one, and stays so when the names only begin alike.
        let own = open(&memories, "helper", &terms(|_| {})).await.expect("opened");
        assert_eq!((own.get("a").await, own.keys("").await), (Ok(None), Ok(Vec::new())));
        let cler = open(&memories, "cler", &terms(|_| {})).await.expect("opened");
        assert_eq!(cler.keys("").await, Ok(Vec::new()));
    }
    drop(owner);
    // The owner takes the grant back.
    let memories = world.memories();
    open(&memories, "clerk", &terms(|_| {})).await.expect("opened").put("a", b"2").await.expect("kept");
    assert!(matches!(open(&memories, "helper", &terms(clerks)).await.err(), Some(MemoryError::NotShared { .. })));
}

#[tokio::test]
async fn what_has_passed_its_time_is_gone() {
    let world = World::new();
    let memories = world.memories();
    let memory = open(&memories, "clerk", &terms(|memory| memory.retention_s = Some(60))).await.expect("opened");
    memory.put("old", b"an old value").await.expect("kept");
    memory.remember("old.txt", "An old text.").await.expect("kept");
    let id = memory.recall("old text", 1).await.expect("recalled")[0].id.clone();
    world.later(30);
    memory.put("new", b"a new value").await.expect("kept");
    world.later(30);
    // Before the sweep it is not handed out any more; after it, the row is not there.
    assert_eq!((memory.get("old").await, memory.passage(&id).await), (Ok(None), Ok(None)));
    assert_eq!(memory.recall("old text", 1).await, Ok(Vec::new()));
    assert_eq!(memory.keys("").await, Ok(vec!["new".to_owned()]));
    assert!(world.holds("an old value"));
    assert_eq!(memories.sweep().await, Ok(2));
    assert!(!world.holds("an old value") && !world.holds("An old text.") && world.holds("a new value"));
    assert_eq!(memory.tombstone("old"), Ok(Some((1_060_000, Removal::Expired))));
    assert_eq!((memory.tombstone(&id), memory.tombstone("new")), (Ok(Some((1_060_000, Removal::Expired))), Ok(None)));
    // Nobody need run for it.
    drop((memory, memories));
    world.later(31);
    assert_eq!(world.memories().sweep().await, Ok(1));
    assert!(!world.holds("a new value"));
}

#[tokio::test]
async fn a_shorter_retention_holds_at_once() {
    let world = World::new();
    open(&world.memories(), "clerk", &terms(|_| {})).await.expect("opened").put("a", b"value").await.expect("kept");
    world.later(100);
    let memories = world.memories();
    let memory = open(&memories, "clerk", &terms(|memory| memory.retention_s = Some(60))).await.expect("opened");
    assert_eq!(memory.get("a").await, Ok(None));
    // Its agent is removed before anything was written: the terms are on disk all the same.
    drop((memory, memories));
    assert_eq!(world.memories().sweep().await, Ok(1));
    assert!(!world.holds("value"));
}

#[tokio::test]
async fn a_namespace_keeps_within_its_quota() {
    let world = World::new();
    let memory = open(&world.memories(), "clerk", &terms(|memory| memory.quota_bytes = 4_096)).await.expect("opened");
    memory.put("a", &[1; 3_000]).await.expect("kept");
    let refused = memory.put("b", &[1; 3_000]).await;
    assert!(matches!(refused, Err(MemoryError::Quota { quota: 4_096, .. })), "{refused:?}");
    assert_eq!(memory.get("b").await, Ok(None));
    // The same key again takes the place of the first.
    memory.put("a", &[2; 3_500]).await.expect("kept");
    assert!(memory.remember("long", &"word ".repeat(2_000)).await.is_err());
    assert_eq!(memory.delete("a").await, Ok(true));
    memory.put("b", &[1; 3_000]).await.expect("there is room now");
    assert!(memory.bytes().await.expect("bytes") <= 4_096);
}

/// The header is there with the first row, whatever was refused before it.
#[tokio::test]
async fn a_refused_write_loses_nobody_their_namespace() {
    let world = World::new();
    let sealed = |memory: &mut contract::Memory| {
        memory.quota_bytes = 4_096;
        memory.encryption_secret = Some("key".to_owned());
    };
    {
        let memories = world.memories();
        let memory = memories.open("clerk", &terms(sealed), Arc::new(Embedder::Words)).expect("opened");
        assert!(memory.put("long", &[1; 8_000]).await.is_err());
        memory.put("short", b"kept").await.expect("kept");
    }
    let spy = terms(|memory| memory.namespace = Some("clerk".to_owned()));
    assert!(matches!(open(&world.memories(), "spy", &spy).await.err(), Some(MemoryError::NotShared { .. })));
    let memory = open(&world.memories(), "clerk", &terms(sealed)).await.expect("its own");
    assert_eq!(memory.get("short").await, Ok(Some(b"kept".to_vec())));
}

/// Who names no namespace means its own, and never one that somebody else made under its name.
#[tokio::test]
async fn nobody_keeps_in_a_namespace_that_was_laid_out_for_it() {
    let world = World::new();
    let memories = world.memories();
    let trap = terms(|memory| {
        memory.namespace = Some("payroll".to_owned());
        memory.share_with = vec!["payroll".to_owned()];
    });
    let _spy = open(&memories, "spy", &trap).await.expect("nobody is there yet");
    for memories in [memories, world.memories()] {
        let victim = open(&memories, "payroll", &terms(|_| {})).await;
        assert!(matches!(victim.err(), Some(MemoryError::NotShared { .. })));
        // By name it may: then it knows.
        let knowing = terms(|memory| memory.namespace = Some("payroll".to_owned()));
        assert!(open(&memories, "payroll", &knowing).await.is_ok());
    }
}

#[tokio::test]
async fn what_is_shared_no_more_is_out_of_reach_at_once() {
    let world = World::new();
    let memories = world.memories();
    let sharing = terms(|memory| memory.share_with = vec!["helper".to_owned()]);
    let owner = open(&memories, "clerk", &sharing).await.expect("opened");
    owner.put("a", b"1").await.expect("kept");
    let clerks = terms(|memory| memory.namespace = Some("clerk".to_owned()));
    let helper = open(&memories, "helper", &clerks).await.expect("shared");
    assert_eq!(helper.get("a").await, Ok(Some(b"1".to_vec())));
    let again = memories.open("clerk", &terms(|_| {}), Arc::new(Embedder::Words)).expect("opened");
    assert!(helper.get("a").await.is_ok(), "an agent that is not started changes nothing");
    again.adopt().await.expect("adopted");
    for refused in [helper.get("a").await.map(drop), helper.put("a", b"2").await, helper.recall("x", 1).await.map(drop)]
    {
        assert!(matches!(refused, Err(MemoryError::NotShared { .. })), "{refused:?}");
    }
    assert_eq!(owner.get("a").await, Ok(Some(b"1".to_vec())));
}

/// The sweeper, the operator and the agent work on one and the same namespace.
#[tokio::test]
async fn there_is_one_of_each_namespace() {
    let world = World::new();
    let memories = world.memories();
    open(&memories, "clerk", &terms(|memory| memory.quota_bytes = 8_192))
        .await
        .expect("opened")
        .put("a", &[1; 2_000])
        .await
        .expect("kept");
    let operator = memories.operate("clerk").expect("opened");
    let memory = open(&memories, "clerk", &terms(|memory| memory.quota_bytes = 8_192)).await.expect("opened");
    operator.put("b", &[1; 1_500]).await.expect("kept");
    let refused = memory.put("c", &[1; 6_000]).await;
    assert!(matches!(refused, Err(MemoryError::Quota { .. })), "{refused:?}");
    let (one, other) =
        tokio::join!(operator.remember("s", TOWN), memory.remember("s", "Another text of the same source."));
    assert!(one.is_ok() && other.is_ok());
    let texts = memory.recall("text bicycles", 32).await.expect("recalled");
    assert_eq!(memory.sources().await.expect("sources")["s"], 1, "of one edition: {texts:?}");
}

#[tokio::test]
async fn a_damaged_header_stops_nobody_else() {
    let world = World::new();
    let memories = world.memories();
    for name in ["a", "b"] {
        let memory = open(&memories, name, &terms(|memory| memory.retention_s = Some(1))).await.expect("opened");
        memory.put("old", b"value").await.expect("kept");
    }
    drop(memories);
    let mut damage = althing_store::Batch::new();
    damage.put(MEMORY, *b"ha", *b"nonsense");
    world.store.write(damage, althing_store::Durability::Synced).await.expect("written");
    world.later(2);
    let memories = world.memories();
    assert!(matches!(memories.sweep().await, Err(MemoryError::Damaged(_))));
    assert!(open(&memories, "b", &terms(|_| {})).await.expect("opened").keys("").await.expect("keys").is_empty());
    memories.remove("a").await.expect("removed all the same");
    assert_eq!(memories.sweep().await, Ok(0));
}

#[tokio::test]
async fn lengths_are_bounded() {
    let world = World::new();
    let memory = open(&world.memories(), "clerk", &terms(|_| {})).await.expect("opened");
    let long = |what: Result<(), MemoryError>| assert!(matches!(what, Err(MemoryError::Length { .. })), "{what:?}");
    long(memory.put("", b"x").await);
    long(memory.put(&"k".repeat(257), b"x").await);
    long(memory.put("k", &vec![0; (256 << 10) + 1]).await);
    long(memory.remember("s", " \n ").await.map(drop));
    long(memory.remember("s", &"x".repeat(TEXT_BYTES_MAX + 1)).await.map(drop));
    long(memory.remember(&"s".repeat(513), "x").await.map(drop));
    assert_eq!(memory.recall(&"é".repeat(100_000), 1_000_000).await, Ok(Vec::new()));
    memory.remember("s", &"ab ".repeat(TEXT_BYTES_MAX / 3)).await.expect("the longest text fits one batch");
}

#[tokio::test]
async fn what_is_encrypted_is_not_on_disk_in_clear() {
    let folder = tempfile::tempdir().expect("a folder");
    let sealed = |memory: &mut contract::Memory| memory.encryption_secret = Some("key".to_owned());
    let world =
        World::on(Arc::new(RocksStore::open(folder.path(), &[MEMORY], StoreConfig::default()).expect("a store")));
    {
        let memory = open(&world.memories(), "clerk", &terms(sealed)).await.expect("opened");
        memory.put("patient-zero", b"has the measles").await.expect("kept");
        memory.remember("file-of-zero", "Zero was seen by the doctor in Reykjavik.").await.expect("kept");
        assert_eq!(memory.forget("file-of-zero").await, Ok(1));
        memory.remember("file-of-one", "One was seen by the doctor in Akureyri.").await.expect("kept");
        // The whole folder: logs, tables, whatever the store writes.
        for text in ["patient-zero", "measles", "file-of", "doctor", "Reykjavik", "Akureyri", "correct horse"] {
            assert!(!world.holds(text), "{text} is in a row");
            for entry in std::fs::read_dir(folder.path()).expect("the folder") {
                let bytes = std::fs::read(entry.expect("an entry").path()).unwrap_or_default();
                assert!(!bytes.windows(text.len()).any(|window| window == text.as_bytes()), "{text} is on disk");
            }
        }
    }
    let memory = open(&world.memories(), "clerk", &terms(sealed)).await.expect("opened again");
    assert_eq!(memory.get("patient-zero").await, Ok(Some(b"has the measles".to_vec())));
    assert!(memory.recall("doctor in Akureyri", 1).await.expect("recalled")[0].text.contains("Akureyri"));
    drop(memory);
    // Another key is refused before anything is read; without any, too; and nothing is lost by it.
    world.secrets.lock().expect("secrets").insert("key".to_owned(), "wrong horse".to_owned());
    let wrong = open(&world.memories(), "clerk", &terms(sealed)).await.err();
    assert!(matches!(wrong, Some(MemoryError::WrongKey { .. })), "{wrong:?}");
    assert!(matches!(open(&world.memories(), "clerk", &terms(|_| {})).await.err(), Some(MemoryError::Terms { .. })));
    world.secrets.lock().expect("secrets").clear();
    assert!(matches!(open(&world.memories(), "clerk", &terms(sealed)).await.err(), Some(MemoryError::Secret(_))));
    world.secrets.lock().expect("secrets").insert("key".to_owned(), "correct horse".to_owned());
    let memory = open(&world.memories(), "clerk", &terms(sealed)).await.expect("opened again");
    assert_eq!(memory.keys("").await, Ok(vec!["patient-zero".to_owned()]));
}

#[tokio::test]
async fn rows_that_were_changed_on_disk_are_refused() {
    let world = World::new();
    let sealed = |memory: &mut contract::Memory| memory.encryption_secret = Some("key".to_owned());
    let memory = open(&world.memories(), "clerk", &terms(sealed)).await.expect("opened");
    memory.put("a", b"one").await.expect("kept");
    memory.put("b", b"two").await.expect("kept");
    drop(memory);
    let rows = world.store.scan(MEMORY, Range::prefix(*b"r", 10)).expect("rows");
    let [(first, _), (_, second)] = rows.as_slice() else { panic!("two rows: {rows:?}") };
    let mut swapped = althing_store::Batch::new();
    swapped.put(MEMORY, first.clone(), second.clone());
    world.store.write(swapped, althing_store::Durability::Synced).await.expect("written");
    let memory = open(&world.memories(), "clerk", &terms(sealed)).await.expect("opened");
    assert!(matches!(memory.keys("").await, Err(MemoryError::Damaged(_))));
}

#[tokio::test]
async fn the_operator_sees_and_removes() {
    let world = World::new();
    let memories = world.memories();
    assert!(matches!(memories.operate("clerk").err(), Some(MemoryError::Unknown(_))));
    let memory = open(&memories, "clerk", &terms(|memory| memory.retention_s = Some(5))).await.expect("opened");
    memories.operate("clerk").expect("open now").remember("rules.txt", TOWN).await.expect("kept");
    assert_eq!(memory.recall("dog tax", 4).await.expect("recalled").len(), 1);
    let all = memories.list().expect("listed");
    assert_eq!((all.len(), all[0].owner.as_str(), all[0].retention_s), (1, "clerk", Some(5)));
    memories.remove("clerk").await.expect("removed");
    assert_eq!(memory.recall("dog tax", 4).await, Ok(Vec::new()));
    drop(memory);
    assert!(world.memories().list().expect("listed").is_empty());
    assert!(world.store.scan(MEMORY, Range::all(10)).expect("rows").is_empty());
}

#[tokio::test]
async fn models_reach_memory_as_a_tool_that_the_contract_names() {
    let world = World::new();
    let memory = open(&world.memories(), "clerk", &terms(|_| {})).await.expect("opened");
    let server: Arc<dyn althing_execution::tools::ToolServer> = Arc::new(MemoryServer(memory.clone()));
    let gate = ContractGate::new(vec!["memory/put".to_owned(), "memory/recall".to_owned()]);
    let clerk = Ports::none().agent_ref("clerk", "1.0.0").expect("a name");
    let tools = Tools::new(clerk, BTreeMap::from([("memory".to_owned(), server)]), Arc::new(gate));
    assert_eq!(tools.listed().await.keys().collect::<Vec<_>>(), ["memory__put", "memory__recall"]);
    tools.invoke("memory__put", &json!({ "key": "a", "value": "b" }).to_string()).await.0.expect("kept");
    assert_eq!(memory.get("a").await, Ok(Some(b"b".to_vec())));
    let (denied, record) = tools.invoke("memory__delete", r#"{"key": "a"}"#).await;
    assert!(matches!(denied, Err(ToolError::Denied(_))) && record.outcome == "denied");
    for wrong in [r#"{"key": 1, "value": "b"}"#, r#"{"key": "a"}"#, r#"{"key": "a", "value": "b", "more": 1}"#] {
        assert!(matches!(tools.invoke("memory__put", wrong).await.0, Err(ToolError::Fault { .. })), "{wrong}");
    }
    memory.remember("rules.txt", TOWN).await.expect("kept");
    let (found, _) = tools.invoke("memory__recall", r#"{"question": "dog tax"}"#).await;
    let found = found.expect("found");
    assert_eq!(found["structuredContent"]["passages"][0]["source"], "rules.txt");
}

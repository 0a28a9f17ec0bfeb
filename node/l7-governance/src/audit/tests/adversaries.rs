//! Whoever has the node's folder, and even its key.

use althing_protocol::tlog::leaf_hash;

use super::super::families::{LOG, STATE};
use super::*;

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 += 1;
        let random = digest(&self.0.to_be_bytes());
        let number = u64::from_be_bytes(random[..8].try_into().expect("eight bytes"));
        usize::try_from(number % end as u64).expect("it is below a usize")
    }
}

/// Something that an editor does to one row, or to a leaf and its hash. None where nothing would change.
fn edit(store: &MemoryStore, dice: &mut Dice) -> Option<Batch> {
    let family = [LOG.entries, LOG.hashes, STATE][dice.below(3)];
    let counts = |(key, _): &(Vec<u8>, Vec<u8>)| family != STATE || key != b"usage";
    let rows: Rows = all_rows(store, family).into_iter().filter(counts).collect();
    let (key, value) = rows[dice.below(rows.len())].clone();
    let mut changed = value.clone();
    let at = dice.below(changed.len());
    let mut batch = Batch::new();
    match dice.below(5) {
        0 => changed[at] ^= 1 << dice.below(8),
        1 => changed.truncate(at),
        2 => changed.insert(at, value[at]),
        3 => changed = rows[dice.below(rows.len())].1.clone(),
        _ if family == LOG.entries => {
            changed[at] ^= 1 << dice.below(8);
            let hash_key = [&key[..4], &[0], &key[4..]].concat();
            batch.put(LOG.hashes, hash_key, leaf_hash(&changed));
        }
        _ => {
            batch.delete(family, key);
            return Some(batch);
        }
    }
    if changed == value {
        return None;
    }
    batch.put(family, key, changed);
    Some(batch)
}

/// What brings the rows back that a batch changes.
fn undo(store: &MemoryStore, batch: &Batch) -> Batch {
    let mut back = Batch::new();
    for (family, key, _) in batch.changes() {
        match store.read(family, key).expect("it is whole") {
            Some(value) => back.put(family, key, value),
            None => back.delete(family, key),
        };
    }
    back
}

#[tokio::test]
async fn ten_thousand_edits_of_the_log_are_caught() {
    let (world, store, mut dice) = (World::new(), memory(), Dice(0));
    let log = world.open(&store).await;
    for number in 0..20 {
        record(&log, &store, intent(number)).await;
    }
    log.drain().await.expect("it is written");
    drop(log);
    let mut edits = 0;
    while edits < 10_000 {
        let Some(batch) = edit(&store, &mut dice) else { continue };
        edits += 1;
        let (back, told) = (undo(&store, &batch), format!("{batch:?}"));
        write(&store, batch).await;
        let ports = world.ports(Arc::new(store.clone()));
        if let Ok(log) = AuditLog::open(ports, AuditConfig::default()).await {
            assert!(log.check().is_err(), "{told}");
        }
        write(&store, back).await;
    }
    assert_eq!(world.open(&store).await.check().expect("all was brought back").size, 20);
}

/// The log of the same name and key, in which the third leaf is another one.
async fn rewritten(world: &World, store: &MemoryStore, size: u64) -> (AuditLog, MemoryStore) {
    let other = memory();
    let mut rows = Batch::new();
    for (key, value) in all_rows(store, STATE) {
        if key == b"number" || key.starts_with(b"name/") {
            rows.put(STATE, key, value);
        }
    }
    write(&other, rows).await;
    let log = world.open(&other).await;
    for number in 0..size {
        record(&log, &other, intent(if number == 2 { 77 } else { number })).await;
    }
    log.drain().await.expect("it is written");
    (log, other)
}

/// P-213
#[tokio::test]
async fn a_log_that_was_rewritten_with_the_real_key_is_caught_by_its_witness() {
    for size in [6, 5] {
        let (world, store, watcher) = (World::new(), memory(), Watcher::new());
        let log = world.open(&store).await;
        for number in 0..5 {
            record(&log, &store, intent(number)).await;
        }
        log.drain().await.expect("it is written");
        log.cosign(&watcher.note_key(), &watcher).await.expect("it signs");
        let name = log.log_key().name().to_owned();
        let (forged, _) = rewritten(&world, &store, size).await;
        assert!(forged.check().is_ok(), "by itself it looks well");
        let caught = forged.cosign(&watcher.note_key(), &watcher).await;
        assert!(matches!(&caught, Err(WitnessFault::Fork { log, .. }) if *log == name), "{caught:?}");
        assert_ne!(forged.log_key().name(), name);
        let first = forged.record_at(2, 0).expect("it was begun").leaf;
        assert_eq!(first.action, Some(format!("audit/begin-after/{name}@{size}")));
    }
}

#[tokio::test]
async fn a_log_that_tells_each_witness_something_else_convinces_nobody_who_wants_both() {
    let (world, store) = (World::new(), memory());
    let (one, other) = (Watcher::new(), Watcher::of("other.example", 10));
    let log = world.open(&store).await;
    for number in 0..5 {
        record(&log, &store, intent(number)).await;
    }
    log.drain().await.expect("it is written");
    log.cosign(&one.note_key(), &one).await.expect("it signs");
    let (forged, _) = rewritten(&world, &store, 5).await;
    forged.cosign(&other.note_key(), &other).await.expect("it knows nothing of the one before");
    let (key, both) = (log.log_key(), [one.note_key(), other.note_key()]);
    for told in [&log, &forged] {
        let told = told.export(1, 2, false).expect("it is there").to_string();
        assert!(verify_offline(told.as_bytes(), &key, &both, 1).is_ok(), "whoever trusts one of them believes it");
        assert!(verify_offline(told.as_bytes(), &key, &both, 2).is_err(), "no entry has both");
    }
    // To have both signed it must show one what it showed the other.
    let caught = forged.cosign(&one.note_key(), &one).await;
    assert!(matches!(caught, Err(WitnessFault::Fork { .. })), "{caught:?}");
}

/// P-213
#[tokio::test]
async fn a_node_that_was_restored_begins_another_log_which_names_the_one_before() {
    let (world, store, watcher) = (World::new(), memory(), Watcher::new());
    let log = world.open(&store).await;
    let node = althing_protocol::hex(node().public().as_bytes());
    let start = format!("audit/{}/{node}/1-", PublisherId::from_digest([3; 32]).multibase());
    assert!(log.log_key().name().starts_with(&start));
    for number in 0..3 {
        record(&log, &store, intent(number)).await;
    }
    log.drain().await.expect("it is written");
    log.cosign(&watcher.note_key(), &watcher).await.expect("it signs");
    let backup = copied(&store).await;
    record(&log, &store, intent(3)).await;
    log.drain().await.expect("it is written");
    log.cosign(&watcher.note_key(), &watcher).await.expect("it signs");
    drop(log);

    let restored = world.open(&backup).await;
    let name = restored.log_key().name().to_owned();
    let ahead = restored.cosign(&watcher.note_key(), &watcher).await;
    assert!(matches!(ahead, Err(WitnessFault::Ahead { known: 4, size: 3, .. })), "{ahead:?}");
    record(&restored, &backup, intent(9)).await;
    let begun = format!("audit/begin-after/{name}@3");
    let expected = ["shop/order-0", "shop/order-1", "shop/order-2", &begun, "shop/order-9"];
    assert_eq!(actions(&restored).await, expected);
    restored.cosign(&watcher.note_key(), &watcher).await.expect("it signs the other log");
    for restored in [restored.clone(), world.open(&backup).await] {
        assert_eq!(restored.check().expect("it is whole").size, 2);
        let keys = restored.log_keys().expect("both are there");
        assert_eq!((keys.len(), keys[0].name()), (2, &name[..]));
        let old = restored.export(1, 1, false).expect("the old one is still there").to_string();
        assert!(verify_offline(old.as_bytes(), &keys[0], &[watcher.note_key()], 1).is_ok());
        assert!(verify_offline(old.as_bytes(), &keys[1], &[], 0).is_err());
    }
}

#[tokio::test]
async fn a_witness_that_does_not_answer_changes_nothing() {
    struct Silence;
    impl AskWitness for Silence {
        fn ask(&self, _: String) -> BoxFuture<'_, Result<WitnessAnswer, String>> {
            Box::pin(async { Err("nobody is there".to_owned()) })
        }
    }
    let (world, store, watcher) = (World::new(), memory(), Watcher::new());
    let log = world.open(&store).await;
    let name = log.log_key();
    let silent = log.cosign(&watcher.note_key(), &Silence).await;
    assert!(matches!(silent, Err(WitnessFault::Unreachable { .. })));
    assert_eq!(log.log_key(), name);
    assert!(log.entry(intent(1)).is_ok());
}

/// P-213
#[tokio::test]
async fn a_witness_that_refuses_every_proof_for_a_day_has_a_log_begun_each_hour_at_most_and_others_sign_meanwhile() {
    struct Refuser;
    impl AskWitness for Refuser {
        fn ask(&self, _: String) -> BoxFuture<'_, Result<WitnessAnswer, String>> {
            Box::pin(async { Ok(WitnessAnswer { status: 422, body: "it does not go on".to_owned() }) })
        }
    }
    let (world, store, watcher) = (World::new(), memory(), Watcher::new());
    let liar = Watcher::of("liar.example", 10).note_key();
    let log = world.open(&store).await;
    let (mut begun, mut refused) = (0, 0);
    // As often as a witness is asked that does not sign.
    for number in 0..24 * 12 {
        record(&log, &store, intent(number)).await;
        log.drain().await.expect("it is written");
        let before = log.log_key();
        match log.cosign(&liar, &Refuser).await {
            Err(WitnessFault::Fork { .. }) => {
                assert_ne!(log.log_key(), before);
                begun += 1;
            }
            Err(WitnessFault::Repeat { log: named, .. }) => {
                assert_eq!((log.log_key().name(), &log.log_key()), (named.as_str(), &before), "it goes on");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
        log.cosign(&watcher.note_key(), &watcher).await.expect("it signs whatever log there is");
        world.now_ms.fetch_add(5 * 60 * 1_000, Ordering::SeqCst);
    }
    assert_eq!((begun, refused), (24, 24 * 11));
    assert_eq!(log.log_keys().expect("all are there").len(), 25);
}

use althing_communication::{Entropy, WallClock};
use althing_protocol::limits::KEYLOG_EVENTS_MAX;
use althing_protocol::{SecretKey, keylog};
use althing_store::MemoryStore;
use tempfile::TempDir;

use super::*;

const NOW_MS: u64 = 1_800_000_000_000;

fn seeded(kind: u8, number: usize) -> SecretKey {
    let mut seed = [kind; 32];
    seed[..8].copy_from_slice(&(number as u64).to_be_bytes());
    SecretKey::from_seed(&seed)
}

/// A publisher's log of so many events, all its own keys made of `kind`.
fn log(kind: u8, events: usize) -> KeyLog {
    let next = [seeded(kind, 1).public(), seeded(kind, 2).public()];
    let mut log = KeyLog::verify(&[keylog::inception(&seeded(kind, 0), next, NOW_MS).bytes]).expect("an inception");
    for at in 1..events {
        log = log.rotate(&seeded(kind, at), seeded(kind, at + 2).public(), NOW_MS, 0).expect("it may");
    }
    log
}

fn owner() -> (TempDir, Owner) {
    let folder = TempDir::new().expect("a folder");
    let drawn = std::sync::atomic::AtomicU8::new(0);
    let entropy = Entropy::new(move |bytes| bytes.fill(drawn.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1));
    let owner = Owner::open(folder.path(), &WallClock::new(|| NOW_MS), &entropy).expect("a new owner");
    (folder, owner)
}

/// A node's keyring after a start, with `friend` trusted.
fn started(store: &dyn Store, owner: &Owner, friend: &KeyLog) -> Keys {
    let keys = Keys::default();
    let watched = BTreeSet::from([owner.id(), friend.publisher()]);
    load(store, &keys, owner, watched, NOW_MS).expect("the store is read");
    keys
}

async fn keep_all(store: &dyn Store, keys: &Keys) {
    loop {
        match persist_changed(store, keys).await {
            (0, None) => return,
            (_, failed) => assert!(failed.is_none(), "{failed:?}"),
        }
    }
}

#[tokio::test]
async fn a_revocation_survives_a_restart_whatever_strangers_had_stored() {
    let (_folder, owner) = owner();
    let friend = log(200, 2);
    let store = MemoryStore::new(&[HEARD_KEYS]);
    // More than one batch can hold: 80 of the longest logs, of publishers that are in use.
    let keys = started(&store, &owner, &friend);
    let strangers: Vec<KeyLog> = (2..82).map(|kind| log(kind, KEYLOG_EVENTS_MAX)).collect();
    let bytes: usize = strangers.iter().map(KeyLog::size).sum();
    assert!(bytes > althing_store::BATCH_BYTES_MAX, "{bytes} fit into one batch");
    keys.set_listed(strangers.iter().map(KeyLog::publisher).collect());
    let mut taken = 0;
    for (number, stranger) in strangers.iter().enumerate() {
        let origin = format!("origin {number}").into();
        taken += usize::from(keys.learn_with_agent(Arc::new(stranger.clone()), &origin).is_ok());
    }
    assert_eq!(taken, strangers.len());
    keep_all(&store, &keys).await;

    let keys = started(&store, &owner, &friend);
    let revoked = friend.revoke(&seeded(200, 2), NOW_MS).expect("it may");
    assert_eq!(keys.learn(revoked), Ok(true));
    keep_all(&store, &keys).await;

    let keys = started(&store, &owner, &friend);
    assert!(keys.log(friend.publisher()).is_some_and(|log| log.revoked()), "it is known after the second restart");
    // And of strangers enough is left to refuse an older log.
    let (longer, shorter) = (&strangers[0], log(2, KEYLOG_EVENTS_MAX - 1));
    assert_eq!(longer.publisher(), shorter.publisher());
    assert!(keys.learn_with_agent(Arc::new(shorter), &"".into()).is_err(), "a shorter log than was seen");
    assert_eq!(keys.learn_with_agent(Arc::new(longer.clone()), &"".into()), Ok(true));
}

#[tokio::test]
async fn what_a_stranger_took_back_survives_a_restart() {
    let (_folder, owner) = owner();
    let (friend, stranger) = (log(200, 2), Arc::new(log(9, 1)));
    let store = MemoryStore::new(&[HEARD_KEYS]);
    let keys = started(&store, &owner, &friend);
    keys.set_listed(BTreeSet::from([stranger.publisher()]));
    let node = seeded(77, 0).public();
    let body = Withdrawal::new(stranger.publisher(), node, NOW_MS);
    let signed = object::sign(body, "", "", &seeded(9, 0)).expect("a withdrawal");
    assert_eq!(keys.withdraw(&signed.bytes, Some(&stranger), NOW_MS), Ok(true));
    keep_all(&store, &keys).await;
    let (_, withdrawals) = started(&store, &owner, &friend).all();
    assert_eq!(withdrawals.len(), 1, "nothing of the stranger's is in use yet, and it is not forgotten");
}

#[tokio::test]
async fn what_could_not_be_kept_is_kept_later() {
    let (_folder, owner) = owner();
    let friend = log(200, 2);
    let store = MemoryStore::new(&[HEARD_KEYS]);
    let keys = started(&store, &owner, &friend);
    keys.learn(friend.clone()).expect("a good log");
    let refusing = MemoryStore::new(&[]);
    let (_, failed) = persist_changed(&refusing, &keys).await;
    assert!(failed.is_some(), "that store has no such family");
    keep_all(&store, &keys).await;
    let again = started(&store, &owner, &friend);
    assert_eq!(again.log(friend.publisher()).map(|log| log.len()), Some(2));
}

#[test]
fn the_owner_s_own_node_believes_its_files_and_not_the_thief() {
    let (_folder, owner) = owner();
    let friend = log(200, 2);
    // The owner has rotated once; the thief of its current key revokes in its place, and that was stored.
    let mine = log(7, 2);
    let stolen = log(7, 1).revoke(&seeded(7, 1), NOW_MS).expect("it holds by itself");
    let mine = Owner { key: seeded(7, 1), log: mine, ..owner };
    let keys = started(&MemoryStore::new(&[HEARD_KEYS]), &mine, &friend);
    assert!(keys.learn(stolen).is_err(), "what the owner's files say stands");
    assert_eq!(keys.log(mine.id()).map(|log| log.revoked()), Some(false));
}

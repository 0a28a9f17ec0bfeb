use std::sync::Mutex;

use althing_protocol::{Digest, KeyLog, SecretKey, digest, keylog};
use althing_store::MemoryStore;
use futures::future::BoxFuture;

use super::*;
use crate::orders::port::{FOLLOWED, POLICY_SET, PolicySets};

const NOW_MS: u64 = 1_800_000_000_000;

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

fn owner() -> Owner {
    let event = keylog::inception(&key(1), [key(2).public(), key(3).public()], NOW_MS - 10_000);
    Owner::new(key(1), KeyLog::verify(&[event.bytes]).expect("an inception"))
}

fn opened(store: &Arc<MemoryStore>, owner: &Owner, now_ms: u64) -> Result<Orders, NodeError> {
    Orders::open(store.clone(), owner.id(), WallClock::new(move || now_ms))
}

fn stop() -> OrderSubject {
    OrderSubject::Agent("echo".to_owned(), OrderWord::Stop)
}

#[tokio::test]
async fn an_order_holds_at_once_and_over_a_restart_and_is_signed_anew_with_the_owner_s_next_key() {
    let (store, before) = (Arc::new(MemoryStore::new(&[ORDERS, FOLLOWED])), owner());
    let orders = opened(&store, &before, NOW_MS).expect("an empty store");
    let echo = AgentId::new(before.id(), "echo").expect("a name");
    assert_eq!(orders.why_stopped(&echo), None);
    let report = orders.give(stop(), &before).await.expect("it is given");
    assert_eq!(report, OrderReport::default(), "it is connected to nobody");
    assert!(orders.why_stopped(&echo).is_some_and(|why| why.contains("was stopped by its owner")));
    let log = before.log.rotate(&key(2), key(4).public(), NOW_MS + 1, 0).expect("it may");
    let after = Owner::new(key(2), log);
    let orders = opened(&store, &before, NOW_MS + 2).expect("readable");
    assert!(orders.why_stopped(&echo).is_some(), "after a restart");
    orders.sign_anew(&after).await.expect("it is signed");
    orders.sign_anew(&after).await.expect("it is signed already");
    let rows = store.scan(ORDERS, Range::all(9)).expect("readable");
    let row = SignedOrder::decode(&rows[0].1).and_then(|order| order.open(None)).expect("a row");
    assert_eq!((rows.len(), row.order.signer, row.order.body.serial), (1, key(2).public(), NOW_MS + 1));
    let revoked = Owner::new(key(3), after.log.revoke(&key(3), NOW_MS + 2).expect("it may"));
    assert!(matches!(orders.give(stop(), &revoked).await, Err(NodeError::OwnerRevoked)));
}

#[tokio::test]
async fn a_row_that_cannot_be_read_keeps_a_node_from_starting_with_a_stopped_agent() {
    let (store, owner) = (Arc::new(MemoryStore::new(&[ORDERS, FOLLOWED])), owner());
    let mut batch = Batch::new();
    batch.put(ORDERS, format!("{} echo", owner.id()), b"noise".as_slice());
    store.write(batch, Durability::Synced).await.expect("it is written");
    let refused = opened(&store, &owner, NOW_MS).err().expect("it does not open").to_string();
    assert!(refused.contains("echo") && refused.contains("what is kept of orders"), "{refused}");
}

/// Policy sets in memory.
#[derive(Clone, Default)]
struct Sets(Arc<Mutex<Vec<String>>>);

impl Sets {
    fn now(&self) -> Option<String> {
        self.0.lock().expect("no holder panics").last().cloned()
    }
}

impl PolicySets for Sets {
    fn in_force(&self) -> Option<Digest> {
        self.now().map(|text| digest(text.as_bytes()))
    }

    fn set_digest(&self) -> Option<Digest> {
        self.now().map(|text| digest(format!("a set\n{text}").as_bytes()))
    }

    fn text(&self, wanted: &Digest) -> Option<String> {
        self.0.lock().expect("no holder panics").iter().find(|text| digest(text.as_bytes()) == *wanted).cloned()
    }

    fn load(&self, text: String) -> BoxFuture<'_, Result<(), String>> {
        self.0.lock().expect("no holder panics").push(text);
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn an_older_set_takes_the_place_of_no_newer_one_after_a_restart_either() {
    let (store, owner, sets) = (Arc::new(MemoryStore::new(&[ORDERS, FOLLOWED])), owner(), Sets::default());
    let orders = opened(&store, &owner, NOW_MS).expect("an empty store");
    orders.follow_policy_sets(Box::new(sets.clone()));
    sets.load("older".to_owned()).await.expect("it is loaded");
    orders.give_policy_set(&owner).await.expect("it is ordered");
    orders.adopt_set().await;
    // Nobody could be told of this one: the order about the older set is the newest one.
    let load = async { sets.load("newer".to_owned()).await };
    orders.put_in_force(load).await.expect("it is loaded");
    orders.adopt_set().await;
    assert_eq!(sets.now().as_deref(), Some("newer"));
    let again = opened(&store, &owner, NOW_MS + 1).expect("readable");
    again.follow_policy_sets(Box::new(sets.clone()));
    again.adopt_set().await;
    assert_eq!(sets.now().as_deref(), Some("newer"), "after a restart too");
    let mut batch = Batch::new();
    batch.put(FOLLOWED, POLICY_SET, b"noise".as_slice());
    store.write(batch, Durability::Synced).await.expect("it is written");
    assert!(opened(&store, &owner, NOW_MS).is_err(), "else an older one could be loaded");
}

#[tokio::test]
async fn what_was_ordered_before_somebody_loaded_another_set_is_older() {
    let (store, owner, sets) = (Arc::new(MemoryStore::new(&[ORDERS, FOLLOWED])), owner(), Sets::default());
    let orders = opened(&store, &owner, NOW_MS).expect("an empty store");
    orders.follow_policy_sets(Box::new(sets.clone()));
    sets.0.lock().expect("no holder panics").push("ordered".to_owned());
    orders.give_policy_set(&owner).await.expect("it is ordered");
    orders.put_in_force(async { sets.load("newer".to_owned()).await }).await.expect("it is loaded");
    orders.adopt_set().await;
    assert_eq!(sets.now().as_deref(), Some("newer"), "it was not followed before, and is not now");
    assert_eq!(orders.policy_set().digest, Some(digest(b"a set\nnewer")), "its owner knows it by this one");
}

#[test]
fn what_is_verified_for_the_strangers_of_one_origin_is_bounded() {
    let store = Arc::new(MemoryStore::new(&[ORDERS, FOLLOWED]));
    let orders = opened(&store, &owner(), NOW_MS).expect("an empty store");
    let flood: Origin = "flood".into();
    let done = (0..10_000).filter(|_| orders.admits(&flood, 2)).count();
    assert!((64..1_000).contains(&done), "{done}");
    assert!(orders.admits(&"other".into(), 2), "others are not delayed");
}

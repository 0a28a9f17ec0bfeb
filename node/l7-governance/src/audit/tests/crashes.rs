//! A node that stops at any write of the log or of what the log is about.

use althing_testing_store::{FaultStore, WriteEnd};

use super::*;

/// A store of a node that stops at one of its writes, which is applied or not.
fn mortal(rows: &MemoryStore, stop: u64, is_applied: bool) -> FaultStore {
    let (store, mut number) = (FaultStore::over(rows.clone()), 0);
    store.decide(move |_, _| {
        number += 1;
        if number < stop { WriteEnd::Done } else { WriteEnd::Full { is_applied: is_applied && number == stop } }
    });
    store
}

/// Calls with an intent and an outcome, moved after every third write; gives what is on disk for certain, or may be.
async fn calls(log: &AuditLog, store: &FaultStore) -> (Vec<LeafId>, Option<LeafId>) {
    let mut written = Vec::new();
    for number in 0..6 {
        for draft in [with_body(number, "ada"), outcome(number)] {
            let (id, rows) = match log.named_entry(draft) {
                Ok(entry) => entry,
                Err(_) => return (written, None),
            };
            if store.write(rows, Durability::Synced).await.is_err() {
                return (written, Some(id));
            }
            written.push(id);
        }
        if number % 3 == 2 && log.drain().await.is_err() {
            return (written, None);
        }
    }
    (written, None)
}

#[tokio::test]
async fn wherever_the_node_stops_no_leaf_is_missing_and_none_is_there_twice() {
    let mut ends = 0;
    for stop in 2.. {
        for is_applied in [true, false] {
            let (world, inner) = (World::new(), memory());
            let store = mortal(&inner, stop, is_applied);
            let log = AuditLog::open(world.ports(Arc::new(store.clone())), AuditConfig::default()).await;
            let log = log.expect("its first write is before the stop");
            let (written, doubtful) = calls(&log, &store).await;
            if !store.has_failed() {
                ends += 1;
            }
            drop(log);
            let log = world.open(&inner).await;
            for id in &written {
                assert!(log.record(id).await.expect("it is whole").is_some(), "{is_applied} at {stop}");
            }
            if let Some(id) = doubtful {
                let is_there = log.record(&id).await.expect("it is whole").is_some();
                assert_eq!(is_there, is_applied, "with its cause or not at all, at {stop}");
            }
            let page = log.query(&AuditFilter::default(), 1_000).await.expect("it is whole");
            let ids: std::collections::BTreeSet<LeafId> = page.records.iter().map(|record| record.id).collect();
            let doubtful = usize::from(doubtful.is_some() && is_applied);
            assert_eq!((page.records.len(), ids.len()), (written.len() + doubtful, written.len() + doubtful));
            assert_eq!(log.check().expect("it is whole").size, ids.len() as u64);
        }
        if ends == 2 {
            return;
        }
        ends = 0;
    }
}

#[tokio::test]
async fn a_move_of_unknown_outcome_is_done_once() {
    for is_applied in [true, false] {
        let (world, inner) = (World::new(), memory());
        let store = mortal(&inner, 3, is_applied);
        let log = AuditLog::open(world.ports(Arc::new(store.clone())), AuditConfig::default()).await;
        let log = log.expect("it opens");
        record(&log, &store, intent(1)).await;
        assert!(log.drain().await.is_err());
        assert!(matches!(log.availability(), Err(AuditUnavailable::Stopped(_))));
        assert!(matches!(log.entry(intent(2)), Err(AuditUnavailable::Stopped(_))), "nothing with an effect is done");
        store.set_full(false);
        log.drain().await.expect("the store is back");
        record(&log, &store, intent(2)).await;
        assert_eq!(actions(&log).await, ["shop/order-1", "shop/order-2"], "applied: {is_applied}");
    }
}

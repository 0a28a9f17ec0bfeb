//! A registry whose log is damaged on disk does not go on: it says so, changes nothing, and goes on when the folder was restored.

use std::sync::Arc;

use crate::support::{Counted, NOW, Served, open};
use althing_protocol::SecretKey;
use althing_registry::machine::Admission;
use althing_registry::service::{OpenError, Registry, RegistryConfig};
use althing_store::{Batch, Durability, Family, Range, Store as _};

/// More than one tile of 256.
const ENTRIES: usize = 300;
const HASHES: Family = Family("log.hashes");
const FAMILIES: [Family; 3] = [Family("log.entries"), HASHES, Family("statements")];
/// Of so many rows one is damaged in turn; of the hashes, which are in tiles, each of the last ones.
const EACH: usize = 7;

async fn opened(store: Arc<Counted>) -> Result<Registry, OpenError> {
    let config = RegistryConfig {
        origin: "registry.example.org/log".to_owned(),
        network: "test".to_owned(),
        admission: Admission::Anyone,
        is_first: false,
    };
    Registry::open(store, SecretKey::from_seed(&[9; 32]), config, Arc::new(|| NOW)).await
}

async fn put(store: &Counted, family: Family, key: &[u8], value: Option<Vec<u8>>) {
    let mut batch = Batch::new();
    match value {
        Some(value) => batch.put(family, key, value),
        None => batch.delete(family, key),
    };
    store.write(batch, Durability::Synced).await.expect("written");
}

#[tokio::test]
async fn a_damaged_entry_hash_or_statement_stops_the_registry_until_it_is_restored() {
    let served = Served::start(open()).await;
    for number in 0..ENTRIES {
        served.have(&format!("urn:{number}"), "Lamp").await;
    }
    let store = served.store.clone();
    let before = served.registry.checkpoint();
    for family in FAMILIES {
        let rows = store.scan(family, Range::all(usize::MAX)).expect("readable");
        assert!(rows.len() >= ENTRIES, "{} rows", rows.len());
        let last = rows.len() - 8;
        for (at, (key, value)) in rows.iter().enumerate() {
            if at % EACH != 0 && at < last {
                continue;
            }
            let mut flipped = value.clone();
            *flipped.last_mut().expect("a byte") ^= 1;
            for damaged in [Some(flipped), None] {
                let what = format!("row {at} of {} in {family:?}: {}", rows.len(), damaged.is_some());
                put(&store, family, key, damaged.clone()).await;
                let again = opened(store.clone()).await;
                assert!(again.is_err(), "{what}: it opens");
                let rest = store.read(family, key).expect("readable");
                assert_eq!(rest, damaged, "{what}: nothing was changed");
                put(&store, family, key, Some(value.clone())).await;
            }
        }
    }
    let again = opened(store).await.expect("it was restored");
    assert_eq!(again.checkpoint().note(), before.note(), "one history");
}

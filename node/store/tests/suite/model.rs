//! Any sequence of batches, scans, snapshots and reopenings: both stores agree with a map.

use crate::support::{FAMILIES, open, wait};
use althing_store::{Batch, Durability, Family, MemoryStore, Range, RocksStore, Snapshot, Store};
use proptest::{collection::vec, prelude::*};
use std::collections::BTreeMap;

type Model = BTreeMap<(Family, Vec<u8>), Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(Family, Vec<u8>, Option<Vec<u8>>)>, Durability),
    Read(Family, Vec<u8>),
    Scan(Family, Range),
    Keys(Family, Range),
    Freeze,
    /// Compares every snapshot with the model as it was, and drops them.
    Thaw(Family, Range),
    Reopen,
}

fn family() -> impl Strategy<Value = Family> {
    prop::sample::select(&FAMILIES[..])
}

/// Few bytes, so that keys meet, and the two largest, where a prefix has no end.
fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(prop::sample::select(vec![0, 1, b'a', 0xfe, 0xff]), 0..4)
}

fn range() -> impl Strategy<Value = Range> {
    let prefix = vec(prop::sample::select(vec![0, b'a', 0xff]), 0..3);
    let bytes = prop_oneof![3 => Just(usize::MAX), 1 => 0..60usize];
    (prefix, prop::option::of(key()), 0..6usize, bytes, any::<bool>())
        .prop_map(|(prefix, after, limit, bytes, reverse)| Range { prefix, after, limit, bytes, reverse })
}

fn step() -> impl Strategy<Value = Step> {
    let change = (family(), key(), prop::option::weighted(0.7, vec(any::<u8>(), 0..20)));
    let durability = prop::sample::select(vec![Durability::Buffered, Durability::Synced]);
    prop_oneof![
        8 => (vec(change, 0..5), durability).prop_map(|(changes, durability)| Step::Write(changes, durability)),
        2 => (family(), key()).prop_map(|(family, key)| Step::Read(family, key)),
        6 => (family(), range()).prop_map(|(family, range)| Step::Scan(family, range)),
        3 => (family(), range()).prop_map(|(family, range)| Step::Keys(family, range)),
        2 => Just(Step::Freeze),
        2 => (family(), range()).prop_map(|(family, range)| Step::Thaw(family, range)),
        1 => Just(Step::Reopen),
    ]
}

/// The definition of a scan, without cleverness.
fn scan(model: &Model, family: Family, range: &Range) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows: Vec<_> = model
        .iter()
        .filter(|((of, key), _)| *of == family && key.starts_with(&range.prefix))
        .map(|((_, key), value)| (key.clone(), value.clone()))
        .collect();
    if range.reverse {
        rows.reverse();
    }
    rows.retain(|(key, _)| match &range.after {
        Some(after) if range.reverse => key < after,
        Some(after) => key > after,
        None => true,
    });
    rows.truncate(range.limit);
    let bytes = |rows: &[(Vec<u8>, Vec<u8>)]| rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    while rows.len() > 1 && bytes(&rows) > range.bytes {
        rows.pop();
    }
    rows
}

/// The model as it was, and the snapshots of both stores.
type Frozen = (Model, Box<dyn Snapshot>, Box<dyn Snapshot>);

struct World {
    dir: tempfile::TempDir,
    rocks: Option<RocksStore>,
    memory: MemoryStore,
    model: Model,
    frozen: Vec<Frozen>,
}

impl World {
    fn stores(&self) -> [&dyn Store; 2] {
        [self.rocks.as_ref().expect("open between steps"), &self.memory]
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Write(changes, durability) => {
                let mut batch = Batch::new();
                for (family, key, value) in changes {
                    match value {
                        Some(value) => {
                            batch.put(family, key.clone(), value.clone());
                            self.model.insert((family, key), value);
                        }
                        None => {
                            batch.delete(family, key.clone());
                            self.model.remove(&(family, key));
                        }
                    }
                }
                for store in self.stores() {
                    prop_assert_eq!(wait(store.write(batch.clone(), durability)), Ok(()));
                }
            }
            Step::Read(family, key) => {
                for store in self.stores() {
                    prop_assert_eq!(store.read(family, &key), Ok(self.model.get(&(family, key.clone())).cloned()));
                }
            }
            Step::Scan(family, range) => {
                for store in self.stores() {
                    prop_assert_eq!(store.scan(family, range.clone()), Ok(scan(&self.model, family, &range)));
                }
            }
            Step::Keys(family, range) => {
                let rows = scan(&self.model, family, &range.clone().within(usize::MAX));
                let keys: Vec<Vec<u8>> = rows.into_iter().map(|(key, _)| key).collect();
                for store in self.stores() {
                    prop_assert_eq!(store.keys(family, range.clone()), Ok(keys.clone()));
                }
            }
            Step::Freeze => {
                let [rocks, memory] = self.stores().map(|store| store.snapshot());
                self.frozen.push((self.model.clone(), rocks, memory));
            }
            Step::Thaw(family, range) => {
                for (model, rocks, memory) in self.frozen.drain(..) {
                    for view in [rocks, memory] {
                        prop_assert_eq!(view.scan(family, range.clone()), Ok(scan(&model, family, &range)));
                        for ((family, key), value) in &model {
                            prop_assert_eq!(view.read(*family, key), Ok(Some(value.clone())));
                        }
                    }
                }
            }
            Step::Reopen => {
                self.frozen.clear();
                drop(self.rocks.take());
                self.rocks = Some(open(self.dir.path()));
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_stores_agree_with_a_map(steps in vec(step(), 1..60)) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let rocks = Some(open(dir.path()));
        let memory = MemoryStore::new(&FAMILIES);
        let mut world = World { dir, rocks, memory, model: Model::new(), frozen: Vec::new() };
        for step in steps {
            world.take(step)?;
        }
    }
}

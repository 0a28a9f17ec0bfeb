//! Descriptions in memory, which were written here, or read and verified.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes of the descriptions that are kept, about.
const BYTES_MAX: usize = 128 << 20;
/// Bytes that one counts for beside its own.
const OVERHEAD: usize = 64;

/// Verified descriptions by their entries, which never change. They are in two generations: when the young one is full, the
/// old one is dropped, and the young one becomes old. What is read again is young again.
#[derive(Default)]
pub(in crate::service) struct DescriptionCache(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<u64, Arc<[u8]>>,
    old: HashMap<u64, Arc<[u8]>>,
    /// Bytes of the young ones.
    bytes: usize,
}

impl DescriptionCache {
    /// Each that is there, in the order of the entries.
    pub fn get_all(&self, entries: impl Iterator<Item = u64>) -> Vec<Option<Arc<[u8]>>> {
        let mut kept = self.lock();
        entries.map(|entry| kept.get(entry)).collect()
    }

    /// Keeps the description of an entry, which was verified.
    pub fn put(&self, entry: u64, bytes: Arc<[u8]>) {
        self.lock().put(entry, bytes, BYTES_MAX / 2);
    }

    /// Keeps these no more, which are gone from the disk.
    pub fn remove(&self, entries: &[u64]) {
        if !entries.is_empty() {
            self.lock().remove(entries);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().expect("no holder panics")
    }
}

impl Generations {
    fn get(&mut self, entry: u64) -> Option<Arc<[u8]>> {
        if let Some(bytes) = self.young.get(&entry) {
            return Some(bytes.clone());
        }
        let bytes = self.old.remove(&entry)?;
        self.put(entry, bytes.clone(), BYTES_MAX / 2);
        Some(bytes)
    }

    fn remove(&mut self, entries: &[u64]) {
        for entry in entries {
            self.old.remove(entry);
            if let Some(bytes) = self.young.remove(entry) {
                self.bytes -= bytes.len() + OVERHEAD;
            }
        }
    }

    /// `most` bytes are young.
    fn put(&mut self, entry: u64, bytes: Arc<[u8]>, most: usize) {
        let more = bytes.len() + OVERHEAD;
        if self.bytes + more > most {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        if self.young.insert(entry, bytes).is_none() {
            self.bytes += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_stays_and_the_rest_goes_within_the_bound() {
        let mut kept = Generations::default();
        let most = 4 * (100 + OVERHEAD);
        let one = |entry: u64| Arc::from(vec![u8::try_from(entry % 251).expect("small"); 100]);
        for entry in 0..1_000 {
            kept.put(entry, one(entry), most);
            assert!(kept.bytes <= most, "{}", kept.bytes);
            assert!(kept.young.len() + kept.old.len() <= 8);
            // Which is asked for each time.
            assert_eq!(kept.get(0), Some(one(0)), "after {entry}");
        }
        assert_eq!(kept.get(999), Some(one(999)));
        assert_eq!(kept.get(500), None);
    }

    #[test]
    fn one_that_is_put_twice_counts_once() {
        let mut kept = Generations::default();
        for _ in 0..10 {
            kept.put(7, Arc::from([1_u8; 10]), 1_000);
        }
        assert_eq!(kept.bytes, 10 + OVERHEAD);
        kept.remove(&[7, 8]);
        assert_eq!((kept.bytes, kept.get(7)), (0, None));
    }
}

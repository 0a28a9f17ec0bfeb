//! Values that a group keeps by key, each with a version.

use std::collections::BTreeMap;

use althing_protocol::group::{Remove, Set};

use super::outcome::Refusal;

/// Bytes of keys and values of one group.
pub const VALUES_BYTES_MAX: usize = 64 << 20;

/// What a value counts beside its key and its bytes, so that small ones are bounded too.
const OVERHEAD: usize = 128;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// What was written.
    pub bytes: Vec<u8>,
    /// Higher than that of each write before, of any key.
    pub version: u64,
}

/// All values of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    by_key: BTreeMap<String, Value>,
    last_version: u64,
    bytes: usize,
}

impl Values {
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.by_key.get(key)
    }

    /// The keys that begin with `prefix`, in order.
    pub fn keys<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.by_key.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        from.map(|(key, _)| key.as_str()).take_while(move |key| key.starts_with(prefix))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Writes one; its version.
    pub(crate) fn set(&mut self, set: &Set) -> Result<u64, Refusal> {
        self.check(&set.key, set.if_version)?;
        let before = self.by_key.get(&set.key).map_or(0, |value| size(&set.key, &value.bytes));
        let bytes = self.bytes - before + size(&set.key, &set.value);
        if bytes > VALUES_BYTES_MAX {
            return Err(Refusal::Full(format!("its values have {VALUES_BYTES_MAX} bytes at most")));
        }
        self.bytes = bytes;
        self.last_version = self.last_version.saturating_add(1);
        let value = Value { bytes: set.value.to_vec(), version: self.last_version };
        self.by_key.insert(set.key.clone(), value);
        Ok(self.last_version)
    }

    /// Removes one; the version of the change.
    pub(crate) fn remove(&mut self, remove: &Remove) -> Result<u64, Refusal> {
        self.check(&remove.key, remove.if_version)?;
        if let Some(value) = self.by_key.remove(&remove.key) {
            self.bytes -= size(&remove.key, &value.bytes);
            self.last_version = self.last_version.saturating_add(1);
        }
        Ok(self.last_version)
    }

    fn check(&self, key: &str, expected: Option<u64>) -> Result<(), Refusal> {
        let version = self.by_key.get(key).map_or(0, |value| value.version);
        match expected {
            Some(expected) if expected != version => Err(Refusal::Version(version)),
            _ => Ok(()),
        }
    }

    pub(crate) fn last_version(&self) -> u64 {
        self.last_version
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.by_key.iter()
    }

    /// The values of a snapshot.
    pub(crate) fn restore(values: impl IntoIterator<Item = (String, Value)>, last_version: u64) -> Values {
        let by_key: BTreeMap<String, Value> = values.into_iter().collect();
        let bytes = by_key.iter().map(|(key, value)| size(key, &value.bytes)).sum();
        Values { by_key, last_version, bytes }
    }
}

fn size(key: &str, bytes: &[u8]) -> usize {
    OVERHEAD + key.len() + bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: &[u8], if_version: Option<u64>) -> Set {
        Set { key: key.to_owned(), value: value.to_vec().into(), if_version }
    }

    #[test]
    fn a_write_on_a_condition_happens_only_when_it_holds() {
        let mut values = Values::default();
        assert_eq!(values.set(&set("a", b"1", Some(0))), Ok(1));
        assert_eq!(values.set(&set("a", b"2", Some(0))), Err(Refusal::Version(1)));
        assert_eq!(values.set(&set("a", b"2", Some(1))), Ok(2));
        let remove = |if_version| Remove { key: "a".to_owned(), if_version };
        assert_eq!(values.remove(&remove(Some(1))), Err(Refusal::Version(2)));
        assert_eq!(values.get("a").map(|value| value.bytes.as_slice()), Some(&b"2"[..]));
        assert_eq!(values.remove(&remove(None)), Ok(3));
        assert_eq!(values.set(&set("a", b"3", Some(0))), Ok(4), "a version is never used twice");
    }

    #[test]
    fn the_sum_of_all_values_is_bounded_and_removal_makes_room() {
        let mut values = Values::default();
        let large = vec![0; 60 << 10];
        let refused = (0..).find(|number| values.set(&set(&format!("{number:08}"), &large, None)).is_err());
        let count = refused.expect("the bound is reached");
        assert_eq!(count, VALUES_BYTES_MAX / (large.len() + 8 + OVERHEAD));
        assert!(values.set(&set("00000000", &large, None)).is_ok(), "a value of the same size replaces one");
        let remove = Remove { key: "00000001".to_owned(), if_version: None };
        values.remove(&remove).expect("it is there");
        assert!(values.set(&set("one more", &large, None)).is_ok());
    }

    #[test]
    fn keys_are_listed_by_prefix_and_in_order() {
        let mut values = Values::default();
        for key in ["b/2", "a", "b/1", "c"] {
            values.set(&set(key, b"", None)).expect("room");
        }
        assert_eq!(values.keys("b/").collect::<Vec<_>>(), ["b/1", "b/2"]);
        assert_eq!(values.keys("").count(), 4);
    }
}

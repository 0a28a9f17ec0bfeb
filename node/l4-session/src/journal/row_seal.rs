//! Rows of sessions on disk: sealed where the memory of their agent is, with the key of that memory, since they may hold what is
//! in it. A row that does not open is damaged, and so is one that is not sealed where all are.
//!
//! The digests of rows are those of what is sealed: the chain is the same, and so are the rows on the way to another node.

use althing_execution::memory::MemorySeal;

/// With what a sealed row begins. Other rows are CBOR maps, and never begin so.
const SEALED: u8 = 0;
/// What the key of a row is preceded by.
const OF_ROW: &[u8] = b"althing session row\0";
/// Bytes that a sealed row has beside what it seals: the mark, a nonce and a tag.
pub(super) const SEALED_MORE: usize = 1 + 24 + 16;

/// How the rows of a session are stored.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowSeal(Option<MemorySeal>);

/// Why a row does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SealError {
    /// The key is another one, or the row was changed, or it stood at another place.
    #[error("it does not open with the key of its agent's memory: it was changed, or that memory was deleted")]
    Closed,
    /// There is no key.
    #[error(
        "it is sealed with the key of its agent's memory, and that agent is not here, or its memory is not encrypted"
    )]
    NoKey,
    /// It is not sealed.
    #[error("it is not sealed, and the memory of its agent is encrypted")]
    Unsealed,
}

impl RowSeal {
    /// That of an agent's sessions, by the key of its memory, if that is encrypted.
    pub const fn of(seal: Option<MemorySeal>) -> RowSeal {
        RowSeal(seal)
    }

    /// Bytes that so many rows have on disk beside their own.
    pub fn more(&self, rows: u32) -> u64 {
        self.0.as_ref().map_or(0, |_| u64::from(rows) * SEALED_MORE as u64)
    }

    /// A row, as it is stored under that key.
    pub fn close(&self, key: &[u8], row: &[u8]) -> Vec<u8> {
        match &self.0 {
            Some(seal) => [&[SEALED][..], &seal.close(&place(key), row)].concat(),
            None => row.to_vec(),
        }
    }

    /// The row that is stored so under that key.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn open(&self, key: &[u8], stored: Vec<u8>) -> Result<Vec<u8>, SealError> {
        match (&self.0, stored.split_first()) {
            (Some(seal), Some((&SEALED, sealed))) => seal.open(&place(key), sealed).ok_or(SealError::Closed),
            (None, Some((&SEALED, _))) => Err(SealError::NoKey),
            (Some(_), _) => Err(SealError::Unsealed),
            (None, _) => Ok(stored),
        }
    }
}

fn place(key: &[u8]) -> Vec<u8> {
    [OF_ROW, key].concat()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use althing_execution::memory::{Embedder, MEMORY, Memories};
    use althing_protocol::contract;
    use althing_store::MemoryStore;

    use super::*;

    /// The seal of an agent whose memory is encrypted with that secret.
    pub(crate) fn sealed(secret: &'static str) -> RowSeal {
        let store = Arc::new(MemoryStore::new(&[MEMORY]));
        let terms = contract::Memory { encryption_secret: Some("KEY".to_owned()), ..contract::Memory::default() };
        let entropy = |bytes: &mut [u8]| bytes.fill(7);
        let memories =
            Memories::new(store, Arc::new(|| 1), Arc::new(entropy), Arc::new(move |_| Ok(Some(secret.to_owned()))));
        let memory = memories.open("clerk", &terms, Arc::new(Embedder::Words)).expect("it opens");
        let seal = memory.seal();
        assert!(seal.is_some(), "it is encrypted");
        RowSeal::of(seal)
    }

    #[test]
    fn a_row_opens_with_its_key_at_its_place() {
        let (seal, row) = (sealed("one"), b"\xa4hidden".to_vec());
        let stored = seal.close(b"key", &row);
        assert_eq!(stored.len(), row.len() + SEALED_MORE);
        assert_eq!((seal.more(3), RowSeal::default().more(3)), (3 * SEALED_MORE as u64, 0));
        assert!(!stored.windows(6).any(|window| window == b"hidden"));
        assert_eq!(seal.open(b"key", stored.clone()), Ok(row.clone()));
        assert_eq!(seal.open(b"other", stored.clone()), Err(SealError::Closed));
        assert_eq!(sealed("two").open(b"key", stored.clone()), Err(SealError::Closed));
        assert_eq!(RowSeal::default().open(b"key", stored.clone()), Err(SealError::NoKey));
        assert_eq!(seal.open(b"key", row.clone()), Err(SealError::Unsealed));
        assert_eq!(seal.open(b"key", Vec::new()), Err(SealError::Unsealed));
        for length in 1..stored.len() {
            assert_eq!(seal.open(b"key", stored[..length].to_vec()), Err(SealError::Closed), "{length} bytes");
        }
        assert_eq!(RowSeal::default().open(b"key", RowSeal::default().close(b"key", &row)), Ok(row));
    }
}

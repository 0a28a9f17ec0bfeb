//! Seals what is stored beside an encrypted memory and may hold what is in it, with the key of that memory.

use std::fmt;
use std::sync::Arc;

use super::handle::Memory;
use super::namespace::Namespace;

/// What the place of sealed bytes is preceded by, so that none is ever that of a row of the memory itself.
const BESIDE: &[u8] = b"althing beside memory\0";

/// The key of an agent's memory, for bytes that are stored elsewhere. Who deletes the memory deletes the key.
#[derive(Clone)]
pub struct MemorySeal(Arc<Namespace>);

impl MemorySeal {
    /// Encrypts bytes that are stored at that place: they open nowhere else.
    #[must_use]
    pub fn close(&self, place: &[u8], plain: &[u8]) -> Vec<u8> {
        self.0.close(&[BESIDE, place].concat(), plain).expect("a seal is given out once the memory has its key")
    }

    /// Decrypts what [`MemorySeal::close`] gave; none if the key or the place is another, or a byte was changed.
    #[must_use]
    pub fn open(&self, place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.0.open(&[BESIDE, place].concat(), sealed)
    }
}

impl fmt::Debug for MemorySeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemorySeal").field(&self.0.name).finish()
    }
}

impl Memory {
    /// The key of the memory, if it is encrypted.
    #[must_use]
    pub fn seal(&self) -> Option<MemorySeal> {
        self.namespace.has_key().then(|| MemorySeal(self.namespace.clone()))
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::contract;
    use althing_store::MemoryStore;

    use super::*;
    use crate::memory::{Embedder, MEMORY, Memories};

    /// The memory of an agent, encrypted if it has a secret; salts and nonces are made of `drawn`.
    fn memory(secret: Option<&'static str>, drawn: u8) -> Memory {
        let store = Arc::new(MemoryStore::new(&[MEMORY]));
        let (entropy, secrets) = (Arc::new(move |bytes: &mut [u8]| bytes.fill(drawn)), secret.map(str::to_owned));
        let memories = Memories::new(store, Arc::new(|| 1), entropy, Arc::new(move |_| Ok(secrets.clone())));
        let terms =
            contract::Memory { encryption_secret: secret.map(|_| "KEY".to_owned()), ..contract::Memory::default() };
        memories.open("clerk", &terms, Arc::new(Embedder::Words)).expect("it opens")
    }

    #[test]
    fn only_the_same_key_place_and_bytes_open() {
        let seal = memory(Some("correct horse"), 1).seal().expect("it is encrypted");
        let closed = seal.close(b"place", b"hidden words");
        assert_eq!(seal.open(b"place", &closed).as_deref(), Some(b"hidden words".as_slice()));
        assert!(!closed.windows(6).any(|window| window == b"hidden"));
        assert_eq!(seal.open(b"other place", &closed), None);
        for length in 0..closed.len() {
            assert_eq!(seal.open(b"place", &closed[..length]), None, "{length} bytes");
        }
        for (secret, drawn) in [("correct horsf", 1), ("correct horse", 2)] {
            let other = memory(Some(secret), drawn).seal().expect("it is encrypted");
            assert_eq!(other.open(b"place", &closed), None, "{secret}, {drawn}");
        }
    }

    #[test]
    fn a_memory_that_is_not_encrypted_has_no_key() {
        assert!(memory(None, 1).seal().is_none());
    }
}

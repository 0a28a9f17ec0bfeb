//! Caches compiled modules: many agents may run one module, and an agent may be added again.

use std::collections::BTreeMap;
use std::sync::Mutex;

use althing_protocol::{Digest, digest};

/// Cached modules; the cache is cleared when it is full.
const KEPT_MAX: usize = 64;

/// Compiled code by the digest of its source.
pub(crate) struct Compiled<T>(Mutex<BTreeMap<Digest, T>>);

impl<T> Default for Compiled<T> {
    fn default() -> Compiled<T> {
        Compiled(Mutex::default())
    }
}

impl<T: Clone> Compiled<T> {
    /// The cached code, or the code compiled now. Concurrent calls do not wait for each other, and both compile.
    pub fn get<E>(&self, code: &[u8], compile: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let name = digest(code);
        if let Some(known) = self.0.lock().expect("no holder of the modules panics").get(&name) {
            return Ok(known.clone());
        }
        let compiled = compile()?;
        let mut all = self.0.lock().expect("no holder of the modules panics");
        if all.len() >= KEPT_MAX {
            all.clear();
        }
        all.insert(name, compiled.clone());
        Ok(compiled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_code_is_compiled_once_and_failures_are_not_kept() {
        let compiled = Compiled::default();
        assert_eq!(compiled.get(b"a", || Err::<u8, &str>("broken")), Err("broken"));
        assert_eq!(compiled.get(b"a", || Ok::<u8, ()>(1)), Ok(1));
        assert_eq!(compiled.get(b"a", || Err::<u8, ()>(())), Ok(1));
        for n in 0..1_000_u32 {
            assert_eq!(compiled.get(&n.to_be_bytes(), || Ok::<u8, ()>(2)), Ok(2));
        }
        assert!(compiled.0.lock().expect("nobody panics").len() <= KEPT_MAX);
    }
}

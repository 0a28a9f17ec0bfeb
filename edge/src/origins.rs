//! Places that are shared among those who come from different nets, so that nobody takes them all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// How many there are of each origin.
#[derive(Clone)]
pub struct Origins {
    counts: Arc<Mutex<BTreeMap<String, usize>>>,
    max: usize,
}

/// A place among those of one origin; it is free again when this is dropped.
pub struct Place {
    origins: Origins,
    origin: String,
}

impl Origins {
    /// With so many places for each.
    #[must_use]
    pub fn of(max: usize) -> Origins {
        Origins { counts: Arc::default(), max }
    }

    /// A place, if there is one.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn place(&self, origin: String) -> Option<Place> {
        let mut counts = self.counts.lock().expect("no holder panics");
        let count = counts.entry(origin.clone()).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(Place { origins: self.clone(), origin })
    }

    /// Whether nothing is kept of anybody.
    ///
    /// # Panics
    /// If another holder panicked, as everywhere here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.lock().expect("no holder panics").is_empty()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.origins.counts.lock().expect("no holder panics");
        if let Some(count) = counts.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.origin);
            }
        }
    }
}

//! The extensions that whoever answers a request activated.

use std::sync::{Arc, OnceLock};

/// Where whoever answers a request names those of the extensions asked for that it activated: once, before its first answer. Who
/// asked reads them when that has come. All copies are one.
#[derive(Debug, Clone, Default)]
pub struct Activated(Arc<OnceLock<Vec<String>>>);

impl Activated {
    /// Names what was activated, by what the other side said: no more than was asked for. The first time counts at which there
    /// is something.
    pub fn name<'a>(&self, said: impl IntoIterator<Item = &'a str>, asked: &[String]) {
        if asked.is_empty() {
            return;
        }
        let said: Vec<&str> = said.into_iter().collect();
        let named: Vec<String> = asked.iter().filter(|uri| said.contains(&uri.as_str())).cloned().collect();
        if !named.is_empty() {
            // What was read of it already stays.
            let _ = self.0.set(named);
        }
    }

    /// Those that are named by now.
    #[must_use]
    pub fn get(&self) -> &[String] {
        self.0.get().map_or(&[], Vec::as_slice)
    }
}

impl PartialEq for Activated {
    fn eq(&self, other: &Activated) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Activated {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_is_activated_and_the_first_word_counts() {
        let asked = ["a", "b", "c"].map(str::to_owned);
        let activated = Activated::default();
        let copy = activated.clone();
        activated.name(["x"], &asked);
        assert_eq!(activated.get(), [""; 0]);
        activated.name(["c", "x", "a"], &asked);
        activated.name(["b"], &asked);
        assert_eq!(copy.get(), ["a", "c"]);
        assert_eq!(copy, activated);
        let nothing = Activated::default();
        nothing.name(["a"], &[]);
        assert_eq!(nothing.get(), [""; 0]);
    }
}

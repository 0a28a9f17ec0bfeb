//! Terms: hashes of what a description says at its paths.

use serde_json::Value;

/// Terms of one description; one that has more counts as one that may have any.
const TERMS_MAX: usize = 4_096;
/// The member that a directory writes itself: what was sent of it is not shown.
pub const REGISTRATION: &str = "registration";

/// The offset basis and the prime of FNV-1a with 64 bits.
const FNV: (u64, u64) = (0xcbf2_9ce4_8422_2325, 0x0000_0100_0000_01b3);

/// A hash that goes on (FNV-1a): terms that collide give a candidate too many, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hash(u64);

impl Hash {
    const fn new() -> Hash {
        Hash(FNV.0)
    }

    const fn byte(self, byte: u8) -> Hash {
        Hash((self.0 ^ byte as u64).wrapping_mul(FNV.1))
    }

    fn bytes(self, bytes: &[u8]) -> Hash {
        bytes.iter().fold(self, |hash, byte| hash.byte(*byte))
    }
}

/// No byte of a text: what follows a name, or comes before a value.
const END: u8 = 0xFF;
/// In the place of a name: an element of a list.
const ELEMENT: u8 = 0xFE;
/// Before a value.
const VALUE: u8 = 0xFD;

/// A path from the root of a description, element of whatever list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path(Hash);

impl Path {
    /// The description itself.
    pub const ROOT: Path = Path(Hash::new().byte(b'p'));

    /// A member.
    pub fn name(self, name: &str) -> Path {
        Path(self.0.bytes(name.as_bytes()).byte(END))
    }

    /// An element of a list, whichever.
    pub fn element(self) -> Path {
        Path(self.0.byte(ELEMENT))
    }

    /// That something is there.
    pub fn exists(self) -> u64 {
        self.0.0
    }

    /// That this value is there; none for values that are not compared by terms.
    pub fn is(self, value: &Value) -> Option<u64> {
        with_value(self.0, value)
    }
}

/// A member of that name, wherever it is, or an element of lists in it.
pub fn named(name: &str) -> u64 {
    member(name).0
}

/// The same, with that value.
pub fn named_is(name: &str, value: &Value) -> Option<u64> {
    with_value(member(name), value)
}

/// That value, wherever it is.
pub fn anywhere(value: &Value) -> Option<u64> {
    with_value(Hash::new().byte(b'x'), value)
}

fn member(name: &str) -> Hash {
    Hash::new().byte(b'n').bytes(name.as_bytes()).byte(END)
}

fn with_value(hash: Hash, value: &Value) -> Option<u64> {
    let hash = hash.byte(VALUE);
    let hash = match value {
        Value::Null => hash.byte(b'0'),
        Value::Bool(is_true) => hash.byte(if *is_true { b't' } else { b'f' }),
        Value::String(text) => hash.byte(b's').bytes(text.as_bytes()),
        // Queries compare numbers as floating point; the two zeros are equal.
        Value::Number(number) => hash.byte(b'#').bytes(&(number.as_f64()? + 0.0).to_bits().to_le_bytes()),
        Value::Array(_) | Value::Object(_) => return None,
    };
    Some(hash.0)
}

/// The terms of a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Terms {
    /// These, sorted.
    These(Vec<u64>),
    /// Too many to be kept: it may have any.
    Any,
}

impl Terms {
    /// Whether it may have that one.
    pub(crate) fn may_have(&self, term: u64) -> bool {
        match self {
            Terms::These(terms) => terms.binary_search(&term).is_ok(),
            Terms::Any => true,
        }
    }
}

/// The terms of a description, as the directory shows it but for what the directory itself says of the registration.
#[must_use]
pub fn terms(description: &Value) -> Terms {
    let mut all = All { terms: Vec::new(), is_whole: true };
    if let Value::Object(members) = description {
        for (name, value) in members.iter().filter(|(name, _)| *name != REGISTRATION) {
            all.member(Path::ROOT, name, value);
        }
    }
    all.terms.sort_unstable();
    all.terms.dedup();
    if all.is_whole { Terms::These(all.terms) } else { Terms::Any }
}

struct All {
    terms: Vec<u64>,
    is_whole: bool,
}

impl All {
    fn member(&mut self, path: Path, name: &str, value: &Value) {
        self.terms.push(named(name));
        self.value(path.name(name), name, value);
    }

    /// It goes no deeper than a description, whose depth is bounded.
    fn value(&mut self, path: Path, name: &str, value: &Value) {
        if self.terms.len() > TERMS_MAX {
            self.is_whole = false;
            return;
        }
        self.terms.push(path.exists());
        match value {
            Value::Object(members) => members.iter().for_each(|(name, value)| self.member(path, name, value)),
            Value::Array(items) => items.iter().for_each(|item| self.value(path.element(), name, item)),
            _ => {
                let terms = [path.is(value), named_is(name, value), anywhere(value)];
                self.is_whole &= terms.iter().all(Option::is_some);
                self.terms.extend(terms.into_iter().flatten());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_stands_at_a_path_is_a_term() {
        let all = terms(&json!({
            "title": "Lamp", "forms": [{ "op": ["read", "write"] }], "n": 1.0, "registration": { "ttl": 60 },
        }));
        let has = |term: Option<u64>| all.may_have(term.expect("a value"));
        assert!(has(Path::ROOT.name("title").is(&json!("Lamp"))));
        assert!(!has(Path::ROOT.name("title").is(&json!("Lam"))));
        let op = Path::ROOT.name("forms").element().name("op");
        assert!(has(op.element().is(&json!("write"))) && has(Some(op.exists())));
        assert!(has(named_is("op", &json!("read"))) && has(anywhere(&json!("read"))));
        assert!(has(Path::ROOT.name("n").is(&json!(1))), "numbers are equal however they are written");
        assert!(!has(Some(named("ttl"))), "the directory says that itself");
        assert_ne!(Path::ROOT.name("ab").name("c"), Path::ROOT.name("a").name("bc"));
    }

    #[test]
    fn a_description_with_too_many_terms_may_have_any() {
        let wide: Vec<usize> = (0..TERMS_MAX).collect();
        assert_eq!(terms(&json!({ "wide": wide })), Terms::Any);
        assert_eq!(terms(&json!({})), Terms::These(Vec::new()));
    }
}

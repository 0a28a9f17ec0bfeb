//! The strict CBOR validator: RFC 8949 §4.2.1 (core deterministic encoding), read head by head.
//!
//! It allocates only a stack of at most [`CBOR_DEPTH_MAX`] entries and does not recurse, so that hostile bytes cost only time
//! linear in their length. Below it, what can be said of the bytes of a value without holding them.

use std::convert::Infallible;

use minicbor::Encode;
use minicbor::encode::Write;
use sha2::Digest as _;

use crate::Digest;
use crate::limits::{CBOR_DEPTH_MAX, CBOR_ITEMS_MAX};

/// Why bytes are not acceptable CBOR. `at` is the offset of the offending head in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CborError {
    /// The input is longer than the caller allows.
    #[error("{len} bytes of CBOR where at most {max} are allowed")]
    Size {
        /// Bytes offered.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The input ends inside an item.
    #[error("CBOR ends inside the item at byte {at}")]
    Truncated {
        /// Offset of the item.
        at: usize,
    },
    /// Bytes follow the one item.
    #[error("bytes follow the CBOR item, from byte {at} on")]
    TrailingBytes {
        /// Offset of the first surplus byte.
        at: usize,
    },
    /// An indefinite length.
    #[error("indefinite length at byte {at}; only definite lengths are allowed")]
    Indefinite {
        /// Offset of the head.
        at: usize,
    },
    /// A length or integer that has a shorter encoding.
    #[error("integer or length at byte {at} is not encoded in the fewest bytes")]
    NonMinimal {
        /// Offset of the head.
        at: usize,
    },
    /// Map keys out of order.
    #[error("map key at byte {at} sorts before the key in front of it")]
    Unsorted {
        /// Offset of the key.
        at: usize,
    },
    /// A map key that occurs twice.
    #[error("map key at byte {at} occurs twice")]
    Duplicate {
        /// Offset of the second key.
        at: usize,
    },
    /// Nested too deeply.
    #[error("nesting at byte {at} is deeper than {CBOR_DEPTH_MAX}")]
    Depth {
        /// Offset of the head.
        at: usize,
    },
    /// Too many items.
    #[error("more than {CBOR_ITEMS_MAX} items, at byte {at}")]
    Items {
        /// Offset of the first item too many.
        at: usize,
    },
    /// A floating-point number: no signed type has one.
    #[error("floating-point number at byte {at}; the protocol has none")]
    Float {
        /// Offset of the head.
        at: usize,
    },
    /// A tag: no signed type has one.
    #[error("tag at byte {at}; the protocol has none")]
    Tag {
        /// Offset of the head.
        at: usize,
    },
    /// A simple value other than false, true and null, or a reserved head.
    #[error("simple value or reserved head at byte {at}; only false, true and null are allowed")]
    Simple {
        /// Offset of the head.
        at: usize,
    },
    /// Text that is not UTF-8.
    #[error("text at byte {at} is not UTF-8")]
    Utf8 {
        /// Offset of the head.
        at: usize,
    },
}

/// An open array or map.
struct Open {
    /// The remaining items (a map of n pairs has 2n).
    left: u64,
    /// For a map: the range of the previous key.
    map: Option<Keys>,
}

#[derive(Default)]
struct Keys {
    previous: Option<(usize, usize)>,
    /// The start of the key that is being read; `None` while its value is read.
    current: Option<usize>,
}

/// Accepts `bytes` when they are exactly one deterministic CBOR item of at most `max` bytes.
///
/// # Errors
/// The first violation found, with its offset.
pub fn check(bytes: &[u8], max: usize) -> Result<(), CborError> {
    if bytes.len() > max {
        return Err(CborError::Size { len: bytes.len(), max });
    }
    let mut stack: Vec<Open> = Vec::with_capacity(8);
    let mut at = 0;
    let mut items = 0;
    loop {
        items += 1;
        if items > CBOR_ITEMS_MAX {
            return Err(CborError::Items { at });
        }
        if let Some(keys) = stack.last_mut().and_then(|open| open.map.as_mut())
            && keys.current.is_none()
        {
            keys.current = Some(at);
        }
        let head = Head::read(bytes, at)?;
        at = head.skip(bytes, at)?;
        if let Some(open) = head.opens() {
            if stack.len() == CBOR_DEPTH_MAX {
                return Err(CborError::Depth { at: head.at });
            }
            // Each item takes at least a byte: a count beyond the input is refused before anything is allocated for it.
            if open.left > (bytes.len() - at) as u64 {
                return Err(CborError::Truncated { at: head.at });
            }
            if open.left > 0 {
                stack.push(open);
                continue;
            }
        }
        if finish(bytes, at, &mut stack)? {
            break;
        }
    }
    if at == bytes.len() { Ok(()) } else { Err(CborError::TrailingBytes { at }) }
}

/// Closes the arrays and maps that an item ending at `end` completes. True when none is open any more.
fn finish(bytes: &[u8], end: usize, stack: &mut Vec<Open>) -> Result<bool, CborError> {
    loop {
        let Some(open) = stack.last_mut() else { return Ok(true) };
        open.left -= 1;
        if let Some(keys) = &mut open.map {
            if open.left % 2 == 1 {
                key_ended(bytes, keys, end)?;
            } else {
                keys.current = None;
            }
        }
        if open.left > 0 {
            return Ok(false);
        }
        stack.pop();
    }
}

fn key_ended(bytes: &[u8], keys: &mut Keys, end: usize) -> Result<(), CborError> {
    let start = keys.current.expect("a key that ended was begun");
    if let Some((from, to)) = keys.previous {
        match bytes[from..to].cmp(&bytes[start..end]) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => return Err(CborError::Duplicate { at: start }),
            std::cmp::Ordering::Greater => return Err(CborError::Unsorted { at: start }),
        }
    }
    keys.previous = Some((start, end));
    Ok(())
}

/// The head of an item: major type and argument.
struct Head {
    at: usize,
    major: u8,
    argument: u64,
    len: usize,
}

impl Head {
    fn read(bytes: &[u8], at: usize) -> Result<Head, CborError> {
        let first = *bytes.get(at).ok_or(CborError::Truncated { at })?;
        let (major, info) = (first >> 5, first & 0x1f);
        match (major, info) {
            (6, _) => return Err(CborError::Tag { at }),
            (7, 25..=27) => return Err(CborError::Float { at }),
            (7, 20..=22) => {}
            (7, 31) | (2..=5, 31) => return Err(CborError::Indefinite { at }),
            (7, _) | (_, 28..=31) => return Err(CborError::Simple { at }),
            _ => {}
        }
        let (argument, len) = match info {
            0..=23 => (u64::from(info), 1),
            _ => {
                let width = 1usize << (info - 24);
                let raw = bytes.get(at + 1..at + 1 + width).ok_or(CborError::Truncated { at })?;
                let value = raw.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
                let least = [24, 1 << 8, 1 << 16, 1 << 32][usize::from(info - 24)];
                if value < least {
                    return Err(CborError::NonMinimal { at });
                }
                (value, 1 + width)
            }
        };
        Ok(Head { at, major, argument, len })
    }

    /// The offset after this head and, for a string, its content.
    fn skip(&self, bytes: &[u8], at: usize) -> Result<usize, CborError> {
        let start = at + self.len;
        if self.major != 2 && self.major != 3 {
            return Ok(start);
        }
        let truncated = CborError::Truncated { at: self.at };
        let len = usize::try_from(self.argument).map_err(|_| truncated)?;
        let end = start.checked_add(len).ok_or(truncated)?;
        let content = bytes.get(start..end).ok_or(truncated)?;
        if self.major == 3 && std::str::from_utf8(content).is_err() {
            return Err(CborError::Utf8 { at: self.at });
        }
        Ok(end)
    }

    fn opens(&self) -> Option<Open> {
        match self.major {
            4 => Some(Open { left: self.argument, map: None }),
            // A count whose double overflows cannot fit into any input either.
            5 => Some(Open { left: self.argument.saturating_mul(2), map: Some(Keys::default()) }),
            _ => None,
        }
    }
}

/// Why what is not held in one piece can be written.
const WRITES: &str = "counting and hashing cannot fail";

/// As how many bytes a value is written.
pub(crate) fn length(value: &impl Encode<()>) -> usize {
    let mut counted = Counter(0);
    minicbor::encode(value, &mut counted).expect(WRITES);
    counted.0
}

/// The digest of the bytes as which a value is written.
pub(crate) fn digest(value: &impl Encode<()>) -> Digest {
    let mut hashed = Hasher(sha2::Sha256::new());
    minicbor::encode(value, &mut hashed).expect(WRITES);
    hashed.0.finalize().into()
}

/// Whether a value is written as exactly these bytes.
pub(crate) fn is_written_as(value: &impl Encode<()>, bytes: &[u8]) -> bool {
    let mut left = Comparison(bytes);
    minicbor::encode(value, &mut left).is_ok() && left.0.is_empty()
}

struct Counter(usize);

impl Write for Counter {
    type Error = Infallible;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.0 += bytes.len();
        Ok(())
    }
}

struct Hasher(sha2::Sha256);

impl Write for Hasher {
    type Error = Infallible;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.0.update(bytes);
        Ok(())
    }
}

/// What is still to be written.
struct Comparison<'a>(&'a [u8]);

/// Something else was written.
struct Difference;

impl Write for Comparison<'_> {
    type Error = Difference;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Difference> {
        self.0 = self.0.strip_prefix(bytes).ok_or(Difference)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_hashed_or_compared_is_what_would_be_written() {
        let value = (7, "x".repeat(300), vec![1u64, 1 << 40], Some(minicbor::bytes::ByteVec::from(vec![9; 70_000])));
        let bytes = minicbor::to_vec(&value).expect("it encodes");
        assert_eq!((length(&value), digest(&value)), (bytes.len(), crate::digest(&bytes)));
        assert!(is_written_as(&value, &bytes));
        let more = [&bytes[..], &[0]].concat();
        for other in [&bytes[1..], &bytes[..bytes.len() - 1], &more[..], &[]] {
            assert!(!is_written_as(&value, other), "{} bytes", other.len());
        }
        for at in [0, 5, 400, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(!is_written_as(&value, &changed), "byte {at}");
        }
    }

    fn checked(bytes: &[u8]) -> Result<(), CborError> {
        check(bytes, 1 << 20)
    }

    #[test]
    fn accepts_deterministic_items() {
        for bytes in [&[0x00][..], &[0x80], &[0xa0], &[0xa2, 0, 1, 1, 0x61, b'x'], &[0x82, 0xf6, 0x20], &[0x18, 24]] {
            assert_eq!(checked(bytes), Ok(()), "{bytes:02x?}");
        }
    }

    #[test]
    fn each_violation_has_its_own_reason() {
        // P-1 to P-10
        let deep = [vec![0x81; CBOR_DEPTH_MAX + 1], vec![0]].concat();
        let many = [vec![0x99, 0x10, 0x00], vec![0; 0x1000]].concat();
        let cases: Vec<(Vec<u8>, CborError)> = vec![
            (vec![], CborError::Truncated { at: 0 }),
            (vec![0x19, 1], CborError::Truncated { at: 0 }),
            (vec![0x62, b'a'], CborError::Truncated { at: 0 }),
            (vec![0x82, 0], CborError::Truncated { at: 0 }),
            (vec![0xbb, 255, 255, 255, 255, 255, 255, 255, 255], CborError::Truncated { at: 0 }),
            (vec![0, 0], CborError::TrailingBytes { at: 1 }),
            (vec![0x9f, 0xff], CborError::Indefinite { at: 0 }),
            (vec![0x5f, 0xff], CborError::Indefinite { at: 0 }),
            (vec![0x81, 0xff], CborError::Indefinite { at: 1 }),
            (vec![0x18, 23], CborError::NonMinimal { at: 0 }),
            (vec![0x19, 0, 255], CborError::NonMinimal { at: 0 }),
            (vec![0x58, 1, 0], CborError::NonMinimal { at: 0 }),
            (vec![0xa2, 1, 0, 0, 0], CborError::Unsorted { at: 3 }),
            (vec![0xa2, 1, 0, 1, 0], CborError::Duplicate { at: 3 }),
            (vec![0xf9, 0, 0], CborError::Float { at: 0 }),
            (vec![0xc0, 0], CborError::Tag { at: 0 }),
            (vec![0xf7], CborError::Simple { at: 0 }),
            (vec![0x1c], CborError::Simple { at: 0 }),
            (vec![0x61, 0xff], CborError::Utf8 { at: 0 }),
            (deep, CborError::Depth { at: CBOR_DEPTH_MAX }),
            (many, CborError::Items { at: CBOR_ITEMS_MAX + 2 }),
        ];
        for (bytes, reason) in cases {
            assert_eq!(checked(&bytes), Err(reason), "{:02x?}", &bytes[..bytes.len().min(16)]);
        }
        assert_eq!(check(&[0, 0], 1), Err(CborError::Size { len: 2, max: 1 }));
    }
}

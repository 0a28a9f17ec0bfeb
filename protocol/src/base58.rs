//! The texts of keys and publishers in base58. A node writes and reads the same few in each call, and one costs some ten
//! thousand instructions, so that each thread keeps the last ones.

use std::cell::RefCell;

/// Bytes of a multihash, or of a key with its multicodec prefix.
pub(crate) const BYTES: usize = 34;
/// Texts that a thread keeps, in each direction: about 6 KiB in all.
const SLOTS: usize = 32;

/// Characters of a text, at most: `z`, and the base58 of 34 bytes.
const TEXT_MAX: usize = 48;

/// A text, without memory of its own.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    bytes: [u8; TEXT_MAX],
    length: usize,
}

/// What is kept, in each direction. It needs no destructor, so that it may be used as long as its thread lives.
type Slots = [Option<(Text, [u8; BYTES])>; SLOTS];

thread_local! {
    /// Bytes lie in the slot of one of them, texts in that of one of their characters: whoever makes names that displace others
    /// gains only that those are computed again.
    static WRITTEN: RefCell<Slots> = const { RefCell::new([None; SLOTS]) };
    static READ: RefCell<Slots> = const { RefCell::new([None; SLOTS]) };
}

/// The multibase text of these bytes: `z`, and their base58.
pub(crate) fn written(bytes: &[u8; BYTES]) -> Text {
    let slot = usize::from(bytes[BYTES - 1]) % SLOTS;
    let known = WRITTEN.with_borrow(|slots| slots[slot]).filter(|(_, known)| known == bytes);
    if let Some((text, _)) = known {
        return text;
    }
    let mut text = Text { bytes: [b'z'; TEXT_MAX], length: 1 };
    let digits = bs58::encode(bytes).onto(&mut text.bytes[1..]);
    text.length += digits.expect("34 bytes have at most 47 digits");
    WRITTEN.with_borrow_mut(|slots| slots[slot] = Some((text, *bytes)));
    text
}

/// The bytes of a multibase text in base58; none if it is another encoding, or has another length.
pub(crate) fn read(text: &str) -> Option<[u8; BYTES]> {
    let slot = usize::from(*text.as_bytes().last()?) % SLOTS;
    let known = READ.with_borrow(|slots| slots[slot]).filter(|(known, _)| known.as_str() == text);
    if let Some((_, bytes)) = known {
        return Some(bytes);
    }
    let mut bytes = [0; BYTES];
    let digits = text.strip_prefix('z')?;
    (bs58::decode(digits).onto(&mut bytes) == Ok(BYTES)).then_some(())?;
    // base58 has one text for each number of bytes; whatever else was read for these is not kept.
    let kept = written(&bytes);
    if kept.as_str() == text {
        READ.with_borrow_mut(|slots| slots[slot] = Some((kept, bytes)));
    }
    Some(bytes)
}

impl Text {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).expect("digits of base58 are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many that share slots, twice.
    #[test]
    fn what_is_kept_is_what_would_be_computed() {
        let spread = |n: u8| {
            let mut bytes = [0; BYTES];
            bytes.iter_mut().zip(3u8..).for_each(|(byte, factor)| *byte = n.wrapping_mul(factor));
            bytes
        };
        let all: Vec<[u8; BYTES]> = (0..=255).map(spread).collect();
        for _ in 0..2 {
            for bytes in &all {
                let text = written(bytes).as_str().to_owned();
                assert_eq!(text, format!("z{}", bs58::encode(bytes).into_string()));
                assert_eq!(read(&text), Some(*bytes));
                assert_eq!(read(&text), Some(*bytes));
            }
        }
    }

    #[test]
    fn other_texts_are_refused_again() {
        let good = written(&[7; BYTES]).as_str().to_owned();
        for _ in 0..2 {
            for bad in ["", "z", "Q", &good[1..], &format!("{good}1"), &good.replacen('z', "m", 1), "zö"] {
                assert_eq!(read(bad), None, "{bad}");
            }
        }
    }
}

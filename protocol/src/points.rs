//! The curve points of public keys. A node meets the same few keys in each message, and decompressing one costs a tenth of a
//! verification, so that each thread keeps the last ones.

use std::cell::RefCell;

use ed25519_dalek::VerifyingKey;

/// Keys that a thread keeps: about 12 KiB.
const SLOTS: usize = 64;

thread_local! {
    /// A key lies in the slot of its first byte: whoever makes keys that displace others gains only that those are
    /// decompressed again.
    static RECENT: RefCell<[Option<VerifyingKey>; SLOTS]> = const { RefCell::new([None; SLOTS]) };
}

/// The point of an acceptable public key; none where there is no point, or it has small order, or another encoding.
pub(crate) fn point(bytes: &[u8; 32]) -> Option<VerifyingKey> {
    let slot = usize::from(bytes[0]) % SLOTS;
    let recent = RECENT.with_borrow(|recent| recent[slot]);
    if let Some(known) = recent.filter(|known| known.as_bytes() == bytes) {
        return Some(known);
    }
    let key = VerifyingKey::from_bytes(bytes).ok()?;
    // Only the canonical encoding of a point is accepted (RFC 8032 §5.1.3), or one key would have two names. Small-order keys
    // are refused, since signatures "by" them need no secret.
    if !is_canonical(bytes) || key.is_weak() {
        return None;
    }
    RECENT.with_borrow_mut(|recent| recent[slot] = Some(key));
    Some(key)
}

/// Whether the 255 bits of y are below p = 2^255 - 19. (The other non-canonical encoding, x = 0 with its sign bit set, exists
/// only for two points of small order.)
fn is_canonical(bytes: &[u8; 32]) -> bool {
    bytes[0] < 0xed || bytes[31] & 0x7f != 0x7f || bytes[1..31].iter().any(|byte| *byte != 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8) -> [u8; 32] {
        ed25519_dalek::SigningKey::from_bytes(&[seed; 32]).verifying_key().to_bytes()
    }

    #[test]
    fn keys_of_one_slot_are_told_apart() {
        let all: Vec<[u8; 32]> = (0..=255).map(key).collect();
        let shared = all.iter().filter(|one| all.iter().filter(|other| other[0] % 64 == one[0] % 64).count() > 1);
        assert!(shared.count() > 100);
        for _ in 0..2 {
            for bytes in &all {
                assert_eq!(point(bytes).expect("a key").as_bytes(), bytes);
            }
        }
    }

    #[test]
    fn what_is_refused_is_refused_again() {
        let mut small = [0; 32];
        small[0] = 1;
        for _ in 0..2 {
            assert_eq!(point(&small), None);
            assert_eq!(point(&[0xff; 32]), None);
        }
    }
}

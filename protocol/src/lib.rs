//! The wire protocol of Althing nodes: encodings and their verification (`SPEC.md`).
//!
//! **Inputs**: bytes from a peer or from disk, keys, the time of day in milliseconds, randomness. **Outputs**: typed
//! values that were verified, or typed errors.
//!
//! **Invariants**: nothing is decoded before [`cbor::check`] has accepted it; a signature is checked with
//! `verify_strict` over the received bytes; accepted values encode to the same bytes again.
//!
//! **Never knows**: sockets, clocks, disks, tasks, A2A's data model (a call's body is one byte string here).

mod activated;
mod agent_ref;
mod attributes;
pub mod audit;
mod base58;
pub mod binding;
pub mod cbor;
pub mod contract;
mod duration;
pub mod evidence;
pub mod frame;
pub mod group;
mod hidden;
pub mod identity;
pub mod inquiry;
pub mod keylog;
pub mod keyring;
mod label;
pub mod limits;
pub mod near;
pub mod network_key;
pub mod object;
mod points;
pub mod record;
pub mod registry;
pub mod sign1;
pub mod sign_off;
pub mod stream;
pub mod tlog;

pub use activated::Activated;
pub use agent_ref::AgentRef;
pub use attributes::{AnswerAttributes, Attributes, DelegationError};
pub use contract::Contract;
pub use evidence::{Evidence, EvidenceError, VerifiedAgent};
pub use frame::{Frame, FrameError, FrameKind, FrameOpener, FrameSealer};
pub use group::{Charter, GroupId};
pub use hidden::{hidden_in, is_hidden, marked, visible};
pub use identity::{AgentId, CallerId, IdentityError, PublicKey, PublisherId, SecretKey};
pub use keylog::{KeyLog, KeyLogError};
pub use keyring::{Keyring, KeyringError};
pub use label::Label;
pub use network_key::{NetworkKey, NetworkKeyError};
pub use object::{Authored, Kind, ObjectError};
pub use stream::{Challenge, Hello, OwnerProof, StreamBinding, VerifiedOwner};

/// SHA-256 of `bytes`, which identifies descriptions, grants and key events.
#[must_use]
pub fn digest(bytes: &[u8]) -> Digest {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

/// `bytes` in lower-case hexadecimal: how digests are shown.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest that is shown so; none if that is none.
#[must_use]
pub fn digest_of_hex(text: &str) -> Option<Digest> {
    let mut digest = Digest::default();
    if text.len() != 2 * digest.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(digest)
}

/// A SHA-256 digest.
pub type Digest = [u8; 32];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_shown_and_nothing_else_is_one() {
        let one = digest(b"one");
        assert_eq!(digest_of_hex(&hex(&one)), Some(one));
        for text in ["", "ab", &"é".repeat(32), &"g".repeat(64), &"+1".repeat(32), &"a".repeat(65)] {
            assert_eq!(digest_of_hex(text), None, "{text}");
        }
    }
}

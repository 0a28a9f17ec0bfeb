//! Two calls of a turn with the same name and arguments have one key.

use althing_protocol::Digest;

use super::Flaw;

pub(super) struct KeyWithoutOccurrence;

impl Flaw for KeyWithoutOccurrence {
    fn name(&self) -> &'static str {
        "key-without-occurrence"
    }

    fn key(&self, _key: Digest, first: Digest) -> Digest {
        first
    }
}

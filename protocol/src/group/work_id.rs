//! The ids of a group's tasks.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};

/// The id of a task of a group: 16 random bytes that its submitter chose, printed as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct WorkId(#[cbor(n(0), with = "minicbor::bytes")] [u8; 16]);

/// A text that is no id of a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a group's task; it has 32 of the characters 0-9 and a-f")]
pub struct WorkIdError(String);

impl WorkId {
    /// The id with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> WorkId {
        WorkId(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for WorkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::hex(&self.0))
    }
}

impl fmt::Debug for WorkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for WorkId {
    type Err = WorkIdError;

    fn from_str(text: &str) -> Result<WorkId, WorkIdError> {
        let wrong = || WorkIdError(text.chars().take(100).collect());
        let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 32 || !text.bytes().all(digits) {
            return Err(wrong());
        }
        u128::from_str_radix(text, 16).map(|number| WorkId(number.to_be_bytes())).map_err(|_| wrong())
    }
}

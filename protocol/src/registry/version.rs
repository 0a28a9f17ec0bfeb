//! Versions of agents.

use std::fmt;
use std::str::FromStr;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

/// Characters of a version.
const VERSION_BYTES_MAX: usize = 64;

/// A semantic version without build metadata, so that two versions that differ never rank the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(semver::Version);

/// Text that is no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no version: it looks like 1.2.3 or 1.2.3-beta.1, has at most {VERSION_BYTES_MAX} characters and no + part"
)]
pub struct VersionError(String);

impl Version {
    /// The version itself, for comparison with ranges.
    #[must_use]
    pub fn semver(&self) -> &semver::Version {
        &self.0
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Version, VersionError> {
        let refused = || VersionError(text.chars().take(VERSION_BYTES_MAX).collect());
        if text.len() > VERSION_BYTES_MAX {
            return Err(refused());
        }
        let version = semver::Version::parse(text).map_err(|_| refused())?;
        if version.build.is_empty() { Ok(Version(version)) } else { Err(refused()) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<C> Encode<C> for Version {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.str(&self.0.to_string())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Version {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        d.str()?.parse().map_err(|error: VersionError| DecodeError::message(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_rank_as_semver_says_and_have_one_spelling() {
        let version = |text: &str| text.parse::<Version>();
        assert!(version("1.10.0").expect("a version") > version("1.9.9").expect("a version"));
        assert!(version("1.0.0-beta.2").expect("a version") < version("1.0.0").expect("a version"));
        for bad in ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3+build", " 1.2.3", "1.2.3 ", "1.2.-3", "^1.2.3"] {
            assert_eq!(version(bad), Err(VersionError(bad.to_owned())), "{bad:?}");
        }
        assert!(version(&format!("1.2.3-{}", "a".repeat(64))).is_err());
        let bytes = minicbor::to_vec(version("1.2.3-rc.1").expect("a version")).expect("a vector");
        assert_eq!(minicbor::decode::<Version>(&bytes).expect("it decodes").to_string(), "1.2.3-rc.1");
    }
}

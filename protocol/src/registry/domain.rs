//! Domains of organisations, and what a registry found when it looked for their proofs.

use std::fmt;
use std::str::FromStr;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use crate::cbor;
use crate::identity::PublisherId;
use crate::limits::DOMAIN_PROOF_LIFE_MS;

/// Characters of a domain (RFC 1035).
const DOMAIN_BYTES_MAX: usize = 253;
/// Characters of one of its labels.
const LABEL_BYTES_MAX: usize = 63;
const FINDING_BYTES_MAX: usize = 512;

/// A domain in its one spelling: lower-case ASCII, at least two labels, no dot at the end. A domain of another script is in
/// its `xn--` form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(String);

/// Text that is no domain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no domain: write example.org, in lower-case ASCII and without a scheme, a port or a dot at the end")]
pub struct DomainError(String);

impl Domain {
    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Domain {
    type Err = DomainError;

    fn from_str(text: &str) -> Result<Domain, DomainError> {
        let of_label = |label: &str| {
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            let edges = !label.starts_with('-') && !label.ends_with('-');
            !label.is_empty() && label.len() <= LABEL_BYTES_MAX && edges && label.bytes().all(plain)
        };
        // A name whose last label is a number is an address.
        let named = |last: &str| last.bytes().any(|byte| byte.is_ascii_lowercase());
        let labels: Vec<&str> = text.split('.').take(DOMAIN_BYTES_MAX).collect();
        let fine = text.len() <= DOMAIN_BYTES_MAX
            && labels.len() >= 2
            && labels.iter().all(|label| of_label(label))
            && labels.last().is_some_and(|last| named(last));
        if fine { Ok(Domain(text.to_owned())) } else { Err(DomainError(text.chars().take(80).collect())) }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<C> Encode<C> for Domain {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.str(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Domain {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        d.str()?.parse().map_err(|error: DomainError| DecodeError::message(error.to_string()))
    }
}

/// By what a domain is proven to be an organisation's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Means {
    /// `https://DOMAIN/.well-known/althing-registry` names the organisation.
    #[n(1)]
    WellKnown,
    /// A TXT record of `_althing.DOMAIN` names it.
    #[n(2)]
    Dns,
    /// The operator of the registry says so.
    #[n(3)]
    Operator,
}

impl Means {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Means::WellKnown => "well-known",
            Means::Dns => "dns",
            Means::Operator => "operator",
        }
    }
}

/// What a registry found when it looked for the proof of a domain: an entry of its log. It is signed by nobody but through the
/// checkpoint over the log, since it is the registry's own word.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DomainFinding {
    /// The domain.
    #[n(0)]
    pub domain: Domain,
    /// The organisation that was looked for.
    #[n(1)]
    pub organisation: PublisherId,
    /// Where.
    #[n(2)]
    pub means: Means,
    /// Whether the domain names the organisation there.
    #[n(3)]
    pub proven: bool,
}

impl DomainFinding {
    /// The bytes that the entry names.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads a finding; none if these bytes are no finding that this version writes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<DomainFinding> {
        cbor::check(bytes, FINDING_BYTES_MAX).ok()?;
        let finding: DomainFinding = minicbor::decode(bytes).ok()?;
        (finding.encode() == bytes).then_some(finding)
    }

    /// Whether a finding of `at_ms` still proves something at `now_ms`. Proofs are repeated daily; the operator's word is not.
    #[must_use]
    pub fn holds(&self, at_ms: u64, now_ms: u64) -> bool {
        self.proven && (self.means == Means::Operator || now_ms <= at_ms.saturating_add(DOMAIN_PROOF_LIFE_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_has_one_spelling() {
        for good in ["example.org", "a.b", "xn--exmple-cua.org", "1.example", "a-b.example.co"] {
            assert_eq!(good.parse::<Domain>().map(|it| it.to_string()).as_deref(), Ok(good));
        }
        let long = format!("{}.org", "a".repeat(64));
        for bad in [
            "",
            "example",
            "Example.org",
            "example.org.",
            ".example.org",
            "a..b",
            "-a.org",
            "a-.org",
            "exämple.org",
            "example.org:443",
            "https://example.org",
            "user@example.org",
            "127.0.0.1",
            "example.org/x",
            "a_b.org",
            &long,
            &["a."; 127].concat(),
        ] {
            assert!(bad.parse::<Domain>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_finding_is_read_as_it_was_written_and_gets_old() {
        let finding = DomainFinding {
            domain: "example.org".parse().expect("a domain"),
            organisation: PublisherId::from_digest([1; 32]),
            means: Means::WellKnown,
            proven: true,
        };
        let bytes = finding.encode();
        assert_eq!(DomainFinding::decode(&bytes), Some(finding.clone()));
        assert_eq!(DomainFinding::decode(&bytes[1..]), None);
        assert!(finding.holds(5, 5 + DOMAIN_PROOF_LIFE_MS));
        assert!(!finding.holds(5, 6 + DOMAIN_PROOF_LIFE_MS));
        assert!(!DomainFinding { proven: false, ..finding.clone() }.holds(5, 5));
        assert!(DomainFinding { means: Means::Operator, ..finding }.holds(5, u64::MAX));
    }
}

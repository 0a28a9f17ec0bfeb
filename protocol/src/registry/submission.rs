//! What a publisher sends to a registry.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::Logged;
use crate::cbor::{self, CborError};
use crate::limits::{KEYLOG_EVENTS_MAX, SUBMISSION_BYTES_MAX, SUBMISSION_STATEMENTS_MAX};

/// Statements of one publisher, with what is needed to verify them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Submission {
    /// The publisher's key log.
    #[n(0)]
    pub key_log: Vec<ByteVec>,
    /// Its signed statements, in the order in which they take effect.
    #[n(1)]
    pub statements: Vec<ByteVec>,
    /// The signed descriptions that releases among them name.
    #[n(2)]
    pub descriptions: Vec<ByteVec>,
}

/// Why bytes are no submission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmissionError {
    /// Not strict CBOR.
    #[error("the submission is not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the submission has the wrong shape: {0}")]
    Shape(String),
}

impl Submission {
    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads what somebody sent; nothing in it is verified yet.
    ///
    /// # Errors
    /// [`SubmissionError`].
    pub fn decode(bytes: &[u8]) -> Result<Submission, SubmissionError> {
        cbor::check(bytes, SUBMISSION_BYTES_MAX)?;
        let read: Submission = minicbor::decode(bytes).map_err(|error| SubmissionError::Shape(error.to_string()))?;
        if read.key_log.len() > KEYLOG_EVENTS_MAX
            || read.statements.len() > SUBMISSION_STATEMENTS_MAX
            || read.descriptions.len() > SUBMISSION_STATEMENTS_MAX
        {
            let message = format!("at most {SUBMISSION_STATEMENTS_MAX} statements, and as many descriptions");
            return Err(SubmissionError::Shape(message));
        }
        if read.encode() != bytes {
            return Err(SubmissionError::Shape("members that this version does not know".to_owned()));
        }
        Ok(read)
    }
}

/// What a registry answers to a submission.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Receipt {
    /// The statements with their proofs, in the order of the submission; before them the key log's newest event if it was
    /// new to the registry.
    #[n(0)]
    pub accepted: Vec<Logged>,
}

impl Receipt {
    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads what a registry answered; nothing in it is verified yet.
    ///
    /// # Errors
    /// [`SubmissionError`].
    pub fn decode(bytes: &[u8]) -> Result<Receipt, SubmissionError> {
        cbor::check(bytes, 2 * SUBMISSION_BYTES_MAX)?;
        let read: Receipt = minicbor::decode(bytes).map_err(|error| SubmissionError::Shape(error.to_string()))?;
        if read.accepted.len() > SUBMISSION_STATEMENTS_MAX + 1 {
            return Err(SubmissionError::Shape("more proofs than statements".to_owned()));
        }
        if read.encode() != bytes {
            return Err(SubmissionError::Shape("members that this version does not know".to_owned()));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submission_is_read_as_it_was_written_and_bounded() {
        let one = || ByteVec::from(vec![1, 2, 3]);
        let sent = Submission { key_log: vec![one()], statements: vec![one()], descriptions: vec![] };
        assert_eq!(Submission::decode(&sent.encode()), Ok(sent.clone()));
        let many = Submission { statements: vec![one(); SUBMISSION_STATEMENTS_MAX + 1], ..sent.clone() };
        assert!(matches!(Submission::decode(&many.encode()), Err(SubmissionError::Shape(_))));
        let long = Submission { statements: vec![vec![0; SUBMISSION_BYTES_MAX].into()], ..sent };
        assert!(matches!(Submission::decode(&long.encode()), Err(SubmissionError::Cbor(_))));
    }

    #[test]
    fn a_receipt_is_read_as_it_was_written() {
        let logged = || Logged { statement: vec![1].into(), at_ms: 2, proof: "3".to_owned(), salt: None };
        let receipt = Receipt { accepted: vec![logged()] };
        let bytes = receipt.encode();
        assert_eq!(Receipt::decode(&bytes), Ok(receipt));
        // P-18: a map of two members, of which this version knows one.
        let more = [&[0xa2], &bytes[1..], &[0x01, 0x00]].concat();
        assert!(matches!(Receipt::decode(&more), Err(SubmissionError::Shape(_))));
        let many = Receipt { accepted: (0..SUBMISSION_STATEMENTS_MAX + 2).map(|_| logged()).collect() };
        assert!(matches!(Receipt::decode(&many.encode()), Err(SubmissionError::Shape(_))));
    }
}

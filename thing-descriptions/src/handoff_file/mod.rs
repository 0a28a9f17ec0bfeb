//! The view of a handoff (YAML or JSON) that people and agents write and read. With its signature it is the signed handoff
//! again, byte for byte: nothing of a handoff is left out of it, and it has nothing besides.

mod read;
#[cfg(test)]
mod tests;
mod view;
mod write;

use althing_protocol::object::{Handoff, Statement as _};
use althing_protocol::{Authored, ObjectError, SecretKey};
use serde_json::Value;

use crate::json::written_length;
use crate::reader::yaml::{self, At, YamlError};
use crate::reader::{FileProblem, lines};

pub use view::{HandoffFile, HandoffSignature};
pub use write::{handoff_json, handoff_text, handoff_view};

/// The longest view, in bytes: a handoff with the longest state in base64 fits into the body of a call.
pub const HANDOFF_FILE_BYTES_MAX: usize = 1 << 20;

/// Why a text is no handoff.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandoffFileError {
    /// It is longer than [`HANDOFF_FILE_BYTES_MAX`].
    #[error("the handoff has {0} bytes, the limit is {HANDOFF_FILE_BYTES_MAX}: name large artifacts by their digests")]
    TooLarge(usize),
    /// It is not one YAML document within the reader's limits.
    #[error("the handoff is not YAML or JSON that can be read: line {line}, column {column}: {message}")]
    Yaml {
        /// Line, from 1; 0 where unknown.
        line: u64,
        /// Column in characters, from 1; 0 where unknown.
        column: u64,
        /// What was found, and what to do.
        message: String,
    },
    /// The YAML is no handoff.
    #[error("the handoff needs {} change(s):\n{}", .0.len(), lines(.0))]
    Invalid(
        /// Everything to change.
        Vec<FileProblem>,
    ),
    /// Its members break a rule of the protocol.
    #[error("{0}")]
    Refused(#[from] ObjectError),
}

impl From<YamlError> for HandoffFileError {
    fn from(error: YamlError) -> HandoffFileError {
        let YamlError { line, column, message } = error;
        HandoffFileError::Yaml { line, column, message }
    }
}

impl HandoffFile {
    /// The signed handoff, verified; none if nobody signed it.
    ///
    /// # Errors
    /// [`ObjectError`]: the signature is not of this content in its network.
    pub fn signed(&self) -> Option<Result<Authored<Handoff>, ObjectError>> {
        let HandoffSignature { network, signer, value } = self.signature.as_ref()?;
        Some(self.handoff.clone().with_signature(network, signer, value))
    }

    /// The bytes that were signed, with the signature, **not yet checked**; none if nobody signed it.
    #[must_use]
    pub fn envelope(&self) -> Option<Vec<u8>> {
        let HandoffSignature { signer, value, .. } = self.signature.as_ref()?;
        Some(self.handoff.envelope(signer, value))
    }

    /// The view of a handoff that was verified in its network.
    #[must_use]
    pub fn of(signed: &Authored<Handoff>, network: &str) -> HandoffFile {
        let signature =
            HandoffSignature { network: network.to_owned(), signer: signed.signer, value: signed.signature() };
        HandoffFile { handoff: signed.body.clone(), signature: Some(signature) }
    }

    /// The same, signed by a node for a network, in place of whoever signed it before.
    ///
    /// # Errors
    /// [`ObjectError`]: the handoff is too large.
    pub fn sign(self, network: &str, key: &SecretKey) -> Result<HandoffFile, ObjectError> {
        let signed = althing_protocol::object::sign(self.handoff, network, "", key)?;
        Ok(HandoffFile::of(&signed, network))
    }
}

/// Reads the view of a handoff. Anchors and aliases are refused: a handoff comes from strangers, and needs none.
///
/// # Errors
/// [`HandoffFileError`]: each problem with its line, its field and what to write instead.
pub fn parse_handoff(text: &str) -> Result<HandoffFile, HandoffFileError> {
    if text.len() > HANDOFF_FILE_BYTES_MAX {
        return Err(HandoffFileError::TooLarge(text.len()));
    }
    file(&yaml::parse_plain(text)?)
}

/// Reads the view of a handoff that came as JSON, as [`parse_handoff`] reads its text. That takes many times as long: YAML is read
/// letter by letter.
///
/// # Errors
/// [`HandoffFileError`], without lines.
pub fn handoff_of_json(view: &Value) -> Result<HandoffFile, HandoffFileError> {
    let bytes = written_length(view);
    if bytes > HANDOFF_FILE_BYTES_MAX {
        return Err(HandoffFileError::TooLarge(bytes));
    }
    file(&yaml::of_json(view)?)
}

fn file(root: &At) -> Result<HandoffFile, HandoffFileError> {
    match read::read(root) {
        (Some(file), problems) if problems.is_empty() => {
            file.handoff.check()?;
            Ok(file)
        }
        (_, problems) => Err(HandoffFileError::Invalid(problems)),
    }
}

//! Errors as gRPC tells them (A2A 1.0.1 §10.6): a code, a message, and `google.rpc.Status` with the details.

use althing_calls::OperationError;
use prost::Message as _;
use serde_json::{Value, json};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use crate::messages;

/// Bytes of a message: gRPC's clients accept 8 KiB of metadata, in which it stands twice, once percent-encoded.
const MESSAGE_BYTES_MAX: usize = 1_024;
/// Bytes of the details, with which the message stands once more.
const DETAILS_BYTES_MAX: usize = 3_072;

/// The status of an error.
pub fn of(error: &OperationError) -> Status {
    let code = error.refusal.rpc_code().number();
    let end = (0..=MESSAGE_BYTES_MAX.min(error.message.len())).rev().find(|end| error.message.is_char_boundary(*end));
    let message = &error.message[..end.unwrap_or(0)];
    let mut details = error.all_details();
    details.retain(|detail| status(code, "", std::slice::from_ref(detail)).is_some());
    let encoded = status(code, message, &details).filter(|encoded| encoded.len() <= DETAILS_BYTES_MAX);
    let encoded = encoded.or_else(|| status(code, message, details.get(..1)?)).unwrap_or_default();
    Status::with_details_and_metadata(Code::from(code), message, encoded.into(), MetadataMap::new())
}

/// A `google.rpc.Status`; none if a detail is not of a type that is known here.
fn status(code: i32, message: &str, details: &[Value]) -> Option<Vec<u8>> {
    let json = json!({ "code": code, "message": message, "details": details }).to_string();
    let status = messages::from_json(messages::message("google.rpc.Status")?, json.as_bytes()).ok()?;
    Some(status.encode_to_vec())
}

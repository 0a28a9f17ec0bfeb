//! Megabytes from somebody whom the registry does not admit (SR-2).

use serde_json::json;

use super::attackers::{Attackers, Shot};
use crate::http::Client;

/// Bytes of a bundle in base64: as many as may be staged.
const BUNDLE_BYTES: usize = 4 << 20;
/// Bytes of one chunk of a body without a length.
const CHUNK_BYTES: usize = 16 << 10;

/// A request whose body has no length.
fn chunked(address: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let mut request = head.into_bytes();
    for chunk in body.chunks(CHUNK_BYTES) {
        request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        request.extend_from_slice(chunk);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    request
}

/// Uploads bundles, with a length and without, by nobody and with a token that nobody made. Beside them what is as long and is
/// read before it is known who sends it: to sign in.
pub async fn staged_uploads(attackers: &Attackers) {
    let address = attackers.address.as_str();
    let body = json!({
        "agent": "urn:althing:nobody:lamp", "version": "1.0.0", "description": "{}",
        "bundle": "A".repeat(BUNDLE_BYTES), "digest": "0".repeat(64),
    });
    let body = body.to_string().into_bytes();
    let staged = |token| Client::new(address, token).request("POST", "/staged", "application/json", &body);
    let shots = vec![
        Shot { what: "staged", request: staged(None) },
        Shot { what: "staged, with a token", request: staged(Some("althing_session_of_nobody")) },
        Shot { what: "staged, chunked", request: chunked(address, "/staged", &body) },
        Shot { what: "sessions, chunked", request: chunked(address, "/sessions", &body) },
    ];
    attackers.send(shots).await;
}

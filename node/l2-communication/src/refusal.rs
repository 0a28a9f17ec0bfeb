//! The body of an error frame (SPEC P-56).

/// JSON-RPC's codes, which errors carry on every stream protocol.
pub const METHOD_NOT_FOUND: i32 = -32_601;
/// What was sent cannot be read, or does not hold.
pub const INVALID_PARAMS: i32 = -32_602;
/// Any other reason.
pub const SERVER_ERROR: i32 = -32_000;

/// The body of an error frame; `reason` is one of the names that SPEC chapter 12 lists.
#[must_use]
pub fn refusal(code: i32, reason: Option<&str>, message: &str) -> Vec<u8> {
    let mut error = serde_json::json!({ "code": code, "message": message });
    if let Some(reason) = reason {
        error["data"] = serde_json::json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "domain": "althing.dev",
            "reason": reason,
        }]);
    }
    error.to_string().into_bytes()
}

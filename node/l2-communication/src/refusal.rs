//! The body of an error frame (SPEC P-56).

/// JSON-RPC's codes, which errors carry on every stream protocol.
pub const METHOD_NOT_FOUND: i32 = -32_601;
/// The parameters cannot be decoded, or are invalid.
pub const INVALID_PARAMS: i32 = -32_602;
/// Any other reason.
pub const SERVER_ERROR: i32 = -32_000;

/// Characters of a refusal that are displayed.
const SHOWN_MAX: usize = 300;

/// The reason and the message of a peer's refusal, safe to display; the reason is empty where it gave none.
#[must_use]
pub fn said(body: &[u8]) -> (String, String) {
    let error = serde_json::from_slice::<serde_json::Value>(body).unwrap_or_default();
    let message = error["message"].as_str().map(str::to_owned);
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let short = |text: &str| text.chars().filter(|c| !c.is_control()).take(SHOWN_MAX).collect();
    (short(error["data"][0]["reason"].as_str().unwrap_or_default()), short(&message))
}

/// The body of an error frame; `reason` is one of the names that SPEC chapter 14 lists.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_shown_whatever_bytes_came() {
        let full = refusal(SERVER_ERROR, Some("BUSY"), "ask again later");
        assert_eq!(said(&full), ("BUSY".to_owned(), "ask again later".to_owned()));
        assert_eq!(said(b"no \x1b[31mJSON"), (String::new(), "no [31mJSON".to_owned()));
        assert_eq!(said(&vec![b'a'; 10_000]).1.len(), SHOWN_MAX);
    }
}

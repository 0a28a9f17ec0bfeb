//! What an answer of a Thing means, as the result of a tool (MCP's `CallToolResult`).

use std::cell::Cell;

use althing_td::visible;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Of the text with which a Thing refuses.
const REFUSAL_CHARS_MAX: usize = 500;

/// The result of an answer.
pub fn result(status: u16, content_type: &str, body: &[u8]) -> Value {
    match status {
        200..=299 => content(content_type, body),
        300..=399 => failed(&format!("the Thing leads elsewhere ({status}), which is not followed")),
        401 | 403 => failed(&format!("the Thing does not accept the credentials of this node ({status})")),
        _ => {
            let said = String::from_utf8_lossy(&body[..body.len().min(4 * REFUSAL_CHARS_MAX)]);
            let said: String = visible(&said).take(REFUSAL_CHARS_MAX).collect();
            failed(&format!("the Thing answered {status}: {said}"))
        }
    }
}

/// The result of a call that failed.
pub fn failed(why: &str) -> Value {
    json!({ "isError": true, "content": [{ "type": "text", "text": why }] })
}

fn content(content_type: &str, body: &[u8]) -> Value {
    if body.is_empty() {
        return json!({ "content": [] });
    }
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = essence.is_empty() || essence == "application/json" || essence.ends_with("+json");
    if let Some(value) = is_json.then(|| serde_json::from_slice::<Value>(body).ok()).flatten() {
        // A text without its quotes is what a person and a model expect.
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut result = json!({ "content": [{ "type": "text", "text": text }] });
        if value.is_object() {
            result["structuredContent"] = value;
        }
        return result;
    }
    let kind = ["image", "audio"].into_iter().find(|kind| essence.starts_with(&format!("{kind}/")));
    let block = match (kind, std::str::from_utf8(body)) {
        (Some(kind), _) => json!({ "type": kind, "data": STANDARD.encode(body), "mimeType": essence }),
        (None, Ok(text)) => json!({ "type": "text", "text": text }),
        (None, Err(_)) => json!({
            "type": "resource",
            "resource": { "uri": "data:", "blob": STANDARD.encode(body), "mimeType": essence },
        }),
    };
    json!({ "content": [block] })
}

/// The data of the first server-sent event that is whole, and has some.
pub fn first_event(bytes: &[u8]) -> Option<String> {
    Events::default().first(bytes)
}

/// How far a body that grows was looked through, so that each part of it is looked at once, however small the pieces are
/// in which it arrives.
#[derive(Debug, Default)]
pub struct Events {
    /// Where the first event begins that was not whole; those before it have no data.
    begin: Cell<usize>,
    /// Where the search for its end goes on.
    looked: Cell<usize>,
}

impl Events {
    /// [`first_event`] of a body that begins with the one of the last time.
    pub fn first(&self, body: &[u8]) -> Option<String> {
        while let Some(end) = blank_line(body, self.looked.get()) {
            if let Some(data) = data(body.get(self.begin.get()..end)?) {
                return Some(data);
            }
            self.begin.set(end);
            self.looked.set(end);
        }
        // The last byte may be the first one of a blank line's two.
        self.looked.set(body.len().saturating_sub(1));
        None
    }
}

/// Where the first blank line from `from` on ends: an end of a line follows another one, and \r\n is only one.
fn blank_line(body: &[u8], from: usize) -> Option<usize> {
    let is_end = |byte: u8| matches!(byte, b'\r' | b'\n');
    let is_blank = |pair: &[u8]| pair.iter().all(|byte| is_end(*byte)) && pair != b"\r\n";
    body.get(from..)?.windows(2).position(is_blank).map(|at| from + at + 2)
}

/// The data of an event, if it has some.
fn data(event: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(event).replace("\r\n", "\n").replace('\r', "\n");
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let data: Vec<&str> = data.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    (!data.is_empty()).then(|| data.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_becomes_what_a_model_reads() {
        let text = |status, kind: &str, body: &str| result(status, kind, body.as_bytes())["content"][0]["text"].clone();
        assert_eq!(text(200, "application/json", "7"), "7");
        assert_eq!(text(200, "application/json; charset=utf-8", "\"on\""), "on");
        assert_eq!(text(200, "text/plain", "on"), "on");
        assert_eq!(result(200, "application/td+json", b"{\"a\":1}")["structuredContent"], json!({ "a": 1 }));
        assert_eq!(result(204, "", b""), json!({ "content": [] }));
        assert_eq!(result(200, "image/png", &[1, 2, 255])["content"][0]["data"], "AQL/");
        assert_eq!(result(200, "application/octet-stream", &[255])["content"][0]["resource"]["blob"], "/w==");
    }

    #[test]
    fn a_refusal_is_an_error_that_says_so() {
        for (status, body, wanted) in [
            (400, "no \u{202e}such step", "answered 400: no such step"),
            (401, "", "does not accept the credentials"),
            (302, "", "leads elsewhere"),
        ] {
            let refused = result(status, "text/plain", body.as_bytes());
            assert_eq!(refused["isError"], true);
            assert!(refused["content"][0]["text"].as_str().is_some_and(|text| text.contains(wanted)), "{refused}");
        }
    }

    #[test]
    fn an_event_counts_when_it_is_whole() {
        assert_eq!(first_event(b"data: 1\n"), None);
        assert_eq!(first_event(b": hello\n\nid: 1\ndata: 1\n\n").as_deref(), Some("1"));
        assert_eq!(first_event(b"data: 1\r\ndata:2\r\n\r\ndata: 3\r\n\r\n").as_deref(), Some("1\n2"));
    }

    #[test]
    fn an_event_is_the_same_in_pieces() {
        for ends in ["\n", "\r", "\r\n"] {
            for (text, wanted) in [
                ("data: 1||", Some("1")),
                ("||: hello||id: 1||||data: 1|data:2|||data: 3||", Some("1\n2")),
                (": hello||id: 1|", None),
                ("data: 1|", None),
            ] {
                let text = text.replace('|', ends);
                let events = Events::default();
                let found = (0..=text.len()).find_map(|size| events.first(&text.as_bytes()[..size]));
                assert_eq!(found.as_deref(), wanted, "{text:?} byte by byte");
                assert_eq!(first_event(text.as_bytes()).as_deref(), wanted, "{text:?} at once");
            }
        }
        let events = Events::default();
        assert_eq!(events.first(b"data: 1\r\n"), None);
        assert_eq!(events.first(b"data: 1\r\n\r").as_deref(), Some("1"), "the line ended, whatever follows");
        assert_eq!(events.first(b"data: 1\r\n\r\n").as_deref(), Some("1"), "and it stays the first");
    }

    /// From the beginning each time, hundreds of gigabytes would be looked at.
    #[test]
    fn a_long_stream_of_small_pieces_is_looked_through_once() {
        for piece in [": hello\n\n", "data: and no end "] {
            let body = piece.repeat((640 << 10) / piece.len());
            let events = Events::default();
            assert!((0..=body.len()).all(|size| events.first(&body.as_bytes()[..size]).is_none()), "{piece:?}");
        }
    }
}

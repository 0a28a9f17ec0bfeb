//! Reads JSON of strangers that is JSON but for what common writers get wrong: halves of characters (`"\ud83d"`), bytes that are
//! no UTF-8, and numbers that JSON does not have (`NaN`, `Infinity`). Pure.

use serde_json::{Error, Value};

/// What stands for a half of a character, as an escape.
const REPLACEMENT: &[u8] = br"\ufffd";
/// What stands for a number that JSON does not have.
const NULL: &[u8] = b"null";
/// The numbers that JSON does not have, as Python and others write them, with a sign or without.
const NO_NUMBERS: [&[u8]; 2] = [b"NaN", b"Infinity"];

/// A JSON text that was bounded before. If it is none as it stands, it is read once more as [`repaired`] gives it.
///
/// # Errors
/// It is no JSON then either; the error is that of the text as it stands.
pub fn parse(text: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(text).or_else(|error| {
        let read = repaired(text).and_then(|text| serde_json::from_slice(&text).ok());
        read.ok_or(error)
    })
}

/// The text with U+FFFD for halves of characters and for bytes that are no UTF-8, and `null` for numbers that JSON does not
/// have, of three times its length at most; none if it has nothing of that.
#[must_use]
pub fn repaired(text: &[u8]) -> Option<Vec<u8>> {
    let text_of_characters = String::from_utf8_lossy(text);
    let whole = text_of_characters.as_bytes();
    let (mut made, mut at, mut in_text) = (Vec::with_capacity(whole.len()), 0, false);
    while let Some(byte) = whole.get(at) {
        let rest = &whole[at..];
        let (read, put): (usize, &[u8]) = match byte {
            b'\\' if in_text => escape(rest),
            b'"' => {
                in_text = !in_text;
                (1, &rest[..1])
            }
            _ if in_text || at.checked_sub(1).is_some_and(|before| is_of_word(whole[before])) => (1, &rest[..1]),
            _ => no_number(rest).map_or((1, &rest[..1]), |length| (length, NULL)),
        };
        made.extend_from_slice(put);
        at += read;
    }
    (made != text).then_some(made)
}

/// How many bytes the escape at the beginning has, and what stands for it.
fn escape(rest: &[u8]) -> (usize, &[u8]) {
    let whole = |length: usize| (length.min(rest.len()), &rest[..length.min(rest.len())]);
    match unit(rest) {
        Some(0xd800..=0xdbff) => match rest.get(6..).and_then(unit) {
            Some(0xdc00..=0xdfff) => whole(12),
            _ => (6, REPLACEMENT),
        },
        Some(0xdc00..=0xdfff) => (6, REPLACEMENT),
        Some(_) => whole(6),
        None => whole(2),
    }
}

/// The unit of UTF-16 that an escape at the beginning writes; none if it is no such escape.
fn unit(rest: &[u8]) -> Option<u16> {
    let digits = rest.strip_prefix(br"\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|one| one.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}

/// The length of a number at the beginning that JSON does not have.
fn no_number(rest: &[u8]) -> Option<usize> {
    let sign = usize::from(matches!(rest.first(), Some(b'-' | b'+')));
    let word = NO_NUMBERS.into_iter().find(|word| rest[sign..].starts_with(word))?;
    let length = sign + word.len();
    rest.get(length).is_none_or(|after| !is_of_word(*after)).then_some(length)
}

/// Whether a byte is of a word or number, so that what stands beside it is none of its own.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | b'-' | b'+') || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_common_writers_get_wrong_is_replaced_and_the_rest_stays() {
        for (text, read) in [
            (&br#"{"a":"\ud83d"}"#[..], json!({ "a": "\u{fffd}" })),
            (br#"{"a":"\udE00 b"}"#, json!({ "a": "\u{fffd} b" })),
            (br#"["\ud83d\u0041", "\ud83d\ud83d\ude00"]"#, json!(["\u{fffd}A", "\u{fffd}\u{1f600}"])),
            (br#"["\ud83d\\ude00"]"#, json!(["\u{fffd}\\ude00"])),
            (b"{\"a\":\"caf\xe9\",\"b\":\"\xff\xfe\"}", json!({ "a": "caf\u{fffd}", "b": "\u{fffd}\u{fffd}" })),
            (br#"{"a":NaN,"b":[Infinity,-Infinity, +Infinity]}"#, json!({ "a": null, "b": [null, null, null] })),
            (br#"[NaN,"NaN, -Infinity, \"NaN"]"#, json!([null, "NaN, -Infinity, \"NaN"])),
            (b"NaN", json!(null)),
        ] {
            assert!(serde_json::from_slice::<Value>(text).is_err(), "{}", String::from_utf8_lossy(text));
            assert_eq!(parse(text).ok(), Some(read), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn json_is_read_as_it_stands() {
        for text in [r#"{"a":"\ud83d\ude00","b":"\\ud83d","c":[1e3,null,"\u00e9"]}"#, "[]", "\"NaN\"", "-1"] {
            assert_eq!(repaired(text.as_bytes()), None, "{text}");
            assert_eq!(parse(text.as_bytes()).ok(), serde_json::from_str(text).ok(), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for text in [
            &b""[..],
            b"{",
            br#"{"a":"\ud83d"#,
            br#"{"a":"\"#,
            br#"{"a":"\u12"#,
            br#"["\ud8zz"]"#,
            b"[NaNs]",
            b"[xNaN]",
            b"[1NaN]",
            b"[-]",
            b"{NaN:1}",
            b"hello \xff",
        ] {
            let strict = serde_json::from_slice::<Value>(text).expect_err("it is no JSON").to_string();
            let told = parse(text).expect_err("it is no JSON either").to_string();
            assert_eq!(told, strict, "{}", String::from_utf8_lossy(text));
        }
    }
}

//! Arguments of calls as text that is the same for all who have the same arguments.

use althing_protocol::{Digest, digest};
use serde_json::{Map, Value};

/// The arguments as JSON with sorted members and without space. Numbers are as they were written: two that differ have two
/// texts.
#[must_use]
pub fn canonical(arguments: &Value) -> String {
    // Most are sorted as they come: a copy of all their texts costs more than to look.
    if is_sorted(arguments) {
        return arguments.to_string();
    }
    let mut sorted = arguments.clone();
    sorted.sort_all_objects();
    sorted.to_string()
}

/// [`canonical`] of an object.
pub(crate) fn canonical_members(members: &Map<String, Value>) -> String {
    if are_sorted(members) {
        return serde_json::to_string(members).expect("members have texts for names");
    }
    canonical(&Value::Object(members.clone()))
}

fn is_sorted(value: &Value) -> bool {
    match value {
        Value::Object(members) => are_sorted(members),
        Value::Array(elements) => elements.iter().all(is_sorted),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn are_sorted(members: &Map<String, Value>) -> bool {
    members.keys().is_sorted() && members.values().all(is_sorted)
}

/// The digest of [`canonical`] (SPEC P-211).
#[must_use]
pub fn arguments_digest(arguments: &Value) -> Digest {
    digest(canonical(arguments).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn the_order_of_members_says_nothing_and_everything_else_does() {
        let one = parsed(r#"{"to":"ada","sum":{"b":1,"a":[2,{"d":0,"c":1}]}}"#);
        let other = parsed(r#" {"sum": {"a": [2, {"c": 1, "d": 0}], "b": 1}, "to": "ada"}"#);
        assert_eq!(canonical(&one), r#"{"sum":{"a":[2,{"c":1,"d":0}],"b":1},"to":"ada"}"#);
        assert_eq!(arguments_digest(&one), arguments_digest(&other));
        for text in [
            "{}",
            r#"[{"b":1,"a":2}]"#,
            r#"{"a":{"b":1,"a":2},"c":3}"#,
            r#"{"a":[1.0,{"b":null,"a":"\u00e9"}],"b":-0.0}"#,
            r#"{"b":true,"a":[]}"#,
        ] {
            let mut sorted = parsed(text);
            sorted.sort_all_objects();
            assert_eq!(canonical(&parsed(text)), sorted.to_string(), "{text}");
            if let Value::Object(members) = parsed(text) {
                assert_eq!(canonical_members(&members), sorted.to_string(), "{text}");
            }
        }
        for (one, other) in [
            ("[1,2]", "[2,1]"),
            ("1", "1.0"),
            ("9007199254740992", "9007199254740993"),
            ("\"1\"", "1"),
            ("\"\u{e9}\"", "\"e\u{301}\""),
            ("{}", "{\"a\":null}"),
            ("[]", "{}"),
        ] {
            assert_ne!(arguments_digest(&parsed(one)), arguments_digest(&parsed(other)), "{one} and {other}");
        }
    }
}

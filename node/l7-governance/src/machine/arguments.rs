//! Arguments of calls as text that is the same for all who have the same arguments.

use althing_protocol::{Digest, digest};
use serde_json::Value;

/// The arguments as JSON with sorted members and without space. Numbers are as they were written: two that differ have two
/// texts.
#[must_use]
pub fn canonical(arguments: &Value) -> String {
    let mut sorted = arguments.clone();
    sorted.sort_all_objects();
    sorted.to_string()
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

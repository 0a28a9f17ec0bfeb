//! What a guest asks of its memory, as the gate of its system calls sees it: with the arguments of the tool of that name.

use althing_execution::memory::{
    KEY_BYTES_MAX, QUESTION_BYTES_MAX, RECALLED_MAX, SOURCE_BYTES_MAX, TEXT_BYTES_MAX, VALUE_BYTES_MAX,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// One call.
#[derive(Debug, Clone, Copy)]
pub(super) enum MemoryCall<'a> {
    Put { key: &'a str, value: &'a [u8] },
    Get { key: &'a str },
    Delete { key: &'a str },
    Keys { prefix: &'a str },
    Remember { source: &'a str, text: &'a str },
    Forget { source: &'a str },
    Recall { question: &'a str, most: usize },
}

impl MemoryCall<'_> {
    /// The system call.
    pub fn name(self) -> &'static str {
        match self {
            MemoryCall::Put { .. } => "memory/put",
            MemoryCall::Get { .. } => "memory/get",
            MemoryCall::Delete { .. } => "memory/delete",
            MemoryCall::Keys { .. } => "memory/keys",
            MemoryCall::Remember { .. } => "memory/remember",
            MemoryCall::Forget { .. } => "memory/forget",
            MemoryCall::Recall { .. } => "memory/recall",
        }
    }

    /// Its arguments. A value that is no text is in `base64` instead of `value`. Of what is longer than memory takes they have
    /// a byte or character more than that: a guest may hold far more, and memory refuses it, or has nothing of that name.
    pub fn arguments(self) -> Value {
        match self {
            MemoryCall::Put { key, value } => {
                let (key, value) = (head(key, KEY_BYTES_MAX), &value[..value.len().min(VALUE_BYTES_MAX + 1)]);
                match std::str::from_utf8(value) {
                    Ok(text) => json!({ "key": key, "value": text }),
                    Err(_) => json!({ "key": key, "base64": STANDARD.encode(value) }),
                }
            }
            MemoryCall::Get { key } | MemoryCall::Delete { key } => json!({ "key": head(key, KEY_BYTES_MAX) }),
            MemoryCall::Keys { prefix } => json!({ "prefix": head(prefix, KEY_BYTES_MAX) }),
            // Memory does not count the space around a text either.
            MemoryCall::Remember { source, text } => {
                json!({ "source": head(source, SOURCE_BYTES_MAX), "text": head(text.trim(), TEXT_BYTES_MAX) })
            }
            MemoryCall::Forget { source } => json!({ "source": head(source, SOURCE_BYTES_MAX) }),
            // Memory ignores the rest of a question, and gives no more passages.
            MemoryCall::Recall { question, most } => {
                let question = &question[..question.floor_char_boundary(QUESTION_BYTES_MAX)];
                json!({ "question": question, "most": most.min(RECALLED_MAX) })
            }
        }
    }
}

/// The beginning of a text: all of what may have so many bytes, and more than that of what has more.
fn head(text: &str, bytes_max: usize) -> &str {
    &text[..text.ceil_char_boundary(bytes_max + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_the_arguments_of_the_tool_of_its_name() {
        let table = [
            (MemoryCall::Put { key: "a", value: b"one" }, "memory/put", json!({ "key": "a", "value": "one" })),
            (MemoryCall::Put { key: "a", value: &[255, 0] }, "memory/put", json!({ "key": "a", "base64": "/wA=" })),
            (MemoryCall::Put { key: "", value: b"" }, "memory/put", json!({ "key": "", "value": "" })),
            (MemoryCall::Get { key: "a" }, "memory/get", json!({ "key": "a" })),
            (MemoryCall::Delete { key: "a" }, "memory/delete", json!({ "key": "a" })),
            (MemoryCall::Keys { prefix: "" }, "memory/keys", json!({ "prefix": "" })),
            (
                MemoryCall::Remember { source: "town.txt", text: " Bridges close at ten.\n" },
                "memory/remember",
                json!({ "source": "town.txt", "text": "Bridges close at ten." }),
            ),
            (MemoryCall::Forget { source: "town.txt" }, "memory/forget", json!({ "source": "town.txt" })),
            (
                MemoryCall::Recall { question: "When?", most: 3 },
                "memory/recall",
                json!({ "question": "When?", "most": 3 }),
            ),
        ];
        for (call, name, arguments) in table {
            assert_eq!((call.name(), call.arguments()), (name, arguments), "{call:?}");
        }
    }

    #[test]
    fn what_memory_takes_is_seen_whole_and_what_is_longer_is_seen_to_be() {
        let of = |bytes: usize| "é".repeat(bytes / 2);
        let seen = |call: MemoryCall<'_>, name: &str| call.arguments()[name].as_str().expect("a text").to_owned();
        let (longest, longer) = (of(KEY_BYTES_MAX), of(1 << 20));
        assert_eq!(seen(MemoryCall::Get { key: &longest }, "key"), longest);
        let key = seen(MemoryCall::Get { key: &longer }, "key");
        assert!((KEY_BYTES_MAX + 1..KEY_BYTES_MAX + 5).contains(&key.len()), "{}", key.len());
        let text = seen(MemoryCall::Remember { source: "s", text: &longer }, "text");
        assert!((TEXT_BYTES_MAX + 1..TEXT_BYTES_MAX + 5).contains(&text.len()), "{}", text.len());
        let value = vec![b'a'; VALUE_BYTES_MAX + 1_000];
        let value = seen(MemoryCall::Put { key: "a", value: &value }, "value");
        assert_eq!(value.len(), VALUE_BYTES_MAX + 1);
        let all = MemoryCall::Recall { question: &longer, most: usize::MAX }.arguments();
        assert_eq!(all, json!({ "question": of(QUESTION_BYTES_MAX), "most": RECALLED_MAX }));
    }
}

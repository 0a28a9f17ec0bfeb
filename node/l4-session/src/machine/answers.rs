//! Messages whose ids are keys: what is remembered of them where no task of theirs is kept, so that whoever sends one again
//! learns that it was done, and nothing is done twice (SPEC P-77).

use a2a::Message;
use althing_protocol::{Digest, Label, digest};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::session::digest_of;

/// How long it is remembered, milliseconds: an hour more than a call may stay in doubt.
pub(crate) const ANSWER_MS_MAX: u64 = 25 * 60 * 60 * 1_000;
/// Bytes of an answer that is remembered, as JSON; of a longer one only that there was one.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Hexadecimal digits of a key.
const KEY_DIGITS: usize = 64;
/// What digests of messages begin with.
const OF_MESSAGE: &[u8] = b"althing message\0";

/// Whether the id of a message is a key: its sender sends it again with the same one, whatever becomes of either node.
pub(crate) fn is_key(message_id: &str) -> bool {
    message_id.len() == KEY_DIGITS && message_id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The name of a message to the agent of that name, from the caller of that scope, as it is stored.
pub(crate) fn name_of(agent: &str, scope: &str, message_id: &str) -> Digest {
    digest_of(OF_MESSAGE, &[agent, scope, message_id])
}

/// What is remembered of a message.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct AnswerRow {
    /// When it was answered, Unix milliseconds.
    #[n(0)]
    pub at_ms: u64,
    /// The digest of its content; none where its task was deleted to make room for others.
    #[n(1)]
    content: Option<ByteVec>,
    /// The message that answered it, as JSON.
    #[n(2)]
    pub answer: Option<String>,
    /// The label of all that its turn was given.
    #[n(3)]
    pub label: Option<Label>,
}

impl AnswerRow {
    /// Of a message that was answered with that one.
    pub fn of(message: &Message, answer: &Message, label: Option<Label>, at_ms: u64) -> AnswerRow {
        let answer = serde_json::to_string(answer).ok().filter(|answer| answer.len() <= ANSWER_BYTES_MAX);
        AnswerRow { at_ms, content: Some(content(message).to_vec().into()), answer, label }
    }

    /// Of a message whose task is deleted, and changed last at that time.
    pub fn of_deleted(at_ms: u64) -> AnswerRow {
        AnswerRow { at_ms, content: None, answer: None, label: None }
    }

    /// Whether it is remembered by now no more.
    pub fn is_old(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.at_ms) > ANSWER_MS_MAX
    }

    /// Whether a message of that id is the same one, as far as that is known.
    pub fn is_of(&self, message: &Message) -> bool {
        self.content.as_ref().is_none_or(|known| known[..] == content(message)[..])
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }
}

/// The digest of a message without the ids that its node fills in.
fn content(message: &Message) -> Digest {
    let message = Message { task_id: None, context_id: None, ..message.clone() };
    let mut json = serde_json::to_value(message).unwrap_or_default();
    // The order of members says nothing.
    json.sort_all_objects();
    digest(json.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use a2a::{Part, Role};
    use serde_json::json;

    use super::*;

    fn message(text: &str) -> Message {
        let mut message = Message::new(Role::User, vec![Part::text(text)]);
        message.message_id = "k".to_owned();
        message
    }

    #[test]
    fn only_64_hexadecimal_digits_are_a_key() {
        assert!(is_key(&"0f".repeat(32)));
        for id in ["", "0f", &"0F".repeat(32), &"0g".repeat(32), &"0f".repeat(33), &"ü".repeat(32)] {
            assert!(!is_key(id), "{id}");
        }
    }

    #[test]
    fn a_message_is_known_by_its_content_and_not_by_what_its_node_adds() {
        let row = AnswerRow::of(&message("hi"), &message("answer"), None, 5);
        let mut again = message("hi");
        (again.task_id, again.context_id) = (Some("t".to_owned()), Some("c".to_owned()));
        assert!(row.is_of(&again) && !row.is_of(&message("other")));
        assert!(AnswerRow::of_deleted(5).is_of(&message("any")));
        let read: AnswerRow = minicbor::decode(&row.encode()).expect("as it was written");
        assert_eq!(read, row);
        let told: Message = serde_json::from_str(row.answer.as_deref().expect("it is kept")).expect("a message");
        assert_eq!(told.text(), Some("answer"));

        let with = |members: [(&str, i32); 2]| {
            let metadata = members.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
            Message { metadata: Some(metadata), ..message("hi") }
        };
        let row = AnswerRow::of(&with([("a", 1), ("b", 2)]), &message("answer"), None, 5);
        assert!(row.is_of(&with([("b", 2), ("a", 1)])) && !row.is_of(&with([("b", 1), ("a", 2)])));
    }

    #[test]
    fn of_a_long_answer_it_is_known_that_there_was_one_and_for_25_hours() {
        let row = AnswerRow::of(&message("hi"), &message(&"x".repeat(ANSWER_BYTES_MAX)), None, 5);
        assert_eq!((row.answer.clone(), row.is_of(&message("hi"))), (None, true));
        assert!(!row.is_old(5 + ANSWER_MS_MAX) && row.is_old(6 + ANSWER_MS_MAX));
    }

    #[test]
    fn names_of_messages_are_of_nothing_else() {
        let name = name_of("echo", "caller", "k");
        for other in [name_of("echo", "callerk", ""), name_of("echo2", "caller", "k"), name_of("echo", "caller", "l")] {
            assert_ne!(name, other);
        }
    }
}

//! Messages whose ids are keys: what is remembered of them where no task of theirs is kept, so that whoever sends one again
//! learns that it was done, and nothing is done twice (SPEC P-77).

use a2a::Message;
use althing_protocol::{Digest, Label, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::record::Scope;
use super::session::digest_of;
use super::shares::ShareOwner;

mod ages;

pub(crate) use ages::{Ages, Limits, Surplus};

/// How long it is remembered, milliseconds: an hour more than a call may stay in doubt.
pub(crate) const ANSWER_MS_MAX: u64 = 25 * 60 * 60 * 1_000;
/// Bytes of an answer that is remembered, as JSON; of a longer one only that there was one.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Hexadecimal digits of a key.
const KEY_DIGITS: usize = 64;
/// What digests of messages begin with.
const OF_MESSAGE: &[u8] = b"althing message\0";
/// What digests of payers begin with.
const OF_PAYER: &[u8] = b"althing payer\0";

/// Whether the id of a message is a key: its sender sends it again with the same one, whatever becomes of either node.
pub(crate) fn is_key(message_id: &str) -> bool {
    message_id.len() == KEY_DIGITS && message_id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The name of a message to the agent of that name, from the caller of that scope, as it is stored.
pub(crate) fn name_of(agent: &str, scope: &str, message_id: &str) -> Digest {
    digest_of(OF_MESSAGE, &[agent, scope, message_id])
}

/// Whose room it takes that something is remembered: rows say no more of that than they must.
pub(crate) fn payer_of(owner: &ShareOwner) -> Digest {
    match owner {
        ShareOwner::Scope(scope) => digest_of(OF_PAYER, &["caller", &String::from(scope.payer())]),
        // Another text for the same origin would be another share, and nothing worse.
        ShareOwner::Crowd(group) => digest_of(OF_PAYER, &["crowd", &format!("{group:?}")]),
    }
}

/// The untrusted peers that share a payer's room, as a task names them; none where a caller has its own.
pub(crate) fn crowd_of(owner: &ShareOwner) -> Option<String> {
    match owner {
        ShareOwner::Scope(_) => None,
        ShareOwner::Crowd(_) => Some(URL_SAFE_NO_PAD.encode(payer_of(owner))),
    }
}

/// Whose room it takes that a message of a task is remembered.
pub(crate) fn payer_of_task(crowd: Option<&str>, scope: Scope) -> Digest {
    let crowd = crowd.and_then(|crowd| URL_SAFE_NO_PAD.decode(crowd).ok()?.try_into().ok());
    crowd.unwrap_or_else(|| payer_of(&ShareOwner::Scope(scope)))
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
    /// Whose room it takes. Rows from before that was counted do not say so, and share one part.
    #[n(4)]
    payer: Option<ByteVec>,
}

impl AnswerRow {
    /// Of a message that was answered with that one.
    pub fn of(message: &Message, answer: &Message, label: Option<Label>, at_ms: u64) -> AnswerRow {
        let answer = serde_json::to_string(answer).ok().filter(|answer| answer.len() <= ANSWER_BYTES_MAX);
        AnswerRow { at_ms, content: Some(content(message).to_vec().into()), answer, label, payer: None }
    }

    /// Of a message whose task is deleted, and changed last at that time.
    pub fn of_deleted(at_ms: u64) -> AnswerRow {
        AnswerRow { at_ms, content: None, answer: None, label: None, payer: None }
    }

    /// The same, which takes that payer's room.
    pub fn paid_by(self, payer: Digest) -> AnswerRow {
        AnswerRow { payer: Some(payer.to_vec().into()), ..self }
    }

    /// Whose room it takes.
    pub fn payer(&self) -> Digest {
        self.payer.as_ref().and_then(|payer| payer.as_slice().try_into().ok()).unwrap_or_default()
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

/// What a row says beside its answer, its time and its payer, in little room.
#[derive(Debug, Clone, Copy)]
struct ShortAnswer {
    content: Option<Digest>,
    label: Option<Label>,
}

impl ShortAnswer {
    fn of(row: &AnswerRow) -> ShortAnswer {
        let content = row.content.as_ref().and_then(|content| content.as_slice().try_into().ok());
        ShortAnswer { content, label: row.label }
    }

    /// The row without its answer.
    fn row(self, at_ms: u64, payer: Digest) -> AnswerRow {
        let content = self.content.map(|content| content.to_vec().into());
        AnswerRow { at_ms, content, answer: None, label: self.label, payer: None }.paid_by(payer)
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
    fn a_row_from_before_payers_were_counted_is_read() {
        #[derive(Encode)]
        #[cbor(map)]
        struct UnpaidRow {
            #[n(0)]
            at_ms: u64,
            #[n(1)]
            content: Option<ByteVec>,
        }
        let before = UnpaidRow { at_ms: 5, content: None };
        let read: AnswerRow = minicbor::decode(&minicbor::to_vec(&before).expect("memory takes any")).expect("a row");
        assert_eq!((read.payer(), read.clone()), ([0; 32], AnswerRow::of_deleted(5)));
        assert_eq!(read.paid_by([7; 32]).payer(), [7; 32]);
    }

    #[test]
    fn users_of_one_caller_take_one_room_and_so_do_strangers_of_one_origin() {
        use althing_call::Principal;
        use althing_communication::QuotaGroup;
        use althing_protocol::{CallerId, SecretKey};

        let key = |seed: u8| SecretKey::from_seed(&[seed; 32]).public();
        let of = |scope: Scope| payer_of(&ShareOwner::Scope(scope));
        let [caller, other] = [1, 2].map(|seed| CallerId::Node(key(seed)));
        let user = Scope::of_call(caller, &[Principal::parse("token:alice")]);
        assert_eq!(of(user), of(Scope::of(caller)));
        assert_ne!(of(Scope::of(other)), of(Scope::of(caller)));
        // Keys are free: two of them are one payer, also where only their tasks are left.
        let crowd = ShareOwner::Crowd(QuotaGroup::Origin(None));
        let named = crowd_of(&crowd);
        for scope in [caller, other].map(Scope::of) {
            assert_eq!(payer_of_task(named.as_deref(), scope), payer_of(&crowd));
            assert_eq!(payer_of_task(None, scope), of(scope));
            assert_eq!(crowd_of(&ShareOwner::Scope(scope)), None);
        }
        assert_ne!(payer_of(&crowd), payer_of(&ShareOwner::Crowd(QuotaGroup::Peer(key(1)))));
    }

    #[test]
    fn names_of_messages_are_of_nothing_else() {
        let name = name_of("echo", "caller", "k");
        for other in [name_of("echo", "callerk", ""), name_of("echo2", "caller", "k"), name_of("echo", "caller", "l")] {
            assert_ne!(name, other);
        }
    }
}

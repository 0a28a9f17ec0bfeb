//! What a program saved of its turn before its node ended: it is told that with the message of the turn, which comes again.

use a2a::Message;
use serde_json::json;

use crate::agent::Turn;
use crate::steps;

/// The member of the message's metadata that has it.
const MEMBER: &str = "https://althing.dev/ext/checkpoint/v1";

/// The turn that runs here, with what its program saved, if it saved something.
pub(super) fn told(mut turn: Turn) -> Turn {
    let saved = steps::checkpoint().map(|checkpoint| String::from_utf8_lossy(&checkpoint.state).into_owned());
    put(&mut turn.message, saved);
    turn
}

/// Nobody but the node says what was saved.
fn put(message: &mut Message, saved: Option<String>) {
    if let Some(metadata) = &mut message.metadata {
        metadata.remove(MEMBER);
    }
    if let Some(state) = saved {
        message.metadata.get_or_insert_default().insert(MEMBER.to_owned(), json!({ "state": state }));
    }
}

#[cfg(test)]
mod tests {
    use a2a::{Part, Role};

    use super::*;

    #[test]
    fn a_message_has_what_was_saved_and_no_caller_says_that() {
        let mut message = Message::new(Role::User, vec![Part::text("go")]);
        put(&mut message, None);
        assert_eq!(message.metadata, None);
        put(&mut message, Some("7".to_owned()));
        assert_eq!(message.metadata, Some([(MEMBER.to_owned(), json!({ "state": "7" }))].into()));
        message.metadata.get_or_insert_default().insert("other".to_owned(), json!(1));
        put(&mut message, None);
        assert_eq!(message.metadata, Some([("other".to_owned(), json!(1))].into()));
    }
}

//! Deduplicates the agent's messages in the history of a program's task.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use a2a::{Message, Role, Task};

/// Messages of a task's history that are read: the newest.
const MESSAGES_MAX: usize = 256;
/// Bytes of such a message, as JSON: as for a message of a status.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Seen messages that are remembered: the last.
const SEEN_MAX: usize = 4 * MESSAGES_MAX;

/// The seen messages of an agent in a task: hashes of their ids, the newest last.
#[derive(Debug, Default)]
pub(super) struct SeenMessages(VecDeque<u64>);

impl SeenMessages {
    /// The messages of the task's history, and the one that is sent now: a client may say that it speaks for the agent, and the
    /// program's history has its message too.
    pub fn of(history: &[Message], sent: &Message) -> SeenMessages {
        let mut seen = SeenMessages::default();
        for message in history.iter().chain([sent]).filter(|message| message.role == Role::Agent) {
            seen.mark_seen(message);
        }
        seen
    }

    /// Marks a message as seen; false if it was already.
    pub fn mark_seen(&mut self, message: &Message) -> bool {
        let mut hasher = DefaultHasher::new();
        message.message_id.hash(&mut hasher);
        let id = hasher.finish();
        if self.0.contains(&id) {
            return false;
        }
        if self.0.len() == SEEN_MAX {
            self.0.pop_front();
        }
        self.0.push_back(id);
        true
    }

    /// Takes the task's history; gives the agent's unseen messages in it, oldest first, except the message of the status.
    pub fn take_unseen(&mut self, task: &mut Task) -> Vec<Message> {
        if let Some(message) = &task.status.message {
            self.mark_seen(message);
        }
        let mut messages = task.history.take().unwrap_or_default();
        messages.retain(|message| message.role == Role::Agent);
        messages.drain(..messages.len().saturating_sub(MESSAGES_MAX));
        messages.retain(|message| self.mark_seen(message) && fits(message));
        messages
    }
}

fn fits(message: &Message) -> bool {
    let bytes = serde_json::to_vec(message).map_or(usize::MAX, |json| json.len());
    if bytes > MESSAGE_BYTES_MAX {
        tracing::warn!(bytes, "a message in the history of a program's task is too long, and left out");
    }
    bytes <= MESSAGE_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use a2a::{Part, TaskState, TaskStatus};

    use super::*;

    fn message(id: &str, role: Role, text: &str) -> Message {
        Message { message_id: id.to_owned(), ..Message::new(role, vec![Part::text(text)]) }
    }

    fn task(history: Vec<Message>, last: Option<Message>) -> Task {
        Task {
            id: "t".to_owned(),
            context_id: "c".to_owned(),
            status: TaskStatus { state: TaskState::Completed, message: last, timestamp: None },
            artifacts: None,
            history: Some(history),
            metadata: None,
        }
    }

    fn ids(messages: &[Message]) -> Vec<&str> {
        messages.iter().map(|message| message.message_id.as_str()).collect()
    }

    #[test]
    fn only_what_the_agent_said_and_nobody_heard_is_told_and_that_once() {
        let agent = |id| message(id, Role::Agent, "x");
        let mut seen = SeenMessages::of(&[message("u", Role::User, "x"), agent("asked")], &agent("sent"));
        let history =
            vec![message("u", Role::User, "x"), agent("asked"), agent("sent"), agent("1"), agent("2"), agent("last")];
        let mut first = task(history.clone(), Some(agent("last")));
        assert_eq!(ids(&seen.take_unseen(&mut first)), ["1", "2"]);
        assert_eq!(first.history, None);
        assert!(seen.take_unseen(&mut task(history, None)).is_empty(), "all of it was heard");
        // An id of its own is no reason to be taken for what the user said.
        assert_eq!(ids(&seen.take_unseen(&mut task(vec![agent("u")], None))), ["u"]);
    }

    #[test]
    fn what_is_too_long_or_too_much_is_left_out() {
        let long = message("long", Role::Agent, &"x".repeat(MESSAGE_BYTES_MAX));
        let many = (0..10 * SEEN_MAX).map(|n| message(&n.to_string(), Role::Agent, "x"));
        let mut task = task(many.chain([long]).collect(), None);
        let mut seen = SeenMessages::default();
        let unseen = seen.take_unseen(&mut task);
        let (first, last) = (10 * SEEN_MAX - MESSAGES_MAX + 1, 10 * SEEN_MAX - 1);
        assert_eq!(unseen.len(), MESSAGES_MAX - 1);
        assert_eq!(
            (&*unseen[0].message_id, &*unseen[unseen.len() - 1].message_id),
            (&*first.to_string(), &*last.to_string())
        );
        for n in 0..10 * SEEN_MAX {
            seen.mark_seen(&message(&format!("other {n}"), Role::Agent, "x"));
        }
        assert_eq!(seen.0.len(), SEEN_MAX);
    }
}

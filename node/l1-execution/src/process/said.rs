//! What a program's task says that its node did not hear before: the agent's messages in its history.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use a2a::{Message, Role, Task};

/// Messages of one task's history that are looked at: the newest.
const MESSAGES_MAX: usize = 256;
/// Bytes of such a message, as JSON: as many as may be said with a state.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Messages that are known to have been heard: the last.
const HEARD_MAX: usize = 4 * MESSAGES_MAX;

/// What the agent said in a task, as far as it was heard: hashes of the messages' ids, the last heard last.
#[derive(Debug, Default)]
pub(super) struct Said(VecDeque<u64>);

impl Said {
    /// What stands in the task's history already.
    pub fn of(history: &[Message]) -> Said {
        let mut said = Said::default();
        for message in history.iter().filter(|message| message.role == Role::Agent) {
            said.hear(message);
        }
        said
    }

    /// Hears a message; false when it was heard before.
    pub fn hear(&mut self, message: &Message) -> bool {
        let mut hasher = DefaultHasher::new();
        message.message_id.hash(&mut hasher);
        let id = hasher.finish();
        if self.0.contains(&id) {
            return false;
        }
        if self.0.len() == HEARD_MAX {
            self.0.pop_front();
        }
        self.0.push_back(id);
        true
    }

    /// Takes the task's history; gives the agent's messages in it that were not heard yet, oldest first. What the task says
    /// with its state is none of them.
    pub fn unheard(&mut self, task: &mut Task) -> Vec<Message> {
        if let Some(message) = &task.status.message {
            self.hear(message);
        }
        let mut said = task.history.take().unwrap_or_default();
        said.retain(|message| message.role == Role::Agent);
        said.drain(..said.len().saturating_sub(MESSAGES_MAX));
        said.retain(|message| self.hear(message) && fits(message));
        said
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
        let mut said = Said::of(&[message("u", Role::User, "x"), agent("asked")]);
        let history = vec![message("u", Role::User, "x"), agent("asked"), agent("1"), agent("2"), agent("last")];
        let mut first = task(history.clone(), Some(agent("last")));
        assert_eq!(ids(&said.unheard(&mut first)), ["1", "2"]);
        assert_eq!(first.history, None);
        assert!(said.unheard(&mut task(history, None)).is_empty(), "all of it was heard");
        // An id of its own is no reason to be taken for what the user said.
        assert_eq!(ids(&said.unheard(&mut task(vec![agent("u")], None))), ["u"]);
    }

    #[test]
    fn what_is_too_long_or_too_much_is_left_out() {
        let long = message("long", Role::Agent, &"x".repeat(MESSAGE_BYTES_MAX));
        let many = (0..10 * HEARD_MAX).map(|n| message(&n.to_string(), Role::Agent, "x"));
        let mut task = task(many.chain([long]).collect(), None);
        let mut said = Said::default();
        let unheard = said.unheard(&mut task);
        let (first, last) = (10 * HEARD_MAX - MESSAGES_MAX + 1, 10 * HEARD_MAX - 1);
        assert_eq!(unheard.len(), MESSAGES_MAX - 1);
        assert_eq!(
            (&*unheard[0].message_id, &*unheard[unheard.len() - 1].message_id),
            (&*first.to_string(), &*last.to_string())
        );
        for n in 0..10 * HEARD_MAX {
            said.hear(&message(&format!("other {n}"), Role::Agent, "x"));
        }
        assert_eq!(said.0.len(), HEARD_MAX);
    }
}

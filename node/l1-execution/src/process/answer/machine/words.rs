//! The words that agents write for states and roles, and what a state says of an answer.

use a2a::{TaskState, TaskStatus};

/// The words for a state without their prefix, and without what separates them.
const STATES: [(&str, &str); 10] = [
    ("SUBMITTED", "TASK_STATE_SUBMITTED"),
    ("WORKING", "TASK_STATE_WORKING"),
    ("COMPLETED", "TASK_STATE_COMPLETED"),
    ("FAILED", "TASK_STATE_FAILED"),
    ("CANCELED", "TASK_STATE_CANCELED"),
    ("CANCELLED", "TASK_STATE_CANCELED"),
    ("INPUTREQUIRED", "TASK_STATE_INPUT_REQUIRED"),
    ("REJECTED", "TASK_STATE_REJECTED"),
    ("AUTHREQUIRED", "TASK_STATE_AUTH_REQUIRED"),
    ("UNSPECIFIED", "TASK_STATE_UNSPECIFIED"),
];
/// The role of an agent.
pub const AGENT: &str = "ROLE_AGENT";
const USER: &str = "ROLE_USER";

/// The state that a word means, whatever its case, its prefix and what separates it.
pub fn state_of(word: &str) -> Option<&'static str> {
    let bare: String = word.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_uppercase()).collect();
    // What has other characters is another word.
    let is_word = word.trim().chars().all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-' | ' '));
    let bare = bare.strip_prefix("TASKSTATE").unwrap_or(&bare);
    STATES.iter().find(|(name, _)| is_word && *name == bare).map(|(_, state)| *state)
}

/// Whether a task in this state waits for its user.
pub fn is_interrupted(state: &TaskState) -> bool {
    matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

/// Whether the agent says something with its state. A message without parts says nothing.
pub fn says_something(status: &TaskStatus) -> bool {
    status.message.as_ref().is_some_and(|message| !message.parts.is_empty())
}

/// Whether a task in this state is read by people as all that was made of it, or asked of them.
pub fn may_be_whole(state: &TaskState) -> bool {
    *state == TaskState::Completed || is_interrupted(state)
}

/// The role that a word means.
pub fn role_of(word: &str) -> Option<&'static str> {
    let word = word.trim().to_ascii_lowercase();
    match word.strip_prefix("role_").unwrap_or(&word) {
        "agent" | "assistant" => Some(AGENT),
        "user" => Some(USER),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_roles_are_read_in_any_case_with_a_prefix_or_without() {
        for (word, state) in [
            ("completed", Some("TASK_STATE_COMPLETED")),
            ("COMPLETED", Some("TASK_STATE_COMPLETED")),
            ("task_state_failed", Some("TASK_STATE_FAILED")),
            ("input-required", Some("TASK_STATE_INPUT_REQUIRED")),
            ("inputRequired", Some("TASK_STATE_INPUT_REQUIRED")),
            ("Auth Required", Some("TASK_STATE_AUTH_REQUIRED")),
            ("canceled", Some("TASK_STATE_CANCELED")),
            ("Cancelled", Some("TASK_STATE_CANCELED")),
            ("TASK_STATE_WORKING", Some("TASK_STATE_WORKING")),
            ("TASK_STATE_UNSPECIFIED", Some("TASK_STATE_UNSPECIFIED")),
            ("done", None),
            ("unknown", None),
            ("completed!", None),
            ("not completed", None),
            ("", None),
        ] {
            assert_eq!(state_of(word), state, "{word}");
        }
        for (word, role) in [
            ("agent", Some(AGENT)),
            ("Assistant", Some(AGENT)),
            ("ROLE_AGENT", Some(AGENT)),
            ("user", Some(USER)),
            ("ROLE_UNSPECIFIED", None),
            ("tool", None),
        ] {
            assert_eq!(role_of(word), role, "{word}");
        }
    }
}

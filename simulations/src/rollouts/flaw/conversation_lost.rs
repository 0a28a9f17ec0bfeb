//! When a conversation began is forgotten: each of its calls begins a new one.

use super::Flaw;

pub(super) struct LostConversation;

impl Flaw for LostConversation {
    fn name(&self) -> &'static str {
        "conversation-lost"
    }

    fn began(&self, _noted: Option<u64>) -> Option<u64> {
        None
    }
}

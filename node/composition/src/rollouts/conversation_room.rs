//! For how many conversations there is room to note how they began: one agent leaves room for the others, and strangers leave room for
//! the owner of the node.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Conversations of all agents together.
pub(super) const CONVERSATIONS_MAX: usize = 65_536;
/// Those of one agent.
const OF_AGENT_MAX: usize = CONVERSATIONS_MAX / 4;
/// Those of one agent that others than the owner of the node began.
const OF_STRANGERS_MAX: usize = OF_AGENT_MAX / 2;

/// Of how many conversations it is noted how they began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ConversationCount {
    /// All of them.
    pub all: usize,
    /// Those that others than the owner of the node began.
    pub of_strangers: usize,
}

impl ConversationCount {
    /// Counts one more.
    pub fn add(&mut self, is_stranger: bool) {
        self.all += 1;
        self.of_strangers += usize::from(is_stranger);
    }

    fn without(self, other: ConversationCount) -> ConversationCount {
        ConversationCount {
            all: self.all.saturating_sub(other.all),
            of_strangers: self.of_strangers.saturating_sub(other.of_strangers),
        }
    }
}

/// The conversations that are noted, by the names of their agents.
#[derive(Debug, Default)]
pub(super) struct ConversationRoom(Mutex<BTreeMap<String, ConversationCount>>);

impl ConversationRoom {
    /// What is noted already.
    pub fn of(counts: BTreeMap<String, ConversationCount>) -> ConversationRoom {
        ConversationRoom(Mutex::new(counts))
    }

    /// Whether one more conversation of an agent can be noted.
    pub fn has_room(&self, agent: &str, is_stranger: bool) -> bool {
        let counts = self.lock();
        let own = counts.get(agent).copied().unwrap_or_default();
        let all: usize = counts.values().map(|count| count.all).sum();
        let is_free = all < CONVERSATIONS_MAX && own.all < OF_AGENT_MAX;
        is_free && (!is_stranger || own.of_strangers < OF_STRANGERS_MAX)
    }

    /// Counts a conversation of an agent that is noted.
    pub fn add(&self, agent: &str, is_stranger: bool) {
        self.lock().entry(agent.to_owned()).or_default().add(is_stranger);
    }

    /// So many of an agent are noted no more. Others may be noted meanwhile: the number is never too small.
    pub fn remove(&self, agent: &str, deleted: ConversationCount) {
        let mut counts = self.lock();
        if let Some(count) = counts.get_mut(agent) {
            *count = count.without(deleted);
        }
        counts.retain(|_, count| *count != ConversationCount::default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, ConversationCount>> {
        self.0.lock().expect("no holder of the counts panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes conversations of an agent until there is no room; gives how many.
    fn fill(room: &ConversationRoom, agent: &str, is_stranger: bool) -> usize {
        let mut count = 0;
        while room.has_room(agent, is_stranger) {
            room.add(agent, is_stranger);
            count += 1;
        }
        count
    }

    #[test]
    fn strangers_leave_room_for_the_owner_and_an_agent_for_the_others() {
        let room = ConversationRoom::default();
        assert_eq!(fill(&room, "shop", true), 8_192);
        assert_eq!(fill(&room, "shop", false), 8_192, "the owner has the other half");
        assert_eq!((fill(&room, "mail", false), fill(&room, "mail", true)), (16_384, 0));
        assert_eq!((fill(&room, "desk", true), fill(&room, "desk", false)), (8_192, 8_192));
        assert_eq!(fill(&room, "last", false), 16_384);
        assert_eq!(fill(&room, "none", false), 0, "that is all that there is");
    }

    #[test]
    fn what_is_deleted_makes_room() {
        let room = ConversationRoom::of(BTreeMap::new());
        let all = fill(&room, "shop", true);
        room.remove("shop", ConversationCount { all: 2, of_strangers: 1 });
        assert_eq!(fill(&room, "shop", true), 1);
        room.remove("shop", ConversationCount { all, of_strangers: all });
        assert_eq!(fill(&room, "shop", true), all);
        room.remove("other", ConversationCount { all, of_strangers: all });
        assert_eq!(fill(&room, "other", true), all, "nothing was noted of it");
    }
}

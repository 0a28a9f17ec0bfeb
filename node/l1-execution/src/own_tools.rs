//! Tools of the node itself: which of them stay within it, and which only look.

/// The servers that have them.
const OWN: [&str; 2] = ["memory", "session"];
/// Those that tell what there is, and change nothing, neither here nor outside. `session/notes` has no effect at all, as its
/// server says, and needs no place here.
const READS: [&str; 5] = ["memory/get", "memory/keys", "memory/recall", "mesh/find_agents", "mesh/describe_agent"];
/// The tool that gives the work of a turn's task to another agent.
pub const HAND_OVER: &str = "session/handoff";
/// The tool that saves how far a turn came.
pub const SAVE: &str = "session/checkpoint";

/// Whether a tool (`server/tool`) is one of the node itself that neither leaves it nor does anything outside. Handing work over gives it
/// to an agent that may be of another node.
#[must_use]
pub fn is_within(tool: &str) -> bool {
    let server = tool.split_once('/').map_or("", |(server, _)| server);
    OWN.contains(&server) && tool != HAND_OVER
}

/// Whether a tool (`server/tool`) is one that nodes have, though the contract of an agent may not name it.
#[must_use]
pub(crate) fn is_own_tool(tool: &str) -> bool {
    is_own_read(tool) || [HAND_OVER, SAVE].contains(&tool)
}

/// Whether a tool (`server/tool`) is one of the node itself that only tells what there is. What it tells may be another thing each
/// time, so that a journal has a row of it: to whoever must change nothing it is as good as one without an effect.
#[must_use]
pub fn is_own_read(tool: &str) -> bool {
    READS.contains(&tool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{memory, mesh, note_server};

    #[test]
    fn memory_and_a_session_stay_within_the_node_but_for_work_that_is_handed_over() {
        for within in [memory::SERVER, note_server::SERVER] {
            assert!(is_within(&format!("{within}/put")) && !is_within(within), "{within}");
        }
        for outside in [HAND_OVER, mesh::SERVER, "agents/clerk", "shop/order", "sessions/note", ""] {
            assert!(!is_within(outside), "{outside}");
        }
        assert!(HAND_OVER.starts_with(note_server::SERVER));
    }

    #[test]
    fn what_writes_or_reaches_others_is_no_read() {
        for tool in ["put", "delete", "remember", "forget", "get/x", ""] {
            assert!(!is_own_read(&format!("{}/{tool}", memory::SERVER)), "{tool}");
        }
        for tool in [HAND_OVER, "session/note", "agents/clerk", "groups/shop", "shop/get", "get", "find_agents"] {
            assert!(!is_own_read(tool), "{tool}");
        }
        assert!(READS.iter().all(|tool| is_own_read(tool)));
    }
}

//! Tools of the node itself: which of them stay within it.

/// The servers that have them.
const OWN: [&str; 2] = ["memory", "session"];
/// The tool that gives the work of a turn's task to another agent.
pub const HAND_OVER: &str = "session/handoff";

/// Whether a tool (`server/tool`) is one of the node itself that neither leaves it nor does anything outside. Handing work over gives it
/// to an agent that may be of another node.
#[must_use]
pub fn is_within(tool: &str) -> bool {
    let server = tool.split_once('/').map_or("", |(server, _)| server);
    OWN.contains(&server) && tool != HAND_OVER
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
}

//! Why nothing could be found.

/// Why one agent could not be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// No such agent is known.
    #[error("no agent {0:?} is known; `althing find` lists those that are")]
    Unknown(String),
    /// An agent of somebody near had that name, and is gone; a stranger's may have it now.
    #[error(
        "{name:?} is {id}, which no node hosts now; an agent of the same name that somebody else published is called by its own id"
    )]
    Gone {
        /// The name.
        name: String,
        /// The agent's id.
        id: String,
    },
    /// A name that several publishers use.
    #[error("{name:?} is the name of {} agents: {}; use the whole id of one", ids.len(), ids.join(", "))]
    Ambiguous {
        /// The name.
        name: String,
        /// The agents' ids.
        ids: Vec<String>,
    },
}

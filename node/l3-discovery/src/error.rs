//! Why nothing could be found.

/// Why one agent could not be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// No such agent is known.
    #[error("no agent {0:?} is known; `althing find` lists those that are")]
    Unknown(String),
    /// A name that several publishers use.
    #[error("{name:?} is the name of {} agents: {}; use the whole id of one", ids.len(), ids.join(", "))]
    Ambiguous {
        /// The name.
        name: String,
        /// The agents' ids.
        ids: Vec<String>,
    },
}

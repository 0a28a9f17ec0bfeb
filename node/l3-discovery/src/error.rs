//! Why nothing could be found.

/// Ids that a message names: whoever publishes agents of a name must not fill a terminal.
const NAMED_MAX: usize = 8;

/// Why one agent could not be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// No such agent is known.
    #[error("no agent {0:?} is known")]
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
    /// Only strangers have agents of that name, and whoever asked did not ask for a stranger's.
    #[error(
        "no agent of yours, nor of anybody you trust, is known that is called {name:?}; a name alone never leads to a \
         stranger's. Strangers have {}{}: use the whole id of one, or trust its owner",
        .ids.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", "),
        if .ids.len() > NAMED_MAX { format!(" and {} more", .ids.len() - NAMED_MAX) } else { String::new() }
    )]
    OnlyStrangers {
        /// The name.
        name: String,
        /// The agents' ids.
        ids: Vec<String>,
    },
    /// A name that several publishers use.
    #[error(
        "{name:?} is the name of {} agents: {}; use the whole id of one",
        .ids.len(),
        .ids.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// The name.
        name: String,
        /// The agents' ids.
        ids: Vec<String>,
    },
}

//! Why a sentence is not routed, or a channel not resolved.

use std::fmt;

use althing_failure::{Kind, NodeStep, Remedy};
use althing_node::NodeError;

/// Capabilities of one channel.
pub(super) const NEEDS_MAX: usize = 64;

/// A capability of a channel that no agent has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelNeed {
    /// What the channel wants.
    pub capability: String,
    /// The versions that there are, the highest first.
    pub versions: Vec<String>,
    /// Agents that have it, but whose release was yanked or revoked.
    pub withdrawn: usize,
}

impl fmt::Display for ChannelNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no agent will do for {}", self.capability)?;
        match (self.withdrawn, self.versions.as_slice()) {
            (0, []) => write!(f, ", and none has another version"),
            (0, versions) => write!(f, "; there are {}", versions.join(", ")),
            (withdrawn, _) => write!(f, ": the releases of {withdrawn} that have it were yanked or revoked"),
        }
    }
}

/// Why a sentence is not routed.
#[derive(Debug, thiserror::Error)]
pub enum RoutingError {
    /// What was learned cannot be read or written, or the model not be started.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A file of rows.
    #[error("{path}: {why}")]
    File {
        /// Its path.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// More was learned than a node keeps.
    #[error(
        "a node keeps at most {} labelled sentences of {} MiB in all",
        althing_routing::ROWS_MAX,
        althing_routing::FILE_BYTES_MAX >> 20
    )]
    Full,
    /// A channel wants too many capabilities, or none.
    #[error("a channel wants 1 to {} capabilities, such as billing.view@^1.2", NEEDS_MAX)]
    Needs,
    /// A channel has a capability that no agent has.
    #[error("nothing is resolved: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Unresolved(Vec<ChannelNeed>),
    /// A model would be asked too often.
    #[error(
        "a model is asked once for each sentence that is tested, at most {max} times, and {tested} are tested: mark more rows \
         `learn` in the column `split`, or cut the file"
    )]
    TooMany {
        /// Sentences that are tested.
        tested: usize,
        /// How many at most.
        max: usize,
    },
    /// The model did not answer.
    #[error("the model did not choose: {0}")]
    Model(String),
    /// Its answer is no number of the list: the beginning of it, in quotes.
    #[error("the model answered {0}, which names no agent")]
    Unclear(String),
}

impl RoutingError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            RoutingError::Node(error) => error.kind(),
            RoutingError::File { .. } | RoutingError::Needs | RoutingError::TooMany { .. } => Kind::Invalid,
            RoutingError::Unresolved(_) => Kind::NotFound,
            RoutingError::Full => Kind::Refused,
            RoutingError::Model(_) | RoutingError::Unclear(_) => Kind::Failed,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        let step = match self {
            RoutingError::Node(error) => return error.remedy(),
            RoutingError::Full => NodeStep::ForgetRoutes,
            RoutingError::Model(_) => NodeStep::RouteWithoutModel,
            RoutingError::Unclear(_) => NodeStep::AskModelAgain,
            RoutingError::File { .. }
            | RoutingError::Needs
            | RoutingError::Unresolved(_)
            | RoutingError::TooMany { .. } => return None,
        };
        Some(step.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_says_what_there_is_instead() {
        let need = |versions: &[&str], withdrawn| {
            let versions = versions.iter().map(|version| (*version).to_owned()).collect();
            ChannelNeed { capability: "billing.view@^3".to_owned(), versions, withdrawn }.to_string()
        };
        assert_eq!(need(&["2.0.0", "1.2.3"], 0), "no agent will do for billing.view@^3; there are 2.0.0, 1.2.3");
        assert!(need(&[], 0).ends_with("none has another version"));
        assert!(need(&["3.0.0"], 1).contains("1 that have it were yanked"));
    }
}

//! An agent in one of its versions.

use std::sync::Arc;

use crate::identity::{AgentId, IdentityError, PublisherId};

/// An agent in one of its versions: two versions of one agent have one id, and may be permitted different things.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentRef {
    /// Whose it is, and its name.
    pub id: AgentId,
    /// Its version (semver 2.0.0), as its file says it.
    pub version: Arc<str>,
}

impl AgentRef {
    /// That version of the agent `name` of `publisher`.
    ///
    /// # Errors
    /// [`IdentityError::AgentName`].
    pub fn new(publisher: PublisherId, name: &str, version: &str) -> Result<AgentRef, IdentityError> {
        Ok(AgentRef { id: AgentId::new(publisher, name)?, version: version.into() })
    }

    /// The agent's name, unique within its publisher.
    #[must_use]
    pub fn name(&self) -> &str {
        self.id.name()
    }
}

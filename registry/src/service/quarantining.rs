//! The operator hides what is in the registry, and shows it again. The log says both, and nothing goes from the disk.

use althing_protocol::AgentId;
use althing_protocol::registry::Version;

use super::write_batch::{PendingWrite, QuarantineOf};
use super::{Purging, RequestError};

impl Purging<'_> {
    /// Hides an agent, or one of its versions, for a reason; shows it again without one. Whether that is anything new. When it
    /// completes, it is on disk.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn quarantine(
        &self,
        agent: &AgentId,
        version: Option<&Version>,
        reason: Option<&str>,
    ) -> Result<bool, RequestError> {
        let wanted =
            QuarantineOf { agent: agent.clone(), version: version.cloned(), reason: reason.map(str::to_owned) };
        self.0.commit(|answer| PendingWrite::Quarantine(Box::new(wanted), answer)).await
    }
}

//! Purging releases of the owner's.

use althing_protocol::AgentId;
use althing_protocol::registry::Version;

use super::{Publishing, RegistriesError};

impl Publishing<'_> {
    /// Purges a release that is not for everybody, from the registry's disk too; gives what was purged, and where.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn purge(
        &self,
        agent: &str,
        version: &str,
        registry: Option<&str>,
    ) -> Result<(AgentId, Version, String), RegistriesError> {
        self.0.identity.check_authority()?;
        let at = self.0.named(registry)?;
        let client = self.0.organising().visiting(&self.0.client(&at)?).await?;
        let (agent, version) = (self.0.agent(agent)?, version.parse::<Version>()?);
        client.purge(&agent, &version).await?;
        Ok((agent, version, at))
    }
}

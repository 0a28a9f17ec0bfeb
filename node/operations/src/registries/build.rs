//! A build machine, which stages releases: it has no node, no key and no network, but a token of the registry.

use std::path::PathBuf;
use std::sync::Arc;

use althing_discovery::{Fetch, SystemResolver};
use althing_protocol::registry::Version;
use althing_protocol::{AgentId, PublisherId, digest, hex};
use althing_registry_client::{BuildMachine, StagedRelease};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::RegistriesError;
use super::publishing::gather;

/// What a build machine stages.
#[derive(Debug, Clone)]
pub struct BuildStage {
    /// The agent file or the workflow file.
    pub file: PathBuf,
    /// Further files below its folder that the agent needs.
    pub with: Vec<PathBuf>,
    /// Whose agent it is.
    pub publisher: PublisherId,
    /// The address of the registry.
    pub registry: String,
}

/// What was staged.
#[derive(Debug, Clone)]
pub struct BuiltStage {
    /// The id by which its publisher approves it.
    pub id: String,
    /// The agent.
    pub agent: AgentId,
    /// The version.
    pub version: Version,
    /// The digest of the bundle, hexadecimal: approving shows it too.
    pub digest: String,
    /// Bytes of the bundle.
    pub bytes: usize,
}

impl BuildStage {
    /// Hands the release in, as the holder of the token. The same again has the same id.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn send(&self, token: String) -> Result<BuiltStage, RegistriesError> {
        let (file, bundle) = gather(&self.file, &self.with)?;
        let agent = AgentId::new(self.publisher, file.name())?;
        let version: Version = file.version().parse()?;
        // The publisher's node makes the same description of the file, and signs no other.
        let described = file.describe(&agent.to_string());
        let digest = hex(&digest(&bundle));
        let release = StagedRelease {
            agent: agent.to_string(),
            version: version.to_string(),
            digest: digest.clone(),
            description: String::from_utf8_lossy(described.bytes()).into_owned(),
            bundle: STANDARD.encode(&bundle),
        };
        let fetch = Fetch::new(Vec::new(), Arc::new(SystemResolver));
        let fetch = fetch.map_err(|error| RegistriesError::Client(error.to_string()))?;
        let id = BuildMachine::new(fetch, &self.registry, token)?.stage(&release).await?;
        Ok(BuiltStage { id, agent, version, digest, bytes: bundle.len() })
    }
}

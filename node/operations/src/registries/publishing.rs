//! Publishes releases of the owner's agents, and marks them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use althing_node::publish::sign;
use althing_protocol::object::{self, Kind};
use althing_protocol::registry::{self, Audience, Bundle, BundleFiles, Release, Standing, VerifiedRelease, Version};
use althing_protocol::{AgentId, digest};
use althing_registry_client::{RegistryClient, RegistryError};
use althing_store::file::read_bytes;
use althing_td::{RuntimeSpec, SharedFile};

use super::portable::Portable;
use super::{Registries, RegistriesError};

/// Bytes of an agent file or a workflow file.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Bytes of a release's files together: what registries keep.
const BUNDLE_BYTES_MAX: usize = 3 << 20;

/// An agent, a workflow or a Thing that is published.
#[derive(Debug, Clone)]
pub struct Publication {
    /// The agent file, the workflow file, or the description of a Thing (`.json`).
    pub file: PathBuf,
    /// Further files below its folder that the agent needs.
    pub with: Vec<PathBuf>,
    /// For whom the release is.
    pub audience: Audience,
    /// Which registry; the only one if none is named.
    pub registry: Option<String>,
}

/// What was published.
#[derive(Debug, Clone)]
pub struct Published {
    /// The agent.
    pub agent: AgentId,
    /// The version.
    pub version: Version,
    /// The registry.
    pub registry: String,
    /// Entries of its log, as of the checkpoint that covers the statement.
    pub entries: u64,
    /// Bytes of the bundle; 0 of a Thing, which has nothing to install.
    pub bytes: usize,
}

/// A mark on a release.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The agent; a name means the owner's.
    pub agent: String,
    /// The version.
    pub version: String,
    /// Its standing from now on.
    pub standing: Standing,
    /// Why, for people.
    pub reason: String,
    /// Which registry; the only one if none is named.
    pub registry: Option<String>,
}

/// Publishes what is the owner's.
pub struct Publishing<'a>(pub(super) &'a Registries);

impl Publishing<'_> {
    /// Releases an agent or a workflow: signs its description and the release, waits until the registry proves that it has both, and sends
    /// the files. What was released before, with the same content, is no error.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn publish(&self, publication: &Publication) -> Result<Published, RegistriesError> {
        self.0.identity.check_authority()?;
        if is_thing(&publication.file) {
            return self.publish_thing(publication).await;
        }
        let at = self.0.named(publication.registry.as_deref())?;
        let client = self.0.organising().visitor(&self.0.client(&at)?).await;
        let (file, bundle) = gather(&publication.file, &publication.with)?;
        let (owner, network) = (self.0.identity.owner(), self.0.identity.network());
        let now_ms = self.0.identity.clock().now_ms();
        let agent = AgentId::new(owner.id(), file.name())?;
        let version: Version = file.version().parse()?;
        let described = sign(agent.clone(), &file.describe(&agent.to_string()), &owner, network, now_ms)?;
        let wanted = Bundle { digest: digest(&bundle), bytes: bundle.len() as u64 };
        if let Some(before) = self.released(&client, &agent, &version).await? {
            let same = before.release.body.bundle == Some(wanted) && before.description.body.td == described.body.td;
            if !same {
                return Err(RegistriesError::VersionTaken { agent, version });
            }
            let (entries, bytes) = (before.checkpoint.head.size, bundle.len());
            self.0.accept(&at, &client, before.checkpoint.clone()).await?;
            self.0.receipt_book().keep_of((&at, &client), &before).await;
            client.keep_bundle(&agent, &version, bundle).await?;
            return Ok(Published { agent, version, registry: at, entries, bytes });
        }
        let mut release =
            Release::new(agent.clone(), version.clone(), described.digest(), publication.audience.clone(), now_ms);
        release.bundle = Some(wanted);
        let release = object::sign(release, network, "", &owner.key)?.bytes;
        let sent = self.0.receipt_book().send((&at, &client), Kind::Release, release, Some(described.bytes)).await;
        let (entries, bytes) = (sent?, bundle.len());
        client.keep_bundle(&agent, &version, bundle).await?;
        Ok(Published { agent, version, registry: at, entries, bytes })
    }

    /// The release of that version, if the registry has one, seen by all or not yet.
    pub(super) async fn released(
        &self,
        client: &RegistryClient,
        agent: &AgentId,
        version: &Version,
    ) -> Result<Option<VerifiedRelease>, RegistriesError> {
        let absent = |error: &RegistryError| matches!(error, RegistryError::Refused { status: 404, .. });
        match self.0.release(client, agent, version).await {
            Err(error) if absent(&error) => {}
            shown => return Ok(Some(shown?)),
        }
        // It may wait for the approval of others.
        match client.waiting(self.0.identity.network(), agent, version).await {
            Ok(release) => Ok(Some(release)),
            Err(RegistryError::Refused { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Marks a release of the owner's; waits until the registry proves that it has the mark.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn mark(&self, mark: &Mark) -> Result<Published, RegistriesError> {
        self.0.identity.check_authority()?;
        let at = self.0.named(mark.registry.as_deref())?;
        let client = self.0.client(&at)?;
        let (owner, network) = (self.0.identity.owner(), self.0.identity.network());
        let agent = self.0.agent(&mark.agent)?;
        let version: Version = mark.version.parse()?;
        let now_ms = self.0.identity.clock().now_ms();
        let body = registry::Mark::new(agent.clone(), version.clone(), mark.standing, &mark.reason, now_ms);
        let signed = object::sign(body, network, "", &owner.key)?.bytes;
        let entries = self.0.receipt_book().send((&at, &client), Kind::Mark, signed, None).await?;
        Ok(Published { agent, version, registry: at, entries, bytes: 0 })
    }
}

/// Whether a file is the description of a Thing, and no agent file.
fn is_thing(file: &Path) -> bool {
    file.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(".json"))
}

/// A file that is shared, and the bytes of the bundle with the files that it names.
pub(super) fn gather(path: &Path, with: &[PathBuf]) -> Result<(SharedFile, Vec<u8>), RegistriesError> {
    let read = |path: &Path, max: u64| {
        read_bytes(path, max).map_err(|source| RegistriesError::Read { path: path.to_owned(), source })
    };
    let text = String::from_utf8_lossy(&read(path, FILE_BYTES_MAX)?).into_owned();
    let shared = SharedFile::parse(&text)?;
    let mut wanted: Vec<PathBuf> = with.to_vec();
    match &shared {
        SharedFile::Agent(file) if file.contract_file.is_some() => return Err(RegistriesError::ContractApart),
        SharedFile::Agent(file) if file.role.is_some() => return Err(RegistriesError::Role),
        SharedFile::Agent(file) => {
            if let RuntimeSpec::Wasm { module } = &file.runtime {
                wanted.push(module.clone());
            }
        }
        SharedFile::Workflow(_) if !with.is_empty() => return Err(RegistriesError::FilesOfWorkflow(with.len())),
        SharedFile::Workflow(_) => {}
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut files = BTreeMap::new();
    let mut left = BUNDLE_BYTES_MAX;
    for one in wanted {
        let whole = folder.join(&one);
        let relative = whole.strip_prefix(folder).ok().and_then(Path::to_str);
        let relative = relative.ok_or_else(|| RegistriesError::Outside(one.clone()))?.to_owned();
        let bytes = read(&whole, left as u64)?;
        left = left.saturating_sub(bytes.len());
        files.insert(relative, bytes.into());
    }
    if let SharedFile::Agent(file) = &shared {
        Portable { folder, files: files.keys().cloned().collect() }.check(file)?;
    }
    let bundle = BundleFiles { agent: text, files }.encode()?;
    if bundle.len() > BUNDLE_BYTES_MAX {
        return Err(RegistriesError::TooLarge { bytes: bundle.len(), max: BUNDLE_BYTES_MAX });
    }
    Ok((shared, bundle))
}

//! Releases that wait: what build machines staged, and what others released and the owner has to approve.

use althing_node::publish::sign;
use althing_protocol::object::{self, Authored, Description, Kind};
use althing_protocol::registry::{Audience, Bundle, BundleFiles, Release, Version};
use althing_protocol::{AgentId, digest, hex};
use althing_registry_client::{Pending, RegistryClient};
use althing_td::SharedFile;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::contents::unpacked;
use super::{Published, Publishing, RegistriesError};

/// What waits for the owner's approval.
#[derive(Debug, Clone)]
pub struct Approvable {
    /// The agent.
    pub agent: AgentId,
    /// The version.
    pub version: Version,
    /// The registry.
    pub registry: String,
    /// What is agreed to: the digest of a staged bundle, or of the release that its publisher signed; hexadecimal.
    pub digest: String,
    /// The agent file or workflow file, unless its bundle cannot be read.
    pub file: Option<SharedFile>,
}

/// A staged release that was checked.
struct Staged {
    file: SharedFile,
    agent: AgentId,
    version: Version,
    bundle: Vec<u8>,
    described: Authored<Description>,
}

impl Publishing<'_> {
    /// What waits for the owner's approval.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn pending(&self, registry: Option<&str>) -> Result<(String, Pending), RegistriesError> {
        let at = self.0.named(registry)?;
        let client = self.0.organising().visiting(&self.0.client(&at)?).await?;
        Ok((at, client.pending().await?))
    }

    /// What waits, to be looked at before it is approved.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn look_at(&self, what: &str, registry: Option<&str>) -> Result<Approvable, RegistriesError> {
        let at = self.0.named(registry)?;
        let client = self.0.organising().visiting(&self.0.client(&at)?).await?;
        let Some((agent, version)) = what.rsplit_once('@') else {
            let Staged { file, agent, version, bundle, .. } = self.staged(&client, what).await?;
            return Ok(Approvable { agent, version, registry: at, digest: hex(&digest(&bundle)), file: Some(file) });
        };
        let (agent, version): (AgentId, Version) = (agent.parse()?, version.parse()?);
        let waiting = client.waiting(self.0.identity.network(), &agent, &version).await?;
        let bundle = match waiting.release.body.bundle {
            // Where the registry keeps it back, it is looked at elsewhere: its digest is what is signed.
            Some(wanted) => client.bundle(&agent, &version, wanted).await.ok(),
            None => None,
        };
        let file = bundle.map(|bundle| unpacked(&BundleFiles::decode(&bundle)?));
        let digest = hex(&waiting.release.digest());
        Ok(Approvable { agent, version, registry: at, digest, file: file.transpose()? })
    }

    /// Approves what waits, if it is what was `agreed` to: a staged release of the owner's by its id, which is signed and
    /// released; or somebody else's release as `urn:…@version`.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn approve(
        &self,
        what: &str,
        audience: Audience,
        registry: Option<&str>,
        agreed: &str,
    ) -> Result<Published, RegistriesError> {
        self.0.identity.check_authority()?;
        let at = self.0.named(registry)?;
        let client = self.0.organising().visiting(&self.0.client(&at)?).await?;
        match what.rsplit_once('@') {
            Some((agent, version)) => self.co_sign(&at, &client, (&agent.parse()?, &version.parse()?), agreed).await,
            None => self.release_staged(&at, &client, what, audience, agreed).await,
        }
    }

    /// Takes a staged release away.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn reject(&self, id: &str, registry: Option<&str>) -> Result<String, RegistriesError> {
        let at = self.0.named(registry)?;
        self.0.organising().visiting(&self.0.client(&at)?).await?.unstage(id).await?;
        Ok(at)
    }

    /// Signs the very release that its publisher signed.
    async fn co_sign(
        &self,
        at: &str,
        client: &RegistryClient,
        (agent, version): (&AgentId, &Version),
        agreed: &str,
    ) -> Result<Published, RegistriesError> {
        let waiting = client.waiting(self.0.identity.network(), agent, version).await?;
        if hex(&waiting.release.digest()) != agreed {
            return Err(RegistriesError::Changed);
        }
        let now_ms = self.0.identity.clock().now_ms();
        let mut body: Release = waiting.release.body;
        (body.by, body.sequence, body.made_ms) = (self.0.identity.owner().id(), now_ms, now_ms);
        let bytes = body.bundle.map_or(0, |bundle| bundle.bytes);
        let entries = self.send_release((at, client), body, None).await?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Ok(Published { agent: agent.clone(), version: version.clone(), registry: at.to_owned(), entries, bytes })
    }

    /// What a build machine staged, if its description is the one that the file of the bundle makes.
    async fn staged(&self, client: &RegistryClient, id: &str) -> Result<Staged, RegistriesError> {
        let staged = client.staged(id).await?;
        let other = |why: &str| RegistriesError::Staged { id: id.to_owned(), why: why.to_owned() };
        let bundle = STANDARD.decode(&staged.bundle).map_err(|_| other("its bundle cannot be read"))?;
        if hex(&digest(&bundle)) != staged.digest {
            return Err(other("its bundle has another digest than the build machine sent"));
        }
        let file = unpacked(&BundleFiles::decode(&bundle)?)?;
        let (owner, network) = (self.0.identity.owner(), self.0.identity.network());
        let agent = AgentId::new(owner.id(), file.name())?;
        let version: Version = file.version().parse()?;
        if staged.agent != agent.to_string() || staged.version != version.to_string() {
            return Err(other("its bundle holds another agent or version"));
        }
        let td = file.describe(&agent.to_string());
        let described = sign(agent.clone(), &td, &owner, network, self.0.identity.clock().now_ms())?;
        if described.body.td[..] != *staged.description.as_bytes() {
            return Err(other("its description is not the one that its file makes: build it with this version"));
        }
        Ok(Staged { file, agent, version, bundle, described })
    }

    /// Signs and releases what a build machine staged.
    async fn release_staged(
        &self,
        at: &str,
        client: &RegistryClient,
        id: &str,
        audience: Audience,
        agreed: &str,
    ) -> Result<Published, RegistriesError> {
        let Staged { agent, version, bundle, described, .. } = self.staged(client, id).await?;
        if hex(&digest(&bundle)) != agreed {
            return Err(RegistriesError::Changed);
        }
        let (wanted, bytes) = (Bundle { digest: digest(&bundle), bytes: bundle.len() as u64 }, bundle.len());
        let entries = match self.released(client, &agent, &version).await? {
            // Its release was accepted before, and what follows was not done.
            Some(before) if before.release.body.bundle == Some(wanted) => {
                let entries = before.checkpoint.head.size;
                self.0.accept(at, client, before.checkpoint.clone()).await?;
                self.0.receipt_book().keep_of((at, client), &before).await;
                entries
            }
            Some(_) => return Err(RegistriesError::VersionTaken { agent, version }),
            None => {
                let now_ms = self.0.identity.clock().now_ms();
                let mut body = Release::new(agent.clone(), version.clone(), described.digest(), audience, now_ms);
                body.bundle = Some(wanted);
                self.send_release((at, client), body, Some(described.bytes)).await?
            }
        };
        client.keep_bundle(&agent, &version, bundle).await?;
        client.unstage(id).await?;
        Ok(Published { agent, version, registry: at.to_owned(), entries, bytes })
    }

    async fn send_release(
        &self,
        to: (&str, &RegistryClient),
        body: Release,
        described: Option<Vec<u8>>,
    ) -> Result<u64, RegistriesError> {
        let owner = self.0.identity.owner();
        let release = object::sign(body, self.0.identity.network(), "", &owner.key)?.bytes;
        self.0.receipt_book().send(to, Kind::Release, release, described).await
    }
}

/// Reads for whom a release is: `public`, `organisation`, or ids of publishers, separated by commas.
///
/// # Errors
/// [`RegistriesError::Identity`].
pub fn read_audience(text: &str) -> Result<Audience, RegistriesError> {
    match text {
        "public" => Ok(Audience::public()),
        "organisation" => Ok(Audience::organisation()),
        listed => Ok(Audience::listed(listed.split(',').map(str::parse).collect::<Result<Vec<_>, _>>()?)),
    }
}

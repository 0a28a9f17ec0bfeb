//! Installs a release of somebody else's: an agent as an agent of this node's owner, a workflow as a file of the node.

use std::path::{Path, PathBuf};

use althing_governance::{Act, admit};
use althing_node::revocations::{InstalledRow, UpdateRule, remove_folder};
use althing_node::{Agents, NodeError};
use althing_protocol::registry::{BundleFiles, Standing, VerifiedRelease, Version};
use althing_protocol::{AgentId, CallerId, Digest, PublisherId};
use althing_registry_client::{
    ListedVersion, Reference, RegistryClient, RegistryError, Resolved, check_approved, chosen, passed_over,
};
use althing_td::{AgentFile, AsksAs, Callers, SharedFile, ToolTerms, uncontained};

use super::attesting::twins;
use super::contents::{file_name, of_release};
use super::holder::check_holder;
use super::inventory::check_rule;
use super::requirement::AttestedRow;
use super::{Registries, RegistriesError};

/// The age from which releases of publishers that are not trusted are installed: takeovers of accounts are noticed by then.
const AGE_MIN_MS: u64 = 72 * HOUR_MS;
const HOUR_MS: u64 = 60 * 60 * 1_000;

/// What somebody wants to install.
#[derive(Debug, Clone)]
pub struct Installation {
    /// `urn:althing:…:name` or `example.org/name`, and a range or a version after `@`.
    pub reference: String,
    /// Its name here; by default its own.
    pub name: Option<String>,
    /// Who may call it, if it is an agent.
    pub callers: Callers,
    /// Whether a young release of a publisher that is not trusted will do.
    pub young: bool,
    /// Whether its programs may run without a sandbox, or in a folder outside of the release.
    pub uncontained: bool,
    /// Whose it must be. What was installed by a name is replaced by that of another publisher only if that one is said.
    pub publisher: Option<PublisherId>,
    /// Which registry; the only one if none is named.
    pub registry: Option<String>,
    /// How newer releases come.
    pub update: UpdateRule,
}

/// What an update may bring.
#[derive(Debug, Clone, Copy, Default)]
pub struct UpdateTerms {
    /// Whether a young release of a publisher that is not trusted will do.
    pub young: bool,
    /// Whether its programs may run without a sandbox, or in a folder outside of the release.
    pub uncontained: bool,
    /// Whose it must be, if not the publisher's of now.
    pub publisher: Option<PublisherId>,
}

/// A name that a release was found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedBy {
    /// The name, such as `example.org/billing`.
    pub name: String,
    /// The domain.
    pub domain: String,
    /// The organisation that holds it.
    pub organisation: PublisherId,
    /// By what that is proven: `well-known`, `dns`, or `operator`.
    pub by: &'static str,
    /// Other domains that the registry knows and that look like this one.
    pub twins: Vec<String>,
}

impl NamedBy {
    fn of(resolved: Resolved) -> NamedBy {
        let Resolved { name, twins } = resolved;
        let domain = name.finding.domain.to_string();
        NamedBy {
            name: format!("{domain}/{}", name.agent.name()),
            domain,
            organisation: name.finding.organisation,
            by: name.finding.means.name(),
            twins,
        }
    }
}

/// A verified release that can be installed.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The publisher's agent.
    pub agent: AgentId,
    /// The version.
    pub version: Version,
    /// The registry.
    pub registry: String,
    /// The digest of the signed release: what is agreed to.
    pub digest: Digest,
    /// The range that was asked for.
    pub range: String,
    /// Why the range did not choose higher versions, as the registry says.
    pub passed_over: Vec<String>,
    /// When the registry accepted it, Unix milliseconds.
    pub at_ms: u64,
    /// The organisation's name that it was found by, and by what the domain is proven.
    pub named: Option<NamedBy>,
    /// Whether its publisher is trusted here.
    pub trusted: bool,
    /// Its standing.
    pub standing: Standing,
    /// Why, if a mark says so.
    pub reason: Option<String>,
    /// The attestations that were demanded, and that it has.
    pub attested: Vec<AttestedRow>,
    /// Agents of other publishers that were there before, and whose names look like its own, as the registry says.
    pub twins: Vec<AgentId>,
    /// Its name here.
    pub name: String,
    /// The agent file, as it would be added here; or the workflow file.
    pub file: SharedFile,
    /// How newer releases come.
    pub update: UpdateRule,
    bundle: BundleFiles,
}

/// The agent that is meant, the range of versions, and what proves the name if it was named by one.
type Meant = (AgentId, String, Option<Resolved>);

/// What is absent for everybody, and why nobody asked whether it is there for this owner.
fn in_clear(absent: RegistriesError, why: &RegistryError) -> RegistriesError {
    let why = format!("what is there for you alone was not asked for: {why}");
    match absent {
        RegistriesError::Registry(RegistryError::Refused { status, detail }) => {
            RegistryError::Refused { status, detail: format!("{detail}; {why}") }.into()
        }
        RegistriesError::NoMatch { at, agent, range, mut passed_over } => {
            passed_over.push(why);
            RegistriesError::NoMatch { at, agent, range, passed_over }
        }
        other => other,
    }
}

/// Makes an agent the owner's: with its name here, and open to those whom the owner chose.
fn settle(file: &mut AgentFile, name: &str, callers: &Callers) {
    file.name = name.to_owned();
    file.callers = callers.clone();
    file.exposure = callers.exposure();
    // Whoever is called by it sees who asked.
    file.asks_as = AsksAs::Caller;
    // Who may sign work off here, whoever published it does not say.
    file.handoff_signers.clear();
    // Which of its tools others may call is for whoever runs it to say.
    file.expose.clear();
    // What its tools do, and what they are trusted with, whoever runs it says in `[[tools]]`: gates believe it.
    file.effects.clear();
    file.profiles.values_mut().for_each(|terms| *terms = ToolTerms { hide: terms.hide, ..ToolTerms::default() });
    file.profiles.retain(|_, terms| terms.is_said());
}

/// The version that a range chooses, and why it did not choose higher ones; or the version that it names.
async fn version_in(
    range: &str,
    at: &str,
    client: &RegistryClient,
    agent: &AgentId,
) -> Result<(Version, Vec<String>), RegistriesError> {
    // An exact version is there even if it was yanked.
    if let Ok(version) = range.parse() {
        return Ok((version, Vec::new()));
    }
    let wanted = range.parse().map_err(|_| RegistriesError::Range(range.to_owned()))?;
    let listed: Vec<ListedVersion> = client.versions(agent).await?;
    let version = chosen(&listed, &wanted);
    let passed_over = passed_over(&listed, &wanted, version.as_ref());
    match version {
        Some(version) => Ok((version, passed_over)),
        None => {
            let (at, agent, range) = (at.to_owned(), agent.clone(), range.to_owned());
            Err(RegistriesError::NoMatch { at, agent: Box::new(agent), range, passed_over })
        }
    }
}

/// The files of a release.
async fn unpack(
    client: &RegistryClient,
    agent: &AgentId,
    version: &Version,
    verified: &VerifiedRelease,
) -> Result<BundleFiles, RegistriesError> {
    let missing = || RegistriesError::NoBundle { agent: agent.clone(), version: version.clone() };
    let wanted = verified.release.body.bundle.ok_or_else(missing)?;
    Ok(BundleFiles::decode(&client.bundle(agent, version, wanted).await?)?)
}

/// Installs what others published.
pub struct Installing<'a>(pub(super) &'a Registries);

impl Installing<'_> {
    /// Looks a release up and verifies it: publisher, proof, marks, bundle and age.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn look(
        &self,
        wanted: &Installation,
        trusts: impl Fn(CallerId) -> bool,
    ) -> Result<Offer, RegistriesError> {
        let at = self.0.named(wanted.registry.as_deref())?;
        let client = self.0.client(&at)?;
        match self.look_as(&at, client.clone(), wanted, &trusts).await {
            // A registry hears who asks only where what is wanted is not for everybody.
            Err(absent) if absent.is_absence() => match self.0.organising().visiting(&client).await {
                Ok(client) => self.look_as(&at, client, wanted, &trusts).await,
                Err(RegistriesError::Registry(clear @ RegistryError::Clear { .. })) => Err(in_clear(absent, &clear)),
                Err(_) => Err(absent),
            },
            looked => looked,
        }
    }

    async fn look_as(
        &self,
        at: &str,
        client: RegistryClient,
        wanted: &Installation,
        trusts: &impl Fn(CallerId) -> bool,
    ) -> Result<Offer, RegistriesError> {
        let (agent, range, named) = self.agreed(at, &client, wanted).await?;
        let range = range.as_str();
        let (version, passed_over) = version_in(range, at, &client, &agent).await?;
        let verified = self.0.release(&client, &agent, &version).await?;
        self.0.accept(at, &client, verified.checkpoint.clone()).await?;
        if verified.standing == Standing::Revoked {
            return Err(RegistriesError::Revoked { agent, version, reason: verified.reason });
        }
        if verified.release.body.bundle.is_none() {
            return Err(RegistriesError::NoBundle { agent, version });
        }
        if let Some(named) = &named {
            check_approved(&verified, &named.name.roster.body)?;
        }
        let attested = {
            let named = named.as_ref().map(|resolved| NamedBy::of(resolved.clone()).name);
            self.0.attesting().check(at, &client, &verified.release.body, named.as_deref()).await?
        };
        let trusted = trusts(CallerId::Publisher(agent.publisher()));
        let now_ms = self.0.identity.clock().now_ms();
        let age_ms = now_ms.saturating_sub(verified.accepted_ms);
        if !trusted && !wanted.young && age_ms < AGE_MIN_MS {
            let (hours, min) = (age_ms / HOUR_MS, AGE_MIN_MS / HOUR_MS);
            return Err(RegistriesError::Young { agent, version, hours, min });
        }
        let bundle = unpack(&client, &agent, &version, &verified).await?;
        let mut file = of_release(&bundle, (&agent, &version), &verified.description.body.td)?;
        let name = wanted.name.clone().unwrap_or_else(|| agent.name().to_owned());
        match &mut file {
            SharedFile::Agent(file) => {
                if let Some(what) = uncontained(file).filter(|_| !wanted.uncontained) {
                    return Err(RegistriesError::Uncontained { agent, version, what });
                }
                settle(file, &name, &wanted.callers);
            }
            // It has neither rights nor callers: what runs it is a group of this node, with agents of the group's members.
            SharedFile::Workflow(_) => drop(AgentId::new(agent.publisher(), &name)?),
        }
        check_rule(wanted.update, (&name, range), matches!(file, SharedFile::Agent(_)))?;
        let (digest, twins) = (verified.release.digest(), twins(&client, &agent).await);
        let VerifiedRelease { standing, reason, accepted_ms: at_ms, .. } = verified;
        let (range, registry, named) = (range.to_owned(), at.to_owned(), named.map(NamedBy::of));
        Ok(Offer {
            agent,
            version,
            registry,
            digest,
            range,
            passed_over,
            at_ms,
            named,
            trusted,
            standing,
            reason,
            attested,
            twins,
            name,
            file,
            update: wanted.update,
            bundle,
        })
    }

    /// What is meant, if it is of the publisher that the owner agrees to.
    async fn agreed(&self, at: &str, client: &RegistryClient, wanted: &Installation) -> Result<Meant, RegistriesError> {
        let meant = self.meant(at, client, &wanted.reference).await?;
        let (agent, _, named) = &meant;
        let name = named.as_ref().map_or_else(|| agent.to_string(), |named| NamedBy::of(named.clone()).name);
        let by_name = self.0.inventory.all().filter(|(_, row)| row.named.as_ref() == Some(&name));
        let installed: Vec<(String, InstalledRow)> = by_name.collect();
        let before = installed.iter().map(|(here, row)| (here.as_str(), row.agent.as_str()));
        check_holder(&name, agent.publisher(), wanted.publisher, before)?;
        Ok(meant)
    }

    /// The agent that is meant, the range, and what proves the name if it is an organisation's.
    pub(super) async fn meant(
        &self,
        at: &str,
        client: &RegistryClient,
        reference: &str,
    ) -> Result<Meant, RegistriesError> {
        if !Reference::is_meant(reference) {
            let (agent, range) = reference.split_once('@').unwrap_or((reference, "*"));
            return Ok((agent.parse()?, range.to_owned(), None));
        }
        let name = Reference::parse(reference)?;
        let now_ms = self.0.identity.clock().now_ms();
        let resolved = client.resolve(self.0.identity.network(), &name, now_ms).await?;
        self.0.accept(at, client, resolved.name.checkpoint.clone()).await?;
        Ok((resolved.name.agent.clone(), name.range, Some(resolved)))
    }

    /// Adds the agent of an offer as an agent of this node's owner, and gives its id; or keeps the workflow, which has none.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn install(
        &self,
        agents: &Agents,
        data: Option<&Path>,
        offer: &Offer,
    ) -> Result<Option<AgentId>, RegistriesError> {
        let (name, _installing) = (&offer.name, self.0.inventory.lock().await);
        offer.admitted(agents).await?;
        let SharedFile::Agent(file) = &offer.file else {
            self.0.workflows().install(agents, data, offer).await?;
            return Ok(None);
        };
        agents.names.check_free(name)?;
        let folder = offer.write_files(data.ok_or(RegistriesError::NoFolder)?)?;
        // Before the agent runs: it must be known then whose release it is.
        self.0.revocations.set_installed(name, Some(offer.row(&folder))).await?;
        match agents.add(file.as_ref().clone(), &folder, None, true).await {
            Ok(id) => Ok(Some(id)),
            Err(error) => {
                self.0.revocations.set_installed(name, None).await?;
                remove_folder(&folder);
                Err(error.into())
            }
        }
    }

    /// What an update of what has that name would bring: the highest release of its range; to an agent with its callers of now.
    /// Another publisher's, to whom its name leads by now, only if that one is said.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn look_for_update(
        &self,
        agents: &Agents,
        name: &str,
        UpdateTerms { young, uncontained, publisher }: UpdateTerms,
        trusts: impl Fn(CallerId) -> bool,
    ) -> Result<Offer, RegistriesError> {
        let (row, is_agent) = self.0.inventory.of(name)?;
        let wanted = Installation {
            reference: format!("{}@{}", row.named.as_ref().unwrap_or(&row.agent), row.range),
            name: Some(name.to_owned()),
            callers: if is_agent { agents.file(name)?.0.callers } else { Callers::ThisNode },
            young,
            uncontained,
            publisher,
            registry: Some(row.registry),
            update: row.update,
        };
        let offer = self.look(&wanted, trusts).await?;
        match (is_agent, &offer.file) {
            (true, SharedFile::Agent(_)) | (false, SharedFile::Workflow(_)) => Ok(offer),
            _ => Err(RegistriesError::BecameOther(name.to_owned())),
        }
    }

    /// Puts the agent of an offer in the place of the one that was installed, and gives its id; or the workflow, which has
    /// none. If the agent does not start, the old one runs on.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn update(
        &self,
        agents: &Agents,
        data: Option<&Path>,
        offer: &Offer,
    ) -> Result<Option<AgentId>, RegistriesError> {
        let (name, _installing) = (&offer.name, self.0.inventory.lock().await);
        offer.admitted(agents).await?;
        let (before, is_agent) = self.0.inventory.of(name)?;
        let file = match &offer.file {
            SharedFile::Agent(file) if is_agent => file.as_ref().clone(),
            SharedFile::Workflow(_) if !is_agent => {
                self.0.workflows().put(data, offer).await?;
                return Ok(None);
            }
            _ => return Err(RegistriesError::BecameOther(name.clone())),
        };
        let folder = offer.write_files(data.ok_or(RegistriesError::NoFolder)?)?;
        self.0.revocations.set_installed(name, Some(offer.row(&folder))).await?;
        match agents.replace(file, &folder, None).await {
            Ok(id) => {
                before.folders().filter(|other| **other != folder).for_each(|other| remove_folder(other));
                Ok(Some(id))
            }
            Err(error) => {
                if !before.folders().any(|other| *other == folder) {
                    remove_folder(&folder);
                }
                self.0.revocations.set_installed(name, Some(before)).await?;
                Err(error.into())
            }
        }
    }
}

impl Offer {
    /// Asks the owner's policies whether the release may be installed.
    ///
    /// # Errors
    /// [`NodeError::Forbidden`].
    pub(crate) async fn admitted(&self, agents: &Agents) -> Result<(), NodeError> {
        let version = self.version.to_string();
        let act = Act::Install { release: &self.agent, version: &version, registry: &self.registry };
        Ok(admit(&agents.governance, &act).await?)
    }

    /// Writes its files into a new folder below `data`; gives the folder.
    ///
    /// # Errors
    /// [`RegistriesError::Write`].
    pub(crate) fn write_files(&self, data: &Path) -> Result<PathBuf, RegistriesError> {
        let id: String = self.digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = data.join("installed").join(format!("{}-{id}", self.name));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| RegistriesError::Write { path, source }
        };
        std::fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let own = [(file_name(&self.file).to_owned(), self.bundle.agent.clone().into_bytes())];
        let others = self.bundle.files.iter().map(|(path, bytes)| (path.clone(), bytes.to_vec()));
        for (path, bytes) in others.chain(own) {
            let path = folder.join(path);
            let parent = path.parent().unwrap_or(&folder);
            std::fs::create_dir_all(parent).map_err(failed(parent))?;
            std::fs::write(&path, bytes).map_err(failed(&path))?;
        }
        Ok(folder)
    }

    pub(super) fn row(&self, folder: &Path) -> InstalledRow {
        InstalledRow {
            agent: self.agent.to_string(),
            version: self.version.to_string(),
            range: self.range.clone(),
            named: self.named.as_ref().map(|named| named.name.clone()),
            registry: self.registry.clone(),
            folder: folder.to_owned(),
            update: self.update,
            ..InstalledRow::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SR-9
    #[test]
    fn whoever_is_not_told_who_asks_is_no_proof_that_there_is_nothing() {
        let why = RegistryError::Clear { at: "http://registry.lan:7480/".to_owned() };
        let agent: AgentId = "urn:althing:zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw:echo".parse().expect("an id");
        let passed_over = vec!["2.0.0 was yanked".to_owned()];
        let (at, range) = ("http://registry.lan:7480/".to_owned(), "*".to_owned());
        for absent in [
            RegistriesError::Registry(RegistryError::Refused { status: 404, detail: "there is none".to_owned() }),
            RegistriesError::NoMatch { at, agent: Box::new(agent), range, passed_over },
        ] {
            let said = absent.to_string();
            let told = in_clear(absent, &why);
            assert!(told.is_absence(), "{told}");
            let told = told.to_string();
            assert!(told.starts_with(&said) && told.contains("https://") && told.contains("for you alone"), "{told}");
        }
    }

    #[test]
    fn what_a_release_says_of_its_tools_is_not_believed() {
        let text = "name: a\ndescription: b\ncontract: { class: { latency: srt } }\nruntime: { native: { builtin: echo } }\n\
                    tools:\n  files: { url: 'https://a.example/', effect: none, profiles: { read: { trusted: true, hide: true } } }\n  \
                    web: { url: 'https://b.example/', profiles: { '*': { trusted: true } } }\n";
        let mut file = AgentFile::parse(text).unwrap_or_else(|error| panic!("{error}"));
        settle(&mut file, "b", &Callers::default());
        assert!(file.effects.is_empty());
        let terms: Vec<_> =
            file.profiles.iter().map(|(tool, terms)| (tool.as_str(), terms.trusted, terms.hide)).collect();
        assert_eq!(terms, [("files/read", None, Some(true))]);
    }
}

//! Things that are no agents, such as a build server: they are released by their descriptions alone, and found by them.

use std::path::Path;
use std::time::Duration;

use althing_discovery::Query;
use althing_protocol::inquiry::Inquiry;
use althing_protocol::object::{self, Authored, Description, Kind};
use althing_protocol::registry::{Release, VerifiedRelease, Version};
use althing_protocol::{AgentId, PublisherId};
use althing_registry_client::{NamedThing, RegistryClient};
use althing_store::file::read_bytes;
use althing_td::{Description as Td, Strictness, identifier, no_duplicates};
use futures::future::join_all;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::publishing::{Publication, Published, Publishing};
use super::{Registries, RegistriesError};

/// Bytes of a description.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Things that one search takes from a registry.
const FOUND_MAX: usize = 16;
/// How long a search waits for registries; what was verified until then is found.
const WAIT: Duration = Duration::from_secs(3);

/// A Thing that somebody released, verified.
#[derive(Debug, Clone)]
pub struct PublishedThing {
    /// Its id.
    pub id: AgentId,
    /// The version.
    pub version: Version,
    /// What it is, as its publisher signed it.
    pub description: Td,
    /// The registry.
    pub registry: String,
    /// What of other publishers was there before and has a name that looks like its own, as the registry says.
    pub twins: Vec<AgentId>,
}

/// A Thing Description as it is signed: under the publisher's name, with a version.
fn read(file: &Path, owner: PublisherId) -> Result<(AgentId, Version, Td), RegistriesError> {
    let wrong = |why: String| RegistriesError::Thing { file: file.to_owned(), why };
    let bytes =
        read_bytes(file, FILE_BYTES_MAX).map_err(|source| RegistriesError::Read { path: file.to_owned(), source })?;
    no_duplicates(&bytes).map_err(|report| wrong(report.to_string()))?;
    let mut value: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let said = value.as_object().and_then(identifier);
    let own = said.and_then(|id| id.parse::<AgentId>().ok()).filter(|id| id.publisher() == owner);
    let (id, bytes) = match own {
        // Byte for byte what was written.
        Some(id) => (id, bytes),
        None => {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let name = name.strip_suffix(".json").unwrap_or(name);
            let id = AgentId::new(owner, name.strip_suffix(".td").unwrap_or(name))?;
            let Some(members) = value.as_object_mut() else { return Err(wrong("it is no JSON object".to_owned())) };
            // Both names of it would say two things.
            members.shift_remove("@id");
            members.insert("id".to_owned(), id.to_string().into());
            (id, value.to_string().into_bytes())
        }
    };
    let td = Td::parse_as(&bytes, Strictness::Foreign).map_err(|error| wrong(error.to_string()))?;
    let none = || wrong("it has no version: write \"version\": {\"instance\": \"1.0.0\"}".to_owned());
    let version: Version = td.version().ok_or_else(none)?.parse()?;
    Ok((id, version, td))
}

impl Publishing<'_> {
    /// Releases a Thing by its description alone.
    pub(super) async fn publish_thing(&self, publication: &Publication) -> Result<Published, RegistriesError> {
        let Publication { file, with, audience, registry } = publication;
        if !with.is_empty() {
            let why = "a Thing has no files: publish it alone".to_owned();
            return Err(RegistriesError::Thing { file: file.clone(), why });
        }
        let at = self.0.named(registry.as_deref())?;
        let client = self.0.organising().visitor(&self.0.client(&at)?).await;
        let (owner, network) = (self.0.identity.owner(), self.0.identity.network());
        let (agent, version, td) = read(file, owner.id())?;
        if let Some(before) = self.released(&client, &agent, &version).await? {
            if before.release.body.bundle.is_some() || before.description.body.td[..] != *td.bytes() {
                return Err(RegistriesError::VersionTaken { agent, version });
            }
            let entries = before.checkpoint.head.size;
            self.0.accept(&at, &client, before.checkpoint.clone()).await?;
            self.0.receipt_book().keep_of((&at, &client), &before).await;
            return Ok(Published { agent, version, registry: at, entries, bytes: 0 });
        }
        let now_ms = self.0.identity.clock().now_ms();
        let body = Description::new(agent.clone(), now_ms, now_ms, td.bytes());
        let described: Authored<Description> = object::sign(body, network, "", &owner.key)?;
        let release = Release::new(agent.clone(), version.clone(), described.digest(), audience.clone(), now_ms);
        let release = object::sign(release, network, "", &owner.key)?.bytes;
        let entries = self.0.receipt_book().send((&at, &client), Kind::Release, release, Some(described.bytes)).await?;
        Ok(Published { agent, version, registry: at, entries, bytes: 0 })
    }
}

/// Looks for Things that were released.
pub struct ReleasedThings<'a>(pub(super) &'a Registries);

impl ReleasedThings<'_> {
    /// Things that were released and match, verified. Only what says what a Thing can do is asked for. What is for some alone
    /// is found by those who sign in: where the owner wants that, and where the registry hears of the owner anyway.
    pub async fn find(&self, query: &Query, is_signed_in: bool) -> Vec<PublishedThing> {
        let inquiry = Inquiry {
            // Without its range of versions, which is looked at here.
            capability: query.capability.as_deref().map(|id| id.split('@').next().unwrap_or(id).to_owned()),
            action: query.action.clone(),
            target: query.target.clone(),
            agent: None,
        };
        let asks = inquiry.capability.is_some() || inquiry.action.is_some() || inquiry.target.is_some();
        // Loads and grades are of nodes, which Things are not.
        if !asks || query.max_load.is_some() || query.min_grade.is_some() {
            return Vec::new();
        }
        let until = Instant::now() + WAIT;
        let asked = self.0.list().into_iter().filter(|(_, row)| row.forked.is_none()).map(|(at, _)| {
            let inquiry = &inquiry;
            async move {
                self.find_in(&at, inquiry, until, is_signed_in).await.unwrap_or_else(|error| {
                    tracing::debug!(registry = at, %error, "a registry names no Things");
                    Vec::new()
                })
            }
        });
        let found: Vec<PublishedThing> = join_all(asked).await.into_iter().flatten().collect();
        found.into_iter().filter(|thing| query.matches(thing.description.capabilities())).collect()
    }

    /// Those of one registry. Each is verified for itself, so that one that is wrong or late hides no other.
    async fn find_in(
        &self,
        at: &str,
        inquiry: &Inquiry,
        until: Instant,
        is_signed_in: bool,
    ) -> Result<Vec<PublishedThing>, RegistriesError> {
        let mut client: RegistryClient = self.0.client(at)?;
        if is_signed_in || self.0.following().is_known(at) {
            let visitor = timeout_at(until, self.0.organising().visitor(&client)).await;
            client = visitor.unwrap_or(client);
        }
        let Ok(named) = timeout_at(until, client.published(inquiry)).await else {
            tracing::debug!(registry = at, "a registry does not answer in time");
            return Ok(Vec::new());
        };
        let verified = named?.into_iter().take(FOUND_MAX).map(|named| {
            let client = &client;
            async move {
                let (id, version) = (named.agent.clone(), named.version.clone());
                match timeout_at(until, self.verified(at, client, named)).await {
                    Ok(Ok(found)) => found,
                    Ok(Err(error)) => {
                        tracing::debug!(registry = at, %id, %version, %error, "a Thing cannot be verified");
                        None
                    }
                    Err(_) => {
                        tracing::debug!(registry = at, %id, %version, "a Thing is not verified in time");
                        None
                    }
                }
            }
        });
        let found: Vec<PublishedThing> = join_all(verified).await.into_iter().flatten().collect();
        // A registry that showed two histories meanwhile is not believed.
        self.0.client(at).map(|_| found)
    }

    /// A Thing that a registry named, verified; none if it should not be used, or has no description that is valid now.
    async fn verified(
        &self,
        at: &str,
        client: &RegistryClient,
        NamedThing { agent: id, version, twins }: NamedThing,
    ) -> Result<Option<PublishedThing>, RegistriesError> {
        let verified: VerifiedRelease = self.0.release(client, &id, &version).await?;
        self.0.accept(at, client, verified.checkpoint.clone()).await?;
        if verified.standing > althing_protocol::registry::Standing::Deprecated {
            return Ok(None);
        }
        let Ok(description) = Td::parse(&verified.description.body.td) else { return Ok(None) };
        Ok(Some(PublishedThing { id, version, description, registry: at.to_owned(), twins }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        (folder, path)
    }

    const TD: &str = r#"{"@context":"https://www.w3.org/2022/wot/td/v1.1","title":"Builds","version":{"instance":"1.2.0"},
        "securityDefinitions":{"nosec":{"scheme":"nosec"}},"security":"nosec",
        "actions":{"build":{"forms":[{"href":"https://build.example.org/build"}]}}}"#;

    #[test]
    fn a_thing_is_named_by_its_file_or_by_its_id() {
        let owner = PublisherId::from_digest([1; 32]);
        let (_folder, path) = file("builds.td.json", TD);
        let (id, version, td) = read(&path, owner).expect("a Thing");
        assert_eq!((id.name(), id.publisher(), version.to_string().as_str()), ("builds", owner, "1.2.0"));
        assert_eq!(td.id(), Some(id.to_string().as_str()));
        let named = TD.replacen('{', &format!("{{\"id\":\"urn:althing:{}\",", "x"), 1);
        let (_folder, path) = file("other.json", &named);
        assert_eq!(read(&path, owner).expect("a Thing").0.name(), "other", "an id of nobody's is replaced");
        let own = AgentId::new(owner, "mine").expect("a name");
        let named = TD.replacen('{', &format!("{{ \"id\": \"{own}\", "), 1);
        let (_folder, path) = file("other.json", &named);
        let (id, _, td) = read(&path, owner).expect("a Thing");
        assert_eq!((id, td.bytes()), (own, named.as_bytes()), "its bytes stay");
    }

    #[test]
    fn what_is_no_thing_is_refused_with_the_reason() {
        let owner = PublisherId::from_digest([1; 32]);
        for (text, why) in [
            ("[]", "object"),
            ("{", "EOF"),
            ("{\"title\":1,\"title\":2}", "title"),
            (&TD.replace("\"version\":{\"instance\":\"1.2.0\"},", ""), "it has no version"),
            (&TD.replace("\"title\":\"Builds\",", ""), "title"),
        ] {
            let (_folder, path) = file("builds.td.json", text);
            let error = read(&path, owner).expect_err("no Thing").to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let (_folder, path) = file("Builds Server.td.json", TD);
        assert!(matches!(read(&path, owner), Err(RegistriesError::Identity(_))), "a name is a-z, 0-9 and -");
    }
}

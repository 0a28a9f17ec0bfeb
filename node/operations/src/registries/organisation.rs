//! The owner as an organisation: its roster, which is renewed while the node runs, and its domain.

use althing_node::revocations::bytes;
use althing_protocol::object::{self, Kind};
use althing_protocol::registry::{Domain, NamePattern, Role, Roster, RosterMember};
use althing_protocol::{AgentId, PublisherId};
use althing_registry_client::{LogReader, RegistryClient, ShownDomain, ShownProof, Watched};
use althing_store::{Batch, Durability, Family, Range};
use serde::{Deserialize, Serialize};

use super::receipt_book::FoundReceipt;
use super::rows::REGISTRIES_MAX;
use super::{Registries, RegistriesError};

/// The owner's organisation in each registry, by the registries' addresses.
pub const ORGANISATIONS: Family = Family("althing.organisations");

/// How long a roster lives, milliseconds.
const LIFE_MS: u64 = 24 * 60 * 60 * 1_000;
/// After this time it is renewed.
const RENEW_MS: u64 = LIFE_MS / 2;

/// A member of the owner's organisation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRow {
    /// The member's id.
    pub publisher: String,
    /// `read`, `stage` and `approve`.
    pub roles: Vec<String>,
    /// Names of agents, or beginnings of names followed by `*`.
    pub names: Vec<String>,
}

/// The owner's organisation in one registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrganisationRow {
    /// Its domain.
    pub domain: String,
    /// How many must approve a release.
    pub approvals: u8,
    /// Its members.
    pub members: Vec<MemberRow>,
    /// When the roster was signed last, Unix milliseconds.
    pub signed_ms: u64,
}

/// What a registry found of the owner's domain, and shows of it.
#[derive(Debug, Clone)]
pub struct Proof {
    /// What it found now.
    pub found: ShownProof,
    /// What it shows, if somebody holds the domain.
    pub shown: Option<ShownDomain>,
}

/// What the log of a registry has of the owner.
#[derive(Debug, Clone)]
pub struct WatchedLog {
    /// Entries of the log.
    pub entries: u64,
    /// Those that are about the owner, or are kept back.
    pub watched: Vec<Watched>,
    /// What the registry proved that its log had, and its log has not.
    pub missing: Vec<FoundReceipt>,
}

impl OrganisationRow {
    fn roster(&self, organisation: PublisherId, now_ms: u64) -> Result<Roster, RegistriesError> {
        let member = |row: &MemberRow| {
            let mut roles = row.roles.iter().map(|role| read_role(role)).collect::<Result<Vec<_>, _>>()?;
            roles.sort();
            roles.dedup();
            let names = row.names.iter().map(|name| {
                name.parse::<NamePattern>().map_err(|error| RegistriesError::Organisation(error.to_string()))
            });
            Ok(RosterMember { publisher: row.publisher.parse()?, roles, names: names.collect::<Result<_, _>>()? })
        };
        let members = self.members.iter().map(member).collect::<Result<Vec<_>, RegistriesError>>()?;
        let mut roster = Roster::new(organisation, members, now_ms, now_ms, now_ms + LIFE_MS);
        roster.approvals = self.approvals;
        let domain = self.domain.parse::<Domain>();
        roster.domain = Some(domain.map_err(|error| RegistriesError::Organisation(error.to_string()))?);
        Ok(roster)
    }
}

fn read_role(text: &str) -> Result<Role, RegistriesError> {
    match text {
        "read" => Ok(Role::Read),
        "stage" => Ok(Role::Stage),
        "approve" => Ok(Role::Approve),
        _ => {
            Err(RegistriesError::Organisation(format!("there is no role {text:?}; there are read, stage and approve")))
        }
    }
}

/// Speaks for the owner as an organisation.
pub struct Organising<'a>(pub(super) &'a Registries);

impl Organising<'_> {
    /// Makes the owner an organisation of a registry, or changes its domain and how many must approve; signs its roster.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn organise(
        &self,
        domain: &str,
        approvals: u8,
        registry: Option<&str>,
    ) -> Result<(String, OrganisationRow), RegistriesError> {
        let at = self.0.named(registry)?;
        let members = self.organisation_row(&at)?.map(|row| row.members).unwrap_or_default();
        let row = OrganisationRow { domain: domain.to_owned(), approvals, members, signed_ms: 0 };
        self.sign_roster(&at, row).await
    }

    /// Gives a member roles and names; without roles it is no member any more.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn set_member(
        &self,
        member: MemberRow,
        registry: Option<&str>,
    ) -> Result<(String, OrganisationRow), RegistriesError> {
        let at = self.0.named(registry)?;
        let mut row = self.organisation_row(&at)?.ok_or(RegistriesError::NoOrganisation)?;
        row.members.retain(|known| known.publisher != member.publisher);
        if !member.roles.is_empty() {
            row.members.push(member);
        }
        self.sign_roster(&at, row).await
    }

    /// The owner's organisation in a registry.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub fn organisation(&self, registry: Option<&str>) -> Result<(String, OrganisationRow), RegistriesError> {
        let at = self.0.named(registry)?;
        let row = self.organisation_row(&at)?.ok_or(RegistriesError::NoOrganisation)?;
        Ok((at, row))
    }

    /// Lets the registry look for the proof of the organisation's domain.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn prove(&self, registry: Option<&str>) -> Result<Proof, RegistriesError> {
        let (at, row) = self.organisation(registry)?;
        let client = self.visiting(&self.0.client(&at)?).await?;
        let found = client.prove().await?;
        Ok(Proof { found, shown: client.domain(&row.domain).await.ok() })
    }

    /// Every entry of a registry's log that is about the owner, from an index on: its agents, those of members under its names,
    /// its roster and domain; and those that the registry keeps back, which may be about anybody. The entries are those under
    /// its checkpoint, and it shows all marks that they have. What it gave receipts of and does not have is said too.
    ///
    /// # Errors
    /// See [`RegistriesError`].
    pub async fn watch(&self, from: u64, registry: Option<&str>) -> Result<WatchedLog, RegistriesError> {
        let at = self.0.named(registry)?;
        let client = self.visitor(&self.0.client(&at)?).await;
        // What is kept from now on may be newer than the checkpoint.
        let kept = self.0.receipts.places(client.key())?;
        let shown = client.checkpoint(None).await?;
        self.0.accept(&at, &client, shown.clone()).await?;
        let network = self.0.identity.network();
        let mut watched = LogReader(&client).watch(network, &shown, from).await?;
        let missing = self.0.receipt_book().missing((&at, client.key()), &kept, (from, &watched))?;
        let (owner, now_ms) = (self.0.identity.owner().id(), self.0.identity.clock().now_ms());
        let row = self.organisation_row(&at)?;
        let domain = row.as_ref().map(|row| row.domain.as_str());
        let roster = row.as_ref().map(|row| row.roster(owner, now_ms)).transpose()?;
        let names = |agent: &AgentId| roster.as_ref().is_some_and(|roster| roster.names(agent));
        watched.retain(|one| one.is_kept_back() || one.is_about(owner, domain, names));
        LogReader(&client).check_marks(network, &watched).await?;
        Ok(WatchedLog { entries: shown.head.size, watched, missing })
    }

    /// A client that signed in as the owner.
    pub(super) async fn visiting(&self, client: &RegistryClient) -> Result<RegistryClient, RegistriesError> {
        let owner = self.0.identity.owner();
        let now_ms = self.0.identity.clock().now_ms();
        Ok(client.sign_in(self.0.identity.network(), (&owner.key, &owner.log), now_ms).await?)
    }

    /// The same; one that nobody signed in with, where that cannot be.
    pub(super) async fn visitor(&self, client: &RegistryClient) -> RegistryClient {
        self.visiting(client).await.unwrap_or_else(|error| {
            tracing::debug!(registry = client.address(), %error, "cannot sign in; what is for everybody is read");
            client.clone()
        })
    }

    /// Renews rosters that get old.
    pub(super) async fn renew_rosters(&self) {
        let now_ms = self.0.identity.clock().now_ms();
        for at in self.0.list().into_keys() {
            let due = match self.organisation_row(&at) {
                Ok(row) => row.filter(|row| now_ms >= row.signed_ms.saturating_add(RENEW_MS)),
                Err(error) => {
                    tracing::error!(registry = at, %error, "the owner's organisation cannot be read");
                    None
                }
            };
            let Some(row) = due else { continue };
            if let Err(error) = self.sign_roster(&at, row).await {
                tracing::warn!(registry = at, %error, "the roster could not be renewed; it is tried again");
            }
        }
    }

    async fn sign_roster(
        &self,
        at: &str,
        mut row: OrganisationRow,
    ) -> Result<(String, OrganisationRow), RegistriesError> {
        self.0.identity.check_authority()?;
        let client = self.0.client(at)?;
        let owner = self.0.identity.owner();
        let now_ms = self.0.identity.clock().now_ms();
        let roster = object::sign(row.roster(owner.id(), now_ms)?, self.0.identity.network(), "", &owner.key)?;
        self.0.receipt_book().send((at, &client), Kind::Roster, roster.bytes, None).await?;
        row.signed_ms = now_ms;
        let mut batch = Batch::new();
        batch.put(ORGANISATIONS, at.as_bytes(), bytes(&row));
        self.0.store.write(batch, Durability::Synced).await?;
        Ok((at.to_owned(), row))
    }

    /// Whether the owner is an organisation in a registry.
    pub(super) fn is_organisation(&self, at: &str) -> bool {
        self.organisation_row(at).is_ok_and(|row| row.is_some())
    }

    fn organisation_row(&self, at: &str) -> Result<Option<OrganisationRow>, RegistriesError> {
        let rows = self.0.store.scan(ORGANISATIONS, Range::all(REGISTRIES_MAX))?;
        let row = rows.into_iter().find(|(key, _)| key == at.as_bytes()).map(|(_, row)| row);
        let damaged = |_| RegistriesError::Damaged(at.to_owned());
        row.map(|row| serde_json::from_slice(&row).map_err(damaged)).transpose()
    }
}

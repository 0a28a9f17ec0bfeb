//! What a node signs with its owner's key: descriptions, hosting grants, memberships; and the agents it stores.

use std::path::PathBuf;
use std::sync::Arc;

use althing_communication::CallerRule;
use althing_execution::definition::Pins;
use althing_execution::smooth::ModelVersion;
use althing_protocol::object::{self, Grant, Membership};
use althing_protocol::{AgentId, AgentRef, Authored, IdentityError, OwnerProof, PublicKey, VerifiedAgent};
use althing_store::{Batch, Durability, Family, Range, Store};
use althing_td::{AgentFile, Callers, ContainmentClaim, Description, ExposedTool};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::error::NodeError;
use crate::owner::Owner;

/// Agents that were added to this node, by name.
pub const AGENTS: Family = Family("althing.agents");
/// Agents that one node may have.
pub const AGENTS_MAX: usize = althing_protocol::limits::PLACEMENT_AGENTS_MAX;
/// Lifetime of grants and memberships. They are renewed at half of it.
pub const GRANT_MS: u64 = 24 * 60 * 60 * 1_000;
/// Grants begin this much earlier, for peers whose clocks run behind.
const BACKDATE_MS: u64 = 60_000;

/// An agent that was added to this node, as stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredAgent {
    /// Its file.
    pub file: AgentFile,
    /// Where relative paths in it start.
    pub folder: PathBuf,
    /// The files that were read when it was added: its file, and its contract's; absolute. No program writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<PathBuf>,
    /// The signed description, base64.
    pub description: String,
    /// The tool definitions that it was bound to when it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pins: Option<Pins>,
    /// The version of its model that it was bound to last, where its contract has `binding: smooth` with a range of versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelVersion>,
    /// Whether it runs only for as long as its client is connected (`althing run`): it is never started again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// The group that placed it here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// When the group's deployment of it was made, Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed_ms: Option<u64>,
}

/// For how long an agent stays with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay<'a> {
    /// Until it is removed.
    UntilRemoved,
    /// For as long as its client is connected (`althing run`).
    WhileConnected,
    /// For as long as this group places it here, by its deployment of that time, Unix milliseconds.
    Placed(&'a str, u64),
}

impl StoredAgent {
    /// Describes and signs the agent of `file` for the first time.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn new(
        file: AgentFile,
        folder: PathBuf,
        stay: Stay<'_>,
        owner: &Owner,
        network: &str,
        now_ms: u64,
    ) -> Result<StoredAgent, NodeError> {
        let description = STANDARD.encode(describe(&file, owner, network, now_ms)?.bytes);
        let (once, (group, deployed_ms)) = match stay {
            Stay::UntilRemoved => (false, (None, None)),
            Stay::WhileConnected => (true, (None, None)),
            Stay::Placed(group, at_ms) => (false, (Some(group.to_owned()), Some(at_ms))),
        };
        let (sources, pins, model) = Default::default();
        Ok(StoredAgent { file, folder, sources, description, pins, model, once, group, deployed_ms })
    }

    /// The same agent with its description signed again.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn signed_anew(self, owner: &Owner, network: &str, now_ms: u64) -> Result<StoredAgent, NodeError> {
        let description = STANDARD.encode(describe(&self.file, owner, network, now_ms)?.bytes);
        Ok(StoredAgent { description, ..self })
    }

    /// The same agent with a description that says which tools it exposes, and how its programs are contained; signed anew only
    /// if the one that it has says something else.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub(crate) fn signed_with(
        self,
        (tools, contained): (&[ExposedTool], Option<ContainmentClaim>),
        owner: &Owner,
        network: &str,
        now_ms: u64,
    ) -> Result<StoredAgent, NodeError> {
        let id = agent_id(owner, &self.file)?;
        let td = althing_td::describe_here(&self.file, &id.to_string(), tools, contained);
        if self.is_signed(owner, network) && self.says(&td, network) {
            return Ok(self);
        }
        let description = STANDARD.encode(sign(id, &td, owner, network, now_ms)?.bytes);
        Ok(StoredAgent { description, ..self })
    }

    /// Whether its description is that one.
    fn says(&self, td: &Description, network: &str) -> bool {
        let bytes = STANDARD.decode(&self.description).unwrap_or_default();
        let opened = object::open::<object::Description>(&bytes, network, "");
        opened.is_ok_and(|description| *description.body.td == *td.bytes())
    }

    /// What the description that it has says of how its programs are contained.
    pub(crate) fn contained(&self, network: &str) -> Option<ContainmentClaim> {
        let bytes = STANDARD.decode(&self.description).ok()?;
        let described = object::open::<object::Description>(&bytes, network, "").ok()?;
        Description::parse(&described.body.td).ok()?.contained()
    }

    /// Whether its description is for that network and signed by the owner's current key. The operator may have changed the
    /// network since, and the owner may have rotated its keys while the node did not run.
    #[must_use]
    pub fn is_signed(&self, owner: &Owner, network: &str) -> bool {
        let bytes = STANDARD.decode(&self.description).unwrap_or_default();
        let opened = object::open::<object::Description>(&bytes, network, "");
        opened.is_ok_and(|description| description.signer == owner.key.public())
    }

    /// The tool definitions that it was bound to when it was added; it is given no others.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn kept_pins(&self) -> Result<Pins, NodeError> {
        match &self.pins {
            Some(pins) => Ok(pins.clone()),
            None if self.file.tools.is_empty() => Ok(Pins::new()),
            None => Err(NodeError::ToolsUnknown(self.file.name.clone())),
        }
    }

    /// The description, parsed, and the evidence for `node` with a fresh grant.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn evidence(
        &self,
        owner: &Owner,
        node: PublicKey,
        network: &str,
        now_ms: u64,
    ) -> Result<(Arc<VerifiedAgent>, Arc<Description>), NodeError> {
        let damaged = |error: &dyn std::fmt::Display| NodeError::StoredAgent {
            name: self.file.name.clone(),
            why: format!("is damaged: {error}"),
        };
        let bytes = STANDARD.decode(&self.description).map_err(|error| damaged(&error))?;
        let description: Authored<object::Description> =
            object::open(&bytes, network, "").map_err(|error| damaged(&error))?;
        let id = description.body.agent.clone();
        let from_ms = now_ms.saturating_sub(BACKDATE_MS);
        let grant = Grant::new(id.clone(), node, from_ms, from_ms + GRANT_MS);
        let grant = object::sign(grant, network, "", &owner.key)?;
        let td = Description::parse(&description.body.td).map_err(|error| damaged(&error))?;
        let verified = VerifiedAgent { agent: id, node, description, grant, key_log: Arc::new(owner.log.clone()) };
        Ok((Arc::new(verified), Arc::new(td)))
    }

    /// Who may call it.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn rule(&self) -> Result<CallerRule, NodeError> {
        Ok(match &self.file.callers {
            Callers::ThisNode => CallerRule::ThisNode,
            Callers::Own => CallerRule::Own,
            Callers::Trusted => CallerRule::Trusted,
            Callers::Anyone => CallerRule::Anyone,
            Callers::Listed(ids) => {
                let ids = ids.iter().map(|id| id.parse());
                let ids: Result<_, IdentityError> = ids.collect();
                CallerRule::Listed(ids?)
            }
        })
    }
}

/// The signed description of the agent of `file`.
pub(crate) fn describe(
    file: &AgentFile,
    owner: &Owner,
    network: &str,
    now_ms: u64,
) -> Result<Authored<object::Description>, NodeError> {
    let id = agent_id(owner, file)?;
    let td = althing_td::describe(file, &id.to_string());
    sign(id, &td, owner, network, now_ms)
}

/// The signed description of what has that id.
///
/// # Errors
/// See [`NodeError`].
pub fn sign(
    id: AgentId,
    td: &Description,
    owner: &Owner,
    network: &str,
    now_ms: u64,
) -> Result<Authored<object::Description>, NodeError> {
    let body = object::Description::new(id, now_ms, now_ms, td.bytes().to_vec());
    Ok(object::sign(body, network, "", &owner.key)?)
}

/// The id of the owner's agent of that name.
///
/// # Errors
/// See [`NodeError`].
pub fn agent_id(owner: &Owner, file: &AgentFile) -> Result<AgentId, NodeError> {
    Ok(AgentId::new(owner.id(), &file.name)?)
}

/// The agent of an agent file, in the version that the file says.
///
/// # Errors
/// See [`NodeError`].
pub fn agent_ref(owner: &Owner, file: &AgentFile) -> Result<AgentRef, NodeError> {
    Ok(AgentRef::new(owner.id(), &file.name, &file.version)?)
}

/// A membership: the owner's signature that `node` is its own; none if it was withdrawn.
///
/// # Errors
/// See [`NodeError`].
pub fn membership(
    owner: &Owner,
    node: PublicKey,
    network: &str,
    now_ms: u64,
) -> Result<Option<Arc<OwnerProof>>, NodeError> {
    if owner.withdrew(node, now_ms) {
        return Ok(None);
    }
    let from_ms = now_ms.saturating_sub(BACKDATE_MS);
    let body = Membership::new(owner.id(), node, from_ms, from_ms + GRANT_MS);
    let membership = object::sign(body, network, "", &owner.key)?;
    Ok(Some(Arc::new(OwnerProof::new(membership.bytes, &owner.log))))
}

/// All agents but those of `althing run`.
///
/// # Errors
/// See [`NodeError`].
pub fn permanent(store: &dyn Store) -> Result<Vec<StoredAgent>, NodeError> {
    Ok(all(store)?.into_iter().filter(|added| !added.once).collect())
}

/// All agents that were added, also those of `althing run`.
///
/// # Errors
/// See [`NodeError`].
pub fn all(store: &dyn Store) -> Result<Vec<StoredAgent>, NodeError> {
    let rows = store.scan(AGENTS, Range::all(AGENTS_MAX))?;
    rows.into_iter().map(|(name, row)| read(&name, &row)).collect()
}

/// The agent of a name, if there is one.
///
/// # Errors
/// See [`NodeError`].
pub(crate) fn named(store: &dyn Store, name: &str) -> Result<Option<StoredAgent>, NodeError> {
    store.read(AGENTS, name.as_bytes())?.map(|row| read(name.as_bytes(), &row)).transpose()
}

fn read(name: &[u8], row: &[u8]) -> Result<StoredAgent, NodeError> {
    serde_json::from_slice(row).map_err(|error| NodeError::StoredAgent {
        name: String::from_utf8_lossy(name).into_owned(),
        why: format!("cannot be read: {error}"),
    })
}

/// Writes an agent; it is on disk when this returns.
///
/// # Errors
/// See [`NodeError`].
pub async fn write(store: &dyn Store, added: &StoredAgent) -> Result<(), NodeError> {
    Ok(store.write(batch(added)?, Durability::Synced).await?)
}

/// What writes an agent.
pub(crate) fn batch(added: &StoredAgent) -> Result<Batch, NodeError> {
    let row = serde_json::to_vec(added)?;
    let mut batch = Batch::new();
    batch.put(AGENTS, added.file.name.as_bytes(), row);
    Ok(batch)
}

/// Signs the description of an agent again if it is for another network, or by a key that the owner has rotated away.
///
/// # Errors
/// See [`NodeError`].
pub async fn signed_now(
    store: &dyn Store,
    added: StoredAgent,
    owner: &Owner,
    network: &str,
    now_ms: u64,
) -> Result<StoredAgent, NodeError> {
    if added.is_signed(owner, network) || owner.log.revoked() {
        return Ok(added);
    }
    let anew = added.signed_anew(owner, network, now_ms)?;
    write(store, &anew).await?;
    Ok(anew)
}

/// Signs the descriptions of all agents anew, as many as can be.
///
/// # Errors
/// The first failure, and those of the store; see [`NodeError`].
pub(crate) async fn sign_all(store: &dyn Store, owner: &Owner, network: &str, now_ms: u64) -> Result<(), NodeError> {
    let mut outcome = Ok(());
    for added in all(store)? {
        let kept = match added.signed_anew(owner, network, now_ms) {
            Ok(anew) => write(store, &anew).await,
            Err(failure) => Err(failure),
        };
        outcome = outcome.and(kept);
    }
    outcome
}

/// Deletes an agent.
///
/// # Errors
/// See [`NodeError`].
pub async fn delete(store: &dyn Store, name: &str) -> Result<(), NodeError> {
    let mut batch = Batch::new();
    batch.delete(AGENTS, name.as_bytes());
    Ok(store.write(batch, Durability::Synced).await?)
}

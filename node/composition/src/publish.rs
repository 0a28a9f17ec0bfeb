//! What the owner signs for its own nodes without being asked: descriptions, hosting grants, memberships.

use std::path::PathBuf;
use std::sync::Arc;

use althing_communication::CallerRule;
use althing_execution::definition::Pins;
use althing_protocol::object::{self, Grant, Membership};
use althing_protocol::{AgentId, Authored, IdentityError, OwnerProof, PublicKey, VerifiedAgent};
use althing_store::{Batch, Durability, Family, Range, Store};
use althing_td::{AgentFile, Callers, Description};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::error::NodeError;
use crate::owner::Owner;

/// Agents that were added to this node, by name.
pub const AGENTS: Family = Family("althing.agents");
/// Agents on one node.
pub const AGENTS_MAX: usize = althing_protocol::limits::PLACEMENT_AGENTS_MAX;
/// How long grants and memberships hold. They are renewed at half of it.
pub const GRANT_MS: u64 = 24 * 60 * 60 * 1_000;
/// Grants begin this much earlier, for clocks that run behind.
const BACKDATE_MS: u64 = 60_000;

/// An agent as it was added.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Added {
    /// Its file.
    pub file: AgentFile,
    /// Where relative paths in it start.
    pub folder: PathBuf,
    /// The signed description, base64.
    pub description: String,
    /// The definitions of tools that it was bound to when it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pins: Option<Pins>,
    /// Whether it runs only for as long as somebody looks on (`althing run`). It is known here meanwhile, and nothing starts
    /// it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
}

impl Added {
    /// Describes and signs the agent of `file` for the first time; `once` says for how long.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn new(
        file: AgentFile,
        folder: PathBuf,
        once: bool,
        owner: &Owner,
        network: &str,
        now_ms: u64,
    ) -> Result<Added, NodeError> {
        let description = describe(&file, owner, network, now_ms)?;
        Ok(Added { file, folder, description, pins: None, once })
    }

    /// The same agent, described and signed anew; all else about it stays.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn signed_anew(self, owner: &Owner, network: &str, now_ms: u64) -> Result<Added, NodeError> {
        let description = describe(&self.file, owner, network, now_ms)?;
        Ok(Added { description, ..self })
    }

    /// Is it described for the network of that name, with the owner's key of now? The operator may have given the node
    /// another name, or key, since, and the owner may have rotated its keys while the node did not run.
    #[must_use]
    pub fn is_signed(&self, owner: &Owner, network: &str) -> bool {
        let bytes = STANDARD.decode(&self.description).unwrap_or_default();
        let opened = object::open::<object::Description>(&bytes, network, "");
        opened.is_ok_and(|description| description.signer == owner.key.public())
    }

    /// The definitions of tools that it was bound to when it was added, and the only ones that it is given again.
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

/// The description of the agent of `file`, signed, base64.
fn describe(file: &AgentFile, owner: &Owner, network: &str, now_ms: u64) -> Result<String, NodeError> {
    let id = agent_id(owner, file)?;
    let td = althing_td::describe(file, &id.to_string());
    let body = object::Description::new(id, now_ms, now_ms, td.bytes().to_vec());
    let signed = object::sign(body, network, "", &owner.key)?;
    Ok(STANDARD.encode(signed.bytes))
}

/// The id of the owner's agent of that name.
///
/// # Errors
/// See [`NodeError`].
pub fn agent_id(owner: &Owner, file: &AgentFile) -> Result<AgentId, NodeError> {
    Ok(AgentId::new(owner.id(), &file.name)?)
}

/// The owner's word that `node` is its own; none where it was taken back.
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

/// All agents that were added to stay.
///
/// # Errors
/// See [`NodeError`].
pub fn stored(store: &dyn Store) -> Result<Vec<Added>, NodeError> {
    Ok(known(store)?.into_iter().filter(|added| !added.once).collect())
}

/// All agents that were added, to stay or for once.
///
/// # Errors
/// See [`NodeError`].
pub fn known(store: &dyn Store) -> Result<Vec<Added>, NodeError> {
    let rows = store.scan(AGENTS, Range::all(AGENTS_MAX))?;
    let read = |(name, row): (Vec<u8>, Vec<u8>)| {
        serde_json::from_slice(&row).map_err(|error| NodeError::StoredAgent {
            name: String::from_utf8_lossy(&name).into_owned(),
            why: format!("cannot be read: {error}"),
        })
    };
    rows.into_iter().map(read).collect()
}

/// Keeps an agent; it is on disk when this returns.
///
/// # Errors
/// See [`NodeError`].
pub async fn keep(store: &dyn Store, added: &Added) -> Result<(), NodeError> {
    let row = serde_json::to_vec(added)?;
    let mut batch = Batch::new();
    batch.put(AGENTS, added.file.name.as_bytes(), row);
    Ok(store.write(batch, Durability::Synced).await?)
}

/// Forgets an agent.
///
/// # Errors
/// See [`NodeError`].
pub async fn forget(store: &dyn Store, name: &str) -> Result<(), NodeError> {
    let mut batch = Batch::new();
    batch.delete(AGENTS, name.as_bytes());
    Ok(store.write(batch, Durability::Synced).await?)
}

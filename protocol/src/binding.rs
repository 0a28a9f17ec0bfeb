//! The binding manifest: what a contract was bound to, sealed by the node that did it.
//!
//! A manifest holds the contract and all candidates, so that whoever has it can choose again and compare. Its hash names
//! what was bound; it is the same wherever the same contract meets the same candidates.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contract::DataLabel;
use crate::identity::PublicKey;
use crate::object::{Authored, Kind, ObjectError, Statement};
use crate::{Contract, Digest};

/// The version of this document.
pub const VERSION: u32 = 1;
/// The longest manifest, bytes of canonical JSON.
pub const MANIFEST_BYTES_MAX: usize = 256 * 1024;

/// What a contract was bound to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// [`VERSION`].
    pub version: u32,
    /// The agent's name.
    pub agent: String,
    /// The agent's own version.
    pub agent_version: String,
    /// What was bound, with every field.
    pub contract: Contract,
    /// SHA-256 of the contract, hexadecimal; see [`Contract::digest`].
    pub contract_digest: String,
    /// What runs it.
    pub runtime: Runtime,
    /// The models, in the order in which they are asked.
    pub models: Vec<Model>,
    /// What makes vectors of what it keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<Model>,
    /// The tools that it may call.
    pub tools: Vec<Tool>,
    /// What could have been bound.
    pub candidates: Candidates,
}

/// What runs an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Runtime {
    /// `native`, `process`, `model` or `wasm`.
    pub kind: String,
    /// SHA-256, hexadecimal: of the module, or of the canonical JSON of what the agent file says of it.
    pub digest: String,
}

/// A model as it is offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Model {
    /// By which contracts name it.
    pub name: String,
    /// Its version (semver 2.0.0), where its offer has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Tokens of a prompt that it takes, where its offer says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Milliseconds to its first token, where its offer says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    /// What a million tokens cost, in millionths of any one currency, where its offer says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// The narrowest data that it may be sent, where its offer says; internal else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clearance: Option<DataLabel>,
    /// SHA-256 of the whole offer, hexadecimal: where it is, quantisation and all.
    pub digest: String,
}

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tool {
    /// `server/tool`.
    pub name: String,
    /// SHA-256 of its definition, hexadecimal.
    pub definition: String,
}

/// What could be bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Candidates {
    /// Models, as they were offered.
    pub models: Vec<Model>,
    /// Tools, by name.
    pub tools: Vec<Tool>,
    /// What the node's owner says of the node.
    pub labels: Vec<String>,
}

impl Manifest {
    /// The canonical JSON (RFC 8785), which is what is hashed and sealed.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        serde_json_canonicalizer::to_vec(self).expect("a manifest holds nothing that JSON does not")
    }

    /// Names what was bound.
    #[must_use]
    pub fn hash(&self) -> Digest {
        crate::digest(&self.canonical())
    }

    /// Reads a manifest; only its canonical form is one.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn read(bytes: &[u8]) -> Result<Manifest, String> {
        if bytes.len() > MANIFEST_BYTES_MAX {
            return Err(format!("it has {} bytes, and {MANIFEST_BYTES_MAX} is the most", bytes.len()));
        }
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if manifest.version != VERSION {
            return Err(format!("it is of version {}, and this reads {VERSION}", manifest.version));
        }
        let written = serde_json::to_value(&manifest.contract).unwrap_or(Value::Null);
        if let Err(problems) = Contract::from_value(&written) {
            return Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
        }
        if manifest.canonical() != bytes {
            return Err("it is not in canonical form (RFC 8785)".to_owned());
        }
        Ok(manifest)
    }
}

/// A manifest as a node seals it; signed by that node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Binding {
    #[n(0)]
    kind: Kind,
    /// The node that bound it.
    #[n(1)]
    pub node: PublicKey,
    /// Unix milliseconds.
    #[n(2)]
    pub bound_at_ms: u64,
    /// The canonical JSON.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub manifest: Vec<u8>,
}

impl Binding {
    /// A manifest to be sealed by `node`.
    #[must_use]
    pub fn new(node: PublicKey, bound_at_ms: u64, manifest: &Manifest) -> Binding {
        Binding { kind: Kind::Binding, node, bound_at_ms, manifest: manifest.canonical() }
    }
}

impl Authored<Binding> {
    /// What was bound, where the node that says so sealed it.
    ///
    /// # Errors
    /// [`ObjectError::WrongKey`].
    pub fn sealed(&self) -> Result<Manifest, ObjectError> {
        if self.signer != self.body.node {
            return Err(ObjectError::WrongKey { signer: self.signer, expected: self.body.node });
        }
        Manifest::read(&self.body.manifest).map_err(ObjectError::Shape)
    }
}

impl Statement for Binding {
    const KIND: Kind = Kind::Binding;
    fn kind(&self) -> Kind {
        self.kind
    }
    fn check(&self) -> Result<(), ObjectError> {
        Manifest::read(&self.manifest).map(drop).map_err(ObjectError::Shape)
    }
}

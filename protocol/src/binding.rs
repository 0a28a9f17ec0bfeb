//! The binding manifest: the models and tools that a contract was bound to, signed by the node.
//!
//! A manifest holds the contract and all candidates, so that the binding can be repeated and compared. The same contract and
//! candidates always give the same hash.

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

/// The binding of a contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// [`VERSION`].
    pub version: u32,
    /// The agent's name.
    pub agent: String,
    /// The agent's own version.
    pub agent_version: String,
    /// The contract, with every field.
    pub contract: Contract,
    /// SHA-256 of the contract, hexadecimal; see [`Contract::digest`].
    pub contract_digest: String,
    /// What runs it.
    pub runtime: Runtime,
    /// The models, in the order in which they are tried.
    pub models: Vec<Model>,
    /// The model of the embeddings of its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<Model>,
    /// The tools that it may call.
    pub tools: Vec<Tool>,
    /// The candidates.
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

/// An offered model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Model {
    /// Its name in contracts.
    pub name: String,
    /// Its version (semver 2.0.0), where its offer has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The longest prompt, tokens, if the offer tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// The time to the first token, milliseconds, if the offer tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    /// The price of a million tokens in millionths of one currency, if the offer tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// Its clearance for data, if the offer tells; else internal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clearance: Option<DataLabel>,
    /// SHA-256 of the whole offer, including URL and quantisation, hexadecimal.
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

/// The candidates of a binding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Candidates {
    /// Models, as they were offered.
    pub models: Vec<Model>,
    /// Tools, by name.
    pub tools: Vec<Tool>,
    /// The labels of the node.
    pub labels: Vec<String>,
}

impl Manifest {
    /// The canonical JSON (RFC 8785), which is hashed and signed.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        serde_json_canonicalizer::to_vec(self).expect("a manifest holds nothing that JSON does not")
    }

    /// The hash of the manifest.
    #[must_use]
    pub fn hash(&self) -> Digest {
        crate::digest(&self.canonical())
    }

    /// Reads a manifest, which must be in canonical form.
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

/// A manifest that a node signed.
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
    /// The core whose time is promised to the agent, counted among those for hard real-time; none where it is promised none.
    #[n(4)]
    pub core: Option<u16>,
    /// The digest of the admission proof by which it is promised: of its canonical JSON (RFC 8785).
    #[cbor(n(5), with = "minicbor::bytes")]
    pub proof: Option<Digest>,
}

impl Binding {
    /// A manifest to be signed by `node`, of an agent to which no core is promised.
    #[must_use]
    pub fn new(node: PublicKey, bound_at_ms: u64, manifest: &Manifest) -> Binding {
        let manifest = manifest.canonical();
        Binding { kind: Kind::Binding, node, bound_at_ms, manifest, core: None, proof: None }
    }

    /// The same, of an agent to which time of that core is promised by the proof with that digest, if it has one.
    #[must_use]
    pub fn promised(self, core: u16, proof: Option<Digest>) -> Binding {
        Binding { core: Some(core), proof, ..self }
    }
}

impl Authored<Binding> {
    /// The manifest, if the named node signed it.
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
        if self.core.is_none() && self.proof.is_some() {
            return Err(ObjectError::Shape("a proof is of a core, and it names none".to_owned()));
        }
        Manifest::read(&self.manifest).map(drop).map_err(ObjectError::Shape)
    }
}

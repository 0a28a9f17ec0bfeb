//! Contracts made whole, bound and sealed by this node.

use std::path::Path;
use std::sync::Arc;

use althing_execution::Binding;
use althing_execution::binding::{Bound, Layer, Normalised, Why, normalise};
use althing_protocol::binding::Binding as Seal;
use althing_protocol::{hex, object};
use althing_store::file::read_text;
use althing_store::{Batch, Durability, Family, Range, ReadError};
use althing_td::{AgentFile, parse_partial_contract};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::node::Node;

/// Manifests that were sealed here, by their hash.
pub const BINDINGS: Family = Family("althing.bindings");
/// As many are kept; beyond, the oldest are not.
const BINDINGS_MAX: usize = 1_000;
/// Bytes of one policy or role.
const POLICY_BYTES_MAX: u64 = 256 << 10;

impl Node {
    /// The contract of an agent file on top of its role and this node's policy; nothing where the file has neither
    /// contract nor role.
    pub(crate) fn normalised(&self, file: &AgentFile) -> Result<Option<Normalised>, Failure> {
        let binding = &self.config.binding;
        let nothing = json!({});
        let request = match (&file.requested, &file.contract) {
            (Some(requested), _) => requested.clone(),
            (None, Some(contract)) => serde_json::to_value(contract).unwrap_or_default(),
            (None, None) if file.role.is_some() => nothing,
            (None, None) => return Ok(None),
        };
        let role = match &file.role {
            None => None,
            Some(_) if binding.roles.as_os_str().is_empty() => {
                return Err(Failure::usage(
                    "the agent file names a role, and `[binding] roles` of this node names no folder",
                ));
            }
            Some(role) => Some(read(&binding.roles.join(format!("{role}.yaml")), "role")?),
        };
        let tenant = match binding.tenant.as_os_str().is_empty() {
            true => None,
            false => Some(read(&binding.tenant, "policy")?),
        };
        let mut layers = vec![(Layer::Request, &request)];
        layers.extend(role.iter().map(|role| (Layer::Role, role)));
        layers.extend(tenant.iter().map(|tenant| (Layer::Tenant, tenant)));
        normalise(&layers).map(Some).map_err(|problems| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Failure::usage(format!("the contract, with its role and this node's policy: {}", told.join("; ")))
        })
    }

    /// Binds an agent file, and runs nothing.
    pub async fn bind(&self, mut file: AgentFile, folder: &Path) -> Result<Value, Failure> {
        let normalised = self.normalised(&file)?;
        file.contract = normalised.as_ref().map(|whole| whole.contract.clone());
        let (host, folder) = (self.host.clone(), folder.to_owned());
        let bound = tokio::task::spawn_blocking(move || host.bind(&file, &folder)).await;
        let bound = bound.map_err(|error| Failure::failed(error.to_string()))?;
        let bound = bound.map_err(|error| crate::agents::failed(&error))?;
        let mut told = self.told(&bound, &self.sealed(&bound)?)?;
        if let Some(normalised) = normalised {
            told["fields"] = fields(&normalised);
        }
        Ok(told)
    }

    /// Seals what an agent that was started is bound to, and keeps it under its hash: whoever finds that on a span later
    /// can ask what it stood for. The first seal of a manifest stays, in one network.
    pub(crate) async fn seal(&self, name: &str) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::failed(error.to_string());
        let Some(Binding { bound, .. }) = self.host.binding(name) else { return Ok(()) };
        let hash = bound.manifest.hash();
        // One that was sealed for another network is sealed for this one.
        let kept = self.store.read(BINDINGS, &hash).map_err(|error| failed(&error))?;
        let holds =
            |row: &Vec<u8>| object::open::<Seal>(row.get(8..).unwrap_or_default(), &self.config.network, "").is_ok();
        if kept.as_ref().is_some_and(holds) {
            return Ok(());
        }
        let sealed = self.sealed(&bound)?;
        let mut batch = Batch::new();
        batch.put(BINDINGS, hash, [self.clock.now_ms().to_be_bytes().as_slice(), &sealed].concat());
        for old in self.oldest().map_err(|error| failed(&error))? {
            batch.delete(BINDINGS, old);
        }
        self.store.write(batch, Durability::Synced).await.map_err(|error| failed(&error))
    }

    /// Seals beyond those that are kept.
    fn oldest(&self) -> Result<Vec<Vec<u8>>, ReadError> {
        let mut all = self.store.scan(BINDINGS, Range::all(2 * BINDINGS_MAX))?;
        if all.len() < BINDINGS_MAX {
            return Ok(Vec::new());
        }
        all.sort_unstable_by(|(_, one), (_, other)| other.get(..8).cmp(&one.get(..8)));
        Ok(all.into_iter().skip(BINDINGS_MAX - 1).map(|(hash, _)| hash).collect())
    }

    /// What a running agent was bound to, by its name, or anything that was bound, by its hash; as it was sealed then.
    pub fn binding(&self, wanted: &str) -> Result<Value, Failure> {
        let none = || {
            let message =
                format!("no agent {wanted:?} runs on this node, and no manifest of that hash was sealed here");
            Failure::new(crate::exit::code::NOT_FOUND, message)
        };
        let running = self.host.binding(wanted);
        let hash = running.as_ref().map_or(wanted, |running| &running.hash);
        let digest: Vec<u8> =
            (0..hash.len() / 2).filter_map(|at| u8::from_str_radix(hash.get(2 * at..2 * at + 2)?, 16).ok()).collect();
        let row = self.store.read(BINDINGS, &digest).map_err(|error| Failure::failed(error.to_string()))?;
        let sealed = row.as_deref().and_then(|row| row.get(8..)).ok_or_else(none)?;
        let opened = object::open::<Seal>(sealed, &self.config.network, "");
        let manifest = opened.and_then(|opened| opened.sealed()).map_err(|error| Failure::failed(error.to_string()))?;
        let bound = match running {
            Some(Binding { bound, .. }) => bound,
            None => Arc::new(Bound { manifest, models: Vec::new(), tools: Vec::new() }),
        };
        self.told(&bound, sealed)
    }

    fn sealed(&self, bound: &Bound) -> Result<Vec<u8>, Failure> {
        let seal = Seal::new(self.key.public(), self.clock.now_ms(), &bound.manifest);
        let sealed = object::sign(seal, &self.config.network, "", &self.key);
        Ok(sealed.map_err(|error| Failure::failed(error.to_string()))?.bytes)
    }

    fn told(&self, bound: &Bound, sealed: &[u8]) -> Result<Value, Failure> {
        let manifest = &bound.manifest;
        let why = |why: &Why| json!({ "candidate": why.candidate, "rank": why.rank, "reason": why.reason });
        let manifest_json = serde_json::to_value(manifest).map_err(|error| Failure::failed(error.to_string()))?;
        Ok(json!({
            "hash": hex(&manifest.hash()),
            "network": self.config.network,
            "manifest": manifest_json,
            "sealed": STANDARD.encode(sealed),
            "models": bound.models.iter().map(why).collect::<Vec<_>>(),
            "tools": bound.tools.iter().map(why).collect::<Vec<_>>(),
        }))
    }
}

fn fields(normalised: &Normalised) -> Value {
    let field = |(path, (value, layer)): (&String, &(Value, Layer))| json!({ "field": path, "value": value, "setBy": layer.to_string() });
    normalised.fields.iter().map(field).collect()
}

fn read(path: &Path, what: &str) -> Result<Value, Failure> {
    let failed = |why: String| Failure::usage(format!("the {what} {}: {why}", path.display()));
    let text = read_text(path, POLICY_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
    parse_partial_contract(&text).map_err(|error| failed(error.to_string()))
}

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

use crate::error::{NodeError, PolicyError};
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
    pub fn normalised(&self, file: &AgentFile) -> Result<Option<Normalised>, NodeError> {
        let policies = &self.config.policies;
        let nothing = json!({});
        let request = match (&file.requested, &file.contract) {
            (Some(requested), _) => requested.clone(),
            (None, Some(contract)) => serde_json::to_value(contract).unwrap_or_default(),
            (None, None) if file.role.is_some() => nothing,
            (None, None) => return Ok(None),
        };
        let role = match &file.role {
            None => None,
            Some(role) => {
                let folder = policies.roles.as_ref().ok_or(NodeError::NoRoles)?;
                Some(read(&folder.join(format!("{role}.yaml")), "role")?)
            }
        };
        let tenant = policies.tenant.as_ref().map(|file| read(file, "policy")).transpose()?;
        let mut layers = vec![(Layer::Request, &request)];
        layers.extend(role.iter().map(|role| (Layer::Role, role)));
        layers.extend(tenant.iter().map(|tenant| (Layer::Tenant, tenant)));
        normalise(&layers).map(Some).map_err(|problems| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            NodeError::Contract(told.join("; "))
        })
    }

    /// Binds an agent file, and runs nothing.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn bind(&self, mut file: AgentFile, folder: &Path) -> Result<Value, NodeError> {
        let normalised = self.normalised(&file)?;
        file.contract = normalised.as_ref().map(|whole| whole.contract.clone());
        let (host, folder) = (self.host.clone(), folder.to_owned());
        let bound = self.aside(move || host.bind(&file, &folder)).await??;
        let mut told = self.told(&bound, &self.sealed(&bound)?)?;
        if let Some(normalised) = normalised {
            told["fields"] = fields(&normalised);
        }
        Ok(told)
    }

    /// Seals what an agent that was started is bound to, and keeps it under its hash: whoever finds that on a span later
    /// can ask what it stood for. The first seal of a manifest stays, in one network.
    pub(crate) async fn seal(&self, name: &str) -> Result<(), NodeError> {
        let Some(Binding { bound, .. }) = self.host.binding(name) else { return Ok(()) };
        let hash = bound.manifest.hash();
        // One that was sealed for another network is sealed for this one.
        let kept = self.store.read(BINDINGS, &hash)?;
        let holds = |row: &Vec<u8>| object::open::<Seal>(row.get(8..).unwrap_or_default(), self.network(), "").is_ok();
        if kept.as_ref().is_some_and(holds) {
            return Ok(());
        }
        let sealed = self.sealed(&bound)?;
        let mut batch = Batch::new();
        batch.put(BINDINGS, hash, [self.clock.now_ms().to_be_bytes().as_slice(), &sealed].concat());
        for old in self.oldest()? {
            batch.delete(BINDINGS, old);
        }
        Ok(self.store.write(batch, Durability::Synced).await?)
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
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn binding(&self, wanted: &str) -> Result<Value, NodeError> {
        let none = || NodeError::NoBinding(wanted.to_owned());
        let running = self.host.binding(wanted);
        let hash = running.as_ref().map_or(wanted, |running| &running.hash);
        let digest: Vec<u8> =
            (0..hash.len() / 2).filter_map(|at| u8::from_str_radix(hash.get(2 * at..2 * at + 2)?, 16).ok()).collect();
        let row = self.store.read(BINDINGS, &digest)?;
        let sealed = row.as_deref().and_then(|row| row.get(8..)).ok_or_else(none)?;
        let manifest = object::open::<Seal>(sealed, self.network(), "")?.sealed()?;
        let bound = match running {
            Some(Binding { bound, .. }) => bound,
            None => Arc::new(Bound { manifest, models: Vec::new(), tools: Vec::new() }),
        };
        self.told(&bound, sealed)
    }

    fn sealed(&self, bound: &Bound) -> Result<Vec<u8>, NodeError> {
        let seal = Seal::new(self.key.public(), self.clock.now_ms(), &bound.manifest);
        Ok(object::sign(seal, self.network(), "", &self.key)?.bytes)
    }

    fn told(&self, bound: &Bound, sealed: &[u8]) -> Result<Value, NodeError> {
        let manifest = &bound.manifest;
        let why = |why: &Why| json!({ "candidate": why.candidate, "rank": why.rank, "reason": why.reason });
        let manifest_json = serde_json::to_value(manifest)?;
        Ok(json!({
            "hash": hex(&manifest.hash()),
            "network": self.network(),
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

fn read(path: &Path, what: &'static str) -> Result<Value, NodeError> {
    let failed = |why| NodeError::Policy { what, path: path.to_owned(), why };
    let text = read_text(path, POLICY_BYTES_MAX).map_err(|error| failed(PolicyError::File(error)))?;
    parse_partial_contract(&text).map_err(|error| failed(PolicyError::Contract(error)))
}

//! Contracts that this node normalises, binds and seals.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use althing_communication::WallClock;
use althing_execution::admission::AdmissionProof;
use althing_execution::binding::{Bound, Layer, Normalised, normalise};
use althing_execution::kernel::{CorePromise, Kernel};
use althing_execution::{Binding, Host, core_promise};
use althing_governance::NodeProfile;
use althing_protocol::binding::Binding as Seal;
use althing_protocol::{AgentRef, Digest, digest_of_hex, object};
use althing_store::file::read_text;
use althing_store::{Batch, Durability, Family, Range, ReadError, Store};
use althing_td::{AgentFile, parse_partial_contract};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::blocking::run_blocking;
use crate::config::Policies;
use crate::error::{NodeError, PolicyError};
use crate::identity::Identity;
use crate::node_profile;

/// Manifests that were sealed here, by their hash.
pub const BINDINGS: Family = Family("althing.bindings");
/// The admission proofs that their seals name, by the hash of the manifest.
pub const BINDING_PROOFS: Family = Family("althing.binding-proofs");
/// Manifests that are kept; the oldest go first.
const BINDINGS_MAX: usize = 1_000;
/// Bytes of one policy or role.
const POLICY_BYTES_MAX: u64 = 256 << 10;

/// What agents are bound to: the policies that apply, and the manifests that were sealed here.
pub struct Bindings {
    pub(crate) host: Arc<Host>,
    pub(crate) kernel: Option<Arc<Kernel>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) policies: Policies,
    /// What is demanded of agents that start here.
    pub(crate) profile: NodeProfile,
    pub(crate) clock: WallClock,
}

/// A manifest that this node sealed, with its reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct SealedBinding {
    /// The network for which it was sealed.
    pub network: String,
    /// The manifest; the reasons are empty where they are not known any more.
    pub bound: Arc<Bound>,
    /// The manifest as this node signed it, in base64.
    pub sealed: String,
    /// The core whose time is promised to the agent, counted from 0 among those for hard real-time, as the seal says.
    pub core: Option<u16>,
    /// The proof by which it is, whose digest is in the seal.
    pub proof: Option<AdmissionProof>,
    /// Each field of the contract by its path, with its value and who set it, where an agent file was bound now.
    pub fields: Option<BTreeMap<String, (Value, Layer)>>,
}

impl Bindings {
    /// The contract of an agent file, merged with its role and this node's policy; `None` where the file has neither
    /// contract nor role.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn normalise(&self, file: &AgentFile) -> Result<Option<Normalised>, NodeError> {
        let policies = &self.policies;
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
            let reasons: Vec<String> = problems.iter().map(ToString::to_string).collect();
            NodeError::Contract(reasons.join("; "))
        })
    }

    /// Refuses an agent that the node's profile does not let run.
    pub(crate) fn check_profile(&self, file: &AgentFile) -> Result<(), NodeError> {
        node_profile::check_agent(self.profile, &self.host, file)
    }

    /// Binds an agent file without running it.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub async fn bind(&self, mut file: AgentFile, folder: &Path) -> Result<SealedBinding, NodeError> {
        let normalised = self.normalise(&file)?;
        file.contract = normalised.as_ref().map(|whole| whole.contract.clone());
        let (host, folder) = (self.host.clone(), folder.to_owned());
        let bound = run_blocking(self.kernel.as_ref(), move || host.bind(&file, &folder)).await??;
        let sealed = self.sealed(&bound, &Place::default())?;
        Ok(SealedBinding { fields: normalised.map(|whole| whole.fields), ..self.shown(Arc::new(bound), &sealed) })
    }

    /// Seals the manifest of an agent that was started, with where it runs, and keeps it under its hash, so that a hash found on a
    /// span later can be looked up. The first seal of a manifest in a network is kept for as long as it says where the agent runs.
    pub(crate) async fn seal(&self, agent: &AgentRef) -> Result<(), NodeError> {
        let Some(Binding { bound, .. }) = self.host.binding(agent) else { return Ok(()) };
        let (hash, place) = (bound.manifest.hash(), Place::of(core_promise(&self.host, agent)));
        // A manifest that was sealed for another network is sealed again for this one.
        let kept = self.store.read(BINDINGS, &hash)?;
        let holds = |row: &Vec<u8>| {
            let opened = object::open::<Seal>(row.get(8..).unwrap_or_default(), self.identity.network(), "");
            opened.is_ok_and(|kept| place.is_said_by(&kept.body))
        };
        if kept.as_ref().is_some_and(holds) {
            return Ok(());
        }
        let sealed = self.sealed(&bound, &place)?;
        let mut batch = Batch::new();
        for old in self.oldest()? {
            batch.delete(BINDINGS, old.clone()).delete(BINDING_PROOFS, old);
        }
        batch.put(BINDINGS, hash, [self.clock.now_ms().to_be_bytes().as_slice(), &sealed].concat());
        match &place.proof {
            Some(proof) => batch.put(BINDING_PROOFS, hash, proof.canonical()),
            None => batch.delete(BINDING_PROOFS, hash),
        };
        Ok(self.store.write(batch, Durability::Synced).await?)
    }

    /// The oldest manifests, which make room for one more.
    fn oldest(&self) -> Result<Vec<Vec<u8>>, ReadError> {
        let mut all = self.store.scan(BINDINGS, Range::all(2 * BINDINGS_MAX))?;
        if all.len() < BINDINGS_MAX {
            return Ok(Vec::new());
        }
        all.sort_unstable_by(|(_, one), (_, other)| other.get(..8).cmp(&one.get(..8)));
        Ok(all.into_iter().skip(BINDINGS_MAX - 1).map(|(hash, _)| hash).collect())
    }

    /// The sealed manifest of a running agent, by its name, or of any binding, by its hash.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn find(&self, wanted: &str) -> Result<SealedBinding, NodeError> {
        let none = || NodeError::NoBinding(wanted.to_owned());
        let running = self.host.binding(wanted);
        let hash = running.as_ref().map_or(wanted, |running| &running.hash);
        let digest = digest_of_hex(hash).ok_or_else(none)?;
        let row = self.store.read(BINDINGS, &digest)?;
        let sealed = row.as_deref().and_then(|row| row.get(8..)).ok_or_else(none)?;
        let opened = object::open::<Seal>(sealed, self.identity.network(), "")?;
        let manifest = opened.sealed()?;
        let proof = opened.body.proof.and_then(|named| self.proof(&digest, named));
        let bound = match running {
            Some(Binding { bound, .. }) => bound,
            None => Arc::new(Bound { manifest, models: Vec::new(), tools: Vec::new() }),
        };
        Ok(SealedBinding { core: opened.body.core, proof, ..self.shown(bound, sealed) })
    }

    /// The proof that the seal of a manifest names, if it is kept.
    fn proof(&self, hash: &[u8], named: Digest) -> Option<AdmissionProof> {
        // What cannot be read is not there: the seal says what it was.
        let row = self.store.read(BINDING_PROOFS, hash).ok().flatten()?;
        let proof: AdmissionProof = serde_json::from_slice(&row).ok()?;
        (proof.digest() == named).then_some(proof)
    }

    fn sealed(&self, bound: &Bound, place: &Place) -> Result<Vec<u8>, NodeError> {
        let seal = Seal::new(self.identity.key.public(), self.clock.now_ms(), &bound.manifest);
        let seal = match place.core {
            Some(core) => seal.promised(core, place.digest()),
            None => seal,
        };
        Ok(object::sign(seal, self.identity.network(), "", &self.identity.key)?.bytes)
    }

    fn shown(&self, bound: Arc<Bound>, sealed: &[u8]) -> SealedBinding {
        let network = self.identity.network().to_owned();
        SealedBinding { network, bound, sealed: STANDARD.encode(sealed), core: None, proof: None, fields: None }
    }
}

/// Where an agent runs, as its seal says it: nothing where no core is promised to it.
#[derive(Debug, Default)]
struct Place {
    core: Option<u16>,
    proof: Option<AdmissionProof>,
}

impl Place {
    fn of(promise: Option<CorePromise>) -> Place {
        // No machine has more cores than a seal can say.
        let placed = promise.and_then(|promise| Some((u16::try_from(promise.core).ok()?, promise.proof)));
        placed.map_or_else(Place::default, |(core, proof)| Place { core: Some(core), proof })
    }

    fn digest(&self) -> Option<Digest> {
        self.proof.as_ref().map(AdmissionProof::digest)
    }

    fn is_said_by(&self, seal: &Seal) -> bool {
        (seal.core, seal.proof) == (self.core, self.digest())
    }
}

fn read(path: &Path, what: &'static str) -> Result<Value, NodeError> {
    let failed = |why| NodeError::Policy { what, path: path.to_owned(), why };
    let text = read_text(path, POLICY_BYTES_MAX).map_err(|error| failed(PolicyError::File(error)))?;
    parse_partial_contract(&text).map_err(|error| failed(PolicyError::Contract(error)))
}

#[cfg(test)]
mod tests {
    use althing_execution::admission::{Config, Policy, Preemption, RtTask};
    use althing_protocol::binding::{Candidates, Manifest, Runtime, VERSION};
    use althing_protocol::{Contract, SecretKey};

    use super::*;

    fn place(core: usize, wcet_ns: u64) -> Place {
        let config = Config { policy: Policy::Edf, preemption: Preemption::Limited, cap_ppm: 900_000, platform_ns: 0 };
        let tasks = vec![(RtTask::new(wcet_ns, 10_000_000), None)];
        Place::of(Some(CorePromise { core, proof: Some(AdmissionProof { config, tasks, place: 0 }) }))
    }

    #[test]
    fn a_seal_is_made_again_where_its_agent_is_promised_another_core_or_by_another_proof() {
        let here = place(1, 1_000_000);
        let contract = Contract::from_value(&json!({ "class": { "latency": "srt" } })).expect("a contract");
        let manifest = Manifest {
            version: VERSION,
            agent: "arm".to_owned(),
            agent_version: "1.0.0".to_owned(),
            contract,
            contract_digest: String::new(),
            runtime: Runtime { kind: "wasm".to_owned(), digest: String::new() },
            models: Vec::new(),
            embeddings: None,
            tools: Vec::new(),
            candidates: Candidates::default(),
        };
        let unplaced = Seal::new(SecretKey::from_seed(&[7; 32]).public(), 1, &manifest);
        let sealed = unplaced.clone().promised(1, here.digest());
        assert!(here.is_said_by(&sealed) && Place::default().is_said_by(&unplaced));
        for other in [place(0, 1_000_000), place(1, 2_000_000), Place::of(None), place(1 << 16, 1_000_000)] {
            assert!(!other.is_said_by(&sealed), "{other:?}");
        }
    }
}

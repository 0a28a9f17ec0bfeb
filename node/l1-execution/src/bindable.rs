//! What an agent file offers for its contract to be bound to, and what it was bound to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use althing_protocol::binding::{Model, Runtime};
use althing_protocol::{digest, hex};
use althing_store::file::read_bytes;
use althing_td::{AgentFile, ModelEndpoint, RuntimeSpec};

use crate::binding::{Bound, OfferedModel, Unmet, Why, pinnable};
use crate::candidates::CandidateList;
use crate::definition::hash;
use crate::start_error::StartError;
use crate::syscalls::SystemCalls;

/// The longest module of any agent, bytes.
const MODULE_BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(crate) fn read_module(module: &Path) -> Result<Vec<u8>, String> {
    read_bytes(module, MODULE_BYTES_MAX).map_err(|error| error.to_string())
}

/// An offered model; the digest covers the whole endpoint.
pub(crate) fn offer(endpoint: &ModelEndpoint) -> Model {
    Model {
        name: endpoint.named().to_owned(),
        version: endpoint.version.clone(),
        context_tokens: endpoint.context_tokens,
        ttft_ms: endpoint.ttft_ms,
        cost: endpoint.cost,
        clearance: endpoint.clearance,
        digest: hash(endpoint),
    }
}

/// The same, with its tier.
pub(crate) fn offered(endpoint: &ModelEndpoint) -> OfferedModel {
    OfferedModel { model: offer(endpoint), tier: endpoint.tier }
}

/// The models that an agent may be bound to: those of its file and of the node.
pub(crate) fn offers<'a>(file: &'a AgentFile, of_node: &'a [ModelEndpoint]) -> impl Iterator<Item = &'a ModelEndpoint> {
    let (of_file, of_node): (&[_], _) = match &file.runtime {
        RuntimeSpec::Model { endpoints, .. } => (endpoints, of_node),
        _ => (&[], &[]),
    };
    of_file.iter().chain(of_node)
}

/// What an agent file runs on, with the bound endpoints, in their order.
pub(crate) fn chosen(file: &AgentFile, of_node: &[ModelEndpoint], bound: &Bound) -> RuntimeSpec {
    let mut runtime = file.runtime.clone();
    if let RuntimeSpec::Model { endpoints, .. } = &mut runtime {
        let of = |model: &Model| offers(file, of_node).find(|endpoint| offer(endpoint) == *model).cloned();
        *endpoints = bound.manifest.models.iter().filter_map(of).collect();
    }
    runtime
}

/// What an agent file runs on, with a digest of it.
pub(crate) fn runtime(file: &AgentFile, folder: &Path) -> Result<Runtime, StartError> {
    let (kind, digest) = match &file.runtime {
        RuntimeSpec::Native { .. } => ("native", hash(&file.runtime)),
        RuntimeSpec::Process { .. } => ("process", hash(&file.runtime)),
        RuntimeSpec::Remote { .. } => ("remote", hash(&file.runtime)),
        // The endpoints are among the candidates.
        RuntimeSpec::Model { prompt, temperature, .. } => {
            let said = BTreeMap::from([
                ("prompt", serde_json::json!(prompt)),
                ("temperature", serde_json::json!(temperature)),
            ]);
            ("model", hash(&said))
        }
        RuntimeSpec::Wasm { module } => {
            let module = folder.join(module);
            let failed =
                |reason| StartError::Module { name: file.name.clone(), module: module.display().to_string(), reason };
            ("wasm", hex(&digest(&read_module(&module).map_err(failed)?)))
        }
    };
    Ok(Runtime { kind: kind.to_owned(), digest })
}

/// The binding of a running agent.
#[derive(Debug, Clone)]
pub struct Binding {
    /// The manifest's hash, hexadecimal.
    pub hash: Arc<str>,
    /// The manifest, and the reasons.
    pub bound: Arc<Bound>,
    /// What it could have been bound to, and why it was or was not, as a span says it; nothing where it could be bound to nothing.
    pub candidates: Option<Arc<str>>,
    /// The models that were offered, those too that are above the highest tier of its contract.
    pub(crate) offers: Arc<[OfferedModel]>,
}

impl Binding {
    pub(crate) fn new(bound: Bound, offers: Vec<OfferedModel>) -> Binding {
        let hash = hex(&bound.manifest.hash());
        let candidates = candidates(&bound);
        let candidates = (!candidates.is_empty()).then(|| candidates.text().into());
        Binding { hash: hash.into(), bound: Arc::new(bound), candidates, offers: offers.into() }
    }
}

/// The models and tools that were offered, the best first, and those last that were not selected.
fn candidates(bound: &Bound) -> CandidateList {
    let mut all: Vec<&Why> = bound.models.iter().chain(&bound.tools).collect();
    // Stable: models come before tools.
    all.sort_by_key(|why| why.rank.unwrap_or(usize::MAX));
    let mut list = CandidateList::default();
    for Why { candidate, rank, reason } in all {
        let why = match rank {
            Some(rank) => format!("rank {rank}: {reason}"),
            None => format!("not selected: {reason}"),
        };
        list.add(candidate, None, why);
    }
    list
}

/// Pins the bound definitions unless there are pins: a changed definition is another tool, in every binding mode.
pub(crate) fn pin(calls: &SystemCalls, bound: &Bound) -> Result<(), Unmet> {
    if calls.tools.pins().is_none() {
        calls.tools.pin(pinnable(calls.tools.pinnable(&bound.manifest.tools))?);
    }
    Ok(())
}

//! Binding: selects the models and tools of a contract among the candidates, each with its reason. Pure.
//!
//! **In**: a contract, and the available models, tools and labels. **Out**: a manifest, and why each candidate was selected
//! or not; or the clause that nothing satisfies.
//!
//! **Invariants**: the same contract and candidates give the same manifest, byte for byte, independent of the order of tools;
//! only what the contract allows is bound; [`replay`] of a manifest gives the manifest.

mod normalise;

use std::collections::BTreeMap;

use althing_protocol::binding::{Candidates, MANIFEST_BYTES_MAX, Manifest, Model, Runtime, Tool, VERSION};
use althing_protocol::contract::{BindingMode, Class, Cost, Dt, covers};
use althing_protocol::{Contract, hex};
use semver::{Version, VersionReq};

use crate::definition::{Definition, PINS_BYTES_MAX, Pins, Unfit};
pub use normalise::{Layer, Normalised, normalise};

/// Why a candidate was selected or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// Which.
    pub candidate: String,
    /// Its rank, from 1; none if it was not selected.
    pub rank: Option<usize>,
    /// For people.
    pub reason: String,
}

/// A clause of the contract that nothing satisfies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{clause} cannot be satisfied: {reason}{}", listed(.candidates))]
pub struct Unmet {
    /// The contract's field.
    pub clause: String,
    /// What is required, and what to do.
    pub reason: String,
    /// Why each candidate does not satisfy it.
    pub candidates: Vec<Why>,
}

fn listed(candidates: &[Why]) -> String {
    candidates.iter().map(|why| format!("\n  {}: {}", why.candidate, why.reason)).collect()
}

/// The agent that is bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Bindable {
    /// The agent's name.
    pub agent: String,
    /// Its version.
    pub agent_version: String,
    /// What runs it.
    pub runtime: Runtime,
    /// The model of embeddings for its memory.
    pub embeddings: Option<Model>,
}

/// A model that is offered, with the tier that was written of it, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfferedModel {
    pub(crate) model: Model,
    pub(crate) tier: Option<u8>,
}

/// A manifest with its reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The manifest.
    pub manifest: Manifest,
    /// For each model that was offered.
    pub models: Vec<Why>,
    /// For each tool that was listed.
    pub tools: Vec<Why>,
}

/// Binds a contract to the candidates.
///
/// # Errors
/// [`Unmet`]: the clause that nothing satisfies.
pub fn bind(contract: &Contract, what: Bindable, mut candidates: Candidates) -> Result<Bound, Unmet> {
    candidates.tools.sort();
    candidates.tools.dedup();
    candidates.labels.sort();
    candidates.labels.dedup();
    labels(contract, &candidates.labels)?;
    let models_matter = what.runtime.kind == "model";
    let (models, whys) = if models_matter { models(contract, &candidates.models)? } else { Default::default() };
    let (tools, tool_whys) = tools(contract, &candidates.tools)?;
    let digest = hex(&contract.digest());
    let manifest = Manifest {
        version: VERSION,
        agent: what.agent,
        agent_version: what.agent_version,
        contract: contract.clone(),
        contract_digest: digest,
        runtime: what.runtime,
        models,
        embeddings: what.embeddings,
        tools,
        candidates,
    };
    let bytes = manifest.canonical().len();
    if bytes > MANIFEST_BYTES_MAX {
        return Err(Unmet {
            clause: "capabilities".to_owned(),
            reason: format!(
                "what could be bound takes {bytes} bytes, and {MANIFEST_BYTES_MAX} is the most; name fewer servers"
            ),
            candidates: Vec::new(),
        });
    }
    Ok(Bound { manifest, models: whys, tools: tool_whys })
}

/// Repeats the binding of a manifest; the result is equal unless the manifest was forged.
///
/// # Errors
/// [`Unmet`].
pub fn replay(manifest: &Manifest) -> Result<Bound, Unmet> {
    let what = Bindable {
        agent: manifest.agent.clone(),
        agent_version: manifest.agent_version.clone(),
        runtime: manifest.runtime.clone(),
        embeddings: manifest.embeddings.clone(),
    };
    bind(&manifest.contract, what, manifest.candidates.clone())
}

/// A hard constraint in every mode.
fn labels(contract: &Contract, has: &[String]) -> Result<(), Unmet> {
    for (place, label) in contract.placement.labels.iter().enumerate() {
        if !has.contains(label) {
            let said = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
            return Err(Unmet {
                clause: format!("placement.labels[{place}]"),
                reason: format!("{label:?} is wanted, and the labels of this node are: {said} (`[node] labels`)"),
                candidates: Vec::new(),
            });
        }
    }
    Ok(())
}

/// A model that the contract names.
pub(crate) struct Named {
    name: String,
    pub(crate) range: Option<VersionReq>,
}

/// `NAME`, or `NAME@RANGE` where the range is one.
pub(crate) fn named(text: &str) -> Named {
    if let Some((name, range)) = text.rsplit_once('@')
        && let Ok(range) = VersionReq::parse(range)
    {
        return Named { name: name.to_owned(), range: Some(range) };
    }
    Named { name: text.to_owned(), range: None }
}

/// Whether a contract that names these models allows that one.
#[must_use]
pub fn allows(models: &[String], name: &str, version: Option<&str>) -> bool {
    models.is_empty() || models.iter().any(|text| fits(&named(text), name, version).is_ok())
}

pub(crate) fn fits(named: &Named, name: &str, version: Option<&str>) -> Result<(), String> {
    if named.name != name {
        return Err(format!("it is not {:?}", named.name));
    }
    let Some(range) = &named.range else { return Ok(()) };
    match version.map(Version::parse) {
        Some(Ok(version)) if range.matches(&version) => Ok(()),
        Some(Ok(version)) => Err(format!("its version {version} is not in {range}")),
        Some(Err(_)) | None => Err(format!("it tells no version (semver), and {range} is wanted")),
    }
}

pub(crate) fn shown(model: &Model) -> String {
    match &model.version {
        Some(version) => format!("{}@{version}", model.name),
        None => model.name.clone(),
    }
}

/// Why a model cannot be bound in any mode.
fn barred(contract: &Contract, model: &Model) -> Option<String> {
    let label = contract.data_label;
    let cleared = model.clearance.unwrap_or_default();
    if cleared < label {
        return Some(format!(
            "it is cleared for {} data, and the agent's is {} (data_label)",
            cleared.name(),
            label.name()
        ));
    }
    if let Class::Dt(Dt { cost: Some(Cost { spend: Some(_), .. }) }) = &contract.class
        && model.cost.is_none()
    {
        return Some("it does not tell its cost, and the contract bounds what is spent (class.cost.spend)".to_owned());
    }
    let wanted = contract.model.context_tokens;
    let short = model.context_tokens.filter(|tokens| *tokens < wanted)?;
    Some(format!("it takes prompts of {short} tokens, and the contract has {wanted} (model.context_tokens)"))
}

/// The order in which models are asked.
pub(crate) fn models(contract: &Contract, offers: &[Model]) -> Result<(Vec<Model>, Vec<Why>), Unmet> {
    let wanted: Vec<Named> = contract.model.models.iter().map(|text| named(text)).collect();
    // For each offer its rank in the preferences of the contract, or why it is excluded.
    let judge = |model: &Model| -> Result<usize, String> {
        if let Some(reason) = barred(contract, model) {
            return Err(reason);
        }
        if wanted.is_empty() {
            return Ok(0);
        }
        let mut reasons = Vec::new();
        for (place, named) in wanted.iter().enumerate() {
            match fits(named, &model.name, model.version.as_deref()) {
                Ok(()) => return Ok(place),
                Err(reason) => reasons.push(reason),
            }
        }
        // The reason for a model of the same name is the most specific.
        let told = reasons.iter().find(|reason| !reason.starts_with("it is not")).unwrap_or(&reasons[0]);
        Err(if wanted.len() > 1 && told.starts_with("it is not") {
            "the contract does not name it".to_owned()
        } else {
            told.clone()
        })
    };
    let judged: Vec<(usize, Result<usize, String>)> = offers.iter().map(judge).enumerate().collect();
    let order = match contract.binding {
        BindingMode::Strict => strict(&judged, offers),
        BindingMode::Smooth => smooth(&judged, offers),
        BindingMode::Flexible => flexible(contract, &judged, offers),
    };
    let why = |(offer, judged): &(usize, Result<usize, String>)| {
        let rank = order.iter().position(|(chosen, _)| chosen == offer);
        let reason = match (rank, judged) {
            (Some(rank), _) => order[rank].1.clone(),
            (None, Err(reason)) => reason.clone(),
            (None, Ok(_)) => "another is preferred, and this mode takes no other".to_owned(),
        };
        Why { candidate: shown(&offers[*offer]), rank: rank.map(|rank| rank + 1), reason }
    };
    let whys: Vec<Why> = judged.iter().map(why).collect();
    if order.is_empty() {
        let names = if wanted.is_empty() { "any model".to_owned() } else { contract.model.models.join(", ") };
        let reason = format!("{names} is wanted, and none of the {} that are offered will do", offers.len());
        let clause = if wanted.is_empty() { "model" } else { "model.models" };
        return Err(Unmet { clause: clause.to_owned(), reason, candidates: whys });
    }
    Ok((order.into_iter().map(|(offer, _)| offers[offer].clone()).collect(), whys))
}

type Judged = (usize, Result<usize, String>);

/// The offers of preference `place`, the highest version first, else in the order of offers.
fn of_place(judged: &[Judged], offers: &[Model], place: usize) -> Vec<usize> {
    let mut found: Vec<usize> =
        judged.iter().filter(|(_, judged)| *judged == Ok(place)).map(|(offer, _)| *offer).collect();
    let version = |offer: &usize| offers[*offer].version.as_deref().and_then(|text| Version::parse(text).ok());
    found.sort_by_key(|offer| std::cmp::Reverse(version(offer)));
    found
}

/// The model that is named first, and no other.
fn strict(judged: &[Judged], offers: &[Model]) -> Vec<(usize, String)> {
    let found = of_place(judged, offers, 0);
    found.into_iter().take(1).map(|offer| (offer, "the contract names it first".to_owned())).collect()
}

/// The first that is named and offered; its versions, the highest first.
fn smooth(judged: &[Judged], offers: &[Model]) -> Vec<(usize, String)> {
    let Some(place) = judged.iter().filter_map(|(_, judged)| judged.as_ref().ok().copied()).min() else {
        return Vec::new();
    };
    let told = |(rank, offer): (usize, usize)| {
        let reason = if rank == 0 { "the highest version in range" } else { "asked when those before it fail" };
        (offer, reason.to_owned())
    };
    of_place(judged, offers, place).into_iter().enumerate().map(told).collect()
}

/// All allowed models: those that meet the latency target first, then by price, then by preference.
fn flexible(contract: &Contract, judged: &[Judged], offers: &[Model]) -> Vec<(usize, String)> {
    let aim_ms = match &contract.class {
        Class::Srt(srt) => Some(srt.ttft_ms),
        Class::Hrt(_) | Class::Dt(_) => None,
    };
    let mut found: Vec<(bool, u64, usize, usize)> = judged
        .iter()
        .filter_map(|(offer, judged)| Some((*offer, judged.as_ref().ok().copied()?)))
        .map(|(offer, place)| {
            let model = &offers[offer];
            let slow = aim_ms.zip(model.ttft_ms).is_some_and(|(aim, takes)| takes > aim);
            (slow, model.cost.unwrap_or(u64::MAX), place, offer)
        })
        .collect();
    found.sort_unstable();
    let told = |(slow, cost, place, offer): (bool, u64, usize, usize)| {
        let aim = match (slow, aim_ms) {
            (true, Some(aim)) => format!("breaks the aim of {aim} ms"),
            (false, Some(aim)) if offers[offer].ttft_ms.is_some() => format!("keeps the aim of {aim} ms"),
            _ => "no aim is known to be broken".to_owned(),
        };
        let cost = if cost == u64::MAX { "cost unknown".to_owned() } else { format!("costs {cost} a million tokens") };
        (offer, format!("{aim}; {cost}; preference {}", place + 1))
    };
    found.into_iter().map(told).collect()
}

/// The listed tools that the contract allows.
fn tools(contract: &Contract, listed: &[Tool]) -> Result<(Vec<Tool>, Vec<Why>), Unmet> {
    let allowed = |tool: &Tool| contract.capabilities.iter().any(|capability| covers(capability, &tool.name));
    if contract.binding == BindingMode::Strict {
        for (place, capability) in contract.capabilities.iter().enumerate() {
            // Other agents are not known at the start of an agent.
            let there = capability == "agents/*" || listed.iter().any(|tool| covers(capability, &tool.name));
            if !there {
                return Err(Unmet {
                    clause: format!("capabilities[{place}]"),
                    reason: format!("no server has the tool {capability:?}, or its server does not answer"),
                    candidates: Vec::new(),
                });
            }
        }
    }
    let mut rank = 0;
    let why = |tool: &Tool| {
        let chosen = allowed(tool);
        rank += usize::from(chosen);
        let reason = if chosen { "the contract allows it" } else { "the contract does not name it (capabilities)" };
        Why { candidate: tool.name.clone(), rank: chosen.then_some(rank), reason: reason.to_owned() }
    };
    let whys = listed.iter().map(why).collect();
    Ok((listed.iter().filter(|tool| allowed(tool)).cloned().collect(), whys))
}

/// Checks that the definitions are small enough to be stored.
///
/// # Errors
/// [`Unmet`].
pub fn pinnable(pins: Pins) -> Result<Pins, Unmet> {
    let bytes: usize = pins.values().map(Definition::bytes).sum();
    if bytes <= PINS_BYTES_MAX {
        return Ok(pins);
    }
    let reason =
        format!("the definitions of its tools have {bytes} bytes, and {PINS_BYTES_MAX} is the most; name fewer tools");
    Err(Unmet { clause: "capabilities".to_owned(), reason, candidates: Vec::new() })
}

/// Checks that a strict binding is unchanged.
///
/// # Errors
/// [`Unmet`], for a tool that is another one now.
pub fn unchanged(contract: &Contract, unfit: &BTreeMap<String, Unfit>) -> Result<(), Unmet> {
    match unfit.iter().find(|(_, unfit)| matches!(unfit, Unfit::Changed(_) | Unfit::Unsteady(_))) {
        Some((tool, unfit)) if contract.binding == BindingMode::Strict => Err(Unmet {
            clause: "capabilities".to_owned(),
            reason: format!("{} {tool:?}: {}", unfit.reason(), unfit.brief()),
            candidates: Vec::new(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

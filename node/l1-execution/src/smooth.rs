//! Which version of its model a contract with `binding: smooth` is bound to where it was bound to one before. Pure.
//!
//! **In**: a contract, the models that are offered, and the version that was bound last. **Out**: the version that is bound, and the
//! higher one in its range if there is one. The first stays for as long as it is offered: a higher one is tried beside it.

use std::cmp::Ordering;
use std::fmt;

use althing_protocol::Contract;
use althing_protocol::binding::Model;
use althing_protocol::contract::BindingMode;
use semver::{BuildMetadata, Version, VersionReq};
use serde::{Deserialize, Serialize};

use crate::binding::{fits, models, named};

/// The longest name of a model with its range in a contract, characters.
const NAMED_CHARS_MAX: usize = 200;

/// A version of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelVersion {
    /// As contracts name it, without a range.
    pub name: String,
    /// Its version (semver 2.0.0).
    pub version: String,
}

impl fmt::Display for ModelVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}@{}", self.name, self.version)
    }
}

/// What a contract with `binding: smooth` is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmoothModel {
    /// The version that was bound before, where that is still offered and none lower is the highest; else the highest in range.
    pub bound: ModelVersion,
    /// The highest in range, where that is higher than the one that is bound.
    pub newer: Option<ModelVersion>,
}

/// What a contract is bound to among these models, where it was bound to `before` the last time; nothing where its mode is another
/// one, or where it says no range of the model that is first.
#[must_use]
pub fn smooth_model(contract: &Contract, offers: &[Model], before: Option<&ModelVersion>) -> Option<SmoothModel> {
    if contract.binding != BindingMode::Smooth {
        return None;
    }
    let (order, _) = models(contract, offers).ok()?;
    let first = order.first()?;
    let mut wanted = contract.model.models.iter().map(|text| named(text));
    wanted.find(|named| fits(named, &first.name, first.version.as_deref()).is_ok())?.range?;
    let highest = ModelVersion { name: first.name.clone(), version: first.version.clone()? };
    let is_offered = |one: &ModelVersion| {
        order.iter().any(|model| model.name == one.name && model.version.as_deref() == Some(one.version.as_str()))
    };
    match before.filter(|before| is_lower(before, &highest) && is_offered(before)) {
        Some(before) => Some(SmoothModel { bound: before.clone(), newer: Some(highest) }),
        None => Some(SmoothModel { bound: highest, newer: None }),
    }
}

/// Whether that is a lower version of the same model.
fn is_lower(one: &ModelVersion, other: &ModelVersion) -> bool {
    let versions = Version::parse(&one.version).ok().zip(Version::parse(&other.version).ok());
    let is_lower = versions.is_some_and(|(one, other)| one.cmp_precedence(&other) == Ordering::Less);
    one.name == other.name && is_lower
}

/// The contract whose ranges of a model end at that version.
#[must_use]
pub fn limited(contract: &Contract, to: &ModelVersion) -> Contract {
    let mut limited = contract.clone();
    let mut ranges: Vec<String> = Vec::new();
    for text in &contract.model.models {
        let text = ending(text, to).unwrap_or_else(|| text.clone());
        // Two ranges may be one then, and a contract names nothing twice.
        if !ranges.contains(&text) {
            ranges.push(text);
        }
    }
    limited.model.models = ranges;
    limited
}

/// `NAME@RANGE` with a range that ends at that version; nothing where that is another model, or where no range is named.
fn ending(text: &str, to: &ModelVersion) -> Option<String> {
    let (name, written) = text.rsplit_once('@').filter(|(name, _)| *name == to.name)?;
    let range = VersionReq::parse(written).ok()?;
    let last = Version { build: BuildMetadata::EMPTY, ..Version::parse(&to.version).ok()? };
    // `*` stands alone.
    let ended = if range.comparators.is_empty() { format!("<={last}") } else { format!("{written}, <={last}") };
    VersionReq::parse(&ended).ok()?;
    let ended = format!("{name}@{ended}");
    (ended.chars().count() <= NAMED_CHARS_MAX).then_some(ended)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn contract(binding: &str, models: &[&str]) -> Contract {
        let said = json!({ "class": { "latency": "srt" }, "binding": binding, "model": { "models": models } });
        Contract::from_value(&said).expect("a contract")
    }

    fn offers(versions: &[&str]) -> Vec<Model> {
        let offer = |version: &&str| Model {
            name: "small".to_owned(),
            version: Some((*version).to_owned()),
            context_tokens: None,
            ttft_ms: None,
            cost: None,
            clearance: None,
            digest: (*version).to_owned(),
        };
        versions.iter().map(offer).collect()
    }

    fn version(version: &str) -> ModelVersion {
        ModelVersion { name: "small".to_owned(), version: version.to_owned() }
    }

    /// What is bound, and what is tried beside it.
    fn chosen(models: &[&str], versions: &[&str], before: Option<&str>) -> Option<(String, Option<String>)> {
        let before = before.map(version);
        let chosen = smooth_model(&contract("smooth", models), &offers(versions), before.as_ref())?;
        Some((chosen.bound.version, chosen.newer.map(|newer| newer.version)))
    }

    fn is(bound: &str, newer: Option<&str>) -> (String, Option<String>) {
        (bound.to_owned(), newer.map(str::to_owned))
    }

    #[test]
    fn what_was_bound_stays_while_a_higher_version_in_range_is_there() {
        let ranged = ["small@^1.2"];
        assert_eq!(chosen(&ranged, &["1.2.0", "1.3.0"], None), Some(is("1.3.0", None)), "nothing was bound before");
        assert_eq!(chosen(&ranged, &["1.2.0", "1.3.0"], Some("1.2.0")), Some(is("1.2.0", Some("1.3.0"))));
        assert_eq!(chosen(&ranged, &["1.4.0", "1.2.0", "1.3.0"], Some("1.2.0")), Some(is("1.2.0", Some("1.4.0"))));
        assert_eq!(chosen(&ranged, &["1.2.0", "1.3.0"], Some("1.3.0")), Some(is("1.3.0", None)));
        assert_eq!(chosen(&ranged, &["1.2.0", "2.0.0"], Some("1.2.0")), Some(is("1.2.0", None)), "out of range");
        assert_eq!(chosen(&ranged, &["1.2.0", "1.2.0+b2"], Some("1.2.0")), Some(is("1.2.0+b2", None)), "a build");
    }

    #[test]
    fn what_is_not_offered_any_more_holds_nothing_back() {
        let ranged = ["small@^1.2"];
        assert_eq!(chosen(&ranged, &["1.3.0"], Some("1.2.0")), Some(is("1.3.0", None)));
        assert_eq!(chosen(&ranged, &["1.2.0"], Some("1.3.0")), Some(is("1.2.0", None)));
        assert_eq!(chosen(&ranged, &[], Some("1.3.0")), None);
    }

    #[test]
    fn only_a_range_of_a_smooth_binding_is_one() {
        let before = version("1.2.0");
        for mode in ["strict", "flexible"] {
            let contract = contract(mode, &["small@^1.2"]);
            assert_eq!(smooth_model(&contract, &offers(&["1.2.0", "1.3.0"]), Some(&before)), None, "{mode}");
        }
        assert_eq!(chosen(&["small"], &["1.2.0", "1.3.0"], Some("1.2.0")), None);
        assert_eq!(chosen(&[], &["1.2.0", "1.3.0"], Some("1.2.0")), None);
    }

    #[test]
    fn a_range_ends_at_what_was_bound_and_the_lower_versions_stay() {
        let of = |models: &[&str], to: &str| limited(&contract("smooth", models), &version(to));
        let ended = of(&["small@^1.2", "large@^2", "small"], "1.3.0");
        assert_eq!(ended.model.models, ["small@^1.2, <=1.3.0", "large@^2", "small"]);
        let any = of(&["small@*", "small@x"], "1.3.0+b2").model.models;
        assert_eq!(any, ["small@<=1.3.0"], "one of two that are equal");
        let offers = offers(&["1.2.0", "1.4.0", "1.3.0"]);
        let (order, _) = models(&ended, &offers).expect("two are in range");
        let versions: Vec<&str> = order.iter().filter_map(|model| model.version.as_deref()).collect();
        assert_eq!(versions, ["1.3.0", "1.2.0"]);
        let written = serde_json::to_value(&ended).expect("JSON");
        assert!(Contract::from_value(&written).is_ok(), "the schema takes it");
        let long = format!("small@{}^1", " ".repeat(190));
        let left = of(&[long.as_str()], "1.3.0").model.models;
        assert_eq!(left, [long], "what would be too long is left as it is");
    }
}

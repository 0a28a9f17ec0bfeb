//! Normalises contracts: the request overrides the role's template, that the tenant's policy, that the platform's defaults.
//! Each field records which layer set it.

use std::collections::BTreeMap;
use std::fmt;

use althing_protocol::Contract;
use althing_protocol::contract::ContractProblem;
use serde_json::{Map, Value};

/// Who sets a field; the later overrides the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The defaults of the schema.
    Platform,
    /// The node owner's policy for all agents.
    Tenant,
    /// The template that the agent file names.
    Role,
    /// The agent file, and what the command line sets on top.
    Request,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Platform => "platform",
            Layer::Tenant => "tenant",
            Layer::Role => "role",
            Layer::Request => "request",
        })
    }
}

/// A complete contract with the origin of each field.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalised {
    /// The contract.
    pub contract: Contract,
    /// Each field by its path, with its value and the layer that set it.
    pub fields: BTreeMap<String, (Value, Layer)>,
}

/// Merges layers. Maps are merged field by field, everything else is replaced; a lower layer's parameters of another latency
/// class are ignored.
///
/// # Errors
/// What is wrong with the whole, as [`Contract::from_value`] has it.
pub fn normalise(layers: &[(Layer, &Value)]) -> Result<Normalised, Vec<ContractProblem>> {
    let mut layers: Vec<(Layer, &Value)> = layers.to_vec();
    layers.sort_by_key(|(layer, _)| *layer);
    let latency = layers.iter().rev().find_map(|(_, value)| value.pointer("/class/latency")).cloned();
    let mut whole = Value::Object(Map::new());
    let mut set = BTreeMap::new();
    for (layer, value) in layers {
        let mut value = value.clone();
        if value.pointer("/class/latency") != latency.as_ref()
            && value.pointer("/class/latency").is_some()
            && let Some(fields) = value.as_object_mut()
        {
            fields.remove("class");
        }
        merge(&mut whole, &value, "", layer, &mut set);
    }
    let contract = Contract::from_value(&whole)?;
    let written = serde_json::to_value(&contract).unwrap_or_default();
    let mut fields = BTreeMap::new();
    flatten(&written, "", &mut |path, value| {
        let layer = set.get(path).copied().unwrap_or(Layer::Platform);
        fields.insert(path.to_owned(), (value.clone(), layer));
    });
    // Fields that were set to their default are not serialised, but were set nevertheless.
    for (path, layer) in &set {
        if let (Some(value), false) = (whole.pointer(&pointer(path)), fields.contains_key(path)) {
            fields.insert(path.clone(), (value.clone(), *layer));
        }
    }
    Ok(Normalised { contract, fields })
}

fn merge(below: &mut Value, above: &Value, path: &str, layer: Layer, set: &mut BTreeMap<String, Layer>) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                if !value.is_object() {
                    set.retain(|known, _| *known != path && !known.starts_with(&format!("{path}.")));
                }
                let place = below.entry(key.clone()).or_insert_with(|| match value {
                    Value::Object(_) => Value::Object(Map::new()),
                    _ => Value::Null,
                });
                merge(place, value, &path, layer, set);
            }
        }
        (below, above) => {
            if let Value::Object(_) = above {
                *below = Value::Object(Map::new());
                merge(below, above, path, layer, set);
            } else {
                *below = above.clone();
                set.insert(path.to_owned(), layer);
            }
        }
    }
}

fn flatten(value: &Value, path: &str, tell: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) if !fields.is_empty() || path.is_empty() => {
            for (key, value) in fields {
                flatten(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, tell);
            }
        }
        leaf => tell(path, leaf),
    }
}

fn pointer(path: &str) -> String {
    path.split('.').map(|part| format!("/{part}")).collect()
}

//! Requests about attestations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Attests something of a release.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttestRequest {
    /// `name@1.2.3`, or `urn:…:name@1.2.3`.
    pub release: String,
    /// What kind of finding.
    pub claim: String,
    /// The finding; null takes back what was found before.
    pub finding: serde_json::Value,
    /// For how many days it is in force.
    pub days: u32,
    /// The digest of the content that was looked at, hexadecimal; none: of what the registry shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

/// Measures a model of this machine.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasureRequest {
    /// The model's name; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of each answer.
    pub tokens: u64,
    /// For how many days the attestation is in force that a registry is sent; none: it is sent to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish_days: Option<u32>,
    /// Which registry; the only one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
}

//! Requests about routing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a sentence is routed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RouteMode {
    /// By the words that agents share with it.
    Keyword,
    /// By the classifier.
    Vector,
    /// By both.
    #[default]
    Hybrid,
    /// By a model, which chooses among the best of `hybrid`.
    Model,
}

impl RouteMode {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RouteMode::Keyword => "keyword",
            RouteMode::Vector => "vector",
            RouteMode::Hybrid => "hybrid",
            RouteMode::Model => "model",
        }
    }
}

/// Asks whom a sentence is for.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteRequest {
    /// The sentence.
    pub text: String,
    /// How it is routed.
    #[serde(default)]
    pub mode: RouteMode,
    /// Whether untrusted publishers' agents are candidates.
    #[serde(default)]
    pub anyone: bool,
}

/// Asks for the agents of a channel.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteChannel {
    /// Capabilities, each with a range of versions if one is wanted.
    pub capabilities: Vec<String>,
    /// Whether untrusted publishers' agents are candidates.
    #[serde(default)]
    pub anyone: bool,
}

/// Learns labelled sentences.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteFile {
    /// What the file is called, for whoever reads why it is refused.
    pub name: String,
    /// Its text: CSV.
    pub text: String,
}

/// Routes labelled sentences, and counts.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteEvaluation {
    /// What the file is called, for whoever reads why it is refused.
    pub name: String,
    /// Its text: CSV.
    pub text: String,
    /// The mode; each that needs no model if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RouteMode>,
}

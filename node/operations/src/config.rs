//! The configuration of a node with its operations, independent of any file.

use althing_node::NodeConfig;

use crate::registries::Requirement;

/// The configuration of a node with its operations.
#[derive(Debug, Clone, Default)]
pub struct OperationsConfig {
    /// That of the node itself.
    pub node: NodeConfig,
    /// The endpoint of a model of embeddings, by which sentences are routed too.
    pub embeddings: Option<Embeddings>,
    /// What must be attested of releases before they are installed.
    pub requirements: Vec<Requirement>,
}

/// An endpoint that speaks OpenAI's embeddings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embeddings {
    /// The address up to `/embeddings`: `http://127.0.0.1:8000/v1`.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// The node's secret that is shown as a bearer token.
    pub secret: Option<String>,
}

//! Measures the models of the node's configuration.

use althing_td::ModelEndpoint;

use crate::host::Host;
use crate::model::{self, MeasuredAnswer, ModelError};
use crate::ports::Ports;
use crate::secrets::lookup;

/// The models of the node's configuration.
pub struct NodeModels<'a>(&'a Ports);

impl<'a> NodeModels<'a> {
    /// Those of that host.
    #[must_use]
    pub fn of(host: &'a Host) -> NodeModels<'a> {
        NodeModels(&host.ports)
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &'a [ModelEndpoint] {
        &self.0.models
    }

    /// Asks one of them once for an answer of `max_tokens`, and takes the time. Its secret is shown to its endpoint, as the
    /// configuration says.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub async fn measure(&self, endpoint: &ModelEndpoint, max_tokens: u64) -> Result<MeasuredAnswer, ModelError> {
        let secret = endpoint.secret.as_deref().map(|name| lookup(&self.0.secrets, name)).transpose()?;
        model::measure(endpoint, secret, max_tokens).await
    }
}

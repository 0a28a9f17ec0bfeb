//! Measures the models of the node's configuration.

use althing_td::ModelEndpoint;

use super::Host;
use crate::model::{MeasuredAnswer, ModelError, measure};
use crate::secrets::lookup;

impl Host {
    /// The models of the node's configuration.
    #[must_use]
    pub fn models(&self) -> &[ModelEndpoint] {
        &self.ports.models
    }

    /// Asks one of them once for an answer of `max_tokens`, and takes the time. Its secret is shown to its endpoint, as the
    /// configuration says.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub async fn measure_model(&self, model: &ModelEndpoint, max_tokens: u64) -> Result<MeasuredAnswer, ModelError> {
        let secret = model.secret.as_deref().map(|name| lookup(&self.ports.secrets, name)).transpose()?;
        measure(model, secret, max_tokens).await
    }
}

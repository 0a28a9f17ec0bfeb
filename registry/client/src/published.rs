//! Things that were released and are no agents, as a registry names them.

use althing_fetch::{Limits, Method};
use althing_protocol::AgentId;
use althing_protocol::inquiry::Inquiry;
use althing_protocol::registry::Version;
use serde::Deserialize;

use crate::http::read;
use crate::{RegistryClient, RegistryError, TEXT_BYTES_MAX, TIME_MAX};

/// Things of one answer.
const ANSWER_MAX: usize = 32;

#[derive(Deserialize)]
struct Answer {
    published: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    agent: String,
    version: String,
}

impl RegistryClient {
    /// Releases of Things that may be what is looked for. It is a hint: only the evidence of a release proves anything.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn published(&self, inquiry: &Inquiry) -> Result<Vec<(AgentId, Version)>, RegistryError> {
        let given = [
            ("capability", inquiry.capability.as_deref()),
            ("action", inquiry.action.as_deref()),
            ("target", inquiry.target.as_deref()),
        ];
        let url = self.http.asking("published", &given)?;
        let limits = Limits { bytes: TEXT_BYTES_MAX, time: TIME_MAX };
        let bytes = self.http.ask(Method::GET, &url, ("text/plain", Vec::new()), limits).await?;
        let named = read::<Answer>(&bytes)?.published;
        let read = |one: &Named| Some((one.agent.parse().ok()?, one.version.parse().ok()?));
        Ok(named.iter().take(ANSWER_MAX).filter_map(read).collect())
    }
}

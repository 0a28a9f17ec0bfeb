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

/// A Thing that a registry names.
#[derive(Debug, Clone)]
pub struct NamedThing {
    /// Its id.
    pub agent: AgentId,
    /// The version.
    pub version: Version,
    /// Things and agents of other publishers that were there before, and whose names look like its own.
    pub twins: Vec<AgentId>,
}

#[derive(Deserialize)]
struct Answer {
    published: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    agent: String,
    version: String,
    #[serde(default, deserialize_with = "crate::twins::agents")]
    twins: Vec<AgentId>,
}

impl RegistryClient {
    /// Releases of Things that may be what is looked for. It is a hint: only the evidence of a release proves anything.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn published(&self, inquiry: &Inquiry) -> Result<Vec<NamedThing>, RegistryError> {
        let given = [
            ("capability", inquiry.capability.as_deref()),
            ("action", inquiry.action.as_deref()),
            ("target", inquiry.target.as_deref()),
        ];
        let url = self.http.asking("published", &given)?;
        let limits = Limits { bytes: TEXT_BYTES_MAX, time: TIME_MAX };
        let bytes = self.http.ask(Method::GET, &url, ("text/plain", Vec::new()), limits).await?;
        let named = read::<Answer>(&bytes)?.published;
        let read = |Named { agent, version, twins }: Named| {
            Some(NamedThing { agent: agent.parse().ok()?, version: version.parse().ok()?, twins })
        };
        Ok(named.into_iter().take(ANSWER_MAX).filter_map(read).collect())
    }
}

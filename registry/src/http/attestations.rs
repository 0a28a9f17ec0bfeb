//! Attestations over HTTP.

use axum::extract::{Query, State};
use serde::Deserialize;

use super::Shared;
use super::answers::{cbor, private};
use super::problem::{Answer, Problem};
use crate::service::{AttestationQuery, Visitor};

/// What is asked for, as it is written in an address.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    agent: Option<String>,
    version: Option<String>,
    model: Option<String>,
    by: Option<String>,
    name: Option<String>,
    before: Option<u64>,
}

impl Asked {
    fn read(self) -> Result<AttestationQuery, Problem> {
        Ok(AttestationQuery {
            agent: self.agent.map(|agent| agent.parse()).transpose().map_err(Problem::bad)?,
            version: self.version.map(|version| version.parse()).transpose().map_err(Problem::bad)?,
            model: self.model,
            by: self.by.map(|by| by.parse()).transpose().map_err(Problem::bad)?,
            name: self.name,
            before: self.before,
        })
    }
}

/// `GET /attestations`
pub async fn attestations(State(registry): Shared, Query(asked): Query<Asked>, visitor: Visitor) -> Answer {
    let page = registry.attesting().page(&asked.read()?, visitor.reader())?;
    Ok(private(cbor(page.encode())))
}

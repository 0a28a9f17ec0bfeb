//! Which version of its model an agent is bound to on a host, by what its contract says and the node offers.

use althing_td::{AgentFile, RuntimeSpec};

use crate::bindable::offered;
use crate::host::Host;
use crate::smooth::{ModelVersion, SmoothModel, smooth_model};
use crate::tiers;

/// Which version of its model an agent file is bound to on a host, where it was bound to `before` the last time, and whether a higher
/// one is to be tried; nothing where its contract has no `binding: smooth` with a range of versions.
#[must_use]
pub fn model_of(host: &Host, file: &AgentFile, before: Option<&ModelVersion>) -> Option<SmoothModel> {
    let RuntimeSpec::Model { endpoints, .. } = &file.runtime else { return None };
    let (contract, all) = (file.contract.as_ref()?, endpoints.iter().chain(&host.ports.models));
    let (offers, _) = tiers::models_within(contract, all.map(offered).collect()).ok()?;
    smooth_model(contract, &offers, before)
}

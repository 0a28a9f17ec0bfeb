//! Who may publish: whom the registry was opened with, and whom its operator lists while it runs.

use super::Registry;
use crate::publishers::Publishers;

/// The registry, where those may publish too that are in the operator's list, as it is from now on.
#[must_use]
pub fn with_publishers(mut registry: Registry, listed: Publishers) -> Registry {
    registry.listed = Some(listed);
    registry
}

/// Takes up the operator's list of publishers, if it has changed: before anybody is judged by it.
pub(super) fn admit_listed(registry: &Registry) {
    let Some(listed) = &registry.listed else { return };
    listed.if_changed(|all| {
        let admission = registry.config.admission.with(all);
        registry.state.write().expect("no holder panics").machine.admit(admission);
    });
}

/// Whether something in a registry's log is signed for its network, which no other one reads.
#[must_use]
pub fn is_of_network(registry: &Registry) -> bool {
    registry.seen().machine.agents(None).next().is_some()
}

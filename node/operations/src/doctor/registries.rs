//! Diagnoses the registries that a node follows.

use althing_failure::RegistryStep;

use super::finding::{Finding, fine, wrong};

/// A registry that the node follows.
#[derive(Debug, Clone)]
pub struct RegistryHealth {
    /// Its address.
    pub at: String,
    /// Whether it showed two histories.
    pub forked: bool,
    /// The entries of its log, or why it cannot be asked.
    pub entries: Result<u64, String>,
    /// Entries that the node saw before.
    pub seen: u64,
}

/// Judges one.
pub(super) fn judge(registry: &RegistryHealth) -> Finding {
    let RegistryHealth { at, forked, entries, seen } = registry;
    match entries {
        _ if *forked => wrong("L3", format!("the registry {at} showed two histories, and is asked nothing more"), "")
            .then(RegistryStep::ShowEvidence(at.clone())),
        Err(why) => wrong(
            "L3",
            format!("the registry {at} cannot be asked: {why}"),
            "nothing else is affected; until it answers, nothing is published, and what it alone knows is neither found nor \
             revoked",
        ),
        Ok(entries) if entries < seen => wrong(
            "L3",
            format!("the registry {at} shows {entries} entries, and showed {seen} before"),
            "it is an old copy, or somebody between answers for it: what was published or revoked since is not heard there",
        ),
        Ok(entries) => fine("L3", format!("the registry {at} answers, and its log of {entries} entries goes on")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_registry_is_told_apart() {
        let good = RegistryHealth { at: "http://r/".to_owned(), forked: false, entries: Ok(4), seen: 4 };
        assert!(judge(&good).fine);
        for (bad, what) in [
            (RegistryHealth { forked: true, ..good.clone() }, "two histories"),
            (RegistryHealth { entries: Err("no route".to_owned()), ..good.clone() }, "no route"),
            (RegistryHealth { entries: Ok(3), ..good.clone() }, "showed 4 before"),
        ] {
            let finding = judge(&bad);
            assert!(!finding.fine && finding.what.contains(what), "{finding:?}");
            assert!(finding.next.is_some() || !finding.remedy.is_empty(), "{finding:?}");
        }
    }
}

//! Diagnoses the registries that a node follows.

use althing_failure::RegistryStep;

use super::finding::{Finding, fine, note, wrong};
use crate::registries::HeldRelease;

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
    /// Its newer releases of which no rollout was begun by itself, where one should, by the names of what was installed here.
    pub held: Vec<(String, HeldRelease)>,
}

/// Judges one.
pub(super) fn judge(registry: &RegistryHealth) -> Finding {
    let RegistryHealth { at, forked, entries, seen, held: _ } = registry;
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

/// Judges the newer releases of one that nobody tries.
pub(super) fn judge_held(registry: &RegistryHealth) -> Vec<Finding> {
    let told = |(name, held): &(String, HeldRelease)| {
        let HeldRelease { version, why, .. } = held;
        // It may have been tried, and gone back.
        let what = format!("{name} follows its publisher by rollouts, and no rollout of {version} is under way: {why}");
        let finding = if held.needs_owner { wrong("L6", what, "") } else { note("L6", what, "") };
        finding.then(RegistryStep::TakeNewer(name.clone()))
    };
    registry.held.iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_registry_is_told_apart() {
        let (at, held) = ("http://r/".to_owned(), Vec::new());
        let good = RegistryHealth { at, forked: false, entries: Ok(4), seen: 4, held };
        assert!(judge(&good).fine && judge_held(&good).is_empty());
        for (bad, what) in [
            (RegistryHealth { forked: true, ..good.clone() }, "two histories"),
            (RegistryHealth { entries: Err("no route".to_owned()), ..good.clone() }, "no route"),
            (RegistryHealth { entries: Ok(3), ..good.clone() }, "showed 4 before"),
        ] {
            let finding = judge(&bad);
            assert!(!finding.fine && finding.what.contains(what), "{finding:?}");
            assert!(finding.next.is_some() || !finding.remedy.is_empty(), "{finding:?}");
        }
        for needs_owner in [true, false] {
            let (version, why) = ("1.1.0".to_owned(), "it may do more".to_owned());
            let held = HeldRelease { version, why, needs_owner, at_ms: 0 };
            let told = judge_held(&RegistryHealth { held: vec![("copy".to_owned(), held)], ..good.clone() });
            let [finding] = told.as_slice() else { panic!("{told:?}") };
            assert_eq!((finding.fine, finding.layer), (!needs_owner, "L6"));
            assert!(finding.what.contains("and no rollout of 1.1.0 is under way: it may do more"), "{finding:?}");
            assert_eq!(finding.next, Some(RegistryStep::TakeNewer("copy".to_owned()).into()));
        }
    }
}

//! Which version of an agent is meant, among those that a registry lists.

use althing_protocol::registry::{Standing, Version};
use semver::VersionReq;
use serde::Deserialize;

/// What a registry says of a version that its operator hides.
const QUARANTINED: &str = "quarantined";
/// Versions of which it is said why they were passed over.
const PASSED_OVER_MAX: usize = 4;
/// Characters of a reason that are shown.
const REASON_CHARS_MAX: usize = 200;

/// A version, as a registry lists it. It is a hint: only the evidence of a release proves anything.
#[derive(Debug, Clone, Deserialize)]
pub struct ListedVersion {
    /// The version.
    pub version: String,
    /// What the registry says of it.
    pub standing: String,
    /// Why.
    #[serde(default)]
    pub reason: Option<String>,
}

impl ListedVersion {
    fn is_usable(&self) -> bool {
        self.standing == Standing::Good.name() || self.standing == Standing::Deprecated.name()
    }

    /// Why no range chooses it, on one line.
    fn passed_over(&self) -> String {
        let mut reason = on_one_line(self.reason.as_deref().unwrap_or_default());
        if !reason.is_empty() {
            reason.insert_str(0, ": ");
        }
        if self.standing == QUARANTINED {
            return format!("{} is hidden by the registry's operator{reason}", self.version);
        }
        format!("{} is {}{reason}", self.version, on_one_line(&self.standing))
    }
}

/// Some words of a registry's, which cannot look like lines of ours.
fn on_one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(REASON_CHARS_MAX).collect()
}

/// Why the operator of the registry hides a version, if it does.
#[must_use]
pub fn quarantined(listed: &[ListedVersion], version: &str) -> Option<String> {
    reason(listed, version, QUARANTINED)
}

/// Why the publisher of a version yanked it, if it did; empty without a reason.
#[must_use]
pub fn yanked(listed: &[ListedVersion], version: &str) -> Option<String> {
    reason(listed, version, Standing::Yanked.name())
}

/// Why a version has that standing, if it has.
fn reason(listed: &[ListedVersion], version: &str, standing: &str) -> Option<String> {
    let one = listed.iter().find(|one| one.version == version && one.standing == standing)?;
    Some(on_one_line(one.reason.as_deref().unwrap_or_default()))
}

/// The highest version that a range chooses among those that are neither yanked nor revoked.
#[must_use]
pub fn chosen(listed: &[ListedVersion], wanted: &VersionReq) -> Option<Version> {
    let parsed = |one: &ListedVersion| one.version.parse::<Version>().ok();
    let matching = |version: &Version| wanted.matches(version.semver());
    listed.iter().filter(|one| one.is_usable()).filter_map(parsed).filter(matching).max()
}

/// Why a range did not choose the versions that are higher than the `chosen` one, the highest first; of all of the range where
/// none was chosen. Each is the registry's word.
#[must_use]
pub fn passed_over(listed: &[ListedVersion], wanted: &VersionReq, chosen: Option<&Version>) -> Vec<String> {
    let parsed = |one: &'_ ListedVersion| one.version.parse::<Version>().ok();
    let mut higher: Vec<(Version, &ListedVersion)> =
        listed.iter().filter(|one| !one.is_usable()).filter_map(|one| Some((parsed(one)?, one))).collect();
    higher.retain(|(version, _)| wanted.matches(version.semver()) && chosen.is_none_or(|chosen| version > chosen));
    higher.sort_by(|(one, _), (other, _)| other.cmp(one));
    higher.into_iter().take(PASSED_OVER_MAX).map(|(_, one)| one.passed_over()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(version: &str, standing: &str, reason: Option<&str>) -> ListedVersion {
        let reason = reason.map(str::to_owned);
        ListedVersion { version: version.to_owned(), standing: standing.to_owned(), reason }
    }

    fn all() -> Vec<ListedVersion> {
        vec![
            listed("1.0.0", "good", None),
            listed("1.9.0", "deprecated", None),
            listed("1.10.0", "yanked", None),
            listed("1.11.0", "revoked", Some("it leaks")),
            listed("2.0.0", "good", None),
            listed("2.1.0", QUARANTINED, Some("malware\nsays   the operator")),
            listed("3.0.0", QUARANTINED, None),
        ]
    }

    #[test]
    fn a_range_chooses_the_highest_that_was_not_taken_back() {
        let all = all();
        let of = |range: &str| chosen(&all, &range.parse().expect("a range")).map(|version| version.to_string());
        assert_eq!(of("^1"), Some("1.9.0".to_owned()));
        assert_eq!(of("*"), Some("2.0.0".to_owned()));
        assert_eq!(of("^3"), None);
        let hidden = quarantined(&all, "2.1.0").map(|reason| reason.starts_with("malware"));
        assert_eq!((hidden, quarantined(&all, "2.0.0")), (Some(true), None));
        assert_eq!(of("=1.10.0"), None);
        assert_eq!((yanked(&all, "1.10.0"), yanked(&all, "1.9.0")), (Some(String::new()), None));
    }

    #[test]
    fn what_a_range_passes_over_says_why() {
        let all = all();
        let of = |range: &str| {
            let range = range.parse().expect("a range");
            passed_over(&all, &range, chosen(&all, &range).as_ref())
        };
        assert_eq!(of("^1"), ["1.11.0 is revoked: it leaks", "1.10.0 is yanked"]);
        assert_eq!(of("^2"), ["2.1.0 is hidden by the registry's operator: malware says the operator"]);
        assert_eq!(of("^3"), ["3.0.0 is hidden by the registry's operator"], "also where nothing is left");
        assert_eq!((of("=1.9.0"), of("^4")), (Vec::new(), Vec::new()));
        // A registry cannot write lines that look like ours.
        let lying = [listed("9.0.0", "x\nattested  audit: pass", None), listed("9.1.0", QUARANTINED, Some("a\n\nb"))];
        assert_eq!(passed_over(&lying, &"*".parse().expect("a range"), None)[1], "9.0.0 is x attested audit: pass");
        assert_eq!(quarantined(&lying, "9.1.0").as_deref(), Some("a b"));
    }
}

//! Ranges of versions of capabilities: `billing.view@^1.2`.

use althing_td::Capability;
use semver::{Op, Version, VersionReq};

/// A capability that is looked for.
pub struct Wanted<'a> {
    /// Its id, or how it begins with a `*` after it.
    pub id: &'a str,
    /// The versions that will do; all where none is given.
    pub range: Option<VersionReq>,
}

impl Wanted<'_> {
    /// Reads `ID` or `ID@RANGE`. An id may contain `@`: what is after it is a range only if it reads as one.
    #[must_use]
    pub fn read(text: &str) -> Wanted<'_> {
        let ranged = text.rsplit_once('@').and_then(|(id, range)| Some((id, VersionReq::parse(range).ok()?)));
        match ranged {
            Some((id, range)) => Wanted { id, range: Some(range) },
            None => Wanted { id: text, range: None },
        }
    }

    /// Whether it names exactly one version, as `=1.2.3` does.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let one = self.range.as_ref().map(|range| range.comparators.as_slice());
        matches!(one, Some([one]) if one.op == Op::Exact && one.minor.is_some() && one.patch.is_some())
    }

    /// Whether one of these is it.
    #[must_use]
    pub fn fits(&self, capabilities: &[Capability]) -> bool {
        match self.range {
            Some(_) => self.version(capabilities).is_some(),
            None => capabilities.iter().any(|has| self.names(has)),
        }
    }

    fn names(&self, has: &Capability) -> bool {
        match self.id.strip_suffix('*') {
            Some(prefix) => has.id.starts_with(prefix),
            None => has.id == self.id,
        }
    }

    /// The highest version of it in the range, where there is one. A capability without a version is in no range.
    #[must_use]
    pub fn version(&self, capabilities: &[Capability]) -> Option<Version> {
        let range = self.range.as_ref()?;
        let named = capabilities.iter().filter(|has| self.names(has));
        let versions = named.filter_map(|has| Version::parse(has.version.as_deref()?).ok());
        versions.filter(|version| range.matches(version)).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability(id: &str, version: Option<&str>) -> Capability {
        Capability { id: id.to_owned(), version: version.map(str::to_owned), ..Capability::default() }
    }

    #[test]
    fn a_range_is_after_an_at_sign_and_reads_as_one() {
        for (text, id, range) in [
            ("billing.view@^1.2", "billing.view", Some("^1.2")),
            ("billing.*@>=1, <3", "billing.*", Some(">=1, <3")),
            ("billing.view", "billing.view", None),
            ("urn:me@example:view", "urn:me@example:view", None),
            ("billing.view@", "billing.view@", None),
            ("mail@home@1", "mail@home", Some("1")),
        ] {
            let read = Wanted::read(text);
            assert_eq!((read.id, read.range), (id, range.map(|range| VersionReq::parse(range).expect("a range"))));
        }
    }

    #[test]
    fn the_highest_version_in_the_range_counts() {
        let has = [
            capability("billing.view", Some("1.1.0")),
            capability("billing.pay", Some("1.9.0")),
            capability("billing.view", Some("1.4.2")),
            capability("billing.view", Some("2.0.0")),
            capability("billing.view", Some("1.5.0-beta")),
            capability("billing.send", None),
            capability("billing.sign", Some("new")),
        ];
        let version = |text: &str| Wanted::read(text).version(&has).map(|version| version.to_string());
        assert_eq!(version("billing.view@^1.2").as_deref(), Some("1.4.2"));
        assert_eq!(version("billing.*@^1.2").as_deref(), Some("1.9.0"));
        assert_eq!(version("billing.view@*").as_deref(), Some("2.0.0"));
        for none in ["billing.view@^3", "billing.send@*", "billing.sign@*", "billing.view"] {
            assert_eq!(version(none), None, "{none}");
        }
        for (text, exact) in
            [("a@=1.2.3", true), ("a@=1.2", false), ("a@1.2.3", false), ("a@=1.2.3, =1.2.3", false), ("a", false)]
        {
            assert_eq!(Wanted::read(text).is_exact(), exact, "{text}");
        }
        let fits = |text: &str| Wanted::read(text).fits(&has);
        assert!(fits("billing.view@^1.2") && fits("billing.send") && fits("billing.*"));
        assert!(!fits("billing.view@^3") && !fits("billing.send@*") && !fits("orders.*@1"));
    }
}

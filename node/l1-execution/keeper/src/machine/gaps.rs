//! What Landlock leaves open where nothing else encloses a program, by its version (its ABI).
//!
//! **Input**: the version. **Output**: what a program may do that it should not, and which Linux closes that.
//!
//! **Invariants**
//! - A version leaves open no more than any version before it.
//! - Unix sockets are not among it: the filter of system calls makes none at that level.
//! - What no version closes is a sentence of its own ([`LISTENS`]).
//!
//! **Never knows**: which version the kernel has.

/// What no version keeps a program from that listens at a port of its own: Landlock asks who binds a port, and who listens without
/// that is given a free one of all addresses.
pub const LISTENS: &str =
    "it listens at a port by itself, and nothing keeps it from listening at other free ports of this machine";

/// Something that Landlock does not keep a program from, before it knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// Whatever it is about files: there is no Landlock.
    Files,
    /// To cut a file that it may not open for writing (`truncate`).
    Truncation,
    /// To connect to any port of any host by TCP, and to listen on any.
    Network,
    /// To signal other processes of the account.
    Signals,
}

impl Gap {
    const ALL: [Gap; 4] = [Gap::Files, Gap::Truncation, Gap::Network, Gap::Signals];

    /// The first version without it, and the Linux that brought that.
    fn since(self) -> (u8, &'static str) {
        match self {
            Gap::Files => (1, "5.13"),
            Gap::Truncation => (3, "6.2"),
            Gap::Network => (4, "6.7"),
            Gap::Signals => (6, "6.12"),
        }
    }

    /// The Linux from which on it is closed.
    #[must_use]
    pub fn closed_by(self) -> &'static str {
        self.since().1
    }

    /// In words, as descriptions have them.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Gap::Files => "all files of the account",
            Gap::Truncation => "cutting files short",
            Gap::Network => "the network",
            Gap::Signals => "signals",
        }
    }

    /// Whether a program that must be contained (`sandbox: required`) is not started with it: its files and its network must be
    /// bounded.
    fn is_borne(self) -> bool {
        self == Gap::Signals
    }
}

/// What a version leaves open; 0: there is no Landlock.
#[must_use]
pub fn gaps(version: u8) -> Vec<Gap> {
    Gap::ALL.into_iter().filter(|gap| version < gap.since().0).collect()
}

/// The same on one line, with what closes each; none where it leaves nothing open.
#[must_use]
pub fn summary(version: u8) -> Option<String> {
    let each: Vec<String> =
        gaps(version).into_iter().map(|gap| format!("{} (before Linux {})", gap.words(), gap.closed_by())).collect();
    (!each.is_empty()).then(|| format!("version {version} of Landlock leaves open: {}", each.join(", ")))
}

/// Whether a version suffices for a program that must be contained, and `listens` at a port by itself or not.
///
/// # Errors
/// What it leaves open, and what does not.
pub fn suffices(version: u8, listens: bool) -> Result<(), String> {
    let open: Vec<Gap> = gaps(version).into_iter().filter(|gap| !gap.is_borne()).collect();
    let Some(last) = open.last() else {
        return if listens {
            Err(format!("{LISTENS}; an account that may make user namespaces closes that"))
        } else {
            Ok(())
        };
    };
    let words: Vec<&str> = open.iter().map(|gap| gap.words()).collect();
    Err(format!(
        "version {version} of this kernel's Landlock leaves open: {}; Linux {} or later closes that, and so does an account that \
         may make user namespaces",
        words.join(", "),
        last.closed_by()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_leaves_open_what_it_knows_nothing_of() {
        let all: [(u8, &[Gap]); 8] = [
            (0, &[Gap::Files, Gap::Truncation, Gap::Network, Gap::Signals]),
            (1, &[Gap::Truncation, Gap::Network, Gap::Signals]),
            (2, &[Gap::Truncation, Gap::Network, Gap::Signals]),
            (3, &[Gap::Network, Gap::Signals]),
            (4, &[Gap::Signals]),
            (5, &[Gap::Signals]),
            (6, &[]),
            (7, &[]),
        ];
        for (version, open) in all {
            assert_eq!(gaps(version), open, "version {version}");
            assert_eq!(suffices(version, false).is_ok(), version >= 4, "version {version}: files and network");
            assert!(suffices(version, true).is_err(), "version {version}: no Landlock asks who listens");
            assert_eq!(summary(version).is_some(), version < 6, "version {version}");
        }
    }

    #[test]
    fn whoever_is_refused_is_told_which_linux_helps() {
        let why = suffices(1, true).expect_err("files and network are open");
        assert!(why.contains("leaves open: cutting files short, the network; Linux 6.7 or later"), "{why}");
        let why = suffices(3, false).expect_err("the network is open");
        assert!(why.contains("leaves open: the network; Linux 6.7 or later") && why.contains("namespaces"), "{why}");
        let why = suffices(6, true).expect_err("ports are open");
        assert!(why.contains("other free ports") && why.contains("user namespaces"), "{why}");
        let told = summary(4).expect("signals are open");
        assert_eq!(told, "version 4 of Landlock leaves open: signals (before Linux 6.12)");
    }
}

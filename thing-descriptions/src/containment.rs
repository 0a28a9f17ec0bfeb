//! How the programs of an agent are contained, as its description says.

/// The member of a description that says it.
pub(crate) const CONTAINMENT: &str = "althing:containment";

/// How far the programs of an agent are contained where it runs: the least of them all. The later, the more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainmentLevel {
    /// They reach whatever the node's account reaches.
    Not,
    /// By an account of their own, which bounds neither their network nor what is everybody's.
    Account,
    /// By Landlock of a version before 3: they may cut files that they cannot open, connect to any port, and signal processes.
    LandlockV1,
    /// By Landlock of version 3: they may connect to any port, and signal processes.
    LandlockV3,
    /// By Landlock of version 4 or 5: they may signal processes.
    LandlockV4,
    /// By Landlock of version 6 or later, among the machine's files and on its network.
    Landlock,
    /// With files, processes and a network of their own.
    Wholly,
}

/// The words of a level, and those for what is known of some programs alone.
macro_rules! words {
    ($words:literal) => {
        ($words, concat!("not yet known for some; the others ", $words))
    };
}

impl ContainmentLevel {
    /// All of them.
    pub const ALL: [ContainmentLevel; 7] = [
        ContainmentLevel::Not,
        ContainmentLevel::Account,
        ContainmentLevel::LandlockV1,
        ContainmentLevel::LandlockV3,
        ContainmentLevel::LandlockV4,
        ContainmentLevel::Landlock,
        ContainmentLevel::Wholly,
    ];

    /// In words, of all programs and of some.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            ContainmentLevel::Not => words!("not contained"),
            ContainmentLevel::Account => words!("contained by an account of its own only"),
            ContainmentLevel::LandlockV1 => {
                words!("contained by Landlock only, which leaves open: cutting files short, the network, signals")
            }
            ContainmentLevel::LandlockV3 => {
                words!("contained by Landlock only, which leaves open: the network, signals")
            }
            ContainmentLevel::LandlockV4 => words!("contained by Landlock only, which leaves open: signals"),
            ContainmentLevel::Landlock => words!("contained by Landlock only"),
            ContainmentLevel::Wholly => words!("contained"),
        }
    }
}

/// What a description says of the programs of its agent, which are several where it has servers of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainmentClaim {
    least: ContainmentLevel,
    is_partial: bool,
}

impl ContainmentClaim {
    /// Of those that ran, the least; `is_partial`: others never did, and nothing is known of them. Whatever these turn out to
    /// be, nothing is less than [`ContainmentLevel::Not`].
    #[must_use]
    pub fn new(least: ContainmentLevel, is_partial: bool) -> ContainmentClaim {
        ContainmentClaim { least, is_partial: is_partial && least != ContainmentLevel::Not }
    }

    /// All that can be said.
    #[must_use]
    pub fn all() -> Vec<ContainmentClaim> {
        let whole = ContainmentLevel::ALL.into_iter().map(|least| ContainmentClaim::new(least, false));
        let partial = ContainmentLevel::ALL.into_iter().map(|least| ContainmentClaim::new(least, true));
        whole.chain(partial.filter(|claim| claim.is_partial)).collect()
    }

    /// The least of those programs that are known.
    #[must_use]
    pub fn least(self) -> ContainmentLevel {
        self.least
    }

    /// Whether nothing is known of others.
    #[must_use]
    pub fn is_partial(self) -> bool {
        self.is_partial
    }

    /// In words, as descriptions have them.
    #[must_use]
    pub fn words(self) -> &'static str {
        let (whole, partial) = self.least.words();
        if self.is_partial { partial } else { whole }
    }

    /// What the words of a description say; none of others.
    #[must_use]
    pub fn of(words: &str) -> Option<ContainmentClaim> {
        ContainmentClaim::all().into_iter().find(|one| one.words() == words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_some_programs_is_never_said_of_all() {
        for least in ContainmentLevel::ALL {
            let [whole, partial] = [false, true].map(|is_partial| ContainmentClaim::new(least, is_partial));
            assert_eq!(ContainmentClaim::of(whole.words()), Some(whole));
            assert_eq!(ContainmentClaim::of(partial.words()), Some(partial));
            if least == ContainmentLevel::Not {
                assert_eq!(partial, whole, "nothing is less");
            } else {
                assert_eq!(partial.words(), format!("not yet known for some; the others {}", whole.words()));
            }
        }
        assert_eq!(ContainmentClaim::all().len(), 2 * ContainmentLevel::ALL.len() - 1);
        assert_eq!(ContainmentClaim::of("by magic"), None);
    }
}

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
    /// By Landlock, among the machine's files and on its network.
    Landlock,
    /// With files, processes and a network of their own.
    Wholly,
}

impl ContainmentLevel {
    /// All of them.
    pub const ALL: [ContainmentLevel; 4] =
        [ContainmentLevel::Not, ContainmentLevel::Account, ContainmentLevel::Landlock, ContainmentLevel::Wholly];

    /// In words, as descriptions have them.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            ContainmentLevel::Not => "not contained",
            ContainmentLevel::Account => "contained by an account of its own only",
            ContainmentLevel::Landlock => "contained by Landlock only",
            ContainmentLevel::Wholly => "contained",
        }
    }

    /// What the words of a description say; none of others.
    #[must_use]
    pub fn of(words: &str) -> Option<ContainmentLevel> {
        ContainmentLevel::ALL.into_iter().find(|one| one.words() == words)
    }
}

//! Who answers or changes something, and what is answered.

use std::collections::BTreeSet;

/// Who answers, or changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// The user of this machine.
    Owner,
    /// Somebody else.
    Person {
        /// By name, as `people.yaml` has it.
        name: String,
        /// What they signed.
        signed: Option<SignedAnswer>,
    },
}

/// An answer that somebody signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedAnswer {
    /// All that `ssh-keygen -Y sign -n althing-consent` wrote.
    pub signature: String,
    /// Until when the answer counts, Unix milliseconds: it is in the text that was signed.
    pub until_ms: u64,
}

/// What somebody answers to a question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether it may be done.
    pub yes: bool,
    /// Why not; the agent hears it.
    pub reason: Option<String>,
    /// Of a yes: for which other calls it counts too.
    pub standing: Option<StandingTerms>,
}

/// For which calls a yes counts besides: those with the same arguments, but for some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingTerms {
    /// Until when, Unix milliseconds: at most 90 days from now.
    pub until_ms: u64,
    /// How often: 1 to 10,000 times.
    pub count: u32,
    /// The names of the arguments that may be anything.
    pub free: BTreeSet<String>,
}

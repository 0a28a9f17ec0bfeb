//! The command line of verification: what a good answer is, what came of answers, and what is checked again.

use clap::Subcommand;

use super::trial::{Case, Compare, Test};

/// What agents answer, held against what a good answer is.
#[derive(Debug, Clone, Subcommand)]
pub enum Verification {
    /// Test an agent of this node with cases, from tapes or live. Exits with 0 if it passes, 1 if it fails, and 9 if that is undecided.
    Test(Test),
    /// Compare two agents, or versions, on the same cases. Exits with 0 if the second is better or no worse, 1 if worse, 9 if undecided.
    Compare(Compare),
    /// Cases, with which agents are tested.
    #[command(subcommand)]
    Case(Case),
    /// Run a task again from its tape: it is equal, or differs, and then exits with 1.
    Replay {
        /// The task's id.
        task: String,
    },
    /// Show what the gates of a contract refused of a task's answers, and these answers, which no caller saw.
    Verdict {
        /// The task's id.
        task: String,
    },
    /// What led to an answer: the prompt, the sources, the tools with hashes, the output; over the nodes of this owner.
    Lineage {
        /// The task's id.
        task: String,
    },
    /// Check again what is recorded.
    #[command(subcommand)]
    Verify(Verify),
}

/// `althing verify`
#[derive(Debug, Clone, Subcommand)]
pub enum Verify {
    /// Check what is recorded of a task's turns: bind again, hold the task against the hashes, prove deadlines again.
    Run {
        /// The task's id, on the node that has it.
        task: String,
    },
}

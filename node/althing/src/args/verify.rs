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
    /// Check what is recorded of a task's turns: bind again, decide their calls again, hold the task against the hashes, prove deadlines
    /// again.
    Run {
        /// The task's id, on the node that has it.
        task: String,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Arg, Command, CommandFactory as _};

    use crate::args::Args;

    const ROLLOUTS: &str = include_str!("../../../../docs/rollouts.md");
    const TESTING: &str = include_str!("../../../../docs/testing-agents.md");
    const VERIFICATION: &str = include_str!("../../../../docs/verification.md");
    /// Each command with the page that describes it.
    const COMMANDS: [(&str, &str); 8] = [
        ("rollout", ROLLOUTS),
        ("test", TESTING),
        ("compare", TESTING),
        ("case", TESTING),
        ("replay", TESTING),
        ("verdict", TESTING),
        ("lineage", VERIFICATION),
        ("verify", VERIFICATION),
    ];

    /// The options of a command, and of those below it.
    fn options(command: &Command) -> BTreeSet<String> {
        let own = command.get_arguments().filter_map(Arg::get_long).map(str::to_owned);
        own.chain(command.get_subcommands().flat_map(options)).collect()
    }

    /// The options that a page names.
    fn named(page: &str) -> BTreeSet<String> {
        let words = page.split(|letter: char| !letter.is_ascii_lowercase() && letter != '-');
        let options = words.filter_map(|word| word.strip_prefix("--"));
        options.filter(|option| option.starts_with(|first: char| first != '-')).map(str::to_owned).collect()
    }

    #[test]
    fn each_option_is_described_and_none_that_is_not_there() {
        let all = Args::command();
        for (name, page) in COMMANDS {
            let command = all.find_subcommand(name).unwrap_or_else(|| panic!("no command {name}"));
            assert!(page.contains(&format!("althing {name} ")), "the page of `{name}` does not name it");
            let missing: Vec<String> = options(command).difference(&named(page)).cloned().collect();
            assert!(missing.is_empty(), "the page of `{name}` does not describe {missing:?}");
        }
        let known = options(&all);
        for page in [ROLLOUTS, TESTING, VERIFICATION] {
            let unknown: Vec<String> = named(page).difference(&known).cloned().collect();
            assert!(unknown.is_empty(), "no command has {unknown:?}");
        }
    }
}

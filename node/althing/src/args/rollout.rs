//! The command line of rollouts.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// `althing rollout`
#[derive(Debug, Clone, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Rollout {
    #[command(subcommand)]
    pub work: Option<RolloutWork>,
    #[command(flatten)]
    pub begin: RolloutArgs,
}

/// `althing rollout AGENT --to FILE`
#[derive(Debug, Clone, clap::Args)]
pub struct RolloutArgs {
    /// The agent of this node.
    #[arg(required = true)]
    pub agent: Option<String>,
    /// The agent file of the new version (YAML).
    #[arg(long, value_name = "FILE", required = true)]
    pub to: Option<PathBuf>,
    /// Its shares of the calls one after the other, percent: rising, the last one 100.
    #[arg(
        long,
        value_name = "PERCENT",
        value_delimiter = ',',
        default_value = "5,25,50,100",
        value_parser = clap::value_parser!(u8).range(1..=100)
    )]
    pub steps: Vec<u8>,
    /// What stays with one version.
    #[arg(long, value_enum, default_value_t = RolloutBy::Call)]
    pub by: RolloutBy,
    /// Give it copies of all calls before the first step: without effects, and what it answers is told to nobody.
    #[arg(long)]
    pub shadow: bool,
    /// Give both versions the cases of this file first (JSON lines, as of `althing test`), and count them with the calls.
    #[arg(long, value_name = "FILE")]
    pub with_cases: Option<PathBuf>,
    /// Agree to what the new version may do more than was agreed to here, without being asked.
    #[arg(long)]
    pub yes: bool,
}

/// What is given to a version as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RolloutBy {
    /// Each conversation.
    Call,
    /// All conversations of a caller.
    Caller,
    /// All work of a group; what is no work of a group stays with the stable version.
    Group,
    /// All work of a group that comes by one channel; other work by its group, and what is no work of a group by its conversation.
    Channel,
}

/// `althing rollout show|promote|abort`
#[derive(Debug, Clone, Subcommand)]
pub enum RolloutWork {
    /// Show the versions of an agent, what was counted of their calls, and why one went back.
    Show {
        /// The agent of this node.
        agent: String,
    },
    /// Let the new version have all calls now, whatever was counted; its file is the agent's from then on.
    Promote {
        /// The agent of this node.
        agent: String,
    },
    /// Let the version that everybody had before have all calls again; the new one may be tried again.
    Abort {
        /// The agent of this node.
        agent: String,
    },
}

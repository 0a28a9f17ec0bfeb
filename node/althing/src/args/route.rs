//! The command line of routing.

use std::path::PathBuf;

use althing_api::RouteMode;
use clap::{Subcommand, ValueEnum};

/// `althing route`
#[derive(Debug, Clone, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Route {
    #[command(subcommand)]
    pub work: Option<RouteWork>,
    /// The sentence.
    #[arg(required_unless_present = "eval")]
    pub text: Vec<String>,
    /// By what the agent is chosen.
    #[arg(long, value_enum)]
    pub mode: Option<RouteModeName>,
    /// Name the agent, and send it nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Say how the candidates score.
    #[arg(long)]
    pub explain: bool,
    /// Strangers' agents are candidates too.
    #[arg(long)]
    pub anyone: bool,
    /// Route the sentences of a CSV file (instruction,agent,intent), and count how many go to their agents.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "dry_run", "explain", "anyone"])]
    pub eval: Option<PathBuf>,
}

/// `althing route learn`, `forget`, `channel`
#[derive(Debug, Clone, Subcommand)]
pub enum RouteWork {
    /// Learn labelled sentences from a CSV file with the columns instruction,agent,intent.
    Learn {
        /// The file; rows whose column `split` says test are left out.
        file: PathBuf,
    },
    /// Forget all sentences that were learned.
    Forget,
    /// Name the agents that have these capabilities, each the highest version in its range: for all of them, or none.
    Channel {
        /// Capabilities, such as billing.view@^1.2.
        #[arg(required = true)]
        capabilities: Vec<String>,
        /// Strangers' agents are candidates too.
        #[arg(long)]
        anyone: bool,
    },
}

/// How a sentence is routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RouteModeName {
    /// By words that agents share with it.
    Keyword,
    /// By a classifier that learned from agents' examples.
    Vector,
    /// By both.
    Hybrid,
    /// By one of this node's models, among the best of hybrid.
    Model,
}

impl From<RouteModeName> for RouteMode {
    fn from(name: RouteModeName) -> RouteMode {
        match name {
            RouteModeName::Keyword => RouteMode::Keyword,
            RouteModeName::Vector => RouteMode::Vector,
            RouteModeName::Hybrid => RouteMode::Hybrid,
            RouteModeName::Model => RouteMode::Model,
        }
    }
}

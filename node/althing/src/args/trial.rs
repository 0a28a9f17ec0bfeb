//! The command line of tests of agents.

use std::path::PathBuf;

use clap::Subcommand;

use super::shares::share;

/// How texts are compared, by their words.
const SCORERS: [&str; 5] = ["includes", "match", "match:begin", "match:any", "match:exact"];

/// `althing test`
#[derive(Debug, Clone, clap::Args)]
pub struct Test {
    /// The agent, by its name or its id: one of this node, or with --live also one of another node.
    pub agent: String,
    /// The cases: a line of JSON for each, in the form of Inspect's samples.
    #[arg(long, value_name = "FILE")]
    pub cases: PathBuf,
    /// How often each case is run.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// Ask models and tools for real, but no tool that may change something; without this, tapes answer and nobody is asked.
    #[arg(long)]
    pub live: bool,
    /// A server whose tools may change something in a live test; may be given several times.
    #[arg(long, value_name = "NAME", requires = "live")]
    pub test_server: Vec<String>,
    /// Accept that an agent of another node may change something there: nothing here can keep it from that.
    #[arg(long, requires = "live")]
    pub yes: bool,
    /// How texts are compared with what is right.
    #[arg(long, default_value = "includes", value_parser = SCORERS)]
    pub scorer: String,
    /// The least share of cases that are right in all of their runs, 0 to 1 [default: each run of each case is right].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub floor: Option<f64>,
    /// Write the report to FILE too, as JUnit's XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// `althing compare`
#[derive(Debug, Clone, clap::Args)]
pub struct Compare {
    /// The older one, an agent of this node: its name, NAME@VERSION, or its id.
    pub before: String,
    /// The newer one, of which it is told whether it is worse.
    pub after: String,
    /// The cases: a line of JSON for each, in the form of Inspect's samples.
    #[arg(long, value_name = "FILE")]
    pub cases: PathBuf,
    /// How often each case is run by both; from a tape the same comes each time, and it is run once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// The loss that is accepted, of the share of passes or of the mean score: from 0 to below 1.
    #[arg(long, default_value_t = 0.05, value_parser = share)]
    pub margin: f64,
    /// Of what draws are made where scores are compared: the same seed, the same figures.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Compare the cases with each value of that key of their metadata by themselves too; may be given several times.
    #[arg(long, value_name = "KEY")]
    pub slice: Vec<String>,
    /// Compare the shares of what each case names that is right, in place of passes.
    #[arg(long)]
    pub scores: bool,
    /// How texts are compared with what is right.
    #[arg(long, default_value = "includes", value_parser = SCORERS)]
    pub scorer: String,
    /// Ask models and tools for real, but no tool that may change something; without this, tapes answer and nobody is asked.
    #[arg(long)]
    pub live: bool,
    /// A server whose tools may change something in a live test; may be given several times.
    #[arg(long, value_name = "NAME", requires = "live")]
    pub test_server: Vec<String>,
}

/// `althing case`
#[derive(Debug, Clone, Subcommand)]
pub enum Case {
    /// Make a case of a task that was completed: what was said, what was answered, which tools were called.
    Add(CaseArgs),
}

/// `althing case add`
#[derive(Debug, Clone, clap::Args)]
pub struct CaseArgs {
    /// The task's id.
    pub task: String,
    /// The file to which it is added, which may be new [default: it is printed].
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

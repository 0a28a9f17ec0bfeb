//! The command line of sessions.

use clap::{ArgGroup, Subcommand};

/// `althing session`
#[derive(Debug, Clone, Subcommand)]
pub enum Session {
    /// List the turns that survive the end of this node, and their calls of which nobody knows what became.
    List,
    /// Show the journals of a task's turns: what was called when, and never what was said.
    Show(StepsArgs),
    /// Say what became of a call that is in doubt, so that its task goes on; or have a turn go on that stopped with `DIVERGED` or
    /// `VERSION_CHANGED`.
    Resume(ResumeArgs),
}

/// `althing session show`
#[derive(Debug, Clone, clap::Args)]
pub struct StepsArgs {
    /// The task's id.
    pub task: String,
    /// Each step: when, what was called, the digest of its arguments, and how many bytes it has.
    #[arg(long)]
    pub steps: bool,
}

/// `althing session resume`
#[derive(Debug, Clone, clap::Args)]
#[command(group = ArgGroup::new("outcome").required(true).args(["done", "again", "failed", "from"]))]
pub struct ResumeArgs {
    /// The task's id, as `session list` shows it, or at least 4 digits with which no other begins.
    pub task: String,
    /// The call of step N was carried out, and FILE has its result: a text, or JSON as MCP has the result of a tool.
    #[arg(long, num_args = 2, value_names = ["N", "FILE"])]
    pub done: Option<Vec<String>>,
    /// The call of step N was not carried out: make it again.
    #[arg(long, value_name = "N")]
    pub again: Option<u32>,
    /// The call of step N failed: tell its agent so.
    #[arg(long, value_name = "N")]
    pub failed: Option<u32>,
    /// The turn stopped: go on anew from step N. What the steps before it brought is told again; a call that must not be made twice
    /// is never forgotten.
    #[arg(long, value_name = "N")]
    pub from: Option<u32>,
}

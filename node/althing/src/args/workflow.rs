//! The command line of a group's workflows and schedules.

use std::path::PathBuf;

use althing_api::OverlapRule;
use clap::{Subcommand, ValueEnum};

/// `althing workflow`
#[derive(Debug, Clone, Subcommand)]
pub enum Workflow {
    /// Run a workflow file in a group; prints the id of the run.
    Run {
        /// The group's name or id.
        group: String,
        /// The workflow file; or the name of a workflow of one of the group's applications, or of one that was installed.
        file: PathBuf,
        /// The input of the run.
        input: Vec<String>,
        /// Wait until it has ended, and print its result.
        #[arg(long)]
        wait: bool,
    },
    /// List runs.
    List {
        /// The group's name or id.
        group: String,
        /// Those that ended too.
        #[arg(long)]
        all: bool,
    },
    /// Show a run, step by step.
    Show {
        /// The group's name or id.
        group: String,
        /// The run's id.
        run: String,
    },
    /// Approve what a step asks, or reject it.
    Approve {
        /// The group's name or id.
        group: String,
        /// The run's id.
        run: String,
        /// The step, where several ask.
        #[arg(long)]
        step: Option<String>,
        /// Reject it: the step fails.
        #[arg(long)]
        reject: bool,
        /// The result of the step, or why it was rejected.
        note: Vec<String>,
    },
    /// Let a run that failed go on; what completed is not repeated.
    Resume {
        /// The group's name or id.
        group: String,
        /// The run's id.
        run: String,
    },
    /// End a run, and its tasks.
    Cancel {
        /// The group's name or id.
        group: String,
        /// The run's id.
        run: String,
    },
}

/// `althing schedule`
#[derive(Debug, Clone, Subcommand)]
pub enum Schedule {
    /// Add a schedule, or replace that of the same name.
    Add(AddSchedule),
    /// List schedules, their next times, and how the last runs ended.
    List {
        /// The group's name or id.
        group: String,
    },
    /// Show a schedule: its times, and what becomes of those that were missed or come too early.
    Show {
        /// The group's name or id.
        group: String,
        /// The schedule's name.
        schedule: String,
    },
    /// Remove a schedule; runs that began go on.
    Remove {
        /// The group's name or id.
        group: String,
        /// The schedule's name.
        schedule: String,
    },
}

/// `althing schedule add`
#[derive(Debug, Clone, clap::Args)]
#[command(group(clap::ArgGroup::new("work").required(true).args(["workflow", "capability", "agent"])))]
pub struct AddSchedule {
    /// The group's name or id.
    pub group: String,
    /// Its name: a-z, 0-9 and -.
    pub schedule: String,
    /// The times: minute, hour, day of the month, month, day of the week, in one argument.
    pub cron: String,
    /// The input of each run.
    pub input: Vec<String>,
    /// The time zone, as the IANA names it.
    #[arg(long, default_value = "UTC")]
    pub zone: String,
    /// Run this workflow file.
    #[arg(long, value_name = "FILE")]
    pub workflow: Option<PathBuf>,
    /// Give the input to an agent with this capability.
    #[arg(long = "cap", value_name = "CAPABILITY")]
    pub capability: Option<String>,
    /// Give the input to the agent of this name.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// After a time without a leader, run once for the last time that was missed.
    #[arg(long)]
    pub catch_up: bool,
    /// What becomes of a time that comes while a run has not ended.
    #[arg(long, value_enum, default_value = "skip")]
    pub overlap: OverlapName,
}

/// What becomes of a time that comes while a run has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OverlapName {
    /// The next run begins beside it.
    Allow,
    /// The time passes, and is counted.
    Skip,
    /// That run is canceled, and the next one begins.
    Replace,
}

impl From<OverlapName> for OverlapRule {
    fn from(name: OverlapName) -> OverlapRule {
        match name {
            OverlapName::Allow => OverlapRule::Allow,
            OverlapName::Skip => OverlapRule::Skip,
            OverlapName::Replace => OverlapRule::Replace,
        }
    }
}

/// `althing app`
#[derive(Debug, Clone, Subcommand)]
pub enum App {
    /// Bring an application up, or change what differs: its agents, workflows and schedules, in one group.
    Apply {
        /// The app file.
        file: PathBuf,
        /// Only say what would change.
        #[arg(long)]
        dry_run: bool,
        /// Form the group that the file names, if this node has none of that name, and agree to programs without a sandbox, without being
        /// asked.
        #[arg(long)]
        yes: bool,
    },
    /// List the applications of a group.
    List {
        /// The group's name or id.
        group: String,
    },
    /// Show an application: where its agents were placed, and where they run.
    Show {
        /// The group's name or id.
        group: String,
        /// The application's name.
        app: String,
    },
    /// Remove an application; the group stays.
    Remove {
        /// The group's name or id.
        group: String,
        /// The application's name.
        app: String,
    },
}

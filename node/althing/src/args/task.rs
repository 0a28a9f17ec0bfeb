//! The command line of groups' tasks.

use clap::{Subcommand, ValueEnum};

/// `althing task`
#[derive(Debug, Clone, Subcommand)]
pub enum Task {
    /// Give a group a task; prints its id.
    Submit(Box<SubmitArgs>),
    /// List tasks.
    List {
        /// The group's name or id.
        group: String,
        /// Those that ended too.
        #[arg(long)]
        all: bool,
    },
    /// Show a task, and what it waits for.
    Show {
        /// The group's name or id.
        group: String,
        /// The task's id.
        task: String,
        /// Say of each member whether it can do it, and why not; ask on the leader's node, which alone knows.
        #[arg(long)]
        explain: bool,
    },
    /// Cancel a task.
    Cancel {
        /// The group's name or id.
        group: String,
        /// The task's id.
        task: String,
    },
    /// Show what a task waits for, and what waits for it; or add to that.
    Deps {
        /// The group's name or id.
        group: String,
        /// The task's id.
        task: String,
        /// Make it wait for this task too.
        #[arg(long, value_name = "TASK")]
        after: Option<String>,
    },
    /// List the resources that tasks want: who has each, and who is next; or set the rule of one.
    Resources {
        /// The group's name or id.
        group: String,
        /// The resource whose rule is set.
        #[arg(requires = "rule")]
        resource: Option<String>,
        /// Which of the tasks that want it gets it.
        #[arg(long, value_enum, requires = "resource")]
        rule: Option<RuleName>,
    },
    /// Vote, as this node, for the task that gets a resource next; its rule must be `vote`.
    Vote {
        /// The group's name or id.
        group: String,
        /// The resource.
        resource: String,
        /// The task's id.
        task: String,
    },
    /// Decide, as an owner, which task gets a resource next; its rule must be `human`.
    Decide {
        /// The group's name or id.
        group: String,
        /// The resource.
        resource: String,
        /// The task's id.
        task: String,
    },
}

/// Which of the tasks that want a resource gets it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum RuleName {
    /// The one that was submitted first.
    First,
    /// The one with most votes, once more than half of the members voted.
    Vote,
    /// The most urgent one.
    Priority,
    /// The one that an owner chooses.
    Human,
}

impl RuleName {
    /// Its name in the control API.
    pub fn name(self) -> &'static str {
        match self {
            RuleName::First => "first",
            RuleName::Vote => "vote",
            RuleName::Priority => "priority",
            RuleName::Human => "human",
        }
    }
}

/// `althing task submit`
#[derive(Debug, Clone, clap::Args)]
#[command(group(clap::ArgGroup::new("target").required(true).args(["capability", "agent"])))]
pub struct SubmitArgs {
    /// The group's name or id.
    pub group: String,
    /// What is to be done.
    #[arg(required = true)]
    pub text: Vec<String>,
    /// A capability that the member's agent must have, such as billing.view.
    #[arg(long = "cap", value_name = "CAPABILITY")]
    pub capability: Option<String>,
    /// The name of an agent that the member must host.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Wait until it has ended, and print its result.
    #[arg(long)]
    pub wait: bool,
    /// How urgent it is.
    #[arg(long, value_enum, default_value = "normal")]
    pub priority: PriorityName,
    /// In how many seconds it must have ended.
    #[arg(long, value_name = "SECONDS")]
    pub deadline: Option<u64>,
    /// A task that must complete before; may be given more than once.
    #[arg(long, value_name = "TASK")]
    pub after: Vec<String>,
    /// A second task with the same key is not submitted: the first one stands for it.
    #[arg(long)]
    pub key: Option<String>,
    /// How often it is attempted, at most.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub attempts: u8,
    /// For how many seconds a member has it without a sign of life.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub lease: u64,
    /// A label that the member must have; may be given more than once.
    #[arg(long)]
    pub label: Vec<String>,
    /// Memory that the member must have free, MiB.
    #[arg(long)]
    pub memory_mib: Option<u32>,
    /// Processor cores that it must have.
    #[arg(long)]
    pub cores: Option<u32>,
    /// Disk that it must have free, MiB.
    #[arg(long)]
    pub disk_mib: Option<u32>,
    /// GPUs that it must have.
    #[arg(long)]
    pub gpus: Option<u32>,
    /// The latency class in which it must run agents: hrt, srt or dt.
    #[arg(long)]
    pub class: Option<String>,
    /// What only one task may use at a time; may be given more than once.
    #[arg(long)]
    pub resource: Vec<String>,
    /// The channel by which it came, such as web: its agent is told, and a rollout may give each channel one version.
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
}

/// How urgent a task is.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PriorityName {
    /// After all others.
    Low,
    /// As most.
    Normal,
    /// Before most.
    High,
    /// Before all others.
    Critical,
}

impl PriorityName {
    /// Its name in the control API.
    pub fn name(self) -> &'static str {
        match self {
            PriorityName::Low => "low",
            PriorityName::Normal => "normal",
            PriorityName::High => "high",
            PriorityName::Critical => "critical",
        }
    }
}

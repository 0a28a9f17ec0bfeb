//! What is asked of groups, their tasks, workflows and schedules.

use std::collections::BTreeMap;
use std::path::PathBuf;

use althing_protocol::group::Overlap;
use althing_td::AgentFile;
use serde::{Deserialize, Serialize};

/// Forms a group.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateGroup {
    /// Its name.
    pub name: String,
    /// Who may write: `owners` or `members`.
    pub write: String,
    /// Members that vote, at most.
    pub voters_max: u8,
    /// Owners beside this node's: publishers, or nodes of theirs.
    #[serde(default)]
    pub owners: Vec<String>,
    /// How many of the owners must sign.
    #[serde(default = "one")]
    pub threshold: u8,
    /// After how many seconds a silent voter is replaced; 0: never.
    #[serde(default)]
    pub replace_after_s: Option<u64>,
    /// Who may give the group work: `owners` or `members`; as `write` if absent.
    #[serde(default)]
    pub assign: Option<String>,
    /// Whose nodes show all of the group: those of `owners` or of `members`; of members if absent.
    #[serde(default)]
    pub read: Option<String>,
}

fn one() -> u8 {
    1
}

/// Changes the charter of a group. What is absent stays.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AmendGroup {
    /// Further owners: publishers, or nodes of theirs.
    pub add: Vec<String>,
    /// Owners that are none any more.
    pub remove: Vec<String>,
    /// How many of the owners must sign.
    pub threshold: Option<u8>,
    /// Who may write: `owners` or `members`.
    pub write: Option<String>,
    /// Members that vote, at most.
    pub voters_max: Option<u8>,
    /// After how many seconds a silent voter is replaced; 0: never.
    pub replace_after_s: Option<u64>,
    /// Who may give the group work: `owners` or `members`.
    pub assign: Option<String>,
    /// Whose nodes show all of the group: those of `owners` or of `members`.
    pub read: Option<String>,
}

/// Joins a group.
#[derive(Debug, Serialize, Deserialize)]
pub struct JoinGroup {
    /// The ticket, as text.
    pub ticket: String,
}

/// An operation on a group.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GroupRequest {
    /// Makes a ticket for a node.
    Invite {
        /// Its DID.
        node: String,
        /// For how long it is valid, seconds.
        life_s: u64,
    },
    /// This node leaves.
    Leave {
        /// What this node has of the group is removed, without asking the group.
        forget: bool,
    },
    /// Removes a node.
    Expel {
        /// Its DID.
        node: String,
    },
    /// Ends the group.
    Dissolve,
    /// Changes the charter.
    Amend(AmendGroup),
    /// Lists what waits for the signatures of owners.
    Proposals,
    /// Signs what was proposed.
    Endorse {
        /// How its name begins, in hexadecimal.
        proposal: String,
    },
    /// Hands over the lead.
    Transfer {
        /// To this node, a DID.
        node: String,
    },
    /// Shows the group.
    Status,
    /// Writes a value.
    Set {
        /// Its key.
        key: String,
        /// The value.
        value: String,
        /// Only if it has this version; 0: only if there is none.
        if_version: Option<u64>,
    },
    /// Reads a value.
    Get {
        /// Its key.
        key: String,
        /// As it has arrived here, without asking the leader.
        stale: bool,
    },
    /// Removes a value.
    Remove {
        /// Its key.
        key: String,
        /// Only if it has this version.
        if_version: Option<u64>,
    },
    /// Lists keys.
    Keys {
        /// Those that begin so.
        prefix: String,
        /// As they have arrived here, without asking the leader.
        stale: bool,
    },
}

/// A task for a group.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmitTask {
    /// Its id, 32 hexadecimal digits that nobody used before; by default the node chooses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The capability that the member's agent must have.
    pub capability: Option<String>,
    /// Or the agent's name.
    pub agent: Option<String>,
    /// What is to be done: a text, or an A2A message as JSON.
    pub text: String,
    /// `low`, `normal`, `high` or `critical`.
    pub priority: String,
    /// In how many seconds it must have ended.
    pub deadline_s: Option<u64>,
    /// The tasks that must complete before it begins.
    pub after: Vec<String>,
    /// A second task with the same key is not submitted.
    pub key: Option<String>,
    /// How often it is attempted, at most.
    pub attempts: u8,
    /// For how many seconds a member has it without a sign of life.
    pub lease_s: u64,
    /// Labels that the member must have.
    pub labels: Vec<String>,
    /// Memory that the member must have free, MiB.
    pub memory_mib: Option<u32>,
    /// Processor cores that it must have.
    pub cores: Option<u32>,
    /// Disk that it must have free, MiB.
    pub disk_mib: Option<u32>,
    /// GPUs that it must have.
    pub gpus: Option<u32>,
    /// The latency class in which it must run agents: `hrt`, `srt` or `dt`.
    pub class: Option<String>,
    /// What only one task may use at a time.
    pub resources: Vec<String>,
}

/// An operation on the tasks of a group.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskRequest {
    /// Submits one.
    Submit(Box<SubmitTask>),
    /// Lists them.
    List {
        /// Those that ended too.
        finished: bool,
    },
    /// Shows one.
    Show {
        /// Which.
        task: String,
        /// Also what each member lacks for it; known at the leader.
        explain: bool,
    },
    /// Cancels one.
    Cancel {
        /// Which.
        task: String,
    },
    /// Makes one wait for another.
    Depend {
        /// Which.
        task: String,
        /// For this one.
        on: String,
    },
    /// Shows what one waits for, and what waits for it.
    Deps {
        /// Which.
        task: String,
    },
    /// Lists the resources that tasks want, and the last decisions about them.
    Resources,
    /// Sets who gets a resource when several want it.
    Define {
        /// Which resource.
        resource: String,
        /// `first`, `vote`, `priority` or `human`.
        rule: String,
    },
    /// This node votes for the task that gets a resource next.
    Vote {
        /// Which resource.
        resource: String,
        /// Which task.
        task: String,
    },
    /// This node's owner decides which task gets a resource next.
    Decide {
        /// Which resource.
        resource: String,
        /// Which task.
        task: String,
    },
}

/// An operation on the applications of groups.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AppRequest {
    /// Brings an application up, or changes it. If this node has no group of that name, it is formed where `form` says so;
    /// otherwise nothing is changed, and the answer says what would be.
    Apply {
        /// The app file, as read.
        file: String,
        /// The files that it names, as read, by their paths in it.
        files: BTreeMap<String, String>,
        /// Where these paths begin.
        folder: PathBuf,
        /// Only say what would change.
        dry_run: bool,
        /// Form the group if there is none of that name: a name may be mistyped.
        #[serde(default)]
        form: bool,
    },
    /// Removes an application.
    Remove {
        /// The group's name or id.
        group: String,
        /// The application.
        app: String,
    },
    /// Lists the applications of a group.
    List {
        /// The group's name or id.
        group: String,
    },
    /// Shows one: where its agents were placed, and where they run.
    Show {
        /// The group's name or id.
        group: String,
        /// The application.
        app: String,
    },
}

/// Makes a group an agent that others may call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServeGroup {
    /// Each of this owner's members hosts this agent.
    Agent(Box<AgentFile>),
    /// The agent of this name is hosted no more.
    End(String),
}

/// An operation on the workflows of a group.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WorkflowRequest {
    /// Begins a run.
    Run {
        /// The workflow file, as read.
        file: String,
        /// The input of the run.
        input: String,
    },
    /// Begins a run of a workflow that the group keeps, or that was installed here.
    RunNamed {
        /// Its name.
        name: String,
        /// The input of the run.
        input: String,
    },
    /// Lists runs.
    List {
        /// Those that ended too.
        finished: bool,
    },
    /// Shows a run.
    Show {
        /// Which.
        run: String,
    },
    /// Lets a run that failed go on.
    Resume {
        /// Which.
        run: String,
    },
    /// Ends a run, and its tasks.
    Cancel {
        /// Which.
        run: String,
    },
    /// Answers what a step asks.
    Approve {
        /// Which run.
        run: String,
        /// The step; none if only one asks.
        step: Option<String>,
        /// Whether the run goes on.
        approved: bool,
        /// The result of the step, or why it was rejected.
        note: String,
    },
}

/// An operation on the schedules of a group.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ScheduleRequest {
    /// Adds a schedule, or replaces that of the same name.
    Add {
        /// Its name.
        name: String,
        /// The times, in the syntax of cron.
        cron: String,
        /// The time zone, as the IANA names it.
        zone: String,
        /// What runs.
        work: ScheduledWork,
        /// The input of each run.
        input: String,
        /// Whether the last time that was missed counts, once.
        catch_up: bool,
        /// What becomes of times that come while a run has not ended.
        #[serde(default)]
        overlap: OverlapRule,
    },
    /// Lists schedules.
    List,
    /// Removes one.
    Remove {
        /// Its name.
        name: String,
    },
}

/// What becomes of a time that comes while a run of the schedule has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverlapRule {
    /// The next run begins beside it.
    Allow,
    /// The time passes, and is counted.
    #[default]
    Skip,
    /// That run is canceled, and the next one begins.
    Replace,
}

impl From<OverlapRule> for Option<Overlap> {
    fn from(rule: OverlapRule) -> Option<Overlap> {
        match rule {
            OverlapRule::Allow => None,
            OverlapRule::Skip => Some(Overlap::Skip),
            OverlapRule::Replace => Some(Overlap::Replace),
        }
    }
}

impl From<Option<Overlap>> for OverlapRule {
    fn from(overlap: Option<Overlap>) -> OverlapRule {
        match overlap {
            None => OverlapRule::Allow,
            Some(Overlap::Skip) => OverlapRule::Skip,
            Some(Overlap::Replace) => OverlapRule::Replace,
        }
    }
}

/// What a schedule runs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ScheduledWork {
    /// A workflow file, as read.
    Workflow(String),
    /// One task for an agent with this capability.
    Capability(String),
    /// One task for the agent of this name.
    Agent(String),
}

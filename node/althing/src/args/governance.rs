//! The command line of what an owner decides, is asked, and can prove.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::Subcommand;

/// What agents may do, who is asked before they do it, and what is on record of it.
#[derive(Debug, Clone, Subcommand)]
pub enum Governance {
    /// Policies of the owner: what agents may do, in Cedar.
    #[command(subcommand)]
    Policy(PolicyWork),
    /// Whom this node asks before something is done.
    #[command(subcommand)]
    People(PeopleWork),
    /// What waits for somebody's yes: calls of agents, steps of workflows in all groups, releases.
    Pending,
    /// Each yes that counts more than once: who gave it, for which calls, how often and until when.
    Consents(Consents),
    /// Show what waits, and say yes to it.
    Approve(ApproveAsk),
    /// Show what waits, and say no to it.
    Deny(DenyAsk),
    /// What was done here, who allowed it and what came of it: a log that proves itself.
    #[command(subcommand)]
    Audit(Audit),
    /// Stop an agent at once, on all nodes of this owner.
    Stop(Stop),
    /// Who may do something now, and why.
    Who {
        /// SERVER/TOOL, or call, model, egress and so on.
        action: String,
    },
    /// Say why something was permitted, asked about or denied.
    Explain {
        /// The decision, by its number, as `althing policy diff` shows it.
        #[arg(value_parser = decision)]
        decision: u64,
    },
}

/// `althing policy`
#[derive(Debug, Clone, Subcommand)]
pub enum PolicyWork {
    /// Show which policies are in force, and what should be looked at.
    Status,
    /// Put a file of policies in force, in place of those before: all of it, or nothing if something in it is wrong.
    Load {
        /// Policies in Cedar.
        file: PathBuf,
        /// Agree, without being asked, to a set that permits nothing.
        #[arg(long)]
        yes: bool,
    },
    /// Take the policies out: contracts decide alone from then on, on this node.
    Unload {
        /// Agree without being asked.
        #[arg(long)]
        yes: bool,
    },
    /// Check a file of policies against the agents, tools and people that this node knows; puts nothing in force.
    Lint {
        /// Policies in Cedar.
        file: PathBuf,
    },
    /// Decide the requests of a file of cases, and compare. Exits with 1 if one is not as expected.
    Test {
        /// Cases (JSON).
        file: PathBuf,
        /// Policies to decide by [default: those in force].
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
    },
    /// Say how a request would be decided, and by which policies.
    Explain(ExplainArgs),
    /// Show which of the decisions that this node remembers other policies would turn.
    Diff {
        /// Policies in Cedar.
        file: PathBuf,
    },
}

/// `althing policy explain`
#[derive(Debug, Clone, clap::Args)]
pub struct ExplainArgs {
    /// Who does it, such as 'Agent::"clerk"'; a name alone is an agent.
    pub principal: String,
    /// What is done: call, model, remember, egress and so on; of a tool its name.
    pub action: String,
    /// What it is done with, such as 'Host::"example.org"'; SERVER/TOOL alone is a tool.
    pub resource: String,
    /// The arguments (JSON).
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// How far the data of the turn may go: public, internal, confidential or restricted.
    #[arg(long, value_name = "LABEL")]
    pub label: Option<String>,
    /// The turn read something that nobody vouches for.
    #[arg(long)]
    pub untrusted: bool,
    /// On whose behalf.
    #[arg(long, value_name = "NAME")]
    pub person: Option<String>,
}

/// `althing people`
#[derive(Debug, Clone, Subcommand)]
pub enum PeopleWork {
    /// Show whom this node asks: their keys, roles, users of the gateway, and how each is reached.
    Show,
    /// Take a file of people in place of the one before; it counts from the next question on.
    Load {
        /// The file of people (YAML).
        file: PathBuf,
    },
}

/// `althing approve`
#[derive(Debug, Clone, clap::Args)]
pub struct ApproveAsk {
    /// What waits, by its id or the beginning of it, as `althing pending` shows it.
    pub id: String,
    /// Say yes without being asked.
    #[arg(long)]
    pub yes: bool,
    /// Say yes to so many further calls like this one too; with --until.
    #[arg(long, value_name = "COUNT", requires = "until", conflicts_with_all = ["text", "signature"],
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub standing: Option<u32>,
    /// Until when the standing yes counts, such as 2027-01-31T12:00:00Z; 90 days at most.
    #[arg(long, value_name = "TIME", requires = "standing", value_parser = time)]
    pub until: Option<DateTime<Utc>>,
    /// An argument that may be another one in further calls; may be given several times.
    #[arg(long, value_name = "ARGUMENT", requires = "standing")]
    pub free: Vec<String>,
    /// The answer of a workflow's step: its result.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// How somebody else than the user of this machine answers.
    #[command(flatten)]
    pub signing: SigningArgs,
}

/// `althing consents`
#[derive(Debug, Clone, clap::Args)]
pub struct Consents {
    /// What is done with one; without it all are listed.
    #[command(subcommand)]
    pub work: Option<ConsentWork>,
}

/// What is done with a yes that counts more than once.
#[derive(Debug, Clone, Subcommand)]
pub enum ConsentWork {
    /// Take it back: it counts for no further call.
    Withdraw {
        /// Which one, by its id or the beginning of it.
        id: String,
        /// Take it back without being asked.
        #[arg(long)]
        yes: bool,
    },
}

/// `althing deny`
#[derive(Debug, Clone, clap::Args)]
pub struct DenyAsk {
    /// What waits, by its id or the beginning of it, as `althing pending` shows it.
    pub id: String,
    /// Why not; the agent is told.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Say no without being asked.
    #[arg(long)]
    pub yes: bool,
    /// How somebody else than the user of this machine answers.
    #[command(flatten)]
    pub signing: SigningArgs,
}

/// How somebody answers who has a key in the file of people.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct SigningArgs {
    /// Print what a person signs to answer so, byte for byte: `ssh-keygen -Y sign -n althing-consent` signs it.
    #[arg(long, conflicts_with_all = ["yes", "signature"])]
    pub text: bool,
    /// Answer as the person who signed that text: the file that ssh-keygen made.
    #[arg(long, value_name = "FILE")]
    pub signature: Option<PathBuf>,
}

/// `althing audit`
#[derive(Debug, Clone, Subcommand)]
pub enum Audit {
    /// List entries of the log, the newest so many.
    Query(AuditQueryArgs),
    /// Show an entry with what it commits to.
    Show {
        /// Its number, as `audit query` shows it, such as 1.17: entry 17 of the node's first log.
        #[arg(value_parser = entry)]
        entry: (u32, u64),
        /// Write the entry with its proof to a new file, for whoever is to verify it without this node.
        #[arg(long, value_name = "FILE")]
        export: Option<PathBuf>,
    },
    /// Check an exported entry without any node: that it is in the log, and that nobody changed it.
    Verify {
        /// What `audit show --export` wrote.
        file: PathBuf,
        /// The key of the log that you trust, from its owner; without it the file's own word is taken.
        #[arg(long, value_name = "KEY")]
        log: Option<String>,
        /// The key of a witness that you trust; may be given several times.
        #[arg(long = "witness", value_name = "KEY")]
        witnesses: Vec<String>,
        /// How many of the witnesses must have signed [default: all that are given].
        #[arg(long, value_name = "COUNT", requires = "witnesses")]
        wanted: Option<usize>,
    },
    /// Make unreadable for ever what lies beside the log of calls on behalf of a person; the entries prove what they proved.
    Erase {
        /// The person, as entries name them.
        subject: String,
        /// Erase without being asked.
        #[arg(long)]
        yes: bool,
    },
    /// Delete what lies beside the log from before a time; the entries stay.
    Prune {
        /// Such as 2027-01-31T12:00:00Z.
        #[arg(long, value_name = "TIME", value_parser = time)]
        before: DateTime<Utc>,
        /// Delete without being asked.
        #[arg(long)]
        yes: bool,
        /// Print what those sign who must agree, by `prune` of the file of people, byte for byte: `ssh-keygen -Y sign -n
        /// althing-consent` signs it.
        #[arg(long, conflicts_with_all = ["yes", "signatures"])]
        text: bool,
        /// The file that ssh-keygen made for one of them; may be given several times.
        #[arg(long = "signature", value_name = "FILE")]
        signatures: Vec<PathBuf>,
    },
}

/// `althing audit query`
#[derive(Debug, Clone, clap::Args)]
pub struct AuditQueryArgs {
    /// Of this agent, by id, or by name if it is the owner's.
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// Of actions that begin so: SERVER/TOOL, or what was changed.
    #[arg(long)]
    pub action: Option<String>,
    /// On behalf of this person, or by them.
    #[arg(long, value_name = "NAME")]
    pub person: Option<String>,
    /// asked, answered, denied, intent, outcome, changed, started, ended or turn.
    #[arg(long)]
    pub stage: Option<String>,
    /// From then on, such as 2027-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub from: Option<DateTime<Utc>>,
    /// Until then.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub until: Option<DateTime<Utc>>,
    /// How many are listed.
    #[arg(long, default_value_t = 100, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    pub limit: usize,
}

/// `althing stop`
#[derive(Debug, Clone, clap::Args)]
pub struct Stop {
    /// Name or id of the agent.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub agent: Option<String>,
    /// All agents of this owner.
    #[arg(long)]
    pub all: bool,
    /// Have the nodes of others refuse it too.
    #[arg(long)]
    pub revoke: bool,
    /// Stop without being asked.
    #[arg(long)]
    pub yes: bool,
}

/// Which log, from 1, and which entry of it.
fn entry(text: &str) -> Result<(u32, u64), String> {
    let parts = text.split_once('.').and_then(|(log, entry)| Some((log.parse().ok()?, entry.parse().ok()?)));
    parts.ok_or_else(|| "an entry is written like 1.17, as `althing audit query` shows it".to_owned())
}

fn decision(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a decision is a number such as 412, as `althing policy diff` shows it".to_owned())
}

fn time(text: &str) -> Result<DateTime<Utc>, String> {
    let read = DateTime::parse_from_rfc3339(text).ok().filter(|at| at.timestamp_millis() >= 0);
    read.map(|at| at.to_utc()).ok_or_else(|| "a time is written like 2027-01-31T12:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::Args;

    fn is_read(line: &str) -> bool {
        Args::try_parse_from(line.split(' ')).is_ok()
    }

    #[test]
    fn what_is_no_number_of_a_decision_is_told_where_one_is_shown() {
        let told = Args::try_parse_from(["althing", "explain", "x"]).expect_err("it is no number").to_string();
        assert!(told.contains("a decision is a number such as 412, as `althing policy diff` shows it"), "{told}");
        assert!(is_read("althing explain 412"));
    }

    #[test]
    fn what_belongs_together_is_given_together() {
        for line in [
            "althing approve 0a --yes",
            "althing approve 0a --standing 3 --until 2027-01-31T12:00:00Z --free note --yes",
            "althing approve 0a --text",
            "althing deny 0a --signature a.sig",
            "althing stop clerk --revoke",
            "althing stop --all",
            "althing audit show 1.17 --export a.leaf",
            "althing audit prune --before 2027-01-31T12:00:00Z --signature a.sig --signature b.sig --yes",
            "althing audit prune --before 2027-01-31T12:00:00Z --text",
            "althing audit verify a.leaf --log k --witness w --wanted 1",
        ] {
            assert!(is_read(line), "{line}");
        }
        for line in [
            "althing approve",
            "althing approve 0a --standing 3",
            "althing approve 0a --standing 0 --until 2027-01-31T12:00:00Z",
            "althing approve 0a --free note",
            "althing approve 0a --text --yes",
            "althing approve 0a --until tomorrow --standing 3",
            "althing stop",
            "althing stop clerk --all",
            "althing audit verify a.leaf --wanted 1",
            "althing audit prune",
            "althing audit prune --before 2027-01-31T12:00:00Z --text --signature a.sig",
            "althing audit show 17",
        ] {
            assert!(!is_read(line), "{line}");
        }
    }
}

//! The command line of groups.

use althing_api::{AmendGroup, CreateGroup};
use clap::{Subcommand, ValueEnum};

use super::node_key;

/// `althing group`
#[derive(Debug, Clone, Subcommand)]
pub enum Group {
    /// Form a group, whose only member is this node.
    Create(CreateArgs),
    /// Change who owns a group, how many of its owners must sign, and what its members may do.
    Amend(AmendArgs),
    /// List what waits for the signatures of owners.
    Proposals {
        /// The group's name or id.
        group: String,
    },
    /// Sign a proposal in the name of this node's owner; prints the ticket of an invitation that enough owners signed.
    Endorse {
        /// The group's name or id.
        group: String,
        /// How the proposal's id begins.
        proposal: String,
    },
    /// Invite a node: prints a ticket for it.
    Invite {
        /// The group's name or id.
        group: String,
        /// The node, as a did:key or a peer id.
        #[arg(value_parser = node_key)]
        node: althing_protocol::PublicKey,
        /// For how many hours the ticket is valid.
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=160))]
        hours: u64,
    },
    /// Join the group of a ticket.
    Join {
        /// The ticket; read from standard input when it is -.
        ticket: String,
    },
    /// Leave a group, after a look at what moves.
    Leave {
        /// The group's name or id.
        group: String,
        /// Remove what this node has of the group, without asking the group. Give the id where a dissolved one has the name too.
        #[arg(long)]
        forget: bool,
        /// Leave without being asked.
        #[arg(long)]
        yes: bool,
    },
    /// Remove a node from a group.
    Expel {
        /// The group's name or id.
        group: String,
        /// The node, as a did:key or a peer id.
        #[arg(value_parser = node_key)]
        node: althing_protocol::PublicKey,
    },
    /// End a group.
    Dissolve {
        /// The group's name or id.
        group: String,
        /// End it for ever.
        #[arg(long)]
        yes: bool,
    },
    /// Make the group an agent: whoever calls it gives the group a task. Each of this owner's members hosts it.
    Serve(ServeArgs),
    /// List the groups of this node.
    List,
    /// Show a group: its members, who leads, who lags.
    Status {
        /// The group's name or id.
        group: String,
    },
    /// Have another member lead; asked of the leader.
    Transfer {
        /// The group's name or id.
        group: String,
        /// The node, as a did:key or a peer id.
        #[arg(value_parser = node_key)]
        node: althing_protocol::PublicKey,
    },
    /// Write a value.
    Set {
        /// The group's name or id.
        group: String,
        /// The value's key.
        key: String,
        /// The value.
        value: String,
        /// Write it only if it has this version; 0: only if there is none.
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
    },
    /// Read a value.
    Get {
        /// The group's name or id.
        group: String,
        /// The value's key.
        key: String,
        /// As it has arrived here, without asking the leader.
        #[arg(long)]
        stale: bool,
    },
    /// Remove a value.
    Unset {
        /// The group's name or id.
        group: String,
        /// The value's key.
        key: String,
        /// Remove it only if it has this version.
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
    },
    /// List the keys of values.
    Keys {
        /// The group's name or id.
        group: String,
        /// Those that begin so.
        #[arg(default_value = "")]
        prefix: String,
        /// As they have arrived here, without asking the leader.
        #[arg(long)]
        stale: bool,
    },
}

/// `althing group create`
#[derive(Debug, Clone, clap::Args)]
pub struct CreateArgs {
    /// Its name: a-z, 0-9 and -.
    // An id of its own: the global `--name` would take the value.
    #[arg(id = "group", value_name = "NAME")]
    pub group: String,
    /// Who may write values.
    #[arg(long, value_enum, default_value = "members")]
    pub write: Who,
    /// Who may give it tasks, workflows and schedules [default: as --write].
    #[arg(long, value_enum)]
    pub assign: Option<Who>,
    /// Whose nodes show all of it to their users; those of others show what is their own [default: members].
    #[arg(long, value_enum)]
    pub read: Option<Who>,
    /// How many of its members vote, at most.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=7))]
    pub voters: u8,
    /// A further owner (urn:althing:zQm…), or a node of its own that this node is connected to (did:key:z6Mk…).
    #[arg(long = "owner", value_name = "ID", value_parser = owner)]
    pub owners: Vec<String>,
    /// How many of the owners must sign who joins, who goes, and the next charter; at first at most 2.
    #[arg(long = "k", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub threshold: u8,
    /// After how many minutes another member votes instead of one that is silent; 0: never [default: 10].
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(0..=10_080))]
    pub replace_after: Option<u64>,
}

impl From<&CreateArgs> for CreateGroup {
    fn from(args: &CreateArgs) -> CreateGroup {
        CreateGroup {
            name: args.group.clone(),
            write: args.write.name().to_owned(),
            voters_max: args.voters,
            owners: args.owners.clone(),
            threshold: args.threshold,
            replace_after_s: args.replace_after.map(|minutes| minutes * 60),
            assign: args.assign.map(named),
            read: args.read.map(named),
        }
    }
}

/// `althing group amend`
#[derive(Debug, Clone, clap::Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)
    .args(["add_owner", "remove_owner", "threshold", "write", "assign", "read", "voters", "replace_after"])))]
pub struct AmendArgs {
    /// The group's name or id.
    pub group: String,
    /// A further owner (urn:althing:zQm…), or a node of its own (did:key:z6Mk…).
    #[arg(long, value_name = "ID", value_parser = owner)]
    pub add_owner: Vec<String>,
    /// An owner that is to be none any more, or a node of its own.
    #[arg(long, value_name = "ID", value_parser = owner)]
    pub remove_owner: Vec<String>,
    /// How many of the owners must sign. Each needs a node in the group for that.
    #[arg(long = "k", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub threshold: Option<u8>,
    /// Who may write values.
    #[arg(long, value_enum)]
    pub write: Option<Who>,
    /// Who may give it tasks, workflows and schedules. Until a charter says it, who may write.
    #[arg(long, value_enum)]
    pub assign: Option<Who>,
    /// Whose nodes show all of it to their users; those of others show what is their own.
    #[arg(long, value_enum)]
    pub read: Option<Who>,
    /// How many of its members vote, at most.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=7))]
    pub voters: Option<u8>,
    /// After how many minutes another member votes instead of one that is silent; 0: never.
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(0..=10_080))]
    pub replace_after: Option<u64>,
}

impl From<AmendArgs> for AmendGroup {
    fn from(args: AmendArgs) -> AmendGroup {
        AmendGroup {
            add: args.add_owner,
            remove: args.remove_owner,
            threshold: args.threshold,
            write: args.write.map(named),
            voters_max: args.voters,
            replace_after_s: args.replace_after.map(|minutes| minutes * 60),
            assign: args.assign.map(named),
            read: args.read.map(named),
        }
    }
}

/// Its name in the control API.
fn named(who: Who) -> String {
    who.name().to_owned()
}

/// A publisher or a node, checked before the node is asked.
fn owner(text: &str) -> Result<String, String> {
    let id = text.parse::<althing_protocol::CallerId>();
    id.map(|id| id.to_string()).map_err(|error| error.to_string())
}

/// `althing group serve`
#[derive(Debug, Clone, clap::Args)]
#[command(group(clap::ArgGroup::new("target").required(true).args(["capability", "agent", "end"])))]
pub struct ServeArgs {
    /// The group's name or id.
    pub group: String,
    /// The capability of the members' agents that do the tasks; the group is found by it too.
    #[arg(long = "cap", value_name = "CAPABILITY")]
    pub capability: Option<String>,
    /// The name of the members' agent that does the tasks.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The agent's name [default: the group's].
    // An id of its own: the global `--name` would take the value.
    #[arg(id = "as", long = "as", value_name = "NAME")]
    pub alias: Option<String>,
    /// Who may call it.
    #[arg(long, value_enum, default_value = "trusted")]
    pub callers: CallersName,
    /// End it: the agent is hosted no more.
    #[arg(long)]
    pub end: bool,
}

/// Who may call an agent.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum CallersName {
    /// Programs on this node.
    ThisNode,
    /// The owner's nodes.
    Own,
    /// These, and whom the node trusts.
    Trusted,
    /// Everybody.
    Anyone,
}

/// To whom the charter of a group leaves something.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Who {
    /// Its owners.
    Owners,
    /// Its owners, its members, and the members' owners.
    Members,
}

impl Who {
    /// Its name in the control API.
    pub fn name(self) -> &'static str {
        match self {
            Who::Owners => "owners",
            Who::Members => "members",
        }
    }
}

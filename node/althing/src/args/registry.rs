//! The command line of registries.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::attesting::{AttestArgs, ShowArgs};
use super::receipts::ReceiptArgs;
use super::staged::{ApproveArgs, PurgeArgs, RejectArgs, StageArgs};

/// `althing registry`
#[derive(Debug, Clone, Subcommand)]
pub enum Registry {
    /// Follow a registry: publish in it, install from it, hear what its publishers revoke.
    Add {
        /// Its address, such as https://registry.example.org.
        url: String,
        /// The key of its log: its operator tells it, `althing-registry` prints it.
        #[arg(long)]
        key: String,
        /// The key of a witness, which must have cosigned what the registry shows; may be given more than once.
        #[arg(long = "witness", value_name = "KEY")]
        witnesses: Vec<String>,
        /// How many of the witnesses must have cosigned [default: all].
        #[arg(long, value_name = "NUMBER", requires = "witnesses")]
        wanted: Option<usize>,
    },
    /// List the registries that this node follows, and the evidence against those that showed two histories.
    List,
    /// Follow a registry no more. What its publishers revoked stays revoked.
    Remove {
        /// Its name or address.
        registry: String,
    },
}

/// `althing publish`
#[derive(Debug, Clone, clap::Args)]
pub struct Publish {
    /// The agent file (YAML), with which the files are published that it names; a workflow file (YAML); or the description of
    /// a Thing that runs elsewhere (.td.json).
    pub file: PathBuf,
    /// A further file below its folder that the agent needs; may be given more than once.
    #[arg(long, value_name = "FILE")]
    pub with: Vec<PathBuf>,
    /// For whom it is: public, organisation, or ids of publishers separated by commas.
    #[arg(long, default_value = "public")]
    pub audience: String,
    /// Which registry, by name or address [default: the only one].
    #[arg(long)]
    pub registry: Option<String>,
}

/// `althing release`
#[derive(Debug, Clone, Subcommand)]
pub enum Release {
    /// List the versions of an agent, or of all agents.
    List {
        /// Its id, or the name of one of yours.
        agent: Option<String>,
        /// Which registry, by name or address [default: the only one].
        #[arg(long)]
        registry: Option<String>,
    },
    /// Show a release: its standing, what it is, and what others found of it.
    Show(ShowArgs),
    /// Show what proves that a registry's log has what you sent it, and verify it without asking the registry.
    Receipt(ReceiptArgs),
    /// Sign what you found of a release: an audit, a build, a test.
    Attest(AttestArgs),
    /// Hand in a release that its publisher has to approve: needs a token of the registry, and neither a key nor a node.
    Stage(StageArgs),
    /// List what waits for your approval: what build machines staged, and what others released.
    Pending {
        /// Which registry, by name or address [default: the only one].
        #[arg(long)]
        registry: Option<String>,
    },
    /// Approve what waits: it is signed by you, and released when enough approve it.
    Approve(ApproveArgs),
    /// Take a staged release away.
    Reject(RejectArgs),
    /// Advise against a version; it is still installed and called.
    Deprecate(MarkArgs),
    /// Take a version out of ranges; it is still there for who names it exactly.
    Yank(MarkArgs),
    /// Take back that it was deprecated or yanked.
    Restore(MarkArgs),
    /// Delete a version that is not for everybody from the registry's disk, with its files and marks; it is never used again.
    Purge(PurgeArgs),
    /// End a version for ever: nodes that follow the registry refuse it within seconds.
    Revoke(RevokeArgs),
}

/// A mark on a release.
#[derive(Debug, Clone, clap::Args)]
pub struct MarkArgs {
    /// The agent and its version, such as echo@1.2.0.
    pub release: String,
    /// Why, for people.
    #[arg(long, default_value = "")]
    pub reason: String,
    /// Which registry, by name or address [default: the only one].
    #[arg(long)]
    pub registry: Option<String>,
}

/// `althing release revoke`
#[derive(Debug, Clone, clap::Args)]
pub struct RevokeArgs {
    #[command(flatten)]
    pub mark: MarkArgs,
    /// Revoke it without being asked: it cannot be taken back.
    #[arg(long)]
    pub yes: bool,
}

/// `althing install`
#[derive(Debug, Clone, clap::Args)]
pub struct Install {
    /// The agent's id or its organisation's name, with a range or version after @, such as urn:althing:z…:echo@^1 or
    /// example.org/echo@^1.
    pub reference: String,
    /// Its name here [default: its own].
    // An id of its own: the global `--name` would take the value.
    #[arg(long = "as", id = "as", value_name = "NAME")]
    pub agent: Option<String>,
    /// Who may call it and sees it, if it is an agent: this-node, own, trusted or anyone.
    #[arg(long, default_value = "this-node", value_parser = ["this-node", "own", "trusted", "anyone"])]
    pub callers: String,
    /// A release younger than 72 hours will do, although its publisher is not trusted.
    #[arg(long)]
    pub young: bool,
    /// Let its programs run without a sandbox, or outside of the release's folder, if the release asks for that.
    #[arg(long, value_name = "none", value_parser = ["none"])]
    pub sandbox: Option<String>,
    /// Whose it must be (urn:althing:z…): needed where the name led to another publisher when something was installed by it.
    #[arg(long, value_name = "URN")]
    pub publisher: Option<String>,
    /// Agree to it without being asked.
    #[arg(long)]
    pub yes: bool,
    /// Which registry, by name or address [default: the only one].
    #[arg(long)]
    pub registry: Option<String>,
    /// How newer releases in its range come: when you ask for them, or each by a rollout that begins by itself.
    #[arg(long, value_enum, default_value_t = UpdateBy::Asked)]
    pub update: UpdateBy,
}

/// How newer releases of what was installed come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UpdateBy {
    /// `althing update` brings them.
    Asked,
    /// Each of them begins a rollout by itself, unless it may do more than the one before.
    Rollout,
}

/// `althing update`
#[derive(Debug, Clone, clap::Args)]
pub struct Update {
    /// The name of an agent or a workflow that was installed.
    // An id of its own: the global `--name` would take the value.
    #[arg(id = "agent", value_name = "NAME")]
    pub agent: String,
    /// A release younger than 72 hours will do, although its publisher is not trusted.
    #[arg(long)]
    pub young: bool,
    /// Let its programs run without a sandbox, or outside of the release's folder, if the release asks for that.
    #[arg(long, value_name = "none", value_parser = ["none"])]
    pub sandbox: Option<String>,
    /// Go over to this publisher (urn:althing:z…), to whom the name leads by now that it was installed by.
    #[arg(long, value_name = "URN")]
    pub publisher: Option<String>,
    /// Agree to it without being asked.
    #[arg(long)]
    pub yes: bool,
    /// Update nothing now, and say how newer releases in its range come from now on.
    #[arg(long, value_enum, conflicts_with_all = ["young", "sandbox", "publisher", "yes"])]
    pub update: Option<UpdateBy>,
}

/// `althing uninstall`
#[derive(Debug, Clone, clap::Args)]
pub struct Uninstall {
    /// Its name here. Runs of a workflow that began go on.
    // An id of its own: the global `--name` would take the value.
    #[arg(id = "installed", value_name = "NAME")]
    pub installed: String,
}

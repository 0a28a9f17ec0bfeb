//! The command line of organisations.

use clap::Subcommand;

/// `althing org`
#[derive(Debug, Clone, Subcommand)]
pub enum Org {
    /// Become an organisation in a registry, or change its domain and how many approve; this node renews its roster.
    Init {
        /// Its domain, such as example.org.
        domain: String,
        /// How many of those who may approve must approve a release.
        #[arg(long, default_value_t = 1)]
        approvals: u8,
        /// Which registry, by name or address [default: the only one].
        #[arg(long)]
        registry: Option<String>,
    },
    /// Let the registry look for the proof of the domain, and say what it found.
    Prove {
        /// Which registry, by name or address [default: the only one].
        #[arg(long)]
        registry: Option<String>,
    },
    /// Give a member roles and names, or take all of them.
    Member {
        /// The member (urn:althing:z…); without one the organisation is shown.
        publisher: Option<String>,
        /// What it may do: read, stage or approve; may be repeated. Without one it is no member any more.
        #[arg(long = "role")]
        roles: Vec<String>,
        /// Names of agents that this is about, such as billing or pay-*; may be repeated.
        // An id of its own: the global `--name` would take the value.
        #[arg(long = "agents", id = "agents", value_name = "PATTERN")]
        names: Vec<String>,
        /// Which registry, by name or address [default: the only one].
        #[arg(long)]
        registry: Option<String>,
    },
    /// List every entry of a registry's log that is about you: your agents, your roster, your domain.
    Watch {
        /// From which entry on.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Which registry, by name or address [default: the only one].
        #[arg(long)]
        registry: Option<String>,
    },
}

//! `althing tap`

/// `althing tap`
#[derive(Debug, Clone, clap::Args)]
pub struct Tap {
    /// Only messages about this agent, by name or id.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Only messages to or from this node (did:key:z6Mk…).
    #[arg(long, value_name = "NODE")]
    pub peer: Option<String>,
    /// Only of protocols whose name has this in it, such as call or raft; `althing` shows all. Without it, what keeps the mesh and
    /// groups running is left out.
    #[arg(long)]
    pub protocol: Option<String>,
    /// End after so many messages.
    #[arg(long)]
    pub count: Option<u64>,
}

//! `althing logs`

/// `althing logs`
#[derive(Debug, Clone, clap::Args)]
pub struct Logs {
    /// The agent, of this node.
    pub agent: String,
    /// Go on with what they say from now on, until Ctrl-C.
    #[arg(long, short)]
    pub follow: bool,
}

//! `althing events`

/// `althing events`
#[derive(Debug, Clone, clap::Args)]
pub struct Events {
    /// Begin with those after the event of this number (`id` of `--json`); 0 shows how everything is first. Without it, what
    /// happens from now on is shown.
    #[arg(long, value_name = "ID")]
    pub after: Option<u64>,
    /// End after so many events.
    #[arg(long)]
    pub count: Option<u64>,
}

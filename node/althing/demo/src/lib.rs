//! `althing demo`: the main job on this machine, with real processes, shown as it happens.
//!
//! **Inputs**: [`Demo`], and [`Ports`]. **Outputs**: steps and times on standard output; a [`DemoError`] if a step fails.

mod assembly;
mod chapter;
mod error;
mod faces;
mod gateway;
mod governance;
mod groups;
mod intruder;
mod kernel;
mod registry;
mod server;
mod sessions;
mod stage;
mod versions;

use std::path::PathBuf;

use althing_client::Out;
use althing_communication::{Entropy, WallClock};

pub use error::DemoError;

/// `althing demo`
#[derive(Debug, Clone, clap::Args)]
pub struct Demo {
    /// Which chapter; all, when none is named.
    #[arg(value_parser = ["assembly", "kernel", "groups", "faces", "registry", "sessions", "governance", "versions"])]
    pub chapter: Option<String>,
    /// The folder of text files that the knowledge agent is given.
    #[arg(long)]
    pub docs: Option<PathBuf>,
    /// The question that it is asked.
    #[arg(long, default_value = "How do nodes find each other on a LAN?")]
    pub question: String,
}

/// What the demo is handed.
pub struct Ports {
    /// The program that its nodes run.
    pub program: PathBuf,
    /// The time of day.
    pub clock: WallClock,
    /// Randomness.
    pub entropy: Entropy,
}

/// Plays one chapter, or all.
///
/// # Errors
/// See [`DemoError`].
pub async fn run(demo: &Demo, out: &Out, ports: &Ports) -> Result<(), DemoError> {
    let mut stage = stage::Stage::new(out.json);
    let played = match demo.chapter.as_deref() {
        Some("assembly") => assembly::play(&mut stage, demo, ports).await,
        Some("kernel") => kernel::play(&mut stage, &ports.program).await,
        Some("groups") => groups::play(&mut stage, &ports.program).await,
        Some("faces") => faces::play(&mut stage, &ports.program).await,
        Some("registry") => registry::play(&mut stage, &ports.program).await,
        Some("sessions") => sessions::play(&mut stage, &ports.program).await,
        Some("governance") => governance::play(&mut stage, &ports.program).await,
        Some("versions") => versions::play(&mut stage, &ports.program).await,
        Some(other) => Err(DemoError::NoChapter(other.to_owned())),
        None => all(&mut stage, demo, ports).await,
    };
    stage.close(played)
}

async fn all(stage: &mut stage::Stage, demo: &Demo, ports: &Ports) -> Result<(), DemoError> {
    assembly::play(stage, demo, ports).await?;
    kernel::play(stage, &ports.program).await?;
    groups::play(stage, &ports.program).await?;
    faces::play(stage, &ports.program).await?;
    registry::play(stage, &ports.program).await?;
    sessions::play(stage, &ports.program).await?;
    governance::play(stage, &ports.program).await?;
    versions::play(stage, &ports.program).await
}

//! `althing demo`: the main job on this machine, with real processes, shown as it happens.

mod assembly;
mod intruder;
mod kernel;
pub mod nodes;
mod stage;

use crate::args::Demo;
use crate::commands::Out;
use crate::exit::Failure;

/// Plays one chapter, or all.
pub async fn run(demo: &Demo, out: &Out) -> Result<(), Failure> {
    let mut stage = stage::Stage::new(out.json);
    let played = match demo.chapter.as_deref() {
        Some("assembly") => assembly::play(&mut stage, demo).await,
        Some("kernel") => kernel::play(&mut stage).await,
        Some(other) => Err(Failure::usage(format!("there is no chapter {other:?}"))),
        None => match assembly::play(&mut stage, demo).await {
            Ok(()) => kernel::play(&mut stage).await,
            failed => failed,
        },
    };
    stage.close(played)
}

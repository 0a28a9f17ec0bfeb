//! `althing demo`: the main job on this machine, with real processes, shown as it happens.

mod assembly;
mod intruder;
mod nodes;
mod stage;

use crate::args::Demo;
use crate::commands::Out;
use crate::exit::Failure;

/// Plays one chapter, or all.
pub async fn run(demo: &Demo, out: &Out) -> Result<(), Failure> {
    let mut stage = stage::Stage::new(out.json);
    let chapter = demo.chapter.as_deref().unwrap_or("assembly");
    let played = match chapter {
        "assembly" => assembly::play(&mut stage, demo).await,
        other => Err(Failure::usage(format!("there is no chapter {other:?}"))),
    };
    stage.close(played)
}

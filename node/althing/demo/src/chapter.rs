//! A chapter of nodes in a folder of their own.

use std::path::Path;

use althing_client::NodeProcess;

use crate::error::DemoError;
use crate::stage::{Stage, stop_signal};

/// Plays scenes, which start nodes of `program` in a folder that is removed afterwards; stops every node in any case.
pub async fn play(
    stage: &mut Stage,
    program: &Path,
    scenes: impl AsyncFnOnce(&mut Stage, &Path, &Path, &mut Vec<NodeProcess>) -> Result<(), DemoError>,
) -> Result<(), DemoError> {
    let folder = tempfile::Builder::new().prefix("althing-demo-").tempdir();
    let folder = folder.map_err(DemoError::Folder)?;
    let mut nodes = Vec::new();
    let played = tokio::select! {
        played = scenes(stage, program, folder.path(), &mut nodes) => played,
        () = stop_signal() => Err(DemoError::Interrupted),
    };
    // A frozen process does not end before it goes on.
    nodes.iter().for_each(NodeProcess::thaw);
    futures::future::join_all(nodes.iter_mut().map(NodeProcess::stop)).await;
    played
}

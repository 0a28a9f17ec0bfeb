//! Commands by which what is measured beside this project is fetched.

use std::process::Stdio;

use tokio::process::Command;

/// Runs a command to its end.
///
/// # Errors
/// The last line of what it said, if it failed.
pub async fn done(command: &mut Command) -> Result<(), String> {
    let ended = command.stdin(Stdio::null()).output().await.map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    if ended.status.success() { Ok(()) } else { Err(said.lines().next_back().unwrap_or("it failed").to_owned()) }
}

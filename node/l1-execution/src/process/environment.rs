//! The environment of programs: the node's own environment may hold keys and passwords.

use std::ffi::OsString;

/// The variables that programs inherit from the node; all others come from the agent file.
const HANDED_ON: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];

/// The inherited variables of every agent's program.
#[must_use]
pub fn environment() -> Vec<(OsString, OsString)> {
    HANDED_ON.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?))).collect()
}

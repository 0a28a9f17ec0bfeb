//! What a program finds in its environment: the node's own holds keys and passwords of whoever started it.

use std::ffi::OsString;

/// The variables of the node's that programs are handed, where they are set; everything else the agent file names.
const HANDED_ON: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];

/// The variables that every program of an agent is handed.
#[must_use]
pub fn environment() -> Vec<(OsString, OsString)> {
    HANDED_ON.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?))).collect()
}

//! `althing-keeper`: keeps one program of a node. A node starts it; see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    althing_keeper::keep()
}

//! Waiting for what has no descriptor to wait for.

use nix::poll::{PollTimeout, poll};

/// Waits so many milliseconds, or until a signal comes.
pub(crate) fn pause(milliseconds: u16) {
    // An interruption makes it shorter.
    let _ = poll(&mut [], PollTimeout::from(milliseconds));
}

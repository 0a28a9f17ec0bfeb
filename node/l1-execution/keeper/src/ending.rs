//! The end of a program with all that it started.

use std::io;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::bounding::Bounding;
use crate::descendants::signal_all;
use crate::pause::pause;

/// The exit code of what a signal ended, less the signal's number.
pub(crate) const BY_SIGNAL: i32 = 128;
/// Between two looks at whether what was killed has ended.
const KILL_PAUSE_MS: u16 = 5;

/// Takes what ended; gives the program's exit code if it did.
pub(crate) fn reap(program: Pid) -> io::Result<Option<i32>> {
    loop {
        let (pid, status) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => (pid, code),
            Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, BY_SIGNAL + signal as i32),
            Ok(WaitStatus::StillAlive) => return Ok(None),
            Ok(_) | Err(Errno::EINTR) => continue,
            // Without children there is no program either.
            Err(Errno::ECHILD) => return Ok(Some(BY_SIGNAL + Signal::SIGKILL as i32)),
            Err(error) => return Err(error.into()),
        };
        if pid == program {
            return Ok(Some(status));
        }
    }
}

/// Kills everything below this process, and waits until it is gone; the program's exit code.
pub(crate) fn killed(program: Pid, bounding: &Bounding) -> io::Result<i32> {
    loop {
        kill_all(bounding);
        if let Some(status) = reap(program)? {
            return Ok(status);
        }
        pause(KILL_PAUSE_MS);
    }
}

/// Ends whatever the program left, and waits until nothing is below this process.
pub(crate) fn end_all(bounding: &Bounding) {
    while kill_all(bounding) {
        pause(KILL_PAUSE_MS);
        while matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(status) if status != WaitStatus::StillAlive) {}
    }
}

/// Kills what is below this process, and what is in the program's control groups; whether anything was.
fn kill_all(bounding: &Bounding) -> bool {
    let in_groups = bounding.kill();
    signal_all(Signal::SIGKILL) > 0 || in_groups
}

//! The enclosure of programs on Linux.
//!
//! **Input**: the grants of a program, and the level. **Output**: this process in namespaces of its own
//! ([`namespaces::enter`]), and locked ([`lock`]) before it becomes the program; and what the program tries after that
//! ([`calls`]).
//!
//! **Invariants**
//! - What cannot be done is a [`crate::Failure`]: no step is left out in silence.
//! - A path is judged and used by one descriptor; what became a link in between is refused.
//! - Nothing that was locked can be unlocked, by the program or by what it starts.
//!
//! **Never knows**: what the program is, or who waits for it.

pub mod calls;
pub mod capabilities;
mod disk;
mod landlock;
mod mounts;
pub mod namespaces;
pub mod sys;

use nix::sys::prctl;

use crate::failure::Failure;
use crate::job::{Level, Listener};
use crate::machine::filter::filter;
use crate::machine::grants::Grants;

/// In the process that becomes the program, last before it does: no new privileges, no capabilities, Landlock, and the
/// filter of system calls. Nothing of that at [`Level::None`], and no Landlock at [`Level::Account`]: there is none. At
/// [`Level::Landlock`] the program may bind and connect to `ports` alone, and listens at nothing but its [`Listener`], of which one of
/// its own cannot be told from others. Gives the version of Landlock (its ABI) that was used; 0: none. Before version 4 it knows nothing
/// of ports, before 6 of signals and abstract sockets, and before 9 it lets a program connect to any Unix socket that
/// the account can reach.
///
/// # Errors
/// What could not be done; the process may then be locked in part, and must end.
pub fn lock((level, listener): (Level, Listener), grants: &Grants, ports: &[u16]) -> Result<u8, Failure> {
    if level == Level::None {
        return Ok(0);
    }
    let programs = filter(level, listener).map_err(|why| Failure::of("compile the filter of system calls", why))?;
    prctl::set_no_new_privs().map_err(|why| Failure::of("give up new privileges", why))?;
    capabilities::drop_all().map_err(|why| Failure::of("drop capabilities", why))?;
    let version = if level == Level::Account { 0 } else { landlock::restrict(level, grants, ports)? };
    for program in &programs {
        seccompiler::apply_filter(program).map_err(|why| Failure::of("install the filter of system calls", why))?;
    }
    Ok(version)
}

#[cfg(test)]
mod tests;

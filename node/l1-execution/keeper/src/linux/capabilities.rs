//! Capabilities: a program has none, and gets none by what it starts.

use nix::Result;
use nix::errno::Errno;
use nix::libc::c_ulong;

use super::sys;

/// The kernel's sets have this many bits.
const CAPABILITIES_MAX: c_ulong = 64;

/// Drops all capabilities, for this process and whatever it becomes. `no_new_privs` is set before.
///
/// # Errors
/// The system's.
pub(super) fn drop_all() -> Result<()> {
    drop_bounding()?;
    sys::drop_capabilities()
}

/// Takes all capabilities out of those that this process and its children may ever have; those that it has it keeps.
///
/// # Errors
/// The system's.
pub(crate) fn drop_bounding() -> Result<()> {
    for capability in 0..CAPABILITIES_MAX {
        match sys::drop_bounding(capability) {
            Ok(()) => {}
            // The last one is behind; or this process may not, which has then nothing to hand on, and `no_new_privs`
            // keeps programs from gaining any.
            Err(Errno::EINVAL | Errno::EPERM) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

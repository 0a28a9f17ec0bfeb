//! Landlock: what the kernel lets a process do with files, ports and other processes, whatever its account may.

use std::os::fd::OwnedFd;

use ::landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, PathBeneath, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::{Mode, fstat};

use super::disk::{Disk, held};
use crate::failure::Failure;
use crate::job::Level;
use crate::machine::grants::Grants;
use crate::machine::rules::{self, Access};

/// What is asked for; the library leaves out what the kernel does not have.
const BEST: ABI = ABI::V10;
/// The step of failures.
const STEP: &str = "restrict the program with Landlock";

/// Restricts this process, and whatever it becomes and starts, to its grants. At [`Level::Landlock`] also to those TCP
/// ports, of any host. Gives the version of Landlock (its ABI) that was used; 0: the kernel has none.
///
/// # Errors
/// The rules are too many, or cannot be made; at [`Level::Landlock`] also where the kernel has no Landlock.
pub(super) fn restrict(level: Level, grants: &Grants, ports: &[u16]) -> Result<u8, Failure> {
    let failure = |why: RulesetError| Failure::of(STEP, why);
    let among_others = level != Level::Namespaces;
    let rules = if among_others {
        rules::beside(grants, &Disk).map_err(|why| Failure::of(STEP, why))?
    } else {
        rules::within(grants, &Disk)
    };
    let root = open("/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).map_err(|why| Failure::of("open /", why))?;
    let mut ruleset = handled(among_others).map_err(failure)?;
    for (at, access) in &rules {
        let found = match held(&root, at) {
            Ok(found) => found,
            // It is gone, or the account cannot reach it either.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => continue,
            Err(why) => return Err(Failure::of(format!("{STEP}: {}", at.display()), why)),
        };
        let allowed = rights(*access, &found).map_err(|why| Failure::of(format!("{STEP}: {}", at.display()), why))?;
        ruleset = ruleset.add_rule(PathBeneath::new(found, allowed)).map_err(failure)?;
    }
    if among_others {
        for port in ports {
            let allowed = AccessNet::BindTcp | AccessNet::ConnectTcp;
            ruleset = ruleset.add_rule(NetPort::new(*port, allowed)).map_err(failure)?;
        }
    }
    let status = ruleset.restrict_self().map_err(failure)?;
    match status.landlock {
        LandlockStatus::Available { effective_abi, .. } if status.ruleset != RulesetStatus::NotEnforced => {
            Ok(effective_abi as u8)
        }
        _ if among_others => Err(Failure::lacking(
            STEP,
            "this kernel has no Landlock, or it was started without (CONFIG_SECURITY_LANDLOCK, and landlock among lsm=)",
        )),
        _ => Ok(0),
    }
}

/// All that is forbidden but for rules.
fn handled(among_others: bool) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(BEST))?.scope(Scope::from_all(BEST))?;
    if among_others {
        ruleset = ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
    }
    ruleset.create()
}

/// The kernel's rights; of what is no folder, those that files have.
fn rights(access: Access, of: &OwnedFd) -> nix::Result<BitFlags<AccessFs>> {
    let rights: BitFlags<AccessFs> = match access {
        Access::List => AccessFs::ReadDir.into(),
        Access::Read => AccessFs::from_read(BEST),
        Access::Write => AccessFs::from_all(BEST),
    };
    let is_folder = fstat(of)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
    Ok(if is_folder { rights } else { rights & AccessFs::from_file(BEST) })
}

//! The limits of processes (getrlimit(2)): those of a keeper, and those of its program.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use crate::failure::Failure;
use crate::job::{Bound, Bounds, Limits};
use crate::linux::sys;

/// Lets this process, and what it starts, have as many files open at once as its account may; gives how many it might before. The
/// kernel lets nobody hand descriptors over (`SCM_RIGHTS`) who may have fewer open than are under way for the whole account, those of
/// its programs among them.
pub(crate) fn raise_files() -> nix::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // An error means that the machine gives fewer by now (`fs.nr_open`): then it stays as it is.
    let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    Ok(soft)
}

/// Limits this process, what it becomes and what it starts. Of files it may have `files` open at once, and may raise that up to its
/// limit, as what the account starts otherwise.
pub(crate) fn limit(limits: &Limits, bounds: &Bounds, files: u64) -> Result<(), Failure> {
    let processes = if bounds.processes == Bound::Limits { limits.processes } else { 0 };
    let most = |most: u64| if most > 0 { most } else { RLIM_INFINITY };
    let all = [
        (Resource::RLIMIT_DATA, most(limits.memory_kib.saturating_mul(1_024)), "limit its memory"),
        (Resource::RLIMIT_NOFILE, most(limits.files.into()), "limit its open files"),
        (Resource::RLIMIT_FSIZE, most(limits.file_kib.saturating_mul(1_024)), "limit the sizes of its files"),
        (Resource::RLIMIT_NPROC, most(processes.into()), "limit its processes"),
        // What the account may for its node, no program may: others would wait for it.
        (Resource::RLIMIT_RTPRIO, 0, "keep it from the scheduler's real-time classes"),
        (Resource::RLIMIT_NICE, 0, "keep it from going before others"),
        // What it has in memory when it crashes may be a secret.
        (Resource::RLIMIT_CORE, 0, "keep its memory out of files"),
    ];
    for (resource, most, step) in all {
        let lowered = getrlimit(resource).and_then(|(now, ever)| {
            let soft = if resource == Resource::RLIMIT_NOFILE { files } else { now };
            let wanted = (soft.min(ever).min(most), ever.min(most));
            if wanted == (now, ever) { Ok(()) } else { setrlimit(resource, wanted.0, wanted.1) }
        });
        lowered.map_err(|error| Failure::of(step, error.desc()))?;
    }
    if limits.idle {
        sys::run_idle();
    }
    Ok(())
}

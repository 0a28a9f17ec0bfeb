//! From a keeper's child to the program.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::OpenOptions;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::{AccessFlags, Pid, access, chdir, execve, getpid, getppid};

use serde::{Deserialize, Serialize};

use crate::account;
use crate::failure::Failure;
use crate::job::{Bounds, Descriptor, Enclosure, Job, Level, Listener};
use crate::limits::limit;
use crate::linux::{lock, sys};
use crate::machine::gaps::suffices;
use crate::machine::grants::Grants;
use crate::naming::hand_over;

/// Where programs are looked for without a `PATH`.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
/// What executes a script that does not name its interpreter, as every shell does it.
const SHELL: &str = "/bin/sh";
/// The first descriptor after the standard ones, which a handed socket gets (sd_listen_fds(3)).
const FIRST_SOCKET: RawFd = 3;
/// Which process a handed socket is meant for.
const LISTEN_PID: &str = "LISTEN_PID";

/// What holds a program, beside its job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// How it is enclosed.
    pub level: Level,
    /// How it is held to its limits.
    pub bounds: &'a Bounds,
    /// How many files it has open at once, unless it raises that: as many as what its account starts otherwise.
    pub files: u64,
    /// Where it puts temporary files, if it has an account of its own.
    pub temporary: Option<&'a Path>,
}

/// Becomes the program, locked in and bounded, with its calls handed to its keeper. Comes back only with what went wrong.
pub(crate) fn become_program(job: &Job, descriptors: &[OwnedFd], terms: Terms<'_>, keeper: BorrowedFd<'_>) -> Obstacle {
    match prepare(job, descriptors, terms, keeper) {
        Ok((arguments, variables)) => Obstacle::Program(execute(job, &arguments, &variables)),
        Err(obstacle) => obstacle,
    }
}

/// Why a program does not run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Obstacle {
    /// It cannot be enclosed so.
    Enclosure(Failure),
    /// It cannot be put into its control groups.
    Group(Failure),
    /// It cannot be started, however it is enclosed.
    Program(Failure),
}

impl From<Failure> for Obstacle {
    fn from(failure: Failure) -> Obstacle {
        Obstacle::Program(failure)
    }
}

/// Everything before the program is executed: gives its arguments and its environment.
fn prepare(
    job: &Job,
    descriptors: &[OwnedFd],
    Terms { level, bounds, files, temporary }: Terms<'_>,
    keeper: BorrowedFd<'_>,
) -> Result<(Vec<CString>, Vec<CString>), Obstacle> {
    let text = |text: &str| CString::new(text).map_err(|error| Failure::of("read its command", error));
    let arguments = job.command.iter().map(|word| text(word)).collect::<Result<Vec<_>, _>>()?;
    let is_handed = job.descriptors.contains(&Descriptor::Socket);
    let mut variables = environment(job, level, temporary);
    if is_handed {
        variables.insert(LISTEN_PID.to_owned(), getpid().to_string());
    }
    let variables = variables.iter().map(|(name, value)| text(&format!("{name}={value}")));
    let variables = variables.collect::<Result<Vec<_>, _>>()?;
    let step = |step: &'static str| move |error: Errno| Failure::of(step, error.desc());
    place(job, descriptors).map_err(step("hand it its descriptors"))?;
    if level == Level::Account {
        change_account(job, descriptors).map_err(Obstacle::Enclosure)?;
    }
    chdir(&job.folder).map_err(|error| Failure::of(format!("enter {}", job.folder.display()), error.desc()))?;
    sys::default_signals();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None).map_err(step("let it have its signals"))?;
    sys::close_at_exec(if is_handed { FIRST_SOCKET + 1 } else { FIRST_SOCKET }).map_err(step("close descriptors"))?;
    enclose(job, level, keeper).map_err(Obstacle::Enclosure)?;
    // Not before its calls are handed over: who may have few files open may hand none over while others of the account do.
    limit(&job.limits, bounds, files)?;
    Ok((arguments, variables))
}

/// Takes the program's own account, in place of the node's: before anything is looked for that only the node's may see.
fn change_account(job: &Job, descriptors: &[OwnedFd]) -> Result<(), Failure> {
    let Some(enclosure) = &job.enclosure else { return Ok(()) };
    let Some(own) = &enclosure.account else { return Ok(()) };
    let number = account::number(own)?;
    for pipe in descriptors {
        let given = account::give_pipe(pipe, number);
        given.map_err(|error| Failure::of("give its account its pipes", error.desc()))?;
    }
    let keeper = getppid();
    account::take(number)?;
    // Whoever changes its account is bound to nobody's end any more.
    ends_with(keeper)?;
    account::check(own, &enclosure.grants.hidden)
}

/// Has the kernel end this process with the one that started it.
pub(crate) fn ends_with(parent: Pid) -> Result<(), Failure> {
    let step = |why: &dyn std::fmt::Display| Failure::of("bind it to its keeper", why);
    set_pdeathsig(Signal::SIGKILL).map_err(|error| step(&error.desc()))?;
    // It may have ended before.
    if getppid() == parent { Ok(()) } else { Err(step(&"the keeper is gone")) }
}

/// What its environment is by a level.
fn environment(job: &Job, level: Level, temporary: Option<&Path>) -> BTreeMap<String, String> {
    let mut variables = job.environment.clone();
    if let Some(enclosure) = job.enclosure.as_ref().filter(|_| level != Level::Namespaces) {
        variables.extend(enclosure.shared_environment.clone());
    }
    if let Some(temporary) = place_of_temporary(job, level, temporary) {
        variables.insert("TMPDIR".to_owned(), temporary);
    }
    variables
}

/// Where the program puts temporary files; none if it shares those of the account.
fn place_of_temporary(job: &Job, level: Level, own: Option<&Path>) -> Option<String> {
    let enclosure = job.enclosure.as_ref()?;
    match level {
        Level::None => None,
        Level::Account => own.map(|own| own.to_string_lossy().into_owned()),
        Level::Landlock => Some(enclosure.temporary.to_string_lossy().into_owned()),
        Level::Namespaces => Some("/tmp".to_owned()),
    }
}

/// Encloses this process by a level, as far as the process does that itself. From then on its calls wait for the keeper.
fn enclose(job: &Job, level: Level, keeper: BorrowedFd<'_>) -> Result<(), Failure> {
    let Some(enclosure) = job.enclosure.as_ref().filter(|_| level != Level::None) else { return Ok(()) };
    let listener = job.listener();
    let version = lock((level, listener), &granted(enclosure, level), &enclosure.ports)?;
    if level == Level::Landlock && enclosure.required {
        // The next level is none that holds more: who requires it is told all that is lacking.
        let suffices = suffices(version, listener == Listener::Own);
        suffices.map_err(|why| Failure::lacking("contain it by Landlock alone", why))?;
    }
    // What is refused to another account is no matter of an agent's file, by which it could be named.
    if level == Level::Account { Ok(()) } else { hand_over(keeper, version) }
}

/// What it is granted by a level.
pub(crate) fn granted(enclosure: &Enclosure, level: Level) -> Grants {
    let mut grants = enclosure.grants.clone();
    if level == Level::Landlock {
        grants.write.push(enclosure.temporary.clone());
    }
    grants
}

/// Gives each descriptor its number; what is standard and not given is nothing (`/dev/null`).
fn place(job: &Job, descriptors: &[OwnedFd]) -> Result<(), Errno> {
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null");
    let nothing = nothing.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or_default()))?;
    let nothing = OwnedFd::from(nothing);
    let given = |wanted| job.descriptors.iter().zip(descriptors).find(|(what, _)| **what == wanted).map(|(_, fd)| fd);
    for (wanted, number) in [(Descriptor::Input, 0), (Descriptor::Output, 1), (Descriptor::Error, 2)] {
        sys::place(given(wanted).unwrap_or(&nothing), number)?;
    }
    given(Descriptor::Socket).map_or(Ok(()), |socket| sys::place(socket, FIRST_SOCKET))
}

/// Executes the program, where the `PATH` of its environment finds it.
fn execute(job: &Job, arguments: &[CString], variables: &[CString]) -> Failure {
    let name = job.command.first().cloned().unwrap_or_default();
    let path = job.environment.get("PATH").map_or(PATH_DEFAULT, String::as_str);
    let mut why = Errno::ENOENT;
    for candidate in candidates(&name, path) {
        // To look costs less than to try, of which the keeper is told.
        if matches!(access(candidate.as_path(), AccessFlags::F_OK), Err(Errno::ENOENT | Errno::ENOTDIR)) {
            continue;
        }
        let Some(program) = candidate.to_str().and_then(|program| CString::new(program).ok()) else { continue };
        let Err(error) = execve(&program, arguments, variables);
        match error {
            Errno::ENOENT | Errno::ENOTDIR => {}
            Errno::ENOEXEC => {
                let shell = CString::new(SHELL).expect("it holds no zero");
                let mut script = vec![shell.clone(), program];
                script.extend(arguments.iter().skip(1).cloned());
                let Err(error) = execve(&shell, &script, variables);
                why = error;
            }
            // Another folder may have one that it may execute.
            error => why = error,
        }
    }
    Failure::of(format!("start {name:?}"), why.desc())
}

/// Where a program may be: as it is named, or in each folder of a `PATH`.
fn candidates(name: &str, path: &str) -> Vec<PathBuf> {
    if name.contains('/') {
        return vec![PathBuf::from(name)];
    }
    // An empty entry is the current folder (execvp(3)).
    path.split(':').map(|folder| Path::new(if folder.is_empty() { "." } else { folder }).join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_where_its_path_says() {
        let found = |name, path| candidates(name, path).into_iter().map(|found| found.display().to_string());
        assert_eq!(found("a/b", "/x").collect::<Vec<_>>(), ["a/b"]);
        assert_eq!(found("b", "/x::/y z").collect::<Vec<_>>(), ["/x/b", "./b", "/y z/b"]);
    }
}

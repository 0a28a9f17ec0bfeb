//! Keeps one program: starts it, tells the node of it, and ends it with all that it started, when the node says so and however
//! the node ends.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, dup2_stdin, getpid, pipe2, setsid};

use crate::channel::{read_job, tell};
use crate::descendants::signal_all;
use crate::failure::Failure;
use crate::job::{Job, Level, Order, Told};
use crate::program::become_program;
use crate::sys;

/// The name by which a node starts a keeper, whatever file it is in.
pub const NAME: &str = "althing-keeper";
/// The exit code of a keeper that keeps nothing.
const USAGE: u8 = 2;
/// The longest order of a node, bytes.
const ORDER_BYTES_MAX: usize = 256;
/// Between two looks at whether what was killed has ended, milliseconds.
const KILL_PAUSE: u16 = 5;
/// The exit code of what a signal ended, less the signal's number.
const BY_SIGNAL: i32 = 128;

/// Keeps the program of the job that comes by the channel, which is standard input.
#[must_use]
pub fn keep() -> ExitCode {
    match Keeper::open().and_then(|keeper| keeper.map(Keeper::run).transpose()) {
        Ok(status) => status.and_then(|status| u8::try_from(status).ok()).map_or(ExitCode::SUCCESS, ExitCode::from),
        Err(error) => {
            eprintln!("{NAME} is started by a node of althing, and by nobody else: {error}");
            ExitCode::from(USAGE)
        }
    }
}

/// If this process was started as a keeper ([`NAME`]), keeps a program; else none.
#[must_use]
pub fn keep_here() -> Option<ExitCode> {
    let name = std::env::args_os().next()?;
    (std::path::Path::new(&name).file_name()? == NAME).then(keep)
}

/// A keeper with its job.
struct Keeper {
    channel: UnixStream,
    signals: SignalFd,
    job: Job,
    descriptors: Vec<OwnedFd>,
}

/// Why a program is ended, and until when it may end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It shall not end.
    Not,
    /// At this time of the monotonic clock it is killed.
    At(Duration),
}

impl Keeper {
    /// Takes the job; none if the node is gone already.
    fn open() -> io::Result<Option<Keeper>> {
        let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let Some((job, descriptors)) = read_job(&channel)? else { return Ok(None) };
        let descriptors = descriptors.iter().map(sys::raise).collect::<nix::Result<Vec<_>>>()?;
        dup2_stdin(std::fs::File::open("/dev/null")?)?;
        // Signals of the node's terminal are the node's, and what is killed as a group is this one. An error means that it
        // leads a group already.
        let _ = setsid();
        // What loses its parent becomes a child of this process, which ends it.
        set_child_subreaper(true)?;
        sys::close_at_exec(3)?;
        let mask: SigSet = [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
        mask.thread_block()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Some(Keeper { channel, signals, job, descriptors }))
    }

    /// Keeps the program until it ended; gives its exit code.
    fn run(mut self) -> io::Result<i32> {
        let program = match self.start() {
            Ok(program) => program,
            Err(Failure { step, why }) => {
                tell(&self.channel, &Told::Failed { step, why })?;
                return Ok(0);
            }
        };
        // The program's ends of its pipes are its own: who reads them shall see when it closes them.
        self.descriptors.clear();
        // Who does not hear it is gone, which the next look at the channel shows.
        let _ = tell(&self.channel, &Told::Started { level: Level::None, why: String::new() });
        let status = self.watch(program)?;
        end_all();
        let _ = tell(&self.channel, &Told::Ended { status });
        Ok(status)
    }

    /// Starts the program.
    fn start(&self) -> Result<Pid, Failure> {
        let step = |error: Errno| Failure::of("start a process", error.desc());
        let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(step)?;
        let keeper = getpid();
        let Some(program) = sys::fork(CloneFlags::empty()).map_err(step)? else {
            let failure = match ends_with(keeper) {
                Ok(()) => become_program(&self.job, &self.descriptors, || Ok(())),
                Err(failure) => failure,
            };
            let _ = tell(std::fs::File::from(write), &failure);
            std::process::exit(1);
        };
        drop(write);
        // Nothing comes, and the pipe is closed, when the program is executed.
        let mut told = String::new();
        std::fs::File::from(read).read_to_string(&mut told).map_err(|error| Failure::of("hear of it", error))?;
        match serde_json::from_str(&told) {
            Ok(failure) => Err(failure),
            Err(_) => Ok(program),
        }
    }

    /// Waits until the program has ended, or is ended; gives its exit code.
    fn watch(&mut self, program: Pid) -> io::Result<i32> {
        let (mut ending, mut is_listening) = (Ending::Not, true);
        loop {
            if let Some(status) = reap(program)? {
                return Ok(status);
            }
            let timeout = match ending {
                Ending::Not => PollTimeout::NONE,
                Ending::At(time) => match time.checked_sub(now()?) {
                    Some(left) if !left.is_zero() => PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
                    _ => return killed(program),
                },
            };
            let asked = if is_listening { PollFlags::POLLIN } else { PollFlags::empty() };
            let mut ready =
                [PollFd::new(self.channel.as_fd(), asked), PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ready, timeout) {
                Err(Errno::EINTR) | Ok(0) => continue,
                other => other?,
            };
            let [heard, signalled] = ready.map(|ready| ready.any().unwrap_or_default());
            while let Some(signal) = self.signals.read_signal()?.filter(|_| signalled) {
                if i32::try_from(signal.ssi_signo) != Ok(Signal::SIGCHLD as i32) {
                    return killed(program);
                }
            }
            if heard && is_listening {
                let order = self.order()?;
                is_listening = order.is_some();
                let grace = match order {
                    Some(Order::End { grace_ms }) => {
                        signal_all(Signal::SIGTERM);
                        grace_ms
                    }
                    None => self.job.orphan_ms,
                };
                ending = Ending::At(now()? + Duration::from_millis(grace));
            }
        }
    }

    /// What the node says; none if it is gone.
    fn order(&self) -> io::Result<Option<Order>> {
        let mut line = Vec::new();
        let mut byte = [0_u8];
        while line.len() < ORDER_BYTES_MAX {
            // A node that was killed while it wrote is gone too.
            match (&self.channel).read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) if byte[0] == b'\n' => break,
                Ok(_) => line.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        // What is no order comes from no node: then this ends as without one.
        Ok(serde_json::from_slice(&line).ok())
    }
}

/// Has the kernel end this process with the one that started it.
fn ends_with(parent: Pid) -> Result<(), Failure> {
    let step = |why: &dyn std::fmt::Display| Failure::of("bind it to its keeper", why);
    set_pdeathsig(Signal::SIGKILL).map_err(|error| step(&error.desc()))?;
    // It may have ended before.
    if nix::unistd::getppid() == parent { Ok(()) } else { Err(step(&"the keeper is gone")) }
}

/// The monotonic clock.
fn now() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from)
}

/// Takes what ended; gives the program's exit code if it did.
fn reap(program: Pid) -> io::Result<Option<i32>> {
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
fn killed(program: Pid) -> io::Result<i32> {
    loop {
        signal_all(Signal::SIGKILL);
        if let Some(status) = reap(program)? {
            return Ok(status);
        }
        pause();
    }
}

/// Ends whatever the program left, and waits until nothing is below this process.
fn end_all() {
    while signal_all(Signal::SIGKILL) > 0 {
        pause();
        while matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(status) if status != WaitStatus::StillAlive) {}
    }
}

fn pause() {
    // An interruption makes the pause shorter.
    let _ = poll(&mut [], PollTimeout::from(KILL_PAUSE));
}

//! Keeps one program: starts it, tells the node of it and of what it is refused, and ends it with all that it started, when the
//! node says so and however the node ends.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::prctl::{set_child_subreaper, set_dumpable, set_pdeathsig};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{self, Gid, Pid, Uid, dup2_stdin, getegid, geteuid, getpid, pipe2, setsid};

use crate::account::TemporaryFolder;
use crate::bounding::Bounding;
use crate::bridge::lead;
use crate::channel::{give_listeners, read_job, tell};
use crate::clock::now;
use crate::descendants::signal_all;
use crate::ending::{BY_SIGNAL, end_all, killed, reap};
use crate::failure::Failure;
use crate::job::{Bounds, Descriptor, Enclosure, Job, Level, Listener, Order, Told};
use crate::limits::raise_files;
use crate::linux::calls::reach;
use crate::linux::namespaces::{NAMESPACES, enter};
use crate::linux::sys;
use crate::machine::gaps::LISTENS;
use crate::naming::{Handover, Naming};
use crate::program::{Obstacle, Terms, become_program, ends_with, granted};
use crate::start::{NAME, begin_with_keeping};

/// The descriptor of the bridge in the first process of namespaces, which has no others but the standard ones.
const BRIDGE: RawFd = 3;
/// The exit code of a keeper that keeps nothing.
const USAGE: u8 = 2;
/// The longest order of a node, bytes.
const ORDER_BYTES_MAX: usize = 256;

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

/// If this process was started as a keeper ([`NAME`]), keeps a program; else none, and it may start itself as one.
#[must_use]
pub fn keep_here() -> Option<ExitCode> {
    begin_with_keeping();
    let name = std::env::args_os().next()?;
    (Path::new(&name).file_name()? == NAME).then(keep)
}

/// A keeper with its job.
struct Keeper {
    channel: UnixStream,
    signals: SignalFd,
    job: Job,
    descriptors: Vec<OwnedFd>,
    /// How many files its program has open at once, unless it raises that: the keeper has more itself.
    files: u64,
}

/// A program that runs: the process whose end is its own, how it is enclosed, why not more strongly, how it is bounded, what it
/// handed over, and its temporary files, where it has an account of its own.
struct Running {
    first: Pid,
    level: Level,
    why: String,
    bounds: Bounds,
    handover: Handover,
    temporary: Option<TemporaryFolder>,
}

/// What the first process has of its keeper until it is the program.
#[derive(Clone, Copy)]
struct Child<'a> {
    /// Where it tells why there is no program.
    pipe: BorrowedFd<'a>,
    /// The control groups that it is to be in.
    bounding: &'a Bounding,
    /// Where it hears that it is in those that it does not enter itself; none where there are none.
    placed: Option<BorrowedFd<'a>>,
    /// Where it hands over the names of its calls.
    calls: BorrowedFd<'a>,
    terms: Terms<'a>,
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
        dup2_stdin(File::open("/dev/null")?)?;
        // Signals of the node's terminal are the node's, and what is killed as a group is this one. An error means that it
        // leads a group already.
        let _ = setsid();
        // What loses its parent becomes a child of this process, which ends it.
        set_child_subreaper(true)?;
        sys::close_at_exec(3)?;
        let mask: SigSet = [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
        mask.thread_block()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let files = raise_files()?;
        Ok(Some(Keeper { channel, signals, job, descriptors, files }))
    }

    /// Keeps the program until it ended; gives its exit code.
    fn run(mut self) -> io::Result<i32> {
        let mut bounding = Bounding::new(&self.job.limits);
        let Running { first, level, why, bounds, handover, temporary } = match self.start(&mut bounding) {
            Ok(running) => running,
            Err(Failure { step, why, .. }) => {
                tell(&self.channel, &Told::Failed { step, why })?;
                return Ok(0);
            }
        };
        set_dumpable(false)?;
        // Who does not hear it is gone, which the next look at the channel shows.
        let Handover { naming, version } = handover;
        let _ = tell(&self.channel, &Told::Started { level, why, bounds, landlock: version });
        self.yield_to_others();
        // In namespaces of its own only the first process there reaches the program's loopback.
        if level != Level::Namespaces
            && let Some(bridge) = self.descriptor(Descriptor::Bridge)
        {
            self.bridge(bridge.try_clone()?);
        }
        // The program's ends of its pipes are its own: who reads them shall see when it closes them.
        self.descriptors.clear();
        let status = self.watch(first, naming, &bounding)?;
        end_all(&bounding);
        if bounding.ran_out() {
            let _ = tell(&self.channel, &Told::RanOut);
        }
        let _ = tell(&self.channel, &Told::Ended { status });
        temporary.into_iter().for_each(TemporaryFolder::clear);
        Ok(status)
    }

    /// Starts the program, enclosed as strongly as this machine can do it.
    fn start(&self, bounding: &mut Bounding) -> Result<Running, Failure> {
        // A level that this machine does not have leads to a weaker one. Whatever else goes wrong is no reason to let the program
        // reach more.
        let mut obstacles = Vec::new();
        for level in self.levels() {
            if let (Level::None, Some(enclosure)) = (level, &self.job.enclosure) {
                if enclosure.required && enclosure.account.is_some() {
                    obstacles.push("an account of its own would leave its network open".to_owned());
                }
                uncontained(enclosure.required, &obstacles)?;
            }
            let temporary = match self.temporary(level) {
                Ok(temporary) => temporary,
                Err(failure) if failure.is_lacking => {
                    obstacles.push(failure.to_string());
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            let attempt = self.attempt(level, bounding, temporary.as_ref().map(TemporaryFolder::path));
            let failure = match attempt {
                Ok((first, handover, bounds)) => {
                    obstacles.extend(self.unhidden(level));
                    obstacles.extend(self.listens(level));
                    return Ok(Running { first, level, why: obstacles.join("; "), bounds, handover, temporary });
                }
                Err(failure) => failure,
            };
            temporary.into_iter().for_each(TemporaryFolder::discard);
            match failure {
                Obstacle::Enclosure(failure) if failure.is_lacking => obstacles.push(failure.to_string()),
                Obstacle::Enclosure(failure) | Obstacle::Group(failure) | Obstacle::Program(failure) => {
                    return Err(failure);
                }
            }
        }
        let obstacles = obstacles.join("; ");
        Err(match self.job.enclosure.as_ref().and_then(|enclosure| enclosure.apart.as_ref()) {
            Some(why) => Failure::of("start it without a network of its own", format!("{why} ({obstacles})")),
            None => Failure::of("start it", obstacles),
        })
    }

    /// What is not known to be hidden by a level: another account is kept from it wherever it shows.
    fn unhidden(&self, level: Level) -> Option<String> {
        let enclosure = self.job.enclosure.as_ref().filter(|_| level >= Level::Landlock)?;
        enclosure.unhidden.clone()
    }

    /// What a level leaves open of a program that listens at a port by itself.
    fn listens(&self, level: Level) -> Option<String> {
        (level == Level::Landlock && self.job.listener() == Listener::Own).then(|| LISTENS.to_owned())
    }

    /// The levels by which its job may be enclosed, the strongest first. An account of its own does not bound its network, so it
    /// is none where that is required; and the strongest alone gives it a network.
    fn levels(&self) -> Vec<Level> {
        let Some(enclosure) = &self.job.enclosure else { return vec![Level::None] };
        if enclosure.apart.is_some() {
            return vec![Level::Namespaces];
        }
        let account = (enclosure.account.is_some() && !enclosure.required).then_some(Level::Account);
        [Level::Namespaces, Level::Landlock].into_iter().chain(account).chain([Level::None]).collect()
    }

    /// The folder for temporary files of a program that is to have an account of its own.
    fn temporary(&self, level: Level) -> Result<Option<TemporaryFolder>, Failure> {
        let account = self.job.enclosure.as_ref().and_then(|enclosure| enclosure.account.as_ref());
        let account = account.filter(|_| level == Level::Account);
        account.map(TemporaryFolder::make).transpose()
    }

    /// Starts the program, enclosed by that level; where it cannot be in its control groups, without them. Gives the process
    /// whose end is the program's, what it handed over, and how it is bounded.
    fn attempt(
        &self,
        level: Level,
        bounding: &mut Bounding,
        temporary: Option<&Path>,
    ) -> Result<(Pid, Handover, Bounds), Obstacle> {
        let bounds = bounding.bounds(&self.job.limits, level);
        match self.fork(level, bounding, &bounds, temporary) {
            Err(Obstacle::Group(failure)) => {
                bounding.give_up(&failure);
                let bounds = bounding.bounds(&self.job.limits, level);
                let (first, handover) = self.fork(level, bounding, &bounds, temporary)?;
                Ok((first, handover, bounds))
            }
            other => other.map(|(first, handover)| (first, handover, bounds)),
        }
    }

    /// Starts the program in its control groups, enclosed by that level.
    fn fork(
        &self,
        level: Level,
        bounding: &Bounding,
        bounds: &Bounds,
        temporary: Option<&Path>,
    ) -> Result<(Pid, Handover), Obstacle> {
        let step = |error: Errno| Failure::of("start a process", error.desc());
        let (read, write) = pipe2(OFlag::O_CLOEXEC).map_err(step)?;
        let placing = bounding.is_by_keeper().then(|| pipe2(OFlag::O_CLOEXEC)).transpose().map_err(step)?;
        let (handed, calls) = UnixStream::pair().map_err(|error| Failure::of("start a process", error))?;
        let (keeper, account) = (getpid(), (geteuid(), getegid()));
        let namespaces = if level == Level::Namespaces { NAMESPACES } else { CloneFlags::empty() };
        let forked = sys::fork(namespaces).map_err(|error| match level {
            Level::Namespaces if is_lacking(error) => {
                Obstacle::Enclosure(Failure::lacking("make namespaces", error.desc()))
            }
            _ => step(error).into(),
        })?;
        let Some(first) = forked else {
            // Nobody but the keeper says that it goes on: the other end goes here.
            let placed = placing.map(|(placed, _)| placed);
            let terms = Terms { level, bounds, files: self.files, temporary };
            let (pipe, placed, calls) = (write.as_fd(), placed.as_ref().map(OwnedFd::as_fd), calls.as_fd());
            let child = Child { pipe, bounding, placed, calls, terms };
            let obstacle = match (level, &self.job.enclosure) {
                (Level::Namespaces, Some(enclosure)) => self.be_first(enclosure, account, child),
                _ => match ends_with(keeper).map_err(Obstacle::from).and_then(|()| child.enter_groups()) {
                    Ok(()) => become_program(&self.job, &self.descriptors, terms, calls),
                    Err(obstacle) => obstacle,
                },
            };
            let _ = tell(File::from(write), &obstacle);
            sys::leave(1);
        };
        drop((write, calls));
        // It makes its surroundings meanwhile: to be moved into a group takes milliseconds, and so does looking at what is granted.
        let outcome = placing.map_or(Ok(()), |(_, go)| {
            let outcome = bounding.place(first);
            if outcome.is_ok() {
                // An error means that it ended, and has told why.
                let _ = unistd::write(&go, &[1]);
            }
            outcome
        });
        let enclosure = self.job.enclosure.as_ref();
        let reach = enclosure.and_then(|enclosure| reach(level, &granted(enclosure, level), &enclosure.ports));
        // Nothing comes, and the pipe is closed, when the program is executed.
        let hear = |error: io::Error| Failure::of("hear of it", error);
        let handover = Naming::meet(read.as_fd(), &handed, level, reach).map_err(hear)?;
        let mut told = String::new();
        File::from(read).read_to_string(&mut told).map_err(hear)?;
        let Ok(obstacle) = serde_json::from_str(&told) else { return Ok((first, handover)) };
        // It ends by itself.
        let _ = waitpid(first, None);
        Err(match (obstacle, outcome) {
            (Obstacle::Group(_), Err(failure)) => Obstacle::Group(failure),
            (obstacle, _) => obstacle,
        })
    }

    /// The first process of the program's namespaces: all others end with it. Comes back only with why there is no program.
    fn be_first(&self, enclosure: &Enclosure, account: (Uid, Gid), child: Child<'_>) -> Obstacle {
        let program = match self.start_inside(enclosure, account, child) {
            Ok(program) => program,
            Err(obstacle) => return obstacle,
        };
        self.yield_to_others();
        // Whoever waits at the other ends of these shall see when the program closes them. Nothing here uses one again.
        match self.descriptor(Descriptor::Bridge).filter(|bridge| sys::place(bridge, BRIDGE).is_ok()) {
            None => sys::close_from(BRIDGE),
            Some(_) => {
                sys::close_from(BRIDGE + 1);
                self.bridge(sys::own(BRIDGE));
            }
        }
        loop {
            match waitpid(None, None) {
                Ok(WaitStatus::Exited(pid, code)) if pid == program => sys::leave(code),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == program => sys::leave(BY_SIGNAL + signal as i32),
                Err(Errno::ECHILD) => sys::leave(1),
                _ => {}
            }
        }
    }

    /// Makes the program's surroundings, hands the node its sockets there, and starts the program.
    fn start_inside(&self, enclosure: &Enclosure, account: (Uid, Gid), child: Child<'_>) -> Result<Pid, Obstacle> {
        let step = |error: Errno| Obstacle::Program(Failure::of("start a process in its namespaces", error.desc()));
        set_pdeathsig(Signal::SIGKILL).map_err(step)?;
        // The keeper reads this pipe: nobody reads it if the keeper ended before.
        let mut reader = [PollFd::new(child.pipe, PollFlags::empty())];
        if poll(&mut reader, PollTimeout::ZERO).map_err(step)? > 0 {
            sys::leave(1);
        }
        enter(&enclosure.grants, account, self.job.limits.memory_kib).map_err(Obstacle::Enclosure)?;
        // What this process has of the machine is not for the program to read; the program begins anew.
        set_dumpable(false).map_err(step)?;
        if let Some(stream) = self.descriptor(Descriptor::Listeners) {
            let listen = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port));
            let listeners = enclosure.listen.iter().map(listen).collect::<io::Result<Vec<_>>>();
            let given = listeners.and_then(|listeners| give_listeners(stream.as_fd(), &listeners));
            given.map_err(|error| Obstacle::Enclosure(Failure::of("listen on its loopback", error)))?;
        }
        child.enter_groups()?;
        match sys::fork(CloneFlags::empty()).map_err(step)? {
            Some(program) => Ok(program),
            None => Err(become_program(&self.job, &self.descriptors, child.terms, child.calls)),
        }
    }

    /// What this process does for a program that leaves the processors to others, it does behind others too.
    fn yield_to_others(&self) {
        if self.job.limits.idle {
            sys::run_idle();
        }
    }

    /// Leads connections of the node to the program's port, where it has one.
    fn bridge(&self, listener: OwnedFd) {
        if let Some(port) = self.job.bridge {
            lead(UnixListener::from(listener), port);
        }
    }

    fn descriptor(&self, wanted: Descriptor) -> Option<&OwnedFd> {
        let mut all = self.job.descriptors.iter().zip(&self.descriptors);
        all.find(|(what, _)| **what == wanted).map(|(_, descriptor)| descriptor)
    }

    /// Waits until the program has ended, or is ended; gives its exit code.
    fn watch(&mut self, program: Pid, mut naming: Option<Naming>, bounding: &Bounding) -> io::Result<i32> {
        let (mut ending, mut is_listening) = (Ending::Not, true);
        loop {
            for told in naming.iter_mut().flat_map(Naming::take_reports) {
                let _ = tell(&self.channel, &told);
            }
            if let Some(status) = reap(program)? {
                return Ok(status);
            }
            let timeout = match ending {
                Ending::Not => PollTimeout::NONE,
                Ending::At(time) => match time.checked_sub(now()?) {
                    Some(left) if !left.is_zero() => PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
                    _ => return killed(program, bounding),
                },
            };
            // In place of what is not there any more, which would be ready at once.
            let nothing = || PollFd::new(self.signals.as_fd(), PollFlags::empty());
            let wait = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
            let channel = if is_listening { wait(self.channel.as_fd()) } else { nothing() };
            let calls = naming.as_ref().map_or_else(nothing, |naming| wait(naming.descriptor()));
            let mut ready = [channel, wait(self.signals.as_fd()), calls];
            match poll(&mut ready, timeout) {
                Err(Errno::EINTR) | Ok(0) => continue,
                other => other?,
            };
            let [heard, _, called] = ready.map(|ready| ready.revents().unwrap_or(PollFlags::empty()));
            if let Some(named) = &mut naming
                && !called.is_empty()
                && !named.serve(called)
            {
                naming = None;
            }
            while let Some(signal) = self.signals.read_signal()? {
                if i32::try_from(signal.ssi_signo) != Ok(Signal::SIGCHLD as i32) {
                    return killed(program, bounding);
                }
            }
            if is_listening && !heard.is_empty() {
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

/// Whether a program may be started that nothing encloses.
fn uncontained(required: bool, obstacles: &[String]) -> Result<(), Failure> {
    if required { Err(Failure::of("contain it, which its file requires", obstacles.join("; "))) } else { Ok(()) }
}

/// Whether an error says that this machine has no namespaces for the account, now or ever.
fn is_lacking(error: Errno) -> bool {
    // ENOSPC: of these it may have none, or has too many (user_namespaces(7)).
    matches!(error, Errno::EPERM | Errno::EACCES | Errno::ENOSYS | Errno::EINVAL | Errno::ENOSPC | Errno::EUSERS)
}

impl Child<'_> {
    /// Waits until it is in its control groups: what it starts is then in them too.
    fn enter_groups(&self) -> Result<(), Obstacle> {
        self.bounding.enter().map_err(Obstacle::Group)?;
        let Some(placed) = self.placed else { return Ok(()) };
        match unistd::read(placed, &mut [0]) {
            Ok(1) => Ok(()),
            _ => Err(Obstacle::Group(Failure::of("wait for its control group", "the keeper is gone"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_requires_to_be_contained_is_not_started_where_nothing_contains() {
        let obstacles = ["no namespaces", "no Landlock"].map(str::to_owned);
        assert_eq!(uncontained(false, &obstacles), Ok(()));
        let refused = uncontained(true, &obstacles).expect_err("it is required").to_string();
        assert_eq!(refused, "cannot contain it, which its file requires: no namespaces; no Landlock");
    }
}

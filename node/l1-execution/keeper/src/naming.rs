//! What a program is refused, named while it runs.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::channel::{give, take};
use crate::clock::now;
use crate::failure::Failure;
use crate::job::{Level, Told};
use crate::linux::calls::{self, Calls};
use crate::machine::budget::Budget;
use crate::machine::refusals::{Reach, Refusals};

/// In the process that becomes the program, once it is locked, with that version of Landlock: tells the keeper the version, and
/// hands its calls to it. Where the kernel does not tell of them, the program is enclosed as well, and nothing is named.
///
/// # Errors
/// The keeper does not take them; then each call would wait for ever, and the process must end.
pub(crate) fn hand_over(keeper: BorrowedFd<'_>, version: u8) -> Result<(), Failure> {
    let listener = calls::listen().ok();
    let numbers: Vec<RawFd> = listener.iter().map(|listener| listener.as_raw_fd()).collect();
    give(keeper, &[version], &numbers).map_err(|error| Failure::of("hand its calls to its keeper", error))
}

/// What a keeper was handed by the process that became the program.
pub(crate) struct Handover {
    /// The names of what it is refused; none where the kernel does not tell of its calls.
    pub naming: Option<Naming>,
    /// The version of Landlock that encloses it; 0: none does.
    pub version: u8,
}

/// A keeper's names for what its program is refused.
pub(crate) struct Naming {
    calls: Calls,
    refusals: Refusals,
    budget: Budget,
    told: Vec<Told>,
}

impl Naming {
    /// Waits until the program is executed, or is not: something comes by `pipe`, or it is closed. Takes its calls meanwhile, by
    /// `handed`, and lets them go on: to be executed is one. `reach` is what it reaches without Landlock, whose version comes by
    /// `handed` too.
    pub(crate) fn meet(
        pipe: BorrowedFd<'_>,
        handed: &UnixStream,
        level: Level,
        mut reach: Option<Reach>,
    ) -> io::Result<Handover> {
        let (mut naming, mut version, mut is_handed) = (None::<Naming>, 0, false);
        loop {
            let calls = naming.as_ref().map_or(handed.as_fd(), Naming::descriptor);
            // What was closed is not looked at again.
            let both = naming.is_some() || !is_handed;
            let mut ready = [PollFd::new(pipe, PollFlags::POLLIN), PollFd::new(calls, PollFlags::POLLIN)];
            match poll(&mut ready[..if both { 2 } else { 1 }], PollTimeout::NONE) {
                Err(Errno::EINTR) => continue,
                other => other?,
            };
            let [executed, called] = ready.map(|ready| ready.revents().unwrap_or(PollFlags::empty()));
            // Without calls that wait, it may have been executed since it handed over the version.
            let is_handing = !is_handed && !called.is_empty();
            if is_handing {
                is_handed = true;
                (version, naming) = Naming::taken(handed, level, reach.take())?;
            }
            if !executed.is_empty() {
                return Ok(Handover { naming, version });
            }
            if let Some(named) = &mut naming
                && !is_handing
                && !called.is_empty()
                && !named.serve(called)
            {
                naming = None;
            }
        }
    }

    /// Takes the version of Landlock and the calls that are handed over; none if they are not.
    fn taken(handed: &UnixStream, level: Level, reach: Option<Reach>) -> io::Result<(u8, Option<Naming>)> {
        let mut version = [0];
        let (_, descriptors) = take(handed.as_fd(), &mut version)?;
        let [version] = version;
        let Some(listener) = <[OwnedFd; 1]>::try_from(descriptors).ok().map(|[listener]| listener) else {
            return Ok((version, None));
        };
        let reach = reach.ok_or_else(|| io::Error::other("nothing is known of what it reaches"))?;
        let calls = Calls::of(listener, level, reach.by_version(version));
        let (refusals, budget, told) = (Refusals::default(), Budget::new(now()?), Vec::new());
        Ok((version, Some(Naming { calls, refusals, budget, told })))
    }

    /// Has something for [`Naming::serve`] when it is ready to be read.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.calls.descriptor()
    }

    /// Lets the call go on that is there, by what [`Naming::descriptor`] is ready for, and names what it is refused; false if
    /// there are no calls any more.
    pub(crate) fn serve(&mut self, ready: PollFlags) -> bool {
        // Without a process whose calls are told it is ready too, and would be waited for ever.
        if !ready.contains(PollFlags::POLLIN) {
            return false;
        }
        // Without the time none is looked at.
        let is_wanted = !self.refusals.is_full() && now().is_ok_and(|now| self.budget.takes(now));
        let Ok(tried) = self.calls.pass(is_wanted) else { return false };
        if let Some(tried) = tried.filter(|tried| self.refusals.notes(tried))
            && let Some(refusal) = self.calls.refusal(&tried)
        {
            self.told.extend(self.refusals.report(refusal));
        }
        true
    }

    /// What was named since it was asked last.
    pub(crate) fn take_reports(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }
}

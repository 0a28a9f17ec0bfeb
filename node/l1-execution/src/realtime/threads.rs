//! Threads with a scheduling class and a core, as far as this process is permitted.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue,
    ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// The highest priority that is used: the kernel's migration threads stay above.
const TOP: u8 = 95;
/// The time slice of a [`Level::Soft`] thread; the shortest that the kernel accepts (Linux 6.12 and later,
/// `kernel/sched/syscalls.c`).
pub const SLICE: Duration = Duration::from_micros(100);
/// The size of a thread's attributes, bytes.
#[expect(clippy::cast_possible_truncation, reason = "a struct of a few words")]
const ATTRIBUTES: u32 = size_of::<libc::sched_attr>() as u32;
/// The distance of each level from the top: gaps keep off the priorities of system threads.
const STEPS: [u8; 3] = [0, 5, 15];

/// What the process may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// Real-time scheduling at every priority.
    Full,
    /// Real-time scheduling up to a limit (`RLIMIT_RTPRIO`).
    Limited,
    /// No real-time scheduling.
    None,
}

/// The purpose of a thread; higher levels run first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Detects stalls of the machine.
    Sentinel,
    /// Interrupts jobs.
    Watchdog,
    /// Runs hard real-time jobs.
    Executor,
    /// An ordinary thread with slices of [`SLICE`]: it and the threads beside it wait that long to run, and not until the
    /// kernel's next tick (4 ms at 250 Hz).
    Soft,
    /// An ordinary thread.
    Normal,
    /// Runs only when no other thread does.
    Idle,
}

/// The priorities of this process's real-time threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtPriorities {
    /// What is permitted.
    pub privilege: Privilege,
    top: u8,
}

impl RtPriorities {
    /// Detects what is permitted, on a thread of its own.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn detect() -> io::Result<RtPriorities> {
        let tried = std::thread::Builder::new().name("privilege".to_owned()).spawn(|| {
            if fifo(TOP).is_ok() {
                return RtPriorities { privilege: Privilege::Full, top: TOP };
            }
            let limit = getrlimit(Resource::RLIMIT_RTPRIO).map_or(0, |(soft, _)| u8::try_from(soft).unwrap_or(TOP));
            // Three levels are the least.
            if limit >= 3 && fifo(limit.min(TOP)).is_ok() {
                return RtPriorities { privilege: Privilege::Limited, top: limit.min(TOP) };
            }
            RtPriorities { privilege: Privilege::None, top: 0 }
        })?;
        Ok(tried.join().unwrap_or(RtPriorities { privilege: Privilege::None, top: 0 }))
    }

    /// No real-time priorities: every thread is an ordinary one.
    #[must_use]
    pub fn none() -> RtPriorities {
        RtPriorities { privilege: Privilege::None, top: 0 }
    }

    #[cfg(test)]
    pub(crate) fn limited(top: u8) -> RtPriorities {
        RtPriorities { privilege: Privilege::Limited, top }
    }

    /// The priority of a level (SCHED_FIFO, 1 to 99); none where it is not a real-time thread.
    #[must_use]
    pub fn priority(&self, level: Level) -> Option<u8> {
        let step = match level {
            Level::Sentinel => 0,
            Level::Watchdog => 1,
            Level::Executor => 2,
            Level::Soft | Level::Normal | Level::Idle => return None,
        };
        match self.privilege {
            Privilege::None => None,
            // A low limit leaves room for the order, not for gaps.
            _ if self.top <= STEPS[2] => Some(self.top - step),
            _ => Some(self.top - STEPS[usize::from(step)]),
        }
    }

    /// Sets the level of this thread; false when that is not permitted.
    pub fn apply(&self, level: Level) -> bool {
        match (self.priority(level), level) {
            (Some(priority), _) => fifo(priority).is_ok(),
            (None, Level::Soft) => soft().is_ok(),
            (None, Level::Idle) => idle().is_ok(),
            (None, Level::Normal) => true,
            (None, _) => false,
        }
    }
}

fn fifo(priority: u8) -> Result<(), thread_priority::Error> {
    let priority = ThreadPriorityValue::try_from(priority).map_err(|_| thread_priority::Error::OS(libc_einval()))?;
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(priority), policy)
}

fn libc_einval() -> i32 {
    nix::errno::Errno::EINVAL as i32
}

fn idle() -> Result<(), thread_priority::Error> {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy)
}

/// Requests short slices, which needs no privilege. The nice value stays; a thread with another class or a raised priority is
/// left unchanged. Kernels before 6.12 ignore the request. Children of the thread, such as an agent's process, get the
/// default again (SCHED_FLAG_RESET_ON_FORK).
fn soft() -> io::Result<()> {
    let mut attributes = attributes()?;
    // Another class or priority was set on purpose, and children would lose it with the flag.
    if attributes.sched_policy != libc::SCHED_OTHER.unsigned_abs() || attributes.sched_nice < 0 {
        return Err(io::Error::other("the thread has a class or a priority of its own"));
    }
    attributes.sched_flags |= u64::from(libc::SCHED_FLAG_RESET_ON_FORK.unsigned_abs());
    attributes.sched_runtime = u64::try_from(SLICE.as_nanos()).expect("less than a second");
    set_attributes(&attributes)
}

/// The scheduling attributes of this thread.
#[expect(unsafe_code, reason = "no library offers sched_getattr for ordinary threads")]
fn attributes() -> io::Result<libc::sched_attr> {
    let mut attributes = libc::sched_attr {
        size: ATTRIBUTES,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes at most `ATTRIBUTES` bytes, the size of the live struct that it is given.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, ATTRIBUTES, 0) };
    if answer == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

#[expect(unsafe_code, reason = "no library offers sched_setattr for ordinary threads")]
fn set_attributes(attributes: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: the kernel reads `attributes.size` bytes of a live struct, and changes only how this thread is scheduled.
    let answer = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attributes), 0) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The cores that this process may use.
#[must_use]
pub fn cores() -> Vec<usize> {
    let this = Pid::from_raw(0);
    let set = sched_getaffinity(this);
    let found = set.map(|set| (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap_or(false)).collect());
    found.unwrap_or_else(|_| vec![0])
}

/// Pins this thread to one core; false when that fails.
pub fn pin(core: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(core).is_ok() && sched_setaffinity(Pid::from_raw(0), &set).is_ok()
}

/// Starts a thread with that level, on that core if one is given.
///
/// # Errors
/// When no thread can be started.
pub fn spawn<T: Send + 'static>(
    name: &str,
    priorities: RtPriorities,
    level: Level,
    core: Option<usize>,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if let Some(core) = core {
            pin(core);
        }
        priorities.apply(level);
        body()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the kernel is one that takes the length of a thread's slices: that it tells of none proves nothing.
    fn has_slices() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel has a release");
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map_while(|word| word.parse().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 12)
    }

    #[test]
    fn a_soft_thread_asks_for_short_slices_and_what_it_starts_does_not() {
        let priorities = RtPriorities::none();
        let (soft, below) = spawn("soft", priorities, Level::Soft, None, || {
            let below = std::thread::spawn(|| attributes().expect("its attributes")).join().expect("it ends");
            (attributes().expect("its attributes"), below)
        })
        .expect("a thread")
        .join()
        .expect("it ends");
        assert_eq!((soft.sched_policy, below.sched_policy), (0, 0));
        assert_eq!(soft.sched_nice, below.sched_nice, "a nice value stays");
        if !has_slices() {
            let what = "the kernel gives no thread slices of its own";
            return althing_testing::skip(what, althing_testing::remedy::KERNEL);
        }
        assert_eq!(u128::from(soft.sched_runtime), SLICE.as_nanos());
        assert_ne!(u128::from(below.sched_runtime), SLICE.as_nanos());
    }

    #[test]
    fn a_thread_that_was_given_a_priority_keeps_it_and_so_does_what_it_starts() {
        let nice = std::thread::spawn(|| {
            let mut given = attributes().expect("its attributes");
            (given.sched_nice, given.sched_runtime) = (-1, 0);
            if set_attributes(&given).is_err() {
                return althing_testing::skip("this account may not raise a priority", althing_testing::remedy::ROOT);
            }
            assert!(!RtPriorities::none().apply(Level::Soft));
            let below = std::thread::spawn(|| attributes().expect("its attributes").sched_nice);
            assert_eq!((attributes().expect("its attributes").sched_nice, below.join().expect("it ends")), (-1, -1));
        });
        nice.join().expect("it ends");
    }

    #[test]
    fn a_thread_that_was_given_another_class_keeps_it() {
        let batch = std::thread::spawn(|| {
            let mut given = attributes().expect("its attributes");
            (given.sched_policy, given.sched_runtime) = (libc::SCHED_BATCH.unsigned_abs(), 0);
            set_attributes(&given).expect("no privilege is needed");
            let taken = RtPriorities::none().apply(Level::Soft);
            (taken, attributes().expect("its attributes").sched_policy)
        });
        assert_eq!(batch.join().expect("it ends"), (false, libc::SCHED_BATCH.unsigned_abs()));
    }
}

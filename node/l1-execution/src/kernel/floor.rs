//! A minimum processor share for delay-tolerant work: if it is runnable and gets less than a twentieth of the machine, its
//! threads run as ordinary threads until it had that share.
//!
//! `SCHED_IDLE` alone gives it 0.3 % beside one busy thread.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::unistd::gettid;
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadId, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// The period of the checks.
const WINDOW: Duration = Duration::from_secs(1);
/// The period of the checks during a boost.
const STEP: Duration = Duration::from_millis(10);
/// The longest boost.
const BOOST_MAX: Duration = Duration::from_millis(250);
/// The minimum share of the machine is 1 / this: a little more than a twentieth, since a boost takes time to start.
const SHARE: u64 = 16;

/// The threads of delay-tolerant work.
#[derive(Default)]
pub(super) struct Floor(Mutex<Vec<Thread>>);

#[derive(Clone, Copy)]
struct Thread {
    id: ThreadId,
    kernel_id: i32,
}

/// Processor times of the threads so far, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Times {
    ran: u64,
    /// Ready to run, while others ran.
    waited: u64,
}

/// How much running time is missing from the minimum share of a window, nanoseconds.
fn deficit_ns(before: Times, after: Times, window_ns: u64, cores: u64) -> u64 {
    let (ran, waited) = (after.ran.saturating_sub(before.ran), after.waited.saturating_sub(before.waited));
    let share = window_ns.saturating_mul(cores) / SHARE;
    // Threads that did not wait needed no more.
    share.saturating_sub(ran).min(waited)
}

impl Floor {
    /// Adds this thread.
    pub fn join(&self) {
        let thread = Thread { id: thread_native_id(), kernel_id: gettid().as_raw() };
        self.lock().push(thread);
    }

    /// Removes this thread.
    pub fn leave(&self) {
        let kernel_id = gettid().as_raw();
        self.lock().retain(|thread| thread.kernel_id != kernel_id);
    }

    fn times(&self) -> Times {
        let mut all = Times::default();
        for thread in self.lock().iter() {
            let path = format!("/proc/self/task/{}/schedstat", thread.kernel_id);
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let mut numbers = text.split_whitespace().map_while(|number| number.parse::<u64>().ok());
            all.ran += numbers.next().unwrap_or_default();
            all.waited += numbers.next().unwrap_or_default();
        }
        all
    }

    /// Sets the policy of all threads; false when one of them failed.
    fn set_policy(&self, policy: NormalThreadSchedulePolicy) -> bool {
        let policy = ThreadSchedulePolicy::Normal(policy);
        // Locked meanwhile: no thread ends.
        let threads = self.lock();
        // All of them, even after a failure.
        let set = |thread: &Thread| set_thread_priority_and_policy(thread.id, ThreadPriority::Min, policy).is_ok();
        threads.iter().filter(|thread| !set(thread)).count() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Thread>> {
        self.0.lock().expect("no holder of the threads panics")
    }

    /// Checks periodically on a thread that ends with the last other owner.
    pub fn watch(self: &Arc<Floor>, cores: usize) -> io::Result<()> {
        let floor = Arc::downgrade(self);
        let watching = move || {
            let mut before = Times::default();
            loop {
                std::thread::park_timeout(WINDOW);
                let Some(floor) = floor.upgrade() else { return };
                let now = floor.times();
                let deficit_ns = deficit_ns(before, now, WINDOW.as_nanos() as u64, cores as u64);
                if deficit_ns > 0 && !floor.boost(now, deficit_ns) {
                    tracing::info!("delay-tolerant threads cannot be boosted here; they stay in the idle class");
                    return;
                }
                before = floor.times();
            }
        };
        std::thread::Builder::new().name("dt-floor".to_owned()).spawn(watching).map(drop)
    }

    fn boost(&self, from: Times, deficit_ns: u64) -> bool {
        let boosted = self.set_policy(NormalThreadSchedulePolicy::Other);
        let mut waited = Duration::ZERO;
        while boosted && waited < BOOST_MAX && self.times().ran.saturating_sub(from.ran) < deficit_ns {
            std::thread::park_timeout(STEP);
            waited += STEP;
        }
        self.set_policy(NormalThreadSchedulePolicy::Idle) && boosted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_share_is_owed_to_who_waits_for_it() {
        let after = |ran, waited| Times { ran, waited };
        assert_eq!(deficit_ns(after(0, 0), after(0, 0), S, 2), 0, "nobody wants anything");
        assert_eq!(deficit_ns(after(0, 0), after(0, S), S, 2), S / 8);
        assert_eq!(deficit_ns(after(0, 0), after(S / 16, S), S, 2), S / 16);
        assert_eq!(deficit_ns(after(0, 0), after(S / 5, S), S, 2), 0, "it had more than that");
        assert_eq!(deficit_ns(after(S, S), after(S, S + 5), S, 2), 5, "it waited for no more");
    }

    #[test]
    fn threads_are_made_as_any_others_and_idle_again() {
        let floor = Arc::<Floor>::default();
        let (joined, stop) = (Arc::new(std::sync::Barrier::new(2)), Arc::new(std::sync::Barrier::new(2)));
        let (inner, join, wait) = (floor.clone(), joined.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            inner.join();
            join.wait();
            wait.wait();
        });
        joined.wait();
        let policy = || {
            let id = floor.lock()[0].kernel_id;
            let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).expect("what the system tells");
            // proc(5): the 41st field is the policy; the first two are cut off with the name.
            let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
            fields[38].to_owned()
        };
        assert!(floor.set_policy(NormalThreadSchedulePolicy::Idle));
        assert_eq!(policy(), "5");
        if floor.set_policy(NormalThreadSchedulePolicy::Other) {
            assert_eq!(policy(), "0");
        } else {
            let what = "an idle thread may not become another one here (RLIMIT_NICE)";
            althing_testing::skip(what, althing_testing::remedy::ROOT);
        }
        assert!(floor.set_policy(NormalThreadSchedulePolicy::Idle));
        assert_eq!(policy(), "5");
        stop.wait();
        thread.join().expect("no panic");
    }
}

//! Delay-tolerant work is never starved: where it wants to run and gets less than a twentieth of the machine, its
//! threads run as any others until it had that.
//!
//! `SCHED_IDLE` alone would give it three parts in a thousand beside one busy thread.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::unistd::gettid;
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadId, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// How often it is looked at.
const WINDOW: Duration = Duration::from_secs(1);
/// How often while it is helped.
const STEP: Duration = Duration::from_millis(10);
/// For how long it is helped at most.
const HELP_MAX: Duration = Duration::from_millis(250);
/// Of the whole machine's time, one part of this: a little more than a twentieth, since helping takes time too.
const SHARE: u64 = 16;

/// The threads of delay-tolerant work.
#[derive(Default)]
pub(super) struct Floor(Mutex<Vec<Thread>>);

#[derive(Clone, Copy)]
struct Thread {
    id: ThreadId,
    kernel_id: i32,
}

/// What some threads did so far, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Times {
    ran: u64,
    /// Ready to run, while others ran.
    waited: u64,
}

/// How much more they are to run after a window in which they did that, nanoseconds.
fn owed(before: Times, after: Times, window_ns: u64, cores: u64) -> u64 {
    let (ran, waited) = (after.ran.saturating_sub(before.ran), after.waited.saturating_sub(before.waited));
    let share = window_ns.saturating_mul(cores) / SHARE;
    // Who did not wait wanted nothing more.
    share.saturating_sub(ran).min(waited)
}

impl Floor {
    /// This thread is one of them.
    pub fn join(&self) {
        let thread = Thread { id: thread_native_id(), kernel_id: gettid().as_raw() };
        self.lock().push(thread);
    }

    /// This thread ends.
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

    /// Gives the threads that policy; false when one could not have it.
    fn give(&self, policy: NormalThreadSchedulePolicy) -> bool {
        let policy = ThreadSchedulePolicy::Normal(policy);
        // Held while it is done: none of them ends meanwhile.
        let threads = self.lock();
        // Each of them, also where one cannot have it.
        let give = |thread: &Thread| set_thread_priority_and_policy(thread.id, ThreadPriority::Min, policy).is_ok();
        threads.iter().filter(|thread| !give(thread)).count() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Thread>> {
        self.0.lock().expect("no holder of the threads panics")
    }

    /// Watches over them for as long as there is anybody else who holds them.
    pub fn watch(self: &Arc<Floor>, cores: usize) -> io::Result<()> {
        let floor = Arc::downgrade(self);
        let watching = move || {
            let mut before = Times::default();
            loop {
                std::thread::park_timeout(WINDOW);
                let Some(floor) = floor.upgrade() else { return };
                let now = floor.times();
                let owed = owed(before, now, WINDOW.as_nanos() as u64, cores as u64);
                if owed > 0 && !floor.help(now, owed) {
                    tracing::info!("delay-tolerant work cannot be helped here: its threads must stay idle ones");
                    return;
                }
                before = floor.times();
            }
        };
        std::thread::Builder::new().name("dt-floor".to_owned()).spawn(watching).map(drop)
    }

    fn help(&self, from: Times, owed: u64) -> bool {
        let helped = self.give(NormalThreadSchedulePolicy::Other);
        let mut waited = Duration::ZERO;
        while helped && waited < HELP_MAX && self.times().ran.saturating_sub(from.ran) < owed {
            std::thread::park_timeout(STEP);
            waited += STEP;
        }
        self.give(NormalThreadSchedulePolicy::Idle) && helped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_share_is_owed_to_who_waits_for_it() {
        let after = |ran, waited| Times { ran, waited };
        assert_eq!(owed(after(0, 0), after(0, 0), S, 2), 0, "nobody wants anything");
        assert_eq!(owed(after(0, 0), after(0, S), S, 2), S / 8);
        assert_eq!(owed(after(0, 0), after(S / 16, S), S, 2), S / 16);
        assert_eq!(owed(after(0, 0), after(S / 5, S), S, 2), 0, "it had more than that");
        assert_eq!(owed(after(S, S), after(S, S + 5), S, 2), 5, "it waited for no more");
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
        assert!(floor.give(NormalThreadSchedulePolicy::Idle));
        assert_eq!(policy(), "5");
        if floor.give(NormalThreadSchedulePolicy::Other) {
            assert_eq!(policy(), "0");
        } else {
            althing_testing::lacking("an idle thread may not become another one here (RLIMIT_NICE)");
        }
        assert!(floor.give(NormalThreadSchedulePolicy::Idle));
        assert_eq!(policy(), "5");
        stop.wait();
        thread.join().expect("no panic");
    }
}

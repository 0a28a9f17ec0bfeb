//! Many seeds, on all processors.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::flaw::Flaw;
use super::{Counts, Outcome, Violation, as_it_is, run};

/// Runs all seeds from `first` to `last`, on all processors: what happened, and what does not hold, in the order of the
/// seeds.
///
/// # Panics
/// When a run panics.
#[must_use]
pub fn run_all(first: u64, last: u64) -> Vec<(u64, Counts, Vec<Violation>)> {
    let (next, done) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last {
                        return;
                    }
                    let Outcome { counts, violations, .. } = run(seed, None, as_it_is());
                    done.lock().expect("no panic").push((seed, counts, violations));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no panic");
    done.sort_by_key(|(seed, ..)| *seed);
    done
}

/// The first of those seeds that breaks the invariant, if one does; `adversary` is let loose, and `flaw` is planted.
#[must_use]
pub fn first_break(
    seeds: std::ops::RangeInclusive<u64>,
    adversary: Option<&'static str>,
    flaw: &Arc<dyn Flaw>,
    invariant: Option<&str>,
) -> Option<Outcome> {
    let breaks = |outcome: &Outcome| {
        let of = |violation: &Violation| invariant.is_none_or(|name| violation.invariant == name);
        outcome.violations.iter().any(of)
    };
    seeds.map(|seed| run(seed, adversary, flaw.clone())).find(breaks)
}

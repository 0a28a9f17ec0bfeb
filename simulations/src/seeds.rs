//! Many seeds, on all processors.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs all seeds from `first` to `last`, on all processors, by `run`, which gives what happened in one and what does not hold there;
/// in the order of the seeds.
///
/// # Panics
/// When a run panics.
pub(crate) fn run_all<C: Send, V: Send>(
    first: u64,
    last: u64,
    run: impl Fn(u64) -> (C, Vec<V>) + Sync,
) -> Vec<(u64, C, Vec<V>)> {
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
                    let (counts, violations) = run(seed);
                    done.lock().expect("no panic").push((seed, counts, violations));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no panic");
    done.sort_by_key(|(seed, ..)| *seed);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seed_is_run_once_and_told_in_order() {
        let run = |seed: u64| (seed * 2, vec![seed]);
        let ran = run_all(3, 40, run);
        assert_eq!(ran, (3..=40).map(|seed| (seed, seed * 2, vec![seed])).collect::<Vec<_>>());
        assert!(run_all(3, 2, run).is_empty());
    }
}

//! Many seeds, on all processors.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What `run` makes of all seeds from `first` to `last`, on all processors, in the order of the seeds.
///
/// # Panics
/// When a run panics.
pub(crate) fn on_all_processors<T: Send>(first: u64, last: u64, run: impl Fn(u64) -> T + Sync) -> Vec<(u64, T)> {
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
                    let ran = run(seed);
                    done.lock().expect("no panic").push((seed, ran));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no panic");
    done.sort_by_key(|(seed, _)| *seed);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seed_is_run_once_and_told_in_order() {
        let ran = on_all_processors(3, 40, |seed| seed * 2);
        assert_eq!(ran, (3..=40).map(|seed| (seed, seed * 2)).collect::<Vec<_>>());
        assert!(on_all_processors(3, 2, |seed| seed).is_empty());
    }
}

//! Many seeds, on all processors; and such a series that can be interrupted and goes on where it was.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Counts, Violation, run};
use crate::seeds;

/// Bytes of a file that says how far a series is.
const PROGRESS_BYTES_MAX: u64 = 1 << 20;
/// Seeds after which it is written down how far a series is.
const STRIDE: u64 = 50;
/// Seeds that fail and are kept by name.
const FAILED_MAX: usize = 1_000;

/// A seed that does not keep what must hold.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// What does not hold.
    pub invariants: Vec<String>,
}

/// How far a series is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Progress {
    /// The next seed.
    pub next: u64,
    /// Seeds that were run.
    pub runs: u64,
    /// How much happened in them.
    pub counts: Counts,
    /// Those that failed.
    pub failed: Vec<Failed>,
}

impl Progress {
    /// What a file says, or the beginning if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(file: &Path) -> Result<Progress, String> {
        if !file.exists() {
            return Ok(Progress { next: 1, ..Progress::default() });
        }
        let text = althing_store::file::read_text(file, PROGRESS_BYTES_MAX);
        let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        let draft = file.with_extension("new");
        let failed = |error: std::io::Error| format!("cannot write {}: {error}", file.display());
        std::fs::write(&draft, text).map_err(failed)?;
        std::fs::rename(&draft, file).map_err(failed)
    }

    /// Runs all seeds up to `last`, and tells how far it is after each part of them.
    ///
    /// # Errors
    /// What `told` returns.
    pub fn go_on(
        mut self,
        last: u64,
        mut told: impl FnMut(&Progress) -> Result<(), String>,
    ) -> Result<Progress, String> {
        while self.next <= last {
            let until = last.min(self.next + STRIDE - 1);
            for (seed, counts, violations) in run_all(self.next, until) {
                self.runs += 1;
                self.counts.add(&counts);
                if !violations.is_empty() && self.failed.len() < FAILED_MAX {
                    let invariants = violations.iter().map(|violation| violation.invariant.to_owned()).collect();
                    self.failed.push(Failed { seed, invariants });
                }
            }
            self.next = until + 1;
            told(&self)?;
        }
        Ok(self)
    }
}

/// Runs all seeds from `first` to `last`, on all processors: what happened, and what does not hold, in the order of the
/// seeds.
///
/// # Panics
/// When a run panics.
#[must_use]
pub fn run_all(first: u64, last: u64) -> Vec<(u64, Counts, Vec<Violation>)> {
    seeds::run_all(first, last, |seed| {
        let outcome = run(seed, None, super::as_it_is());
        (outcome.counts, outcome.violations)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_goes_on_where_it_was_interrupted() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("progress.json");
        let failed = vec![Failed { seed: 3, invariants: vec!["one".to_owned()] }];
        let counts = Counts { known: 7, ..Counts::default() };
        let progress = Progress { next: 5, runs: 4, counts, failed };
        assert_eq!(Progress::read(&file).expect("none yet").next, 1);
        progress.write(&file).expect("it is written");
        let read = Progress::read(&file).expect("it is there");
        assert_eq!((read.next, read.runs, read.counts.known, read.failed[0].seed), (5, 4, 7, 3));
        // Nothing is left to run.
        let done = read.go_on(4, |_| Err("it was told".to_owned())).expect("nothing to tell");
        assert_eq!(done.runs, 4);
        std::fs::write(&file, "nonsense").expect("it is written");
        assert!(Progress::read(&file).is_err());
    }
}

//! The commands of verification.

use crate::args::Verification;
use crate::commands::{Out, lineage, trial, verdict};
use crate::exit::Failure;
use crate::paths::Paths;

/// Runs one of them.
pub async fn run(at: &Paths, asked: &Verification, out: &Out) -> Result<(), Failure> {
    match asked {
        Verification::Test(test) => trial::test(at, test, out).await,
        Verification::Compare(compare) => trial::compare(at, compare, out).await,
        Verification::Case(case) => trial::case(at, case, out).await,
        Verification::Replay { task } => trial::replay(at, task, out).await,
        Verification::Verdict { task } => verdict::run(at, task, out).await,
        Verification::Lineage { task } => lineage::run(at, task, out).await,
        Verification::Verify(asked) => lineage::verify(at, asked, out).await,
    }
}

//! When a test may be skipped.
//!
//! **Input**: what a test lacks. **Output**: a line that says so, or, where CI runs, a failure with that reason: a suite
//! that is green because most of it did not run proves nothing.
//!
//! **Never knows**: what is tested.

mod night;

use std::path::Path;

pub use night::at_night;

/// What `CI` is set to where tests may not be skipped (`.ci/run` sets it).
const CI: &str = "true";

/// Does CI run these tests?
#[must_use]
pub fn in_ci() -> bool {
    std::env::var("CI").as_deref() == Ok(CI)
}

/// A test cannot run for lack of a privilege, a package or a network: at home it is skipped, and says so.
///
/// # Panics
/// Where CI runs, with what is missing.
#[track_caller]
pub fn lacking(what: &str) {
    match told(std::env::var("CI").ok().as_deref(), what) {
        Ok(line) => eprintln!("{line}"),
        Err(failure) => panic!("{failure}"),
    }
}

/// A test needs a feature of the kernel that this one does not have; nobody can install it, so it is skipped everywhere.
pub fn kernel_without(feature: &str) {
    eprintln!("skipped: this kernel has no {feature}");
}

/// A test needs what not every machine that runs all tests has, and `scripts/setup.sh` does not install, such as an engine of
/// containers: it runs where that works, and is skipped elsewhere.
pub fn optional(what: &str) {
    eprintln!("skipped: {what}");
}

/// Public test vectors do not lie beside this checkout: they only come on top of our own, so the rest of the test runs.
pub fn without_public_vectors(folder: &Path) {
    eprintln!("skipped: the public vectors are not beside this checkout ({} is absent)", folder.display());
}

fn told(ci: Option<&str>, what: &str) -> Result<String, String> {
    if ci == Some(CI) {
        return Err(format!("{what}. Where CI runs (CI=true) nothing is skipped: scripts/setup.sh installs packages"));
    }
    Ok(format!("skipped: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_skipped_at_home_fails_where_ci_runs_with_the_reason() {
        for home in [None, Some(""), Some("false"), Some("0")] {
            assert_eq!(told(home, "there is no npm"), Ok("skipped: there is no npm".to_owned()), "{home:?}");
        }
        let failure = told(Some("true"), "there is no npm").expect_err("a failure");
        assert!(failure.starts_with("there is no npm. ") && failure.contains("setup.sh"), "{failure}");
    }
}

//! When a test may be skipped.
//!
//! **Input**: what a test lacks, and what to do about it. **Output**: a line that says so, which a run of tests shows
//! though it shows nothing else that passing tests print; or, where CI runs, a failure with the same words: a suite
//! that is green because most of it did not run proves nothing.
//!
//! **Never knows**: what is tested.

mod cache;
mod night;
pub mod remedy;
mod vectors;

pub use cache::cache;
pub use night::at_night;
pub use vectors::public_vectors;

/// A program of Python that executes its arguments as on a machine where nobody makes namespaces of users and whose kernel has
/// no Landlock: their calls are answered as such a machine answers them. It takes root.
pub const BARE: &str = include_str!("bare.py");

use std::io::Write as _;
use std::panic::Location;

/// What `CI` is set to where tests may not be skipped (`.ci/run` sets it).
const CI: &str = "true";

/// Tests that may be skipped where CI runs; `.ci/run` prints the list at its end.
const EXCEPTIONS: &str = include_str!("../exceptions.txt");

/// Does CI run these tests?
#[must_use]
pub fn in_ci() -> bool {
    std::env::var("CI").as_deref() == Ok(CI)
}

/// A test, or a part of one, cannot run for lack of a privilege, a package, a network or data: at home it is skipped,
/// and says so with what to do about it.
///
/// # Panics
/// Where CI runs, with the same words.
#[track_caller]
pub fn skip(what: &str, remedy: &str) {
    let said = said(&who(Location::caller()), what, remedy);
    assert!(!in_ci(), "{said} (CI=true: nothing may be skipped)");
    show(&said);
}

/// A test lacks what CI does not have either: it is skipped there too, since `exceptions.txt` names it with the command
/// that runs it.
///
/// # Panics
/// If that file does not name it.
#[track_caller]
pub fn exception(test: &str, what: &str) {
    let command = exempt(test).unwrap_or_else(|| panic!("tests/testing/exceptions.txt does not name {test}"));
    show(&said(&who(Location::caller()), what, command));
}

/// The command that runs a test which may be skipped where CI runs.
fn exempt(test: &str) -> Option<&'static str> {
    let block = EXCEPTIONS.split("\n\n").find(|block| block.lines().next() == Some(test))?;
    block.lines().nth(2)
}

/// The test that runs: libtest names threads after tests, where it has more than one.
fn who(caller: &Location<'_>) -> String {
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main");
    test.map_or_else(|| format!("{}:{}", caller.file(), caller.line()), str::to_owned)
}

fn said(who: &str, what: &str, remedy: &str) -> String {
    format!("skipped: {who}: {what}. Remedy: {remedy}")
}

/// Straight to standard error: libtest keeps what `eprintln!` prints, and shows it of tests that fail only.
fn show(line: &str) {
    let written = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
    written.expect("standard error is open");
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const SETUP: &str = include_str!("../../../scripts/setup.sh");
    /// Set in the process that skips.
    const SKIPS: &str = "ALTHING_TESTING_SKIPS";

    /// Runs a test of this program again, as `cargo test` would, where it skips; whether it passed, and what was shown.
    fn again(test: &str, ci: &str) -> (bool, String) {
        let mut run = Command::new(std::env::current_exe().expect("this test"));
        run.args(["--exact", test, "--test-threads", "2"]).env(SKIPS, "yes").env("CI", ci);
        let ran = run.env_remove("RUST_TEST_NOCAPTURE").output().expect("it runs");
        let shown = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(shown.contains("running 1 test"), "{shown}");
        (ran.status.success(), shown)
    }

    #[test]
    fn a_skip_is_seen_where_tests_pass_in_silence_and_fails_where_ci_runs() {
        const TEST: &str = "tests::a_skip_is_seen_where_tests_pass_in_silence_and_fails_where_ci_runs";
        if std::env::var_os(SKIPS).is_some() {
            eprintln!("this is kept");
            return skip("there is no npm", remedy::NODE);
        }
        let line = format!("skipped: {TEST}: there is no npm. Remedy: {}", remedy::NODE);
        for home in ["", "false", "0"] {
            let (passed, shown) = again(TEST, home);
            assert!(passed && shown.contains(&line), "CI={home}: {shown}");
            assert!(!shown.contains("this is kept"), "what passing tests print is not seen: {shown}");
        }
        let (passed, shown) = again(TEST, CI);
        assert!(!passed && shown.contains(&line), "{shown}");
    }

    #[test]
    fn an_exception_is_seen_and_passes_also_where_ci_runs() {
        const TEST: &str = "tests::an_exception_is_seen_and_passes_also_where_ci_runs";
        const NAMED: &str = "containers::an_agent_of_one_container_is_found_and_called_from_the_others";
        if std::env::var_os(SKIPS).is_some() {
            return exception(NAMED, "there is no engine");
        }
        let line = format!("skipped: {TEST}: there is no engine. Remedy: {}", exempt(NAMED).expect("it is named"));
        for ci in ["", CI] {
            let (passed, shown) = again(TEST, ci);
            assert!(passed && shown.contains(&line), "CI={ci}: {shown}");
        }
    }

    #[test]
    #[should_panic(expected = "exceptions.txt does not name tests::some")]
    fn what_is_not_listed_is_no_exception() {
        exception("tests::some", "there is nothing");
    }

    #[test]
    fn each_exception_has_what_it_needs_and_the_command_that_runs_it() {
        let named: Vec<&str> = EXCEPTIONS.split("\n\n").skip(1).collect();
        assert!(!named.is_empty());
        for block in named {
            let lines: Vec<&str> = block.trim_end().lines().collect();
            let [test, needs, command] = lines[..] else { panic!("three lines: {block}") };
            let module = test.split("::").next().expect("a module");
            assert!(needs.starts_with("needs "), "{block}");
            assert!(command.contains(&format!("make test TEST=\"--test suite {module}")), "{block}");
        }
    }

    #[test]
    fn what_a_remedy_says_is_installed_the_setup_script_installs() {
        let installs =
            |package: &str| SETUP.lines().any(|line| line.trim_start().starts_with(&format!("need {package} ")));
        let mut named = 0;
        for remedy in remedy::ALL.iter().filter(|remedy| remedy.contains("scripts/setup.sh")) {
            let (what, rest) = remedy.split_once(" (scripts/setup.sh does)").unwrap_or_else(|| panic!("{remedy}"));
            assert!(!rest.contains("setup.sh"), "{remedy}");
            if let Some(target) = what.strip_prefix("rustup target add ") {
                assert!(
                    SETUP.contains(&format!("target={target}\n")) && SETUP.contains("rustup target add"),
                    "{target}"
                );
            } else {
                let packages = what.strip_prefix("apt-get install ").unwrap_or_else(|| panic!("{remedy}"));
                let lacking: Vec<&str> = packages.split(' ').filter(|package| !installs(package)).collect();
                assert!(lacking.is_empty(), "scripts/setup.sh does not install {lacking:?}");
            }
            named += 1;
        }
        assert!(named >= 4, "{named}");
        assert!(!installs("npm-that-nobody-has"));
    }
}

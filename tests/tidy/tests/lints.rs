//! Ambient time, randomness and unbounded queues stay in the shells.

use std::path::{Path, PathBuf};

mod support;

/// The modules that do the reaching for others, each with what it reaches for. A file is listed when it carries
/// `#![expect(clippy::disallowed_methods, reason = "…")]`; tests may carry it unlisted.
const SHELLS: &[(&str, &str)] = &[
    ("node/althing/demo/src/stage.rs", "the real clock, to measure what it shows"),
    ("node/althing/src/ports.rs", "the real clock and randomness, handed to the layers"),
];

/// What deciding code may not even name: it is handed the time and an rng, and what it iterates has an order.
const UNDECIDED: [&str; 5] = ["HashMap", "HashSet", "Instant", "SystemTime", "rand"];

fn silences(file: &Path) -> bool {
    support::idents(file).iter().any(|(ident, _)| ident == "disallowed_methods" || ident == "disallowed_types")
}

#[test]
fn only_listed_shells_silence_a_ban() {
    let (production, _) = support::rust_files();
    let silent: Vec<&PathBuf> = production.iter().filter(|file| silences(file)).collect();
    let unlisted: Vec<String> = silent
        .iter()
        .filter(|file| !SHELLS.iter().any(|(shell, _)| **file == Path::new(shell)))
        .map(|file| format!("    (\"{}\", \"…\"),", file.display()))
        .collect();
    assert!(
        unlisted.is_empty(),
        "these files silence a ban of clippy.toml. Let them be handed what they reach for; a true shell is added to SHELLS in \
         tests/tidy/tests/lints.rs with what it reaches for:\n{}",
        unlisted.join("\n")
    );
    for (shell, _) in SHELLS {
        assert!(
            silent.iter().any(|file| file.as_path() == Path::new(shell)),
            "{shell} silences no ban: take it out of SHELLS"
        );
    }
}

#[test]
fn a_shell_expects_and_says_why() {
    let (production, tests) = support::rust_files();
    for file in production.iter().chain(&tests).filter(|file| silences(file) && !file.starts_with("tests/tidy")) {
        let text: String = support::text(file).split_whitespace().collect();
        let with_reason = |attribute: &str| text.contains(&format!("{attribute}(clippy::disallowed_methods,reason="));
        let is_production = production.contains(file);
        assert!(
            with_reason("#![expect") || with_reason("#[expect") || (!is_production && with_reason("[allow")),
            "{}: write #![expect(clippy::disallowed_methods, reason = \"…\")], so that it falls when it is needed no more",
            file.display()
        );
    }
}

#[test]
fn deciding_code_names_no_ambient_state() {
    let (production, _) = support::rust_files();
    let is_machine = |file: &&PathBuf| file.iter().any(|part| part == "machine" || part == "machine.rs");
    for file in production.iter().filter(is_machine) {
        for (ident, line) in support::idents(file) {
            assert!(
                !UNDECIDED.contains(&ident.as_str()),
                "{}:{line} names {ident}: a machine is handed the time and an rng, and iterates in order (BTreeMap)",
                file.display()
            );
        }
    }
}

#[test]
fn there_is_one_clippy_toml() {
    let is_config =
        |file: &PathBuf| file.file_name().is_some_and(|name| name == "clippy.toml" || name == ".clippy.toml");
    let found: Vec<PathBuf> = support::files("").into_iter().filter(is_config).collect();
    assert_eq!(found, [PathBuf::from("clippy.toml")], "a nested clippy.toml replaces the one at the root silently");
}

/// A suite that is green because it did not run proves nothing: what is lacking fails where CI runs, and one function says so.
#[test]
fn only_one_place_skips_tests() {
    let (production, tests) = support::rust_files();
    let says = ["\"skipped", ": "].concat();
    for file in production.iter().chain(&tests).filter(|file| !file.starts_with("tests/testing")) {
        let said = support::text(file).contains(&says);
        assert!(!said, "{}: call althing_testing::lacking, which fails where CI runs", file.display());
    }
}

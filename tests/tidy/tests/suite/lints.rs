//! Ambient time, randomness and unbounded queues stay in the shells.

use std::path::{Path, PathBuf};

/// The modules that do the reaching for others, each with what it reaches for. A file is listed when it carries
/// `#![expect(clippy::disallowed_methods, reason = "…")]`; tests may carry it unlisted.
const SHELLS: &[(&str, &str)] = &[
    ("node/althing/demo/src/stage.rs", "the real clock, to measure what it shows"),
    ("node/althing/src/ports.rs", "the real clock and randomness, handed to the layers"),
    ("registry/src/main.rs", "the real clock and randomness, handed to the registry"),
];

/// Pure modules beside those in a folder or file named `machine`: paths, each with all that lies below it. They decide or
/// compute, and are handed time, randomness and what the outside said.
const PURE: &[&str] = &[
    "node/call/src/chain.rs",
    "node/call/src/operation.rs",
    "node/call/src/redirect.rs",
    "node/call/src/relation.rs",
    "node/call/src/target.rs",
    "node/composition/src/owner/change.rs",
    "node/fetch/src/nets.rs",
    "node/l1-execution/src/admission",
    "node/l1-execution/src/binding/normalise.rs",
    "node/l1-execution/src/definition.rs",
    "node/l1-execution/src/hrt/stalls.rs",
    "node/l1-execution/src/hrt/counters.rs",
    "node/l1-execution/src/model/chat.rs",
    "node/l1-execution/src/process/card.rs",
    "node/l1-execution/src/smooth.rs",
    "node/l1-execution/src/sse.rs",
    "node/l3-discovery/routing/src",
    "node/store/src/format.rs",
    "protocol/src",
    "simulations/src/scenario.rs",
    "thing-descriptions/src",
];

/// What deciding code may not even name: it is handed the time and an rng, and what it iterates has an order.
const UNDECIDED: [&str; 5] = ["HashMap", "HashSet", "Instant", "SystemTime", "rand"];

fn silences(file: &Path) -> bool {
    crate::support::idents(file).iter().any(|(ident, _)| ident == "disallowed_methods" || ident == "disallowed_types")
}

#[test]
fn only_listed_shells_silence_a_ban() {
    let (production, _) = crate::support::rust_files();
    let silent: Vec<&PathBuf> = production.iter().filter(|file| silences(file)).collect();
    let unlisted: Vec<String> = silent
        .iter()
        .filter(|file| !SHELLS.iter().any(|(shell, _)| **file == Path::new(shell)))
        .map(|file| format!("    (\"{}\", \"…\"),", file.display()))
        .collect();
    assert!(
        unlisted.is_empty(),
        "these files silence a ban of clippy.toml. Let them be handed what they reach for; a true shell is added to SHELLS in \
         tests/tidy/tests/suite/lints.rs with what it reaches for:\n{}",
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
    let (production, tests) = crate::support::rust_files();
    for file in production.iter().chain(&tests).filter(|file| silences(file) && !file.starts_with("tests/tidy")) {
        let text: String = crate::support::text(file).split_whitespace().collect();
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
    let (production, _) = crate::support::rust_files();
    for path in PURE {
        let exists = production.iter().any(|file| file.starts_with(path));
        assert!(exists, "{path} is listed as pure, and is not there any more");
    }
    let is_machine = |file: &Path| file.iter().any(|part| part == "machine" || part == "machine.rs");
    let is_pure = |file: &&PathBuf| is_machine(file) || PURE.iter().any(|path| file.starts_with(path));
    for file in production.iter().filter(is_pure) {
        for (ident, line) in crate::support::idents(file) {
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
    let found: Vec<PathBuf> = crate::support::files("").into_iter().filter(is_config).collect();
    assert_eq!(found, [PathBuf::from("clippy.toml")], "a nested clippy.toml replaces the one at the root silently");
}

/// A suite that is green because it did not run proves nothing: what is lacking fails where CI runs, and one function says so.
#[test]
fn only_one_place_skips_tests() {
    let (production, tests) = crate::support::rust_files();
    let says = ["\"skipped", ": "].concat();
    for file in production.iter().chain(&tests).filter(|file| !file.starts_with("tests/testing")) {
        let said = crate::support::text(file).contains(&says);
        assert!(!said, "{}: call althing_testing::skip, which fails where CI runs", file.display());
    }
}

/// What may be skipped where CI runs is what the list says, which names tests that there are.
#[test]
fn only_listed_exceptions_are_skipped_where_ci_runs() {
    let list = crate::support::text(Path::new("tests/testing/exceptions.txt"));
    let mut listed: Vec<PathBuf> = Vec::new();
    for test in list.split("\n\n").skip(1).map(|block| block.lines().next().expect("a name")) {
        let (module, function) = test.split_once("::").unwrap_or_else(|| panic!("{test}: MODULE::TEST"));
        let file = Path::new("tests/e2e/tests/suite").join(module).with_extension("rs");
        let text = crate::support::text(&file);
        assert!(text.contains(&format!("#[test]\nfn {function}()")), "{} has no test {function}", file.display());
        assert!(text.contains(&format!("\"{test}\"")), "{} does not say that {test} may be skipped", file.display());
        listed.push(file);
    }
    let (production, tests) = crate::support::rust_files();
    let all = production.iter().chain(&tests).filter(|file| !file.starts_with("tests/testing"));
    let claims = |file: &&PathBuf| {
        let idents = crate::support::idents(file);
        let named = |word: &str| idents.iter().any(|(ident, _)| ident == word);
        named("althing_testing") && named("exception")
    };
    let claimed: Vec<PathBuf> = all.filter(claims).cloned().collect();
    listed.sort();
    assert_eq!(claimed, listed, "who calls althing_testing::exception, and whom tests/testing/exceptions.txt lists");
}

//! The trusted core stays small: what decides who runs, what may be called, and what is promised (A2).

use std::path::Path;

/// The rooms of the core, and how many lines each may have without its tests.
const CORE: &[(&str, usize)] = &[
    ("node/l1-execution/src/admission", 850),
    ("node/l1-execution/src/hrt", 1_700),
    ("node/l1-execution/src/kernel", 1_350),
    ("node/l1-execution/src/binding", 550),
    ("node/l1-execution/src/tools", 520),
    ("node/l1-execution/src/host", 1_000),
];

/// All that the core's crate depends on. What compiles guests, indexes texts, or speaks MCP or to Things is in leaves of
/// its own, behind ports, and can be replaced without touching the core. The crate is more than the core, though: models,
/// programs and embeddings are asked over HTTP, and turns are in A2A's types. No room of the core uses those libraries.
const DEPENDENCIES: &[&str] = &[
    "a2a-lf",
    "althing-failure",
    "althing-fetch",
    "althing-keeper",
    "althing-protocol",
    "althing-store",
    "althing-td",
    "bytes",
    "ciborium",
    "futures",
    "nix",
    "reqwest",
    "rtrb",
    "semver",
    "serde",
    "serde_bytes",
    "serde_json",
    "serde_json_canonicalizer",
    "thiserror",
    "thread-priority",
    "tokio",
    "tokio-util",
    "tracing",
];

/// Libraries of the core's crate that speak a protocol, as code names them.
const PROTOCOLS: &[&str] = &["a2a", "reqwest"];

#[test]
fn no_room_of_the_core_speaks_a_protocol() {
    let (production, _) = crate::support::rust_files();
    for file in production.iter().filter(|file| CORE.iter().any(|(room, _)| file.starts_with(Path::new(room)))) {
        let spoken = crate::support::idents(file).into_iter().find(|(name, _)| PROTOCOLS.contains(&name.as_str()));
        assert_eq!(spoken, None, "{} speaks a protocol: move that out of the core", file.display());
    }
}

#[test]
fn the_core_is_as_small_as_it_is_said_to_be() {
    let (production, _) = crate::support::rust_files();
    for (room, most) in CORE {
        let files = production.iter().filter(|file| file.starts_with(Path::new(room)));
        let lines: usize = files
            .filter(|file| file.file_name().is_none_or(|name| name != "tests.rs"))
            .map(|file| {
                let tests: usize = crate::support::test_lines(file).iter().map(|range| range.clone().count()).sum();
                crate::support::text(file).lines().count().saturating_sub(tests)
            })
            .sum();
        println!("{room}: {lines} of {most} lines");
        assert!(lines > 0, "{room} is not there any more: take it out of the list");
        assert!(lines <= *most, "{room} has {lines} lines, and {most} is the most: move what is no core to a leaf");
    }
}

#[test]
fn the_core_depends_on_what_is_listed_and_on_nothing_else() {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec().expect("cargo tells of the workspace");
    let core = metadata.packages.iter().find(|package| package.name == "althing-execution").expect("the core");
    let mut has: Vec<&str> = core
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == cargo_metadata::DependencyKind::Normal)
        .map(|dependency| dependency.name.as_str())
        .collect();
    has.sort_unstable();
    assert_eq!(has, DEPENDENCIES, "think twice, then write it into the list with the reason in Cargo.toml");
}

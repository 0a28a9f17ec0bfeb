//! The public Thing Descriptions of the shared vectors: the valid ones are accepted, the invalid ones refused.

use std::fs;
use std::path::PathBuf;

use althing_td::{Description, validate};
use althing_testing::public_vectors;

/// The files of one folder of the vectors. `None`, with the reason printed, where the vectors are absent.
fn files(folder: &str) -> Option<Vec<(PathBuf, Vec<u8>)>> {
    let entries = fs::read_dir(public_vectors(folder)?).expect("a readable folder");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("a readable folder").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{folder} has files");
    Some(paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("a readable file"))).collect())
}

#[test]
fn every_valid_description_is_accepted_and_comes_back_byte_for_byte() {
    let Some(files) = files("td/valid") else { return };
    let mut refused = Vec::new();
    for (path, bytes) in files {
        match Description::parse(&bytes) {
            Ok(description) => assert_eq!(description.bytes(), bytes, "{}", path.display()),
            Err(e) => refused.push(format!("{}: {e}", path.display())),
        }
    }
    assert!(refused.is_empty(), "{} refused:\n{}", refused.len(), refused.join("\n"));
}

#[test]
fn every_invalid_description_is_refused_with_a_reason() {
    let Some(files) = files("td/invalid") else { return };
    for (path, bytes) in files {
        let report = validate(&bytes);
        assert!(!report.is_valid(), "{} was accepted", path.display());
        for finding in &report.findings {
            println!("{}: {finding}", path.file_name().expect("a file").to_string_lossy());
            assert!(!finding.message.is_empty() && !finding.remedy.is_empty(), "{finding:?}");
            assert!(finding.rule.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", finding.rule);
        }
    }
}

#[test]
fn duplicate_members_outside_the_affordance_names_only_warn() {
    let Some(files) = files("td/valid") else { return };
    let warns = |bytes: &[u8]| validate(bytes).findings.iter().any(|f| f.rule == "duplicate-member");
    let warned = files.iter().filter(|(_, bytes)| warns(bytes)).count();
    assert_eq!(warned, 4);
}

/// The embedded schemas are the ones of the vectors, unchanged.
#[test]
fn the_embedded_schemas_are_those_of_the_recommendations() {
    let Some(files) = files("td/schema") else { return };
    let own = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is")).join("schema");
    let of = |path: &PathBuf| own.join(path.file_name().expect("a file"));
    let embedded: Vec<_> = files.iter().filter(|(path, _)| of(path).exists()).collect();
    assert!(!embedded.is_empty(), "no schema of the vectors is embedded");
    for (path, bytes) in embedded {
        assert!(&fs::read(of(path)).expect("a readable file") == bytes, "{} differs", of(path).display());
    }
}

//! The verdict table of the shared vectors: which rules refuse each invalid description, and whether the schema of the
//! W3C alone would have refused it.

use std::path::PathBuf;

use althing_td::validate;
use serde_json::Value;

/// File, the rules of its errors, whether the JSON Schema alone refuses it.
const VERDICTS: [(&str, &[&str], bool); 12] = [
    ("camelCase.json", &["op-not-allowed"], true),
    ("duplicatePropertyAffordanceNames.json", &["duplicate-member"], false),
    ("emptyEnum.json", &["schema-too-few"], true),
    ("emptyOpArray.json", &["schema-too-few"], true),
    ("emptySecurity.json", &["schema-too-few"], true),
    ("invalidInteractionElement.json", &["schema-type"], true),
    ("invalidSecuMatch.json", &["security-undefined"], false),
    ("multipleRelType.json", &["link-type-twice"], false),
    ("noForm1.json", &["schema-required"], true),
    ("noForm3.json", &["schema-required"], true),
    ("noTitle.json", &["schema-required"], true),
    ("versionInstanceMissing.json", &["schema-required"], true),
];

#[test]
fn each_invalid_vector_is_refused_by_the_rules_it_breaks() {
    let folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"))
        .join("../../shared/vectors/td/invalid");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: the shared vectors are not beside this checkout ({} is absent)", folder.display());
        return;
    };
    assert_eq!(entries.count(), VERDICTS.len(), "a vector without a verdict");
    let schema: Value = serde_json::from_str(include_str!("../schema/td-1.1.json")).expect("the schema is JSON");
    let schema = jsonschema::draft7::new(&schema).expect("the schema compiles");
    for (file, rules, by_schema) in VERDICTS {
        let bytes = std::fs::read(folder.join(file)).expect("a vector of the table");
        let report = validate(&bytes);
        let found: Vec<&str> = report.errors().map(|f| f.rule).collect();
        assert_eq!(found, rules, "{file}\n{report}");
        let value: Value = serde_json::from_slice(&bytes).expect("the vectors are JSON");
        assert_eq!(!schema.is_valid(&value), by_schema, "{file}");
    }
}

#[test]
fn each_valid_vector_has_no_error_and_only_known_warnings() {
    let folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"))
        .join("../../shared/vectors/td/valid");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: the shared vectors are not beside this checkout ({} is absent)", folder.display());
        return;
    };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        let report = validate(&std::fs::read(&path).expect("a readable file"));
        for finding in &report.findings {
            let known = ["duplicate-member", "op-contradicts-access", "hidden-character"];
            assert!(known.contains(&finding.rule), "{}: {finding}", path.display());
        }
    }
}

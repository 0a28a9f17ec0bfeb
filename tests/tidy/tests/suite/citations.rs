//! Every numbered rule of the protocol is cited by a test that can fail.
//!
//! Whether that test tries the rule which it cites, people must see: this one sees that there is a place to look at.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

const SPEC: &str = "protocol/SPEC.md";

/// The numbers of the rules, as the specification states them: `**[P-17]**`.
fn rules() -> Vec<u32> {
    let path = crate::support::root().join(SPEC);
    let spec = std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!("cannot read {SPEC}: {error}. It states the protocol's rules, each as a line with **[P-number]**")
    });
    let rules: Vec<u32> = spec.split("**[").skip(1).filter_map(|rest| number(rest.split_once("]**")?.0)).collect();
    assert!(!rules.is_empty(), "{SPEC} states no rule; a rule is a line with **[P-number]**");
    rules
}

/// 17 for `P-17`.
fn number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("P-")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The rules cited in a line: each `P-` with digits that is a word of its own.
fn cited(line: &str) -> Vec<u32> {
    let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    line.split(|c| !is_word(c)).filter_map(number).collect()
}

/// Every citation in a test function that asserts something, or in the documentation of one, with the places.
fn citations() -> BTreeMap<u32, Vec<String>> {
    let (production, tests) = crate::support::rust_files();
    let mut found = BTreeMap::new();
    let rooms = ["protocol", "edge", "node", "registry"];
    let production = production.iter().filter(|file| rooms.iter().any(|room| file.starts_with(room)));
    for file in tests.iter().filter(|file| is_proof(file)).chain(production) {
        let text = crate::support::text(file);
        let lines: Vec<&str> = text.lines().collect();
        for function in crate::support::test_functions(file).into_iter().filter(|function| function.asserts) {
            for at in function.lines {
                for rule in cited(lines[at - 1]) {
                    found.entry(rule).or_insert_with(Vec::new).push(format!("{}:{at}", file.display()));
                }
            }
        }
    }
    found
}

/// This crate's own examples prove nothing.
fn is_proof(file: &Path) -> bool {
    let is_ours = ["protocol", "edge", "node", "registry", "tests"].iter().any(|room| file.starts_with(room));
    is_ours && !file.starts_with("tests/tidy")
}

#[test]
fn rules_are_numbered_from_one_without_gap_or_repetition() {
    let rules = rules();
    let mut seen = BTreeSet::new();
    for rule in &rules {
        assert!(seen.insert(*rule), "{SPEC} states [P-{rule}] twice");
    }
    let last = *seen.last().expect("there are rules");
    let gaps: Vec<u32> = (1..=last).filter(|rule| !seen.contains(rule)).collect();
    assert!(gaps.is_empty(), "{SPEC} has no rule {gaps:?}, but one with the number {last}");
}

#[test]
fn every_rule_is_cited_by_a_test_that_can_fail() {
    let citations = citations();
    let missing: Vec<String> =
        rules().into_iter().filter(|rule| !citations.contains_key(rule)).map(|rule| format!("P-{rule}")).collect();
    assert!(
        missing.is_empty(),
        "no test function that asserts something cites {}. Cite each rule, by its own number, in the test function \
         that proves it or in its doc comment (protocol/, edge/, node/, registry/ or tests/)",
        missing.join(", ")
    );
}

#[test]
fn every_citation_names_a_rule() {
    let rules: BTreeSet<u32> = rules().into_iter().collect();
    let files = crate::support::with_extension("protocol", &["rs"]);
    for file in files.iter().chain(&crate::support::rust_files().1).filter(|file| is_proof(file)) {
        for (index, line) in crate::support::text(file).lines().enumerate() {
            for rule in cited(line) {
                assert!(
                    rules.contains(&rule),
                    "{}:{} cites P-{rule}, which {SPEC} does not state",
                    file.display(),
                    index + 1
                );
            }
        }
    }
}

#[test]
fn a_citation_is_a_word_of_its_own() {
    assert_eq!(cited("// P-17, (P-2) and \"P-30\""), [17, 2, 30]);
    assert_eq!(cited("HTTP-17 P-x P-1a P-1-2 xP-3 P- P-4_"), Vec::<u32>::new());
}

#[test]
fn only_a_test_that_asserts_proves_something() {
    let text = "/// documented
        #[test]
        fn plain() {
            assert_eq!(1, 1);
        }
        // above
        #[tokio::test(start_paused = true)]
        async fn of_tokio() {
            if true { loop { x.expect_err(\"it is refused\"); } }
        }
        #[test]
        fn empty() { let assert = 1; assert != 2; }
        fn no_test() { assert!(true) }
        #[cfg(test)]
        mod tests {
            #[test]
            #[ignore = \"on demand\"]
            fn ignored() { panic!() }
            #[test]
            #[should_panic(expected = \"so\")]
            fn panics() { x(); }
            proptest! {
                #![proptest_config(ProptestConfig::default())]
                /// documented too
                #[test]
                fn of_a_macro(x in 0..9, y in { 1..2 }) { prop_assert!(x < 9) }
            }
        }";
    let found = crate::support::functions_in(text).expect("Rust");
    let found: Vec<_> = found.into_iter().map(|function| (function.lines, function.asserts)).collect();
    assert_eq!(found, [(1..=5, true), (7..=10, true), (11..=12, false), (19..=21, true), (24..=26, true)]);
}

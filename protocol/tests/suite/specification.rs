//! `SPEC.md` and the tests agree on which rules there are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Rules that a transport or an A2A face obeys, not this crate: the tests of those crates cite them.
const OBEYED_ELSEWHERE: [u32; 30] = [
    19, 20, 33, 34, 42, 53, 55, 56, 57, 59, 60, 61, 70, 71, 72, 75, 76, 77, 153, 154, 155, 156, 157, 195, 200, 205,
    213, 215, 221, 222,
];
/// Names, keys and rows of sessions: the same, by the crate of tasks.
const OBEYED_BY_SESSIONS: std::ops::RangeInclusive<u32> = 216..=220;
/// How a group executes its log, and `/althing/raft/1`: the same, by the crate of groups.
const OBEYED_BY_GROUPS: [std::ops::RangeInclusive<u32>; 7] =
    [85..=109, 111..=121, 125..=142, 144..=152, 158..=158, 194..=194, 196..=199];
/// What a registry accepts and shows, and the tiles of a log: the same, by the crates of registries and of logs.
const OBEYED_BY_REGISTRIES: [u32; 10] = [167, 168, 169, 170, 184, 185, 186, 189, 191, 192];

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The number at the start of `text`.
fn number(text: &str) -> Option<u32> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The rules that `text` cites: `P-7`, and all of `P-1 to P-10`.
fn cited(text: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("P-") {
        let Some(first) = number(&text[at + 2..]) else { continue };
        let rest = text[at + 2..].trim_start_matches(|c: char| c.is_ascii_digit());
        let last = rest.strip_prefix(" to P-").and_then(number).unwrap_or(first);
        found.extend(first..=last);
    }
    found
}

#[test]
fn rules_are_numbered_without_gaps_and_each_is_cited_by_a_test() {
    let top = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    let specification = read(&top.join("SPEC.md"));
    let mut rules: Vec<u32> =
        specification.lines().filter_map(|line| line.strip_prefix("**[P-")).filter_map(number).collect();
    // A rule that came later may stand in an earlier chapter.
    rules.sort_unstable();
    assert_eq!(rules, (1..=u32::try_from(rules.len()).expect("a few")).collect::<Vec<_>>());
    let mut tested = BTreeSet::new();
    for directory in ["src", "src/audit", "src/group", "src/object", "src/registry", "src/tlog", "tests/suite"] {
        for entry in std::fs::read_dir(top.join(directory)).expect("our own source") {
            let path = entry.expect("our own source").path();
            if path.is_file() && !path.ends_with("specification.rs") {
                let text = read(&path);
                let is_mixed = directory != "tests/suite" && !path.ends_with("tests.rs");
                let from = if is_mixed { text.find("#[cfg(test)]").unwrap_or(text.len()) } else { 0 };
                tested.extend(cited(&text[from..]));
            }
        }
    }
    let missing: Vec<_> = rules.iter().filter(|rule| !tested.contains(rule)).copied().collect();
    let elsewhere =
        OBEYED_ELSEWHERE.into_iter().chain(OBEYED_BY_GROUPS.into_iter().flatten()).chain(OBEYED_BY_SESSIONS);
    let elsewhere: BTreeSet<u32> = elsewhere.chain(OBEYED_BY_REGISTRIES).collect();
    let elsewhere: Vec<u32> = elsewhere.into_iter().collect();
    assert_eq!(missing, elsewhere, "rules that no test here cites");
    let unknown: Vec<_> = cited(&specification).union(&tested).filter(|rule| !rules.contains(rule)).copied().collect();
    assert_eq!(unknown, [0; 0], "rules that are cited and do not exist");
}

#[test]
fn every_domain_string_and_limit_in_the_specification_is_the_one_in_the_source() {
    use althing_protocol::limits::*;
    let specification =
        read(&PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is")).join("SPEC.md"));
    let chapter = |title: &str| {
        let from = specification.find(title).expect("the chapter");
        let rest = &specification[from + title.len()..];
        rest[..rest.find("\n## ").unwrap_or(rest.len())].replace(',', "")
    };
    let limits = chapter("## 15 Limits");
    for value in [
        CBOR_DEPTH_MAX,
        CBOR_ITEMS_MAX,
        HELLO_BYTES_MAX,
        FRAME_BYTES_MAX,
        ANSWER_FRAME_BYTES_MAX,
        ANSWER_BYTES_MAX,
        BODY_BYTES_MAX,
        OBJECT_BYTES_MAX,
        OPERATION_BYTES_MAX,
        TRACE_BYTES_MAX,
        PRINCIPALS_MAX,
        PRINCIPAL_BYTES_MAX,
        EXTENSIONS_MAX,
        DELEGATION_BYTES_MAX,
        TASK_ID_BYTES_MAX,
        HANDOFF_DESCRIPTION_BYTES_MAX,
        HANDOFF_SNAPSHOT_BYTES_MAX,
        HANDOFF_ITEMS_MAX,
        HANDOFF_TEXT_BYTES_MAX,
        HANDOFF_SIGN_OFFS_MAX,
        HANDOFF_SIGN_OFF_BYTES_MAX,
        AUDIT_LEAF_BYTES_MAX,
        AUDIT_PRINCIPALS_MAX,
        AUDIT_POLICIES_MAX,
        AUDIT_BODIES_MAX,
        AUDIT_TEXT_BYTES_MAX,
        AUDIT_ASK_BYTES_MAX,
        NETWORK_BYTES_MAX,
        AGENT_NAME_MAX,
        PLACEMENT_AGENTS_MAX,
        KEYLOG_EVENTS_MAX,
        CONTACT_ADDRESSES_MAX,
        RECORD_BYTES_MAX,
        INQUIRY_BYTES_MAX,
        INQUIRY_AGENTS_MAX,
        KEYRING_LOGS_MAX,
        KEYRING_WITHDRAWALS_MAX,
        KEYRING_STRANGERS_BYTES_MAX,
        KEYRING_FORGOTTEN_MAX,
        GROUP_OWNERS_MAX,
        GROUP_VOTERS_MAX,
        GROUP_MEMBERS_MAX,
        GROUP_BATCH_COMMANDS_MAX,
        PROPOSALS_OF_OWNER_MAX,
        PROPOSALS_OF_OWNER_BYTES_MAX,
        GROUP_ADDRESSES_MAX,
        GROUP_ADDRESS_BYTES_MAX,
        GROUP_KEY_BYTES_MAX,
        GROUP_VALUE_BYTES_MAX,
        WORK_CONTENT_BYTES_MAX,
        WORK_NAME_BYTES_MAX,
        WORK_REASON_BYTES_MAX,
        WORK_REFUSAL_BYTES_MAX,
        WORK_LABELS_MAX,
        WORK_DEPENDENCIES_MAX,
        WORK_RESOURCES_MAX,
        usize::from(WORK_ATTEMPTS_MAX),
        WORKFLOW_STEPS_MAX,
        WORKFLOW_BYTES_MAX,
        WORKFLOW_AFTER_MAX,
        WORKFLOW_ITEMS_MAX,
        usize::from(WORKFLOW_ROUNDS_MAX),
        RELEASE_READERS_MAX,
        RELEASE_MARKS_MAX,
        RELEASE_APPROVALS_MAX,
        ROSTER_MEMBERS_MAX,
        ROSTER_NAMES_MAX,
        ROSTER_NAMES_IN_ALL_MAX,
        ATTESTATION_VALUE_BYTES_MAX,
        ATTESTATIONS_OF_SIGNER_MAX,
        ATTESTATIONS_SHOWN_MAX,
        SUBMISSION_STATEMENTS_MAX,
        SUBMISSION_BYTES_MAX,
        PRESENCE_GRANTS_MAX,
        PRESENCE_BYTES_MAX,
    ]
    .map(|value| value as u64)
    .into_iter()
    .chain([PLACEMENT_TTL_MAX_MS, GRANT_LIFE_MAX_MS, CLOCK_SKEW_MAX_MS, INVITATION_LIFE_MAX_MS])
    .chain([PROPOSAL_LIFE_MAX_MS, REPLACE_AFTER_MIN_MS, REPLACE_AFTER_MAX_MS])
    .chain([BUNDLE_BYTES_MAX, ROSTER_LIFE_MAX_MS, ATTESTATION_LIFE_MAX_MS, VISIT_LIFE_MAX_MS])
    .chain([DOMAIN_PROOF_LIFE_MS, DOMAIN_WAIT_MS, HANDOFF_LIFE_MAX_MS])
    .chain([WORK_LEASE_MIN_MS, WORK_LEASE_MAX_MS, WORKFLOW_TIMEOUT_MIN_MS, WORKFLOW_TIMEOUT_MAX_MS])
    {
        let words: BTreeSet<&str> = limits.split(|c: char| !c.is_ascii_digit()).collect();
        assert!(words.contains(value.to_string().as_str()), "the limit {value} is missing");
    }
    let domains = chapter("## 17 Domain strings");
    for kind in [
        "frame",
        "description",
        "grant",
        "placement",
        "key-event",
        "membership",
        "binding",
        "contact",
        "withdrawal",
        "charter",
        "invitation",
        "expulsion",
        "dissolution",
        "group-commands",
        "deployment",
        "release",
        "mark",
        "roster",
        "attestation",
        "visit",
        "task-move",
        "handoff",
        "handoff-answer",
        "owner-order",
    ] {
        assert!(domains.contains(&format!("`althing/{kind}/1`")), "{kind}");
    }
}

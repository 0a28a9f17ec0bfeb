//! What holds for every input.

use std::collections::BTreeSet;

use althing_td::{
    AgentFile, CardContext, CardError, Description, Interface, Severity, Strictness, WorkflowFileError, card, describe,
    parse_app, parse_workflow, sign_card, validate, validate_as, verify_card,
};
use ed25519_dalek::SigningKey;
use proptest::prelude::*;
use serde_json::Value;

use crate::generate::agent_file;

const PUBLISHER: &str = "zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw";

fn urn(file: &AgentFile) -> String {
    format!("urn:althing:{PUBLISHER}:{}", file.name)
}

fn context() -> CardContext {
    let url = "http://127.0.0.1:8080/a2a".to_owned();
    let (protocol_binding, protocol_version) = ("JSONRPC".to_owned(), "1.0".to_owned());
    let interface = Interface { url, protocol_binding, protocol_version, tenant: "one".to_owned() };
    CardContext { interfaces: vec![interface], streaming: true, token_required: true, ..CardContext::default() }
}

/// The `did:key` kid of a key: multibase of the multicodec prefix and the public key.
fn kid(key: &SigningKey) -> String {
    let mut bytes = vec![0xed, 0x01];
    bytes.extend_from_slice(key.verifying_key().as_bytes());
    let multibase = format!("z{}", bs58::encode(bytes).into_string());
    format!("did:key:{multibase}#{multibase}")
}

/// A workflow with every key.
const WORKFLOW: &str = "name: some\nsteps:\n  - { id: a, capability: a.b, attempts: 2, lease: 5s, priority: high }\n  \
    - { id: b, for_each: a, agent: n, input: \"{{item}} {{input}}\", timeout: 5m, needs: { labels: [x], cores: 1 } }\n  \
    - { id: c, after: [a, b], agent: n, input: \"{{step.b}}\", when: { step: a, equals: yes } }\n  \
    - { id: d, after: c, approve: \"Go on?\" }\n  \
    - { id: e, after: d, agent: n, repeat: { from: e, contains: good, rounds: 2 } }\n";

/// An app with every key.
const APP: &str = "name: shop\ngroup: team\nagents:\n  - { file: a.yaml, instances: 2, labels: [x], needs: [n] }\n  \
    - { file: n.yaml }\nworkflows: [{ file: w.yaml }]\nschedules:\n  \
    - { name: s, cron: \"0 3 * * *\", zone: Europe/Berlin, workflow: some, input: x, missed: once, overlap: replace }\n";

/// What such files are made of.
const PIECES: [&str; 40] = [
    "name: ",
    "some",
    "steps:",
    "\n",
    "  - ",
    "{ ",
    " }",
    "[",
    "]",
    ", ",
    "id: ",
    "a",
    "b",
    "after: ",
    "agent: ",
    "n",
    "capability: ",
    "input: ",
    "\"{{step.a}}\"",
    "{{",
    "approve: ",
    "when: ",
    "step: ",
    "equals: ",
    "repeat: ",
    "from: ",
    "rounds: ",
    "3",
    "timeout: ",
    "5m",
    "for_each: ",
    "needs: ",
    "group: ",
    "agents:",
    "file: ",
    "a.yaml",
    "workflows:",
    "schedules:",
    "cron: \"* * * * *\"",
    "é…",
];

/// Reads a text as each file for a group, and as every file that an app names.
fn read_for_a_group(text: &str) {
    let _ = parse_workflow(text);
    if let Ok(file) = parse_app(text) {
        let _ = file.clone().resolve(|_| Ok(text.to_owned()));
        let resolved = file.resolve(|path| match path {
            "w.yaml" => Ok(WORKFLOW.to_owned()),
            "gone.yaml" => Err("it is gone".to_owned()),
            path => Ok(format!(
                "name: {}\ndescription: x\nruntime: {{ native: {{ builtin: echo }} }}\n",
                path.trim_end_matches(".yaml")
            )),
        });
        if let Ok(app) = resolved {
            assert!(app.workflows.iter().all(|workflow| workflow.check().is_ok()));
            for (at, agent) in app.agents.iter().enumerate() {
                let before = &app.agents[..at];
                assert!(agent.needs.iter().all(|need| before.iter().any(|other| other.name == *need)));
            }
        }
    }
}

#[test]
fn the_files_that_are_changed_are_good_before() {
    assert!(parse_workflow(WORKFLOW).is_ok_and(|workflow| workflow.steps.len() == 5));
    let app = parse_app(APP).expect("an app");
    assert_eq!((app.agents.len(), app.workflows.len(), app.schedules.len()), (2, 1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_without_panicking(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Description::parse(&bytes);
        let _ = althing_td::no_duplicates(&bytes);
        prop_assert!(verify_card(&bytes, |_| None).is_err());
    }

    #[test]
    fn any_text_is_read_as_an_agent_file_without_panicking(text in "[a-z:\\[\\]{}&*!| \n\t\"'<#-]{0,200}") {
        let _ = AgentFile::parse(&text);
    }

    #[test]
    fn any_text_is_read_as_a_workflow_or_an_app_without_panicking(
        text in "[a-z0-9:\\[\\]{}&*!|,. \n\t\"'<#-]{0,200}",
        pieces in proptest::collection::vec(prop::sample::select(PIECES.to_vec()), 0..40),
    ) {
        for text in [text, pieces.concat()] {
            read_for_a_group(&text);
        }
    }

    #[test]
    fn a_changed_workflow_or_app_is_read_without_panicking(
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop::sample::select(PIECES.to_vec())),
            1..6,
        ),
    ) {
        for text in [WORKFLOW, APP] {
            let mut text = text.to_owned();
            for (from, length, piece) in &changes {
                let from = text.floor_char_boundary(from.index(text.len() + 1));
                let to = text.ceil_char_boundary((from + length.index(20)).min(text.len()));
                text.replace_range(from..to, piece);
            }
            read_for_a_group(&text);
        }
    }

    #[test]
    fn steps_are_accepted_in_any_order_and_refused_only_in_a_circle(
        after in proptest::collection::vec(proptest::collection::btree_set(0_usize..12, 0..3), 1..12),
    ) {
        let ids = |set: &BTreeSet<usize>| {
            set.iter().filter(|at| **at < after.len()).map(|at| format!("s{at}")).collect::<Vec<_>>().join(", ")
        };
        let step = |(at, set)| format!("  - {{ id: s{at}, agent: a, after: [{}] }}\n", ids(set));
        let steps: String = after.iter().enumerate().map(step).collect();
        // A step is reachable from itself: it waits for itself.
        let mut reach = after.clone();
        for _ in 0..after.len() {
            for at in 0..after.len() {
                let more: Vec<usize> = reach[at].iter().filter_map(|on| reach.get(*on)).flatten().copied().collect();
                reach[at].extend(more);
            }
        }
        let has_circle = reach.iter().enumerate().any(|(at, set)| set.contains(&at));
        match parse_workflow(&format!("name: some\nsteps:\n{steps}")) {
            Ok(workflow) => {
                prop_assert!(!has_circle);
                prop_assert_eq!(workflow.check(), Ok(()));
                prop_assert_eq!(workflow.steps.len(), after.len());
            }
            Err(WorkflowFileError::Invalid(problems)) => {
                prop_assert!(has_circle && problems.len() == 1 && problems[0].rule == "circle", "{:?}", problems);
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn a_changed_description_is_read_without_panicking(
        file in agent_file(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = describe(&file, &urn(&file)).bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(description) = Description::parse(&bytes) {
            prop_assert_eq!(description.bytes(), &bytes[..]);
            let _ = (description.capabilities(), description.search_text(), card(&description, &context()));
        }
    }

    #[test]
    fn what_an_agent_file_becomes_is_valid_with_no_findings(file in agent_file()) {
        prop_assert!(file.check().is_ok(), "{:?}", file.check());
        let made = describe(&file, &urn(&file));
        for report in [validate(made.bytes()), validate_as(made.bytes(), Strictness::Own)] {
            prop_assert!(report.findings.is_empty(), "{}", report);
        }
        let read = Description::parse(made.bytes()).expect("validated above");
        prop_assert_eq!(&read, &made);
        prop_assert_eq!(read.value(), made.value());
        let urn = urn(&file);
        prop_assert_eq!(read.id(), Some(urn.as_str()));
        prop_assert_eq!(read.version(), Some(file.version.as_str()));
        prop_assert_eq!(read.capabilities().len(), file.skills.len());
        for (skill, capability) in file.skills.iter().zip(read.capabilities()) {
            prop_assert_eq!(&skill.id, &capability.id);
            prop_assert_eq!(&skill.action, &capability.action);
            prop_assert_eq!(&skill.target, &capability.target);
            prop_assert_eq!(&skill.tags, &capability.tags);
            prop_assert_eq!(&skill.examples, &capability.examples);
        }
    }

    #[test]
    fn an_agent_file_comes_back_from_disk_as_it_was(file in agent_file()) {
        let json = serde_json::to_string(&file).expect("an agent file is JSON");
        prop_assert_eq!(&serde_json::from_str::<AgentFile>(&json).expect("what was written"), &file);
        // JSON is YAML, and the stored shape is the shape of the file.
        prop_assert_eq!(AgentFile::parse(&json).expect("what was written"), file);
    }

    #[test]
    fn a_signed_card_verifies_until_a_byte_of_it_changes(
        file in agent_file(),
        seed in any::<[u8; 32]>(),
        at in any::<prop::sample::Index>(),
        flip in 1_u8..=255,
    ) {
        let key = SigningKey::from_bytes(&seed);
        let mut made = card(&describe(&file, &urn(&file)), &context());
        let unsigned = serde_json_canonicalizer::to_vec(&made).expect("a card has a canonical form");
        sign_card(&mut made, &key, &kid(&key)).expect("a card of ours can be signed");
        let trusted = |name: &str| (name == kid(&key)).then(|| key.verifying_key());
        prop_assert_eq!(verify_card(made.to_string().as_bytes(), trusted), Ok(kid(&key)));

        let mut changed = unsigned;
        let at = at.index(changed.len());
        changed[at] ^= flip;
        if let Ok(mut value) = serde_json::from_slice::<Value>(&changed)
            && value.is_object()
        {
            value["signatures"] = made["signatures"].clone();
            let refused = verify_card(value.to_string().as_bytes(), trusted);
            prop_assert!(matches!(refused, Err(CardError::Mismatch { .. } | CardError::Unsigned)), "{:?}", refused);
        }
    }

    #[test]
    fn the_errors_of_a_report_come_first(bytes in "\\{(\"[a-z@]{1,9}\":(1|\"x\"|\\[\\]|\\{\\}),){0,9}\"title\":1\\}") {
        let report = validate(bytes.as_bytes());
        let severities: Vec<Severity> = report.findings.iter().map(|f| f.severity).collect();
        prop_assert!(severities.is_sorted());
        prop_assert!(!report.is_valid());
    }
}

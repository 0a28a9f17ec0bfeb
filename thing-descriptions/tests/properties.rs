//! What holds for every input.

mod generate;

use althing_td::{
    AgentFile, CardContext, CardError, Description, Interface, Severity, Strictness, card, describe, sign_card,
    validate, validate_as, verify_card,
};
use ed25519_dalek::SigningKey;
use proptest::prelude::*;
use serde_json::Value;

use generate::agent_file;

const PUBLISHER: &str = "zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw";

fn urn(file: &AgentFile) -> String {
    format!("urn:althing:{PUBLISHER}:{}", file.name)
}

fn context() -> CardContext {
    let url = "http://127.0.0.1:8080/a2a".to_owned();
    let interface = Interface { url, protocol_binding: "JSONRPC".to_owned(), protocol_version: "1.0".to_owned() };
    CardContext { interfaces: vec![interface], streaming: true, token_required: true, ..CardContext::default() }
}

/// The `did:key` kid of a key: multibase of the multicodec prefix and the public key.
fn kid(key: &SigningKey) -> String {
    let mut bytes = vec![0xed, 0x01];
    bytes.extend_from_slice(key.verifying_key().as_bytes());
    let multibase = format!("z{}", bs58::encode(bytes).into_string());
    format!("did:key:{multibase}#{multibase}")
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

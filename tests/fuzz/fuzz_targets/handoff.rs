//! Any text as the document of a handoff: what is read is written and read again as the same, it can be shown to people, and
//! what is signed of it verifies.
#![no_main]

use std::sync::LazyLock;

use althing_protocol::SecretKey;
use althing_td::{handoff_json, handoff_text, parse_handoff};
use libfuzzer_sys::fuzz_target;

const NETWORK: &str = "testnet";

static KEY: LazyLock<SecretKey> = LazyLock::new(|| SecretKey::from_seed(&[3; 32]));

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = match parse_handoff(text) {
        Ok(file) => file,
        // What is wrong with it is told.
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let view = handoff_json(&file);
    let again = |text: &str| parse_handoff(text).map(|file| handoff_json(&file)).ok();
    assert_eq!(again(&view.to_string()).as_ref(), Some(&view), "what was written is read");
    assert!(!handoff_text(&view).is_empty());
    let (signed, envelope) = (file.signed(), file.envelope());
    assert!(signed.is_none() || envelope.is_some(), "what is signed has an envelope");
    // What would not be accepted is not signed.
    if let Ok(ours) = file.sign(NETWORK, &KEY) {
        let signed = ours.signed().expect("it was signed").expect("by an honest key");
        assert_eq!(signed.signer, KEY.public());
    }
});

//! Any bytes as a value of the table, an inquiry or its answer: what is accepted encodes to the same bytes, and belongs
//! under one key only.
#![no_main]

use std::sync::LazyLock;

use althing_protocol::inquiry::{Inquiry, Testimony};
use althing_protocol::record::{RecordKey, Value};
use althing_protocol::{KeyLog, SecretKey, keylog, sign1};
use libfuzzer_sys::fuzz_target;

const NOW_MS: u64 = 1_700_000_000_000;

/// The node and the publisher of `protocol/vectors/records.json`, and the keys of what they say.
static KEYS: LazyLock<(SecretKey, [RecordKey; 2])> = LazyLock::new(|| {
    let key = |seed: u8| SecretKey::from_seed(&[seed; 32]);
    let first = keylog::inception(&key(3), [key(4).public(), key(5).public()], NOW_MS - 2 * 3_600_000);
    let publisher = KeyLog::verify(&[first.bytes]).expect("a good inception").publisher();
    let keys = [RecordKey::contact("testnet", key(6).public()), RecordKey::key_log("testnet", publisher)];
    (key(6), keys)
});

const CONTACT_AAD: &[u8] = b"\x83\x71althing/contact/1\x67testnet\x60";

fn opened(bytes: &[u8]) {
    let (_, keys) = &*KEYS;
    let accepted = keys.iter().filter(|key| match Value::open(**key, bytes, "testnet", NOW_MS) {
        Ok(value) => {
            assert_eq!(value.encode(), bytes, "accepted bytes encode to themselves");
            assert_eq!(value.key("testnet"), **key);
            assert!(!value.replaces(&value), "nothing outdoes itself");
            true
        }
        Err(_) => false,
    });
    assert!(accepted.count() <= 1);
}

fuzz_target!(|data: &[u8]| {
    opened(data);
    // The same contact under an honest signature of the node.
    if let Some(envelope) = data.get(3..).and_then(|bytes| sign1::read(bytes, 1 << 16).ok()) {
        let contact = sign1::seal(envelope.payload().to_vec(), CONTACT_AAD, &KEYS.0);
        let mut value = vec![0xa1, 0x00, 0x59];
        if let Ok(len) = u16::try_from(contact.len())
            && len > 255
        {
            value.extend_from_slice(&len.to_be_bytes());
            value.extend_from_slice(&contact);
            opened(&value);
        }
    }
    if let Ok(inquiry) = Inquiry::decode(data) {
        assert_eq!(inquiry.encode(), data);
    }
    if let Ok(testimony) = Testimony::decode(data) {
        assert_eq!(testimony.encode(), data);
    }
});

//! P-62 to P-66: what is kept in the table, and what is asked of those it leads to.

use althing_protocol::inquiry::{Inquiry, Testimony};
use althing_protocol::limits::{INQUIRY_AGENTS_MAX, INQUIRY_BYTES_MAX, RECORD_BYTES_MAX};
use althing_protocol::object;
use althing_protocol::record::{Contact, RecordKey, Value};
use serde_json::json;

use crate::names::{Name as _, reason};
use crate::support::*;
use crate::vector_cases::{Case, case};
use crate::vector_runner::hex;

pub fn contact_body() -> Contact {
    let addresses = vec!["/ip4/192.0.2.7/tcp/7421".to_owned(), "/dns/node.example/tcp/7421".to_owned()];
    Contact::new(public(NODE), NOW_MS, NOW_MS, NOW_MS + HOUR_MS, addresses)
}

pub fn contact() -> object::Authored<Contact> {
    object::sign(contact_body(), NETWORK, "", &key(NODE)).expect("a good contact")
}

/// A value with a contact, as the map that it is.
fn wrapped(contact: &[u8]) -> Vec<u8> {
    map(&[(0, bstr(contact))])
}

fn wrapped_log(events: &[Vec<u8>]) -> Vec<u8> {
    map(&[(1, array(&events.iter().map(|event| bstr(event)).collect::<Vec<_>>()))])
}

fn signed(contact: Contact) -> Vec<u8> {
    wrapped(&object::sign(contact, NETWORK, "", &key(NODE)).expect("a good shape").bytes)
}

fn later(sequence: u64) -> Contact {
    let mut contact = contact_body();
    contact.sequence = sequence;
    contact
}

fn mine() -> RecordKey {
    RecordKey::contact(NETWORK, public(NODE))
}

#[test]
fn keys_are_digests_of_what_they_stand_for() {
    // P-62, by an encoder that shares no code with the crate.
    let digest = |what: &str, which: &str| {
        let text = array(&[tstr("althing/record/1"), tstr(NETWORK), tstr(what), tstr(which)]);
        althing_protocol::digest(&text)
    };
    let (did, urn) = (public(NODE).did(), publisher().to_string());
    for (key, what, which) in [
        (RecordKey::capability(NETWORK, "billing.view"), "capability", "billing.view"),
        (RecordKey::action(NETWORK, "View"), "action", "view"),
        (RecordKey::target(NETWORK, "Bill"), "target", "bill"),
        (RecordKey::agent(NETWORK, &agent()), "agent", agent().to_string().as_str()),
        (mine(), "contact", did.as_str()),
        (RecordKey::key_log(NETWORK, publisher()), "key-log", urn.as_str()),
    ] {
        assert_eq!(*key.as_bytes(), digest(what, which), "{what}");
        assert_eq!(RecordKey::from_multihash(&key.to_multihash()), Some(key));
    }
    assert_eq!(mine().to_multihash()[..2], [0x12, 0x20]);
    for bad in [&[][..], &[0x12, 0x20], &[0x12; 34], &[0; 64]] {
        assert_eq!(RecordKey::from_multihash(bad), None);
    }
    assert_ne!(RecordKey::contact("othernet", public(NODE)), mine());
}

#[test]
fn a_value_holds_only_as_what_it_is_where_it_belongs_and_in_its_time() {
    // P-63, P-64
    let value = wrapped(&contact().bytes);
    let open = |key: RecordKey, bytes: &[u8]| Value::open(key, bytes, NETWORK, NOW_MS);
    assert_eq!(open(mine(), &value).expect("a good value").encode(), value);
    assert_eq!(reason(open(RecordKey::contact(NETWORK, public(STRANGER)), &value)), "RecordError::WrongKey");
    assert_eq!(reason(open(RecordKey::key_log(NETWORK, publisher()), &value)), "RecordError::WrongKey");
    let log = wrapped_log(&rotated().to_bytes());
    let key_of_log = RecordKey::key_log(NETWORK, publisher());
    assert!(open(key_of_log, &log).is_ok());
    assert_eq!(reason(open(mine(), &log)), "RecordError::WrongKey");
    let long = wrapped(&vec![0; RECORD_BYTES_MAX]);
    assert_eq!(reason(open(mine(), &long)), "RecordError::Cbor(CborError::Size)");
    for at in 0..value.len() {
        let mut bent = value.clone();
        bent[at] ^= 1;
        assert!(open(mine(), &bent).is_err(), "byte {at}");
    }
}

#[test]
fn only_what_is_newer_takes_the_place_of_what_is_kept() {
    // P-65
    let contact = |sequence| {
        let bytes = signed(later(sequence));
        Value::open(mine(), &bytes, NETWORK, NOW_MS).expect("a good contact")
    };
    assert!(contact(2).replaces(&contact(1)));
    assert!(!contact(1).replaces(&contact(1)) && !contact(1).replaces(&contact(2)));
    let long = Value::KeyLog(rotated());
    let short = Value::KeyLog(log());
    assert!(long.replaces(&short) && !short.replaces(&long) && !long.replaces(&long));
    assert!(!long.replaces(&contact(1)) && !contact(1).replaces(&long));
    // P-48: of two that go different ways with one event each, neither outdoes the other; with a second event one does.
    let fork = Value::KeyLog(log().revoke(&key(NEXT), NOW_MS).expect("it may"));
    assert!(!fork.replaces(&long) && !long.replaces(&fork));
    let longest = Value::KeyLog(rotated_twice());
    assert!(longest.replaces(&fork) && !fork.replaces(&longest));
    // Logs of two publishers have nothing to do with each other, whatever their lengths.
    let other = begun(STRANGER, [NEXT, AFTER_NEXT], NOW_MS).revoke(&key(NEXT), NOW_MS).expect("it may");
    assert!(!longest.replaces(&Value::KeyLog(other.inception())));
    assert!(!Value::KeyLog(other).replaces(&short));
}

#[test]
fn inquiries_and_their_answers_are_read_strictly() {
    // P-66
    let inquiry = Inquiry { capability: Some("billing.*".to_owned()), agent: Some(agent()), ..Inquiry::default() };
    let bytes = map(&[(0, tstr("billing.*")), (3, tstr(&agent().to_string()))]);
    assert_eq!(inquiry.encode(), bytes);
    assert_eq!(Inquiry::decode(&bytes), Ok(inquiry));
    for (bad, name) in [
        (map(&[]), "InquiryError::Shape"),
        (map(&[(0, tstr("a")), (9, uint(1))]), "InquiryError::Shape"),
        (map(&[(0, uint(1))]), "InquiryError::Shape"),
        (map(&[(3, tstr("urn:nonsense"))]), "InquiryError::Shape"),
        (map(&[(0, tstr(&"a".repeat(INQUIRY_BYTES_MAX)))]), "InquiryError::Cbor(CborError::Size)"),
        (vec![0xa1, 0x00], "InquiryError::Cbor(CborError::Truncated)"),
    ] {
        assert_eq!(reason(Inquiry::decode(&bad)), name);
    }
    let answer = |agents: usize| map(&[(0, bstr(b"placement")), (1, array(&vec![bstr(b"evidence"); agents]))]);
    let good = Testimony::decode(&answer(INQUIRY_AGENTS_MAX)).expect("a good answer");
    assert_eq!(good.encode(), answer(INQUIRY_AGENTS_MAX));
    assert_eq!(reason(Testimony::decode(&answer(INQUIRY_AGENTS_MAX + 1))), "InquiryError::Shape");
    assert_eq!(reason(Testimony::decode(&[0xa0])), "InquiryError::Shape");
}

/// The vectors of values.
pub fn vectors() -> Vec<Case> {
    let of = |name: &str, what: &str, whose: u8, value: &[u8], now_ms: u64, error: Option<&'static str>| {
        let (key, which) = match what {
            "contact" => (RecordKey::contact(NETWORK, public(whose)), public(whose).did()),
            _ => (RecordKey::key_log(NETWORK, publisher()), publisher().to_string()),
        };
        let input = json!({ "network": NETWORK, "what": what, "which": which, "key": hex(&key.to_multihash()),
            "now_ms": now_ms, "value": hex(value) });
        case(name, input, error)
    };
    let good = wrapped(&contact().bytes);
    let life = |from, until| {
        let members = [
            (0, uint(7)),
            (1, bstr(public(NODE).as_bytes())),
            (2, uint(1)),
            (3, uint(from)),
            (4, uint(until)),
            (5, array(&[tstr("/ip4/192.0.2.7/tcp/7421")])),
        ];
        wrapped(&cose(&map(&members), &object_aad("althing/contact/1", NETWORK, ""), &key(NODE)))
    };
    let at = |addresses: Vec<Vec<u8>>| {
        let members = [
            (0, uint(7)),
            (1, bstr(public(NODE).as_bytes())),
            (2, uint(1)),
            (3, uint(NOW_MS)),
            (4, uint(NOW_MS)),
            (5, array(&addresses)),
        ];
        wrapped(&cose(&map(&members), &object_aad("althing/contact/1", NETWORK, ""), &key(NODE)))
    };
    let strangers = wrapped(&object::sign(contact_body(), NETWORK, "", &key(STRANGER)).expect("a good shape").bytes);
    let both = map(&[(0, bstr(&contact().bytes)), (1, array(&[bstr(&log().to_bytes()[0])]))]);
    let day = 24 * HOUR_MS;
    let address = || tstr("/ip4/192.0.2.7/tcp/7421");
    let shape = Some("RecordError::Contact(ObjectError::Shape)");
    vec![
        of("a contact", "contact", NODE, &good, NOW_MS, None),
        of("a contact in its last millisecond", "contact", NODE, &good, NOW_MS + HOUR_MS, None),
        of(
            "a contact that ended",
            "contact",
            NODE,
            &good,
            NOW_MS + HOUR_MS + 1,
            Some("RecordError::Contact(ObjectError::Expired)"),
        ),
        of("a contact of exactly 24 h", "contact", NODE, &life(NOW_MS, NOW_MS + day), NOW_MS, None),
        of(
            "a contact of more than 24 h",
            "contact",
            NODE,
            &life(NOW_MS, NOW_MS + day + 1),
            NOW_MS,
            Some("RecordError::Contact(ObjectError::LivesTooLong)"),
        ),
        of("a contact with eight addresses", "contact", NODE, &at(vec![address(); 8]), NOW_MS, None),
        of("a contact with nine addresses", "contact", NODE, &at(vec![address(); 9]), NOW_MS, shape),
        of("a contact without an address", "contact", NODE, &at(vec![]), NOW_MS, shape),
        of("a contact with an address of 257 bytes", "contact", NODE, &at(vec![tstr(&"x".repeat(257))]), NOW_MS, shape),
        of(
            "a contact by another node",
            "contact",
            NODE,
            &strangers,
            NOW_MS,
            Some("RecordError::Contact(ObjectError::WrongKey)"),
        ),
        of("a contact under another's key", "contact", STRANGER, &good, NOW_MS, Some("RecordError::WrongKey")),
        of("a contact under the key of a key log", "key-log", PUBLISHER, &good, NOW_MS, Some("RecordError::WrongKey")),
        of("a key log", "key-log", PUBLISHER, &wrapped_log(&rotated().to_bytes()), NOW_MS, None),
        of(
            "a second beginning by the same first key",
            "key-log",
            PUBLISHER,
            &wrapped_log(&begun(PUBLISHER, [STRANGER, STRANGER], NOW_MS).to_bytes()),
            NOW_MS,
            Some("RecordError::WrongKey"),
        ),
        of(
            "a key log whose second event is missing its first",
            "key-log",
            PUBLISHER,
            &wrapped_log(&rotated().to_bytes()[1..]),
            NOW_MS,
            Some("RecordError::KeyLog(KeyLogError::Chain)"),
        ),
        of(
            "an empty key log",
            "key-log",
            PUBLISHER,
            &wrapped_log(&[]),
            NOW_MS,
            Some("RecordError::KeyLog(KeyLogError::Empty)"),
        ),
        of("a contact and a key log", "contact", NODE, &both, NOW_MS, Some("RecordError::Shape")),
        of("neither", "contact", NODE, &[0xa0], NOW_MS, Some("RecordError::Shape")),
    ]
}

/// Runs one of them from its JSON.
pub fn run(input: &serde_json::Value) -> Result<serde_json::Value, String> {
    let text = |member: &str| input[member].as_str().expect("a text");
    let bytes = |member: &str| crate::vector_runner::unhex(text(member));
    let key = RecordKey::from_multihash(&bytes("key")).expect("a vector's key is good");
    let value = Value::open(key, &bytes("value"), text("network"), input["now_ms"].as_u64().expect("a time"));
    match value.map_err(|error| error.name())? {
        Value::Contact(contact) => Ok(json!({ "node": hex(contact.body.node.as_bytes()),
            "sequence": contact.body.sequence, "issued_at_ms": contact.body.issued_at_ms,
            "not_after_ms": contact.body.not_after_ms, "addresses": contact.body.addresses })),
        Value::KeyLog(log) => Ok(json!({ "publisher": log.publisher().to_string(), "events": log.len() })),
    }
}

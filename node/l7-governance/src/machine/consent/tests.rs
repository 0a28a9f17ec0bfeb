mod answers;
mod shown;
mod yeses;

use althing_protocol::audit::{AnswerWord, Ask, CallTerms};
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentId, Label, PublisherId, SecretKey, sign_off};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::Signer as _;
use serde_json::{Value, json};
use sha2::Digest as _;

use super::*;
use crate::machine::arguments::arguments_digest;
use crate::machine::people::People;

const NOW_MS: u64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;
const END_MS: u64 = NOW_MS + HOUR_MS;
const ID: [u8; 16] = [1; 16];

/// Who has which seed.
const ADA: u8 = 11;
const GRACE: u8 = 12;
const EDSGER: u8 = 13;
const EVE: u8 = 14;

fn put(to: &mut Vec<u8>, part: &[u8]) {
    to.extend_from_slice(&u32::try_from(part.len()).expect("short").to_be_bytes());
    to.extend_from_slice(part);
}

fn wire_key(seed: u8) -> Vec<u8> {
    let mut wire = Vec::new();
    put(&mut wire, b"ssh-ed25519");
    put(&mut wire, SecretKey::from_seed(&[seed; 32]).public().as_bytes());
    wire
}

/// What `ssh-keygen -Y sign -n althing-consent` would write.
fn signed(seed: u8, text: &str) -> String {
    let mut message = b"SSHSIG".to_vec();
    for part in [&b"althing-consent"[..], b"", b"sha512", &sha2::Sha512::digest(text.as_bytes())] {
        put(&mut message, part);
    }
    let signature = SecretKey::from_seed(&[seed; 32]).signing_key().sign(&message).to_bytes();
    let mut inner = Vec::new();
    put(&mut inner, b"ssh-ed25519");
    put(&mut inner, &signature);
    let mut blob = b"SSHSIG\0\0\0\x01".to_vec();
    for part in [&wire_key(seed)[..], b"althing-consent", b"", b"sha512", &inner] {
        put(&mut blob, part);
    }
    sign_off::armor(&blob)
}

/// Ada is the owner, Grace and Edsger are treasurers, and so is Ada; Eve is known and has no role.
fn people() -> People {
    people_where(|name| if name == "eve" { "" } else { "treasurer" })
}

fn people_where(role: impl Fn(&str) -> &'static str) -> People {
    let mut text = "owner: ada\npeople:\n".to_owned();
    for (name, seed) in [("ada", ADA), ("grace", GRACE), ("edsger", EDSGER), ("eve", EVE)] {
        let key = STANDARD.encode(wire_key(seed));
        text += &format!("  {name}: {{ keys: [\"ssh-ed25519 {key}\"], roles: [{}] }}\n", role(name));
    }
    People::read(&text).expect("a good file")
}

fn agent() -> AgentId {
    AgentId::new(PublisherId::from_digest([5; 32]), "echo").expect("a good name")
}

fn arguments() -> Value {
    json!({ "to": "shop", "amount": 5 })
}

fn call() -> CallTerms {
    CallTerms {
        agent: agent(),
        action: "bank/pay".to_owned(),
        definition: [2; 32],
        server: [3; 32],
        arguments: arguments_digest(&arguments()),
        label: Label { level: DataLabel::Internal, trusted: false },
        policy: Some([4; 32]),
    }
}

/// The same, but for one thing, which is named.
fn other_calls() -> Vec<(&'static str, CallTerms)> {
    let other = AgentId::new(PublisherId::from_digest([6; 32]), "echo").expect("a good name");
    let label = |level, trusted| CallTerms { label: Label { level, trusted }, ..call() };
    vec![
        ("the agent", CallTerms { agent: other, ..call() }),
        ("the tool", CallTerms { action: "bank/lend".to_owned(), ..call() }),
        ("the tool's definition", CallTerms { definition: [9; 32], ..call() }),
        ("whoever has the tool", CallTerms { server: [9; 32], ..call() }),
        ("an argument", CallTerms { arguments: arguments_digest(&json!({ "to": "eve", "amount": 5 })), ..call() }),
        ("the label of the data", label(DataLabel::Restricted, false)),
        ("the label of the data", label(DataLabel::Internal, true)),
        ("the policy set", CallTerms { policy: None, ..call() }),
    ]
}

fn ask() -> Ask {
    Ask { id: ID, asked_at_ms: NOW_MS, not_after_ms: END_MS, terms: call() }
}

fn consent_of(person: &str) -> Need {
    Need::Consent { person: person.to_owned() }
}

fn sign_off_of(count: u8) -> Need {
    Need::SignOff { role: "treasurer".to_owned(), count, but_for: "ada".to_owned() }
}

fn asked(need: Need) -> Asks {
    let mut asks = Asks::default();
    assert_eq!(asks.open(ask(), need, true, &people()), Ok(ID));
    asks
}

fn answer_text_of(asks: &Asks, word: AnswerWord) -> String {
    asks.get(&ID).expect("it was asked").text(word, END_MS)
}

/// Somebody signs an answer.
fn answer(asks: &mut Asks, seed: u8, word: AnswerWord) -> Result<QuestionState, ConsentError> {
    let signature = signed(seed, &answer_text_of(asks, word));
    asks.answer(&ID, (word, END_MS), Speaker::Signature(&signature), &people(), NOW_MS + 1)
}

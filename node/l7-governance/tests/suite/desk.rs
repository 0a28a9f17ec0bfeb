//! A question that people agreed to, and what they agreed to by another account than that of the machine.

use std::collections::BTreeSet;

use althing_governance::machine::arguments::arguments_digest;
use althing_governance::machine::consent::{AskId, Asks, Need, QuestionState, Speaker};
use althing_governance::machine::people::People;
use althing_protocol::audit::{AnswerWord, Ask, CallTerms};
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentId, Label, PublisherId, SecretKey, digest, sign_off};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::Signer as _;
use serde_json::json;
use sha2::Digest as _;

pub const NOW_MS: u64 = 1_700_000_000_000;
pub const END_MS: u64 = NOW_MS + 3_600_000;
/// Who there is, each with the seed of a key. Ada is the owner, and all are treasurers.
pub const PEOPLE: [(&str, u8); 4] = [("ada", 11), ("grace", 12), ("edsger", 13), ("barbara", 14)];

/// Numbers that follow from a seed.
pub struct Draw {
    seed: u64,
    at: u64,
}

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw { seed, at: 0 }
    }

    /// One below `count`.
    pub fn below(&mut self, count: u8) -> u8 {
        self.at += 1;
        digest(&[self.seed.to_be_bytes(), self.at.to_be_bytes()].concat())[0] % count
    }
}

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
pub fn signed(seed: u8, text: &str) -> String {
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

/// How the file of people differs from what it was when the question was asked. The owner is never gone.
#[derive(Default)]
pub struct Changes {
    pub without_role: BTreeSet<&'static str>,
    pub without_key: BTreeSet<&'static str>,
    pub gone: BTreeSet<&'static str>,
}

impl Changes {
    pub fn people(&self) -> People {
        let mut text = "owner: ada\npeople:\n".to_owned();
        for (name, seed) in PEOPLE.into_iter().filter(|(name, _)| !self.gone.contains(name)) {
            let key = format!("\"ssh-ed25519 {}\"", STANDARD.encode(wire_key(seed)));
            let key = if self.without_key.contains(name) { "" } else { key.as_str() };
            let role = if self.without_role.contains(name) { "" } else { "treasurer" };
            text += &format!("  {name}: {{ keys: [{key}], roles: [{role}] }}\n");
        }
        People::read(&text).expect("a good file")
    }
}

pub fn agent(publisher: u8) -> AgentId {
    AgentId::new(PublisherId::from_digest([publisher; 32]), "clerk").expect("a good name")
}

/// A question that enough people agreed to, and what came of the calls that stood on it.
pub struct Scene {
    pub asks: Asks,
    pub id: AskId,
    pub asked: CallTerms,
    pub need: Need,
    pub changes: Changes,
    pub now_ms: u64,
    /// Somebody who watches the tool knows that it is another one.
    pub is_noticed: bool,
    /// Who said yes, with a key or as the user of this machine.
    agreed: Vec<(&'static str, bool)>,
    pub made: u32,
    pub refused: u32,
}

impl Scene {
    pub fn new(draw: &mut Draw) -> Scene {
        let asked = CallTerms {
            agent: agent(5),
            action: "bank/pay".to_owned(),
            definition: [2; 32],
            server: [3; 32],
            arguments: arguments_digest(&json!({ "to": "shop", "amount": 5 })),
            label: Label { level: DataLabel::Internal, trusted: false },
            policy: Some([4; 32]),
        };
        let (need, voices) = match draw.below(4) {
            0 => (Need::Consent { person: "ada".to_owned() }, vec![("ada", false)]),
            1 => (Need::Consent { person: "grace".to_owned() }, vec![("grace", true)]),
            2 => (sign_off_of(1), vec![("edsger", true)]),
            _ => (sign_off_of(2), vec![("grace", true), ("barbara", true)]),
        };
        let (mut asks, changes) = (Asks::default(), Changes::default());
        let people = changes.people();
        let ask = Ask { id: [draw.below(255); 16], asked_at_ms: NOW_MS, not_after_ms: END_MS, terms: asked.clone() };
        let id = asks.open(ask, need.clone(), true, &people).expect("it can be asked");
        let agreed = voices.clone();
        let mut scene =
            Scene { asks, id, asked, need, changes, now_ms: NOW_MS, is_noticed: false, agreed, made: 0, refused: 0 };
        for (name, has_key) in voices {
            let state = scene.answer(name, has_key);
            assert!(state == Some(QuestionState::Open) || state == Some(QuestionState::Approved), "{name}: {state:?}");
        }
        scene
    }

    /// Somebody says yes, in whatever state the question is.
    pub fn answer(&mut self, name: &str, has_key: bool) -> Option<QuestionState> {
        let (_, seed) = PEOPLE.into_iter().find(|(other, _)| *other == name).expect("one of them");
        let text = self.asks.get(&self.id)?.text(AnswerWord::Approve, END_MS);
        let signature = signed(seed, &text);
        let speaker = if has_key { Speaker::Signature(&signature) } else { Speaker::Local };
        let said = (AnswerWord::Approve, END_MS);
        self.asks.answer(&self.id, said, speaker, &self.changes.people(), self.now_ms).ok()
    }

    /// Somebody wants this call made on the strength of the yes. It is made where people agreed to it, and nowhere else.
    pub fn call(&mut self, call: &CallTerms) {
        let is_agreed = self.is_agreed(call);
        let made = self.asks.take(&self.id, call, &self.changes.people(), self.now_ms);
        assert_eq!(made.is_ok(), is_agreed, "{call:?}: {made:?}");
        if is_agreed { self.made += 1 } else { self.refused += 1 }
    }

    /// The rule, of what people did and not of what the machine keeps.
    fn is_agreed(&self, call: &CallTerms) -> bool {
        let Changes { without_role, without_key, gone } = &self.changes;
        let wanted = match &self.need {
            Need::Consent { .. } => 1,
            Need::SignOff { count, .. } => usize::from(*count),
        };
        let has_role = |name: &&'static str| matches!(self.need, Need::Consent { .. }) || !without_role.contains(name);
        let counts = |(name, has_key): &&(&'static str, bool)| {
            !gone.contains(name) && has_role(name) && !(*has_key && without_key.contains(name))
        };
        let agree = self.agreed.iter().filter(counts).count();
        *call == self.asked && agree >= wanted && self.now_ms <= END_MS && self.made == 0 && !self.is_noticed
    }
}

fn sign_off_of(count: u8) -> Need {
    Need::SignOff { role: "treasurer".to_owned(), count, but_for: "ada".to_owned() }
}

//! What strangers make a registry verify: key logs as long as they may be, and presences with as many grants (SR-7).

use althing_protocol::limits::{KEYLOG_EVENTS_MAX, PRESENCE_GRANTS_MAX};
use althing_protocol::object::{self, Grant};
use althing_protocol::record::Contact;
use althing_protocol::registry::{Presence, SignIn, Submission};
use althing_protocol::{AgentId, KeyLog, SecretKey, keylog};

use super::attackers::{Attackers, Shot};
use crate::data::{NETWORK, now_ms};
use crate::http::Client;

/// Publishers of whom nobody has heard: keys cost nothing.
const PUBLISHERS: usize = 64;
/// How long contacts and grants hold, milliseconds.
const LIFE_MS: u64 = 10 * 60 * 1_000;
/// No statement and no visit: whoever reads it has verified the key log.
const NOTHING: [u8; 1] = [0xf6];

fn key() -> SecretKey {
    SecretKey::from_seed(&rand::random())
}

/// A key log as long as one may be.
fn longest(now_ms: u64) -> KeyLog {
    // Each event names the next two.
    let keys: Vec<SecretKey> = (0..KEYLOG_EVENTS_MAX + 2).map(|_| key()).collect();
    let inception = keylog::inception(&keys[0], [keys[1].public(), keys[2].public()], now_ms);
    let mut log = KeyLog::verify(&[inception.bytes]).expect("an inception");
    for next in keys[1..].windows(3) {
        log = log.rotate(&next[0], next[2].public(), now_ms, 0).expect("it goes on");
    }
    assert_eq!(log.len(), KEYLOG_EVENTS_MAX);
    log
}

/// A node that says it hosts somebody else's agent, with as many grants as it may show, none of them by its publisher.
fn presence(agent: &AgentId, now_ms: u64) -> Presence {
    let (node, forger) = (key(), key());
    let addresses = vec!["/ip4/127.0.0.1/tcp/1".to_owned()];
    let contact = Contact::new(node.public(), 1, now_ms, now_ms + LIFE_MS, addresses);
    let contact = object::sign(contact, NETWORK, "", &node).expect("a contact").bytes;
    let grant = |number: usize| {
        let until_ms = now_ms + LIFE_MS + u64::try_from(number).expect("few");
        let body = Grant::new(agent.clone(), node.public(), now_ms, until_ms);
        object::sign(body, NETWORK, "", &forger).expect("a grant").bytes.into()
    };
    Presence { contact: contact.into(), grants: (0..PRESENCE_GRANTS_MAX).map(grant).collect() }
}

/// Sends submissions and requests to sign in with long key logs, and presences with many grants for an agent that is published
/// there.
pub async fn long_key_logs(attackers: &Attackers, agent: &AgentId) {
    let (client, now_ms) = (Client::new(&attackers.address, None), now_ms());
    let posted = |what, path: &str, body: Vec<u8>| Shot {
        what,
        request: client.request("POST", path, "application/cbor", &body),
    };
    let mut shots = Vec::new();
    for _ in 0..PUBLISHERS {
        let log = longest(now_ms);
        let key_log = || log.to_bytes().into_iter().map(Into::into).collect();
        let submission =
            Submission { key_log: key_log(), statements: vec![NOTHING.to_vec().into()], descriptions: Vec::new() };
        let sign_in = SignIn { key_log: key_log(), visit: NOTHING.to_vec().into() };
        shots.push(posted("submissions", "/submissions", submission.encode()));
        shots.push(posted("sessions", "/sessions", sign_in.encode()));
        shots.push(posted("hosts", "/hosts", presence(agent, now_ms).encode()));
    }
    attackers.send(shots).await;
}

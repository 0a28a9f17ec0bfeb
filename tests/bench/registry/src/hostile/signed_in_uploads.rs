//! Megabytes from publishers of whom nobody has heard: they sign in to a registry that is open to anyone, and stage (SR-2).

use althing_protocol::object;
use althing_protocol::registry::{SignIn, Visit};
use althing_protocol::{AgentId, KeyLog, SecretKey, digest, keylog};
use serde_json::{Value, json};

use super::attackers::{Attackers, Shot};
use crate::data::{NETWORK, now_ms};
use crate::http::Client;

/// Publishers with fresh keys: these cost nothing.
const PUBLISHERS: usize = 8;
/// Releases of each: all together are more than may wait of one origin, which attackers on loopback have none of.
const RELEASES: usize = 3;
/// Bytes of a bundle: as many as are kept.
const BUNDLE_BYTES: usize = 3 << 20;

/// Signs a fresh publisher in; the token of its session, and an agent of it.
async fn signed_in(client: &mut Client, registry: &str, now_ms: u64) -> (String, AgentId) {
    let [key, next, other] = [0; 3].map(|_: u8| SecretKey::from_seed(&rand::random()));
    let inception = keylog::inception(&key, [next.public(), other.public()], now_ms);
    let log = KeyLog::verify(&[inception.bytes]).expect("an inception");
    let visit = object::sign(Visit::new(log.publisher(), now_ms), NETWORK, registry, &key).expect("a visit").bytes;
    let key_log = log.to_bytes().into_iter().map(Into::into).collect();
    let sign_in = SignIn { key_log, visit: visit.into() };
    let told = client.ask("POST", "/sessions", "application/cbor", &sign_in.encode()).await;
    let told: Value = serde_json::from_slice(&told).expect("JSON");
    let token = told["token"].as_str().expect("a token").to_owned();
    (token, AgentId::new(log.publisher(), "lamp").expect("a name"))
}

/// A description of a version of an agent.
fn description(agent: &AgentId, version: &str) -> String {
    let td = json!({
        "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "lmos": "https://eclipse.dev/lmos/protocol/v1" }],
        "@type": "lmos:Agent", "id": agent.to_string(), "title": "Lamp", "version": { "instance": version },
        "securityDefinitions": { "nosec": { "scheme": "nosec" } }, "security": "nosec",
    });
    td.to_string()
}

/// Stages bundles of publishers that signed in beforehand: first until all wait or their origin has no room, then the same again
/// and again, which the registry sees when it has read it.
pub async fn signed_in_uploads(attackers: &Attackers) {
    let (address, now_ms) = (attackers.address.as_str(), now_ms());
    let mut client = Client::new(address, None);
    let about: Value = serde_json::from_slice(&client.get("/").await).expect("JSON");
    let registry = about["key"].as_str().expect("its key");
    // The same bytes in Base64, where four letters are three of them.
    let (bundle, bytes) = ("A".repeat(BUNDLE_BYTES / 3 * 4), vec![0; BUNDLE_BYTES]);
    let hex: String = digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut shots = Vec::new();
    for _ in 0..PUBLISHERS {
        let (token, agent) = signed_in(&mut client, registry, now_ms).await;
        let publisher = Client::new(address, Some(&token));
        for number in 0..RELEASES {
            let version = format!("1.0.{number}");
            let body = json!({
                "agent": agent.to_string(), "version": version, "description": description(&agent, &version),
                "bundle": bundle, "digest": hex,
            });
            let request = publisher.request("POST", "/staged", "application/json", body.to_string().as_bytes());
            shots.push(Shot { what: "staged, signed in", request });
        }
    }
    attackers.send(shots).await;
}

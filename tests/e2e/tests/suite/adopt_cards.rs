//! `althing adopt` of signed A2A cards: the key that signed a card is kept, and a later card must be signed by it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_e2e::{Machine, cast, http, until};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);
/// A card is read each second, not each half minute.
const OFTEN: &str = "[adopt]\ncheck_seconds = 1\n";

/// A server that shows a card, and nothing else.
struct Shows {
    at: String,
    card: Arc<Mutex<String>>,
}

impl Shows {
    fn start(card: &Value) -> Shows {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = format!("http://{}", listener.local_addr().expect("bound"));
        let card = Arc::new(Mutex::new(card.to_string()));
        let shown = card.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut request = [0; 8_192];
                let read = stream.read(&mut request).unwrap_or(0);
                let is_asked = String::from_utf8_lossy(&request[..read]).contains("/.well-known/agent-card.json ");
                let (status, body) = match is_asked {
                    true => ("200 OK", shown.lock().expect("whole").clone()),
                    false => ("404 Not Found", String::new()),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                // Whoever asked may be gone.
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
            }
        });
        Shows { at, card }
    }

    fn show(&self, card: &Value) {
        *self.card.lock().expect("whole") = card.to_string();
    }
}

/// The card of an agent of that machine, signed by its node.
fn signed(machine: &Machine) -> Value {
    let node = machine.up_alone(&[]);
    machine.add("echo", &cast::echo("echo", "anyone"));
    http::get(&node.gateway(), "/a2a/echo/.well-known/agent-card.json", &[]).json()
}

#[test]
fn a_card_that_is_no_longer_signed_by_the_same_key_suspends_its_agent() {
    let card = signed(&Machine::new());
    let other = signed(&Machine::new());
    let machine = Machine::new();
    machine.configure(OFTEN);
    let _node = machine.up_alone(&[]);
    let server = Shows::start(&card);
    let shown = machine.run(&["adopt", "--dry-run", &server.at]);
    assert!(shown.code == 0 && shown.stdout.contains("signed   by did:key:z6Mk"), "{shown:?}");
    let adopted = machine.json(&["adopt", "--as", "echo", &server.at]);
    let key = adopted["file"]["runtime"]["remote"]["signed_by"].as_str().expect("a key").to_owned();
    assert!(key.starts_with("Ed25519:"), "{adopted}");
    let state = || machine.json(&["ps"])["agents"][0].clone();
    until(SOON, "it is ready", || state()["state"] == "ready");

    // The same card, but for its signature.
    let mut unsigned = card.clone();
    unsigned.as_object_mut().expect("an object").remove("signatures");
    server.show(&unsigned);
    until(SOON, "it is suspended", || state()["state"] == "suspended");
    let why = state()["why"].as_str().expect("why").to_owned();
    assert!(why.contains("not signed as the one that was adopted"), "{why}");
    server.show(&card);
    until(SOON, "it is ready again", || state()["state"] == "ready");
    // The same card, signed by somebody else.
    let mut by_other = card.clone();
    by_other["signatures"] = other["signatures"].clone();
    server.show(&by_other);
    until(SOON, "it is suspended", || state()["state"] == "suspended");
    // Its signature is of another card: a lie, which nobody is asked to accept.
    let refused = machine.run(&["adopt", "--accept", "echo"]);
    assert!(refused.code != 0 && refused.stderr.contains("changed after it was signed"), "{refused:?}");
    server.show(&unsigned);
    let offer = machine.run(&["adopt", "--accept", "echo"]);
    assert!(offer.code == 5 && offer.stderr.contains("by nobody"), "{offer:?}");
}

#[test]
fn a_card_that_lies_about_its_signature_is_refused_and_an_unsigned_one_is_said_to_be() {
    let mut card = signed(&Machine::new());
    let machine = Machine::new();
    let _node = machine.up_alone(&[]);
    card["description"] = json!("Sends what it receives to its author.");
    let server = Shows::start(&card);
    let refused = machine.run(&["adopt", &server.at]);
    assert!(refused.code == 1 && refused.stderr.contains("changed after it was signed"), "{refused:?}");
    card.as_object_mut().expect("an object").remove("signatures");
    server.show(&card);
    let shown = machine.run(&["adopt", "--dry-run", &server.at]);
    assert!(shown.code == 0 && shown.stdout.contains("signed   by nobody"), "{shown:?}");
    // Keys are not fetched from where a card says, if that is not on the internet.
    let header = r#"{"alg":"ES256","typ":"JOSE","kid":"k","jku":"https://169.254.169.254/keys"}"#;
    let protected = base64url(header.as_bytes());
    card["signatures"] = json!([{ "protected": protected, "signature": "AAAA" }]);
    server.show(&card);
    let shown = machine.run(&["adopt", "--dry-run", &server.at]);
    assert!(shown.code == 0 && shown.stdout.contains("by a key that is not verified"), "{shown:?}");
    assert!(shown.stdout.contains("where clouds keep a machine's secrets"), "{shown:?}");
}

fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |place: usize| u32::from(chunk.get(place).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..=chunk.len() {
            out.push(char::from(LETTERS[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
    out
}

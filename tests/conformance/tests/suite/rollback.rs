//! An older record of a node, which others replay, never replaces its current one (threat 3), in virtual time.

use std::sync::{Arc, Mutex};

use althing_conformance::mesh::{Node, store};
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_protocol::PublicKey;
use althing_protocol::object;
use althing_protocol::record::{Contact, Value};
use althing_simnet::{Hostile, LinkConfig, Question, Reply, SimNet};

const OWNER: u8 = 100;
/// The one that is looked for, and whoever was where it says that it is now.
const WANTED: u8 = 50;
const NOBODY: u8 = 51;
/// As many as are asked for a value.
const HOLDERS: u8 = 20;

/// Answers look-ups of a value with this one.
struct Holder(Arc<Mutex<Vec<u8>>>);

impl Hostile for Holder {
    fn reply(&self, _: PublicKey, question: &Question, honest: Reply) -> Option<Reply> {
        let value = matches!(question, Question::Value(_)).then(|| self.0.lock().expect("nobody panics").clone());
        Some(Reply { value: value.or(honest.value.clone()), ..honest })
    }
}

/// Where the wanted one said, with that sequence, that it can be dialled.
fn contact(sequence: u64, at: u8) -> Vec<u8> {
    let there = vec![format!("sim:{}", key(at).public())];
    let body = Contact::new(key(WANTED).public(), sequence, NOW_MS, NOW_MS + 3_600_000, there);
    Value::Contact(object::sign(body, NETWORK, "", &key(WANTED)).expect("a good shape")).encode()
}

#[tokio::test(start_paused = true)]
async fn nineteen_of_twenty_holders_cannot_bring_back_what_a_node_said_before() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    // It is there all the time, where it said before; nobody knows it but from what it said.
    let wanted = Node::start(&net, WANTED, OWNER, &[], store()).await;
    let seeker = Node::start(&net, 1, OWNER, &[], store()).await;
    let (old, new) = (Arc::new(Mutex::new(contact(3, WANTED))), Arc::new(Mutex::new(contact(9, NOBODY))));
    let mut holders = Vec::new();
    for number in 2..2 + HOLDERS {
        let holder = Node::start(&net, number, OWNER, &[], store()).await;
        seeker.connect(&holder).await;
        net.corrupt(holder.id(), Arc::new(Holder(if number == 2 { new.clone() } else { old.clone() })));
        holders.push(holder);
    }
    let reached = |by: &Node| by.communication.network().connected().contains(&wanted.id());

    assert!(!seeker.discovery.reconnect(wanted.id()).await, "it went where the newest word does not lead");
    assert!(!reached(&seeker));

    // The honest one has gone over to the others.
    *new.lock().expect("nobody panics") = contact(8, WANTED);
    assert!(!seeker.discovery.reconnect(wanted.id()).await, "older than what was seen");
    assert!(!reached(&seeker));

    // A node that never saw the newest record accepts an older one, and all accept a newer one.
    let newcomer = Node::start(&net, 40, OWNER, &[], store()).await;
    for holder in &holders {
        newcomer.connect(holder).await;
    }
    assert!(newcomer.discovery.reconnect(wanted.id()).await && reached(&newcomer));
    *new.lock().expect("nobody panics") = contact(10, WANTED);
    assert!(seeker.discovery.reconnect(wanted.id()).await && reached(&seeker));
}

//! Sybils: many keys of one person, mined to be close to a key that others look up. They answer with each other, and store nothing.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use althing_communication::records::{distance, position_of_key, position_of_node};
use althing_protocol::record::RecordKey;
use althing_protocol::{Digest, PublicKey, SecretKey};
use althing_simnet::{Hostile, Question, Reply};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{Adversary, Target, join};
use crate::{NETWORK, key};

/// Keys that are tried to find a close one.
const TRIES: u32 = 200;

/// Answers with its accomplices only, and stores nothing.
struct Ring {
    own: Arc<Mutex<Vec<PublicKey>>>,
}

impl Hostile for Ring {
    fn reply(&self, asker: PublicKey, question: &Question, _: Reply) -> Option<Reply> {
        let own = self.own.lock().expect("nobody panics with it").clone();
        let place = match question {
            Question::Closest(place) => *place,
            Question::Providers(key) | Question::Value(key) => position_of_key(*key),
            Question::Provide(_) | Question::Put(..) => return Some(Reply::default()),
        };
        let mut closer: Vec<PublicKey> = own.into_iter().filter(|node| *node != asker).collect();
        closer.sort_by_key(|node| distance(&position_of_node(*node), &place));
        closer.truncate(althing_communication::routing::K);
        Some(Reply { closer, ..Reply::default() })
    }
}

/// Honest nodes that each Sybil connects to: those closest to the target, which all look-ups for it ask.
const CONNECTED: usize = 50;

/// The target: the last of the capabilities.
fn wanted(target: &Target) -> Digest {
    let last = target.capabilities.last().expect("somebody has something");
    position_of_key(RecordKey::capability(NETWORK, last))
}

/// A key that is close to the target.
fn mine(target: &Target, number: u32) -> SecretKey {
    let wanted = wanted(target);
    let tried = (0..TRIES).map(|at| key(number + at * 100_000));
    let nearest = tried.min_by_key(|key| distance(&position_of_node(key.public()), &wanted));
    nearest.expect("some were tried")
}

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Adversary> {
    async move {
        let key = mine(&target, number);
        target.own.lock().expect("nobody panics with it").push(key.public());
        let (network, communication) = join(&target, &key, number, ip).await;
        target.net.corrupt(key.public(), Arc::new(Ring { own: target.own.clone() }));
        tokio::spawn(async move {
            let wanted = wanted(&target);
            let mut near = target.honest.clone();
            near.sort_by_key(|node| distance(&position_of_node(*node), &wanted));
            for honest in near.iter().take(CONNECTED) {
                // A node that is down is skipped.
                let _ = network.dial(Some(*honest), vec![format!("sim:{honest}")]).await;
            }
        });
        Adversary::new(communication)
    }
    .boxed()
}

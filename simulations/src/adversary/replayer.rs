//! Replays placements of other nodes to all, also after those have left.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_communication::{Answer, Caller, Inbound, Request, StreamLimits};
use althing_discovery::PLACEMENTS;
use althing_protocol::PublicKey;
use althing_protocol::record::RecordKey;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::{Adversary, Target, join, own_key};
use crate::NETWORK;

/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(250);
/// Placements that it keeps.
const KEPT: usize = 200;

/// Placements that were pushed to it.
#[derive(Default)]
struct Tape(Mutex<Vec<(PublicKey, Vec<u8>)>>);

impl Inbound for Tape {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let mut tape = self.0.lock().expect("nobody panics with it");
        if request.operation == "placement" {
            if tape.len() == KEPT {
                tape.remove(KEPT / 2);
            }
            tape.push((caller.node, request.body));
        }
        futures::future::ready(Answer::Response(Vec::new())).boxed()
    }
}

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Adversary> {
    async move {
        let key = own_key(number);
        let (network, communication) = join(&target, &key, number, ip).await;
        let tape = Arc::new(Tape::default());
        communication.serve(PLACEMENTS, StreamLimits::default(), tape.clone()).expect("nobody else serves it");
        let mut rng = StdRng::seed_from_u64(target.seed ^ u64::from(number));
        let calls = communication.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let victim = target.honest[rng.random_range(0..target.honest.len())];
                // A node that is down is skipped; the invariants judge the outcome.
                let _ = network.dial(Some(victim), vec![format!("sim:{victim}")]).await;
                let kept = tape.0.lock().expect("nobody panics with it").clone();
                if !kept.is_empty() {
                    let (_, placement) = kept[rng.random_range(0..kept.len())].clone();
                    let _ = calls.call(victim, PLACEMENTS, Request::new("placement", placement)).await;
                }
                let capability = &target.capabilities[rng.random_range(0..target.capabilities.len())];
                let _ = network.routing().provide(RecordKey::capability(NETWORK, capability)).await;
            }
        });
        Adversary::new(communication)
    }
    .boxed()
}

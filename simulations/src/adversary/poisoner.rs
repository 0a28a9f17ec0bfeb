//! Stores invalid values in the DHT under other nodes' keys, and claims to provide capabilities that others search for.

use std::net::IpAddr;
use std::time::Duration;

use althing_communication::{Answer, Caller, Inbound, Request, StreamLimits};
use althing_discovery::PLACEMENTS;
use althing_protocol::object;
use althing_protocol::record::{Contact, RecordKey, Value};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use std::sync::Arc;

use super::{Adversary, Target, join, own_key};
use crate::NETWORK;

/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(200);

/// Answers every question with random bytes.
struct Noise(u64);

impl Inbound for Noise {
    fn call(&self, _: Caller, _: Request) -> BoxFuture<'static, Answer> {
        let mut noise = vec![0; 2_000];
        StdRng::seed_from_u64(self.0).fill_bytes(&mut noise);
        futures::future::ready(Answer::Response(noise)).boxed()
    }
}

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Adversary> {
    async move {
        let key = own_key(number);
        let (network, communication) = join(&target, &key, number, ip).await;
        communication
            .serve(PLACEMENTS, StreamLimits::default(), Arc::new(Noise(target.seed)))
            .expect("nobody else serves it");
        let mut rng = StdRng::seed_from_u64(target.seed ^ u64::from(number));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let victim = target.honest[rng.random_range(0..target.honest.len())];
                let capability = &target.capabilities[rng.random_range(0..target.capabilities.len())];
                // The invariants judge the outcome.
                let _ = match rng.random_range(0..4) {
                    0 => network.routing().provide(RecordKey::capability(NETWORK, capability)).await,
                    1 => {
                        let mut noise = vec![0; 500];
                        rng.fill_bytes(&mut noise);
                        network.routing().put(RecordKey::contact(NETWORK, victim), noise).await
                    }
                    2 => {
                        // The contact of another node, signed by this one.
                        let now_ms = target.clock.now_ms();
                        let there = vec![format!("sim:{}", key.public())];
                        let body = Contact::new(victim, u64::MAX, now_ms, now_ms + 3_600_000, there);
                        let forged = object::sign(body, NETWORK, "", &key).expect("a good shape");
                        let value = Value::Contact(forged).encode();
                        network.routing().put(RecordKey::contact(NETWORK, victim), value).await
                    }
                    _ => network.routing().put(RecordKey::capability(NETWORK, capability), vec![0; 20_000]).await,
                };
            }
        });
        Adversary::new(communication)
    }
    .boxed()
}

//! Claims to host the agents of other nodes, with their evidence.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_communication::{Answer, Caller, Inbound, Request, StreamLimits, WallClock};
use althing_discovery::PLACEMENTS;
use althing_protocol::inquiry::{Inquiry, Testimony};
use althing_protocol::object::{self, Placement};
use althing_protocol::record::RecordKey;
use althing_protocol::{PublicKey, SecretKey};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::{Adversary, Target, join, own_key};
use crate::NETWORK;

/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(500);

/// The last testimony of a node that really hosts an agent.
type Stolen = Arc<Mutex<Option<Testimony>>>;

/// Answers as if it were the host: with that node's placement, or with an own one that names the same agents.
struct Pretender {
    stolen: Stolen,
    key: SecretKey,
    clock: WallClock,
    turn: Mutex<u64>,
}

impl Pretender {
    fn placement(&self, theirs: &[u8], own: bool) -> Vec<u8> {
        let Ok(shown) = object::open::<Placement>(theirs, NETWORK, "") else { return Vec::new() };
        if !own {
            return theirs.to_vec();
        }
        let mut mine = Placement::new(self.key.public(), self.clock.now_ms(), self.clock.now_ms(), 6_000);
        mine.agents = shown.body.agents;
        object::sign(mine, NETWORK, "", &self.key).map(|signed| signed.bytes).unwrap_or_default()
    }
}

impl Inbound for Pretender {
    fn call(&self, _: Caller, _: Request) -> BoxFuture<'static, Answer> {
        let stolen = self.stolen.lock().expect("nobody panics with it").clone();
        let answer = match stolen {
            None => Answer::Error(Vec::new()),
            Some(stolen) => {
                let mut turn = self.turn.lock().expect("nobody panics with it");
                *turn += 1;
                let placement = self.placement(&stolen.placement, turn.is_multiple_of(2)).into();
                Answer::Response(Testimony { placement, evidence: stolen.evidence }.encode())
            }
        };
        futures::future::ready(answer).boxed()
    }
}

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Adversary> {
    async move {
        let key = own_key(number);
        let (network, communication) = join(&target, &key, number, ip).await;
        let stolen = Stolen::default();
        let pretender = Pretender { stolen: stolen.clone(), key, clock: target.clock.clone(), turn: Mutex::default() };
        communication.serve(PLACEMENTS, StreamLimits::default(), Arc::new(pretender)).expect("nobody else serves it");
        let mut rng = StdRng::seed_from_u64(target.seed ^ u64::from(number));
        let calls = communication.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let capability = target.capabilities[rng.random_range(0..target.capabilities.len())].clone();
                let victim: PublicKey = target.honest[rng.random_range(0..target.honest.len())];
                // A node that is down, or hosts no agent, is skipped.
                let _ = network.dial(Some(victim), vec![format!("sim:{victim}")]).await;
                let inquiry = Inquiry { capability: Some(capability.clone()), ..Inquiry::default() };
                let answer = calls.call(victim, PLACEMENTS, Request::new("find", inquiry.encode())).await;
                if let Ok(testimony) = answer.map_err(drop).and_then(|bytes| Testimony::decode(&bytes).map_err(drop))
                    && !testimony.evidence.is_empty()
                {
                    *stolen.lock().expect("nobody panics with it") = Some(testimony);
                }
                let _ = network.routing().provide(RecordKey::capability(NETWORK, &capability)).await;
            }
        });
        Adversary::new(communication)
    }
    .boxed()
}

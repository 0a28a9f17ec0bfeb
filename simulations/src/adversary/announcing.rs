//! Announces an agent as its own: in placements that it pushes, in answers, and in the DHT.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use althing_communication::{Answer, Caller, Communication, Inbound, Network, Request, StreamLimits, WallClock};
use althing_discovery::{DESCRIBE, PLACEMENTS};
use althing_protocol::inquiry::Testimony;
use althing_protocol::object::{self, Hosted, Placement};
use althing_protocol::record::RecordKey;
use althing_protocol::{SecretKey, VerifiedAgent};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};

use super::Target;
use crate::NETWORK;

/// The interval of placements.
const EVERY: Duration = Duration::from_millis(700);

/// Announces the variants of an agent in turn.
pub(super) struct Announcer {
    pub key: SecretKey,
    pub clock: WallClock,
    pub variants: Vec<Arc<VerifiedAgent>>,
    pub turn: AtomicU64,
}

impl Announcer {
    /// The variant of this turn.
    fn next(&self) -> (u64, &VerifiedAgent) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        (turn, &self.variants[turn as usize % self.variants.len()])
    }

    /// A placement with the next variant; all variants are announced under one sequence.
    fn placement(&self) -> (Vec<u8>, &VerifiedAgent) {
        let (turn, variant) = self.next();
        let mut placement =
            Placement::new(self.key.public(), turn / self.variants.len() as u64 + 1, self.clock.now_ms(), 6_000);
        let (description, grant) = variant.digests();
        placement.agents = vec![Hosted { agent: variant.agent.clone(), description, grant }];
        (object::sign(placement, NETWORK, "", &self.key).expect("a good placement").bytes, variant)
    }
}

/// Answers with a placement and evidence, or with evidence alone.
struct Answers(Arc<Announcer>);

impl Inbound for Answers {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let answer = match request.operation.as_str() {
            "watch" => {
                let next = |announcer: Arc<Announcer>| async move {
                    tokio::time::sleep(EVERY).await;
                    Some((Ok(announcer.placement().0), announcer))
                };
                let events = futures::stream::unfold(self.0.clone(), next);
                return futures::future::ready(Answer::Events(events.boxed())).boxed();
            }
            "find" => {
                let (placement, variant) = self.0.placement();
                Testimony { placement: placement.into(), evidence: vec![variant.evidence().encode().into()] }.encode()
            }
            "describe" => self.0.next().1.evidence().encode(),
            _ => Vec::new(),
        };
        futures::future::ready(Answer::Response(answer)).boxed()
    }
}

/// Announces the agent to all honest nodes, for ever.
pub(super) fn announce(
    target: Target,
    network: Arc<dyn Network>,
    communication: &Communication,
    capability: String,
    announcer: Announcer,
) {
    let announcer = Arc::new(announcer);
    communication
        .serve(PLACEMENTS, StreamLimits::default(), Arc::new(Answers(announcer.clone())))
        .expect("nobody else serves it");
    communication
        .serve(DESCRIBE, StreamLimits::default(), Arc::new(Answers(announcer.clone())))
        .expect("nobody else serves it");
    let calls = communication.clone();
    tokio::spawn(async move {
        loop {
            let _ = network.routing().provide(RecordKey::capability(NETWORK, &capability)).await;
            for honest in &target.honest {
                // A node that is down is skipped.
                let _ = network.dial(Some(*honest), vec![format!("sim:{honest}")]).await;
                let placement = announcer.placement().0;
                let _ = calls.call(*honest, PLACEMENTS, Request::new("placement", placement)).await;
            }
            tokio::time::sleep(EVERY).await;
        }
    });
}

//! Has an agent, and says two things of it under one sequence: another one to each who asks, and each time.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use althing_communication::{Answer, Caller, Inbound, Request, WallClock};
use althing_discovery::{DESCRIBE, PLACEMENTS};
use althing_protocol::inquiry::Testimony;
use althing_protocol::object::{self, Hosted, Placement};
use althing_protocol::record::RecordKey;
use althing_protocol::{SecretKey, VerifiedAgent};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{Loose, Target, join, own_key};
use crate::mesh::{agent, file};
use crate::{NETWORK, NOW_MS};

/// Between two rounds of placements.
const EVERY: Duration = Duration::from_millis(700);

/// Both things that it says.
struct Faces {
    key: SecretKey,
    clock: WallClock,
    faces: [Arc<VerifiedAgent>; 2],
    turn: AtomicU64,
}

impl Faces {
    /// The one that is shown this time.
    fn next(&self) -> (u64, &VerifiedAgent) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        (turn, &self.faces[usize::from(turn % 2 == 1)])
    }

    /// A placement with one of them; two of each sequence.
    fn placement(&self) -> (Vec<u8>, &VerifiedAgent) {
        let (turn, face) = self.next();
        let mut placement = Placement::new(self.key.public(), turn / 2 + 1, self.clock.now_ms(), 6_000);
        let (description, grant) = face.digests();
        placement.agents = vec![Hosted { agent: face.agent.clone(), description, grant }];
        (object::sign(placement, NETWORK, "", &self.key).expect("a good placement").bytes, face)
    }
}

/// Answers with a placement and evidence, or with evidence alone.
struct Answers(Arc<Faces>);

impl Inbound for Answers {
    fn call(&self, _: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let answer = match request.operation.as_str() {
            "find" => {
                let (placement, face) = self.0.placement();
                Testimony { placement: placement.into(), evidence: vec![face.evidence().encode().into()] }.encode()
            }
            "describe" => self.0.next().1.evidence().encode(),
            _ => Vec::new(),
        };
        futures::future::ready(Answer::Response(answer)).boxed()
    }
}

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Loose> {
    async move {
        let (key, owner) = (own_key(number), own_key(number + 500_000));
        let (network, communication) = join(&target, &key, number, ip).await;
        let capability = target.capabilities[0].clone();
        let says = |about: &str| {
            let file = file(&format!("two-faced-{number}"), about, &capability, "do", &capability);
            agent(&owner, &owner, key.public(), &file, 1, NOW_MS).verified
        };
        let faces = [says("does its thing"), says("does the opposite")];
        let has = (key.public(), faces[0].agent.clone());
        let faces = Arc::new(Faces { key, clock: target.clock.clone(), faces, turn: AtomicU64::default() });
        communication.serve(PLACEMENTS, Arc::new(Answers(faces.clone()))).expect("nobody else serves it");
        communication.serve(DESCRIBE, Arc::new(Answers(faces.clone()))).expect("nobody else serves it");
        let calls = communication.clone();
        tokio::spawn(async move {
            loop {
                let _ = network.routing().provide(RecordKey::capability(NETWORK, &capability)).await;
                for honest in &target.honest {
                    // Whoever is not there hears neither.
                    let _ = network.dial(Some(*honest), vec![format!("sim:{honest}")]).await;
                    let placement = faces.placement().0;
                    let _ = calls.call(*honest, PLACEMENTS, Request::new("placement", placement)).await;
                }
                tokio::time::sleep(EVERY).await;
            }
        });
        Loose { agents: vec![has], ..Loose::new(communication) }
    }
    .boxed()
}

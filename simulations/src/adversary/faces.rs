//! Shows an agent as its own: in placements that it pushes, when it is asked, and in the table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use althing_communication::{Answer, Caller, Communication, Inbound, Network, Request, WallClock};
use althing_discovery::{DESCRIBE, PLACEMENTS};
use althing_protocol::inquiry::Testimony;
use althing_protocol::object::{self, Hosted, Placement};
use althing_protocol::record::RecordKey;
use althing_protocol::{SecretKey, VerifiedAgent};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};

use super::Target;
use crate::NETWORK;

/// Between two rounds of placements.
const EVERY: Duration = Duration::from_millis(700);

/// What it says of its agent: one of these things each time.
pub(super) struct Faces {
    pub key: SecretKey,
    pub clock: WallClock,
    pub faces: Vec<Arc<VerifiedAgent>>,
    pub turn: AtomicU64,
}

impl Faces {
    /// The one that is shown this time.
    fn next(&self) -> (u64, &VerifiedAgent) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        (turn, &self.faces[turn as usize % self.faces.len()])
    }

    /// A placement with one of them; as many of each sequence as there are.
    fn placement(&self) -> (Vec<u8>, &VerifiedAgent) {
        let (turn, face) = self.next();
        let mut placement =
            Placement::new(self.key.public(), turn / self.faces.len() as u64 + 1, self.clock.now_ms(), 6_000);
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
            "watch" => {
                let says = |faces: Arc<Faces>| async move {
                    tokio::time::sleep(EVERY).await;
                    Some((Ok(faces.placement().0), faces))
                };
                let events = futures::stream::unfold(self.0.clone(), says);
                return futures::future::ready(Answer::Events(events.boxed())).boxed();
            }
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

/// Says it to everybody, for ever.
pub(super) fn show(
    target: Target,
    network: Arc<dyn Network>,
    communication: &Communication,
    capability: String,
    faces: Faces,
) {
    let faces = Arc::new(faces);
    communication.serve(PLACEMENTS, Arc::new(Answers(faces.clone()))).expect("nobody else serves it");
    communication.serve(DESCRIBE, Arc::new(Answers(faces.clone()))).expect("nobody else serves it");
    let calls = communication.clone();
    tokio::spawn(async move {
        loop {
            let _ = network.routing().provide(RecordKey::capability(NETWORK, &capability)).await;
            for honest in &target.honest {
                // Whoever is not there hears nothing.
                let _ = network.dial(Some(*honest), vec![format!("sim:{honest}")]).await;
                let placement = faces.placement().0;
                let _ = calls.call(*honest, PLACEMENTS, Request::new("placement", placement)).await;
            }
            tokio::time::sleep(EVERY).await;
        }
    });
}

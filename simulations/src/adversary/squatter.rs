//! Occupies catalogue entries: it announces placements with the maximum number of agents and lifetime, shows no evidence for them,
//! stays connected, and subscribes to placements.

use std::net::IpAddr;
use std::time::Duration;

use althing_communication::{Communication, Request, WallClock};
use althing_discovery::PLACEMENTS;
use althing_protocol::limits::{PLACEMENT_AGENTS_MAX, PLACEMENT_TTL_MAX_MS};
use althing_protocol::object::{self, Hosted, Placement};
use althing_protocol::{AgentId, PublicKey, PublisherId, SecretKey};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};

use super::{Adversary, Target, join, own_key};
use crate::NETWORK;

/// Between two placements, each with other digests.
const EVERY: Duration = Duration::from_secs(2);

/// A placement with the maximum number of agents, different in each round.
fn placement(key: &SecretKey, now_ms: u64, round: u64) -> Vec<u8> {
    let mut placement = Placement::new(key.public(), now_ms + round, now_ms, PLACEMENT_TTL_MAX_MS);
    let hosted = (0..PLACEMENT_AGENTS_MAX).filter_map(|number| {
        let agent =
            AgentId::new(PublisherId::from_digest(*key.public().as_bytes()), &format!("squats{number:03}")).ok()?;
        let mut description = [0; 32];
        description[..8].copy_from_slice(&round.to_be_bytes());
        Some(Hosted { agent, description, grant: description })
    });
    placement.agents = hosted.collect();
    object::sign(placement, NETWORK, "", key).map(|signed| signed.bytes).unwrap_or_default()
}

/// Occupies entries at one node, and keeps them.
async fn squat(calls: &Communication, key: &SecretKey, clock: &WallClock, victim: PublicKey) {
    for round in 0u64.. {
        let request = Request::new("placement", placement(key, clock.now_ms(), round));
        // A refusal is ignored; the next round tries again.
        let _ = calls.call(victim, PLACEMENTS, request).await;
        let watching = async {
            let Ok(mut events) = calls.stream(victim, PLACEMENTS, Request::new("watch", Vec::new())).await else {
                return;
            };
            while let Ok(Some(_)) = events.next().await {}
        };
        let _ = tokio::time::timeout(EVERY, watching).await;
        tokio::time::sleep(EVERY).await;
    }
}

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Adversary> {
    async move {
        let key = own_key(number);
        let (_, communication) = join(&target, &key, number, ip).await;
        let calls = communication.clone();
        tokio::spawn(async move {
            join_all(target.through.iter().map(|victim| squat(&calls, &key, &target.clock, *victim))).await;
        });
        Adversary::new(communication)
    }
    .boxed()
}

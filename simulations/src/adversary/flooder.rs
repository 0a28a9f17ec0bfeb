//! Floods all nodes with valid questions, placements and provider records, as fast as it can.

use std::net::IpAddr;
use std::time::Duration;

use althing_communication::{Communication, Network, Request, WallClock};
use althing_discovery::PLACEMENTS;
use althing_protocol::inquiry::Inquiry;
use althing_protocol::object::{self, Placement};
use althing_protocol::record::RecordKey;
use althing_protocol::{PublicKey, SecretKey};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};

use super::{Adversary, Target, join, own_key};
use crate::NETWORK;

/// Streams to one victim.
const STREAMS: u64 = 4;
/// Victims at one time.
const VICTIMS: usize = 8;
/// How long one victim is flooded.
const FOR: Duration = Duration::from_secs(2);

/// Alternates questions and placements, until the turn of the next victim.
async fn flood(calls: &Communication, key: &SecretKey, clock: &WallClock, victim: PublicKey, stream: u64) {
    let inquiry = Inquiry { capability: Some("doing.*".to_owned()), ..Inquiry::default() }.encode();
    let flooding = async {
        for round in 0u64.. {
            let request = if round.is_multiple_of(2) {
                Request::new("find", inquiry.clone())
            } else {
                let sequence = clock.now_ms() * STREAMS + stream;
                let placement = Placement::new(key.public(), sequence, clock.now_ms(), 6_000);
                let placement = object::sign(placement, NETWORK, "", key).expect("a good placement");
                Request::new("placement", placement.bytes)
            };
            if calls.call(victim, PLACEMENTS, request).await.is_err() {
                // Refused, or down.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    };
    // It never ends by itself.
    let _ = tokio::time::timeout(FOR, flooding).await;
}

async fn provide(network: &dyn Network, number: u32) {
    for what in 0u64.. {
        let _ = network.routing().provide(RecordKey::capability(NETWORK, &format!("flood.{number}-{what}"))).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Adversary> {
    async move {
        let key = own_key(number);
        let (network, communication) = join(&target, &key, number, ip).await;
        let calls = communication.clone();
        tokio::spawn({
            let network = network.clone();
            async move { provide(&*network, number).await }
        });
        tokio::spawn(async move {
            for victims in target.honest.chunks(VICTIMS).cycle() {
                for victim in victims {
                    // A node that is down is skipped.
                    let _ = network.dial(Some(*victim), vec![format!("sim:{victim}")]).await;
                }
                let streams = victims.iter().flat_map(|victim| (0..STREAMS).map(move |stream| (*victim, stream)));
                join_all(streams.map(|(victim, stream)| flood(&calls, &key, &target.clock, victim, stream))).await;
            }
        });
        Adversary::new(communication)
    }
    .boxed()
}

//! Holds as many call and key streams of one node as it can, idle after the hello, and opens closed ones again.

use std::net::IpAddr;
use std::time::Duration;

use althing_communication::{BoxedStream, KEYS, Network};
use althing_protocol::{PublicKey, SecretKey};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};

use super::{Adversary, Target, join, own_key};
use crate::NETWORK;
use crate::raw_stream::{greet_on, read};
use althing_calls::CALL;

/// The streams that it holds: as many as one peer may have.
const STREAMS: [(&str, usize); 2] = [(CALL, 256), (KEYS, 8)];
/// The delay before it opens a stream again.
const AGAIN: Duration = Duration::from_millis(500);

async fn hold(network: &dyn Network, key: &SecretKey, victim: PublicKey, protocol: &'static str) {
    loop {
        if let Ok(raw) = network.open(victim, protocol).await {
            hold_open(raw, key, victim, protocol).await;
        } else {
            // Disconnected, or the victim is down.
            let _ = network.dial(Some(victim), vec![format!("sim:{victim}")]).await;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Holds a stream until it is closed.
async fn hold_open(mut raw: BoxedStream, key: &SecretKey, victim: PublicKey, protocol: &'static str) {
    if greet_on(&mut raw, (NETWORK, protocol), (key.public(), victim), key).await.is_some() {
        let _ = read(&mut raw).await;
    }
}

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Adversary> {
    async move {
        let key = own_key(number);
        let (network, communication) = join(&target, &key, number, ip).await;
        let victim = target.through[0];
        tokio::spawn(async move {
            let streams = STREAMS.iter().flat_map(|(protocol, count)| std::iter::repeat_n(*protocol, *count));
            join_all(streams.map(|protocol| hold(&*network, &key, victim, protocol))).await;
        });
        Adversary::new(communication)
    }
    .boxed()
}

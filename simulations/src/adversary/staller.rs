//! Sends a frame of the maximum length on each of many streams to one node, but for its last twelve bytes.

use std::net::IpAddr;
use std::time::Duration;

use althing_communication::{BoxedStream, Network};
use althing_protocol::limits::FRAME_BYTES_MAX;
use althing_protocol::{PublicKey, SecretKey};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use tokio::io::AsyncWriteExt as _;

use super::{Adversary, Target, join, own_key};
use crate::NETWORK;
use crate::raw_stream::{greet_on, read};
use althing_calls::CALL;

/// Streams of one adversary.
const STREAMS: usize = 64;
/// The delay before it begins again.
const AGAIN: Duration = Duration::from_millis(500);
/// The bytes of one write.
const CHUNK: [u8; 16 << 10] = [7; 16 << 10];

async fn stall(network: &dyn Network, key: &SecretKey, victim: PublicKey) {
    loop {
        if let Ok(raw) = network.open(victim, CALL).await {
            leave_unfinished(raw, key, victim).await;
        } else {
            // Disconnected, or the victim is down.
            let _ = network.dial(Some(victim), vec![format!("sim:{victim}")]).await;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn leave_unfinished(mut raw: BoxedStream, key: &SecretKey, victim: PublicKey) -> Option<()> {
    greet_on(&mut raw, (NETWORK, CALL), (key.public(), victim), key).await?;
    raw.write_u32(u32::try_from(FRAME_BYTES_MAX).ok()?).await.ok()?;
    let mut left = FRAME_BYTES_MAX - 12;
    while left > 0 {
        let len = left.min(CHUNK.len());
        raw.write_all(&CHUNK[..len]).await.ok()?;
        left -= len;
    }
    // Waits until the stream is closed.
    read(&mut raw).await.map(drop)
}

pub(super) fn start(target: Target, number: u32, ip: Option<IpAddr>) -> BoxFuture<'static, Adversary> {
    async move {
        let key = own_key(number);
        let (network, communication) = join(&target, &key, number, ip).await;
        let victim = target.through[0];
        tokio::spawn(async move {
            join_all((0..STREAMS).map(|_| stall(&*network, &key, victim))).await;
        });
        Adversary::new(communication)
    }
    .boxed()
}

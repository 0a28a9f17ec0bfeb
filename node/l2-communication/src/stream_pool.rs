//! Streams to peers that are kept open for the next call.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_protocol::{OwnerProof, PublicKey};
use tokio::time::Instant;

use crate::signed::SignedStream;

/// An idle stream is closed after this.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Idle streams, and since when they are.
type Idle = Vec<(SignedStream, Instant)>;

/// Idle streams, by peer and protocol.
#[derive(Default)]
pub(crate) struct StreamPool {
    idle: Mutex<BTreeMap<(PublicKey, &'static str), Idle>>,
    /// The epoch of the present connection to each peer: a stream borrowed in an earlier one is not returned.
    epochs: Mutex<BTreeMap<PublicKey, Arc<Epoch>>>,
}

/// Set when the peer has disconnected, or new streams belong on another connection.
#[derive(Default)]
pub(crate) struct Epoch(AtomicBool);

impl StreamPool {
    /// An idle stream that is fit for another call and on which this side showed `shows`.
    pub fn take(&self, peer: PublicKey, protocol: &'static str, shows: Option<&OwnerProof>) -> Option<SignedStream> {
        let mut idle = self.idle.lock().expect("no holder of the pool panics");
        let streams = idle.get_mut(&(peer, protocol))?;
        // Newest first: the old ones reach the other side's idle timeout together, and are then dropped together.
        while let Some((mut stream, _)) = streams.pop() {
            if !stream.is_spent(shows) {
                return Some(stream);
            }
        }
        None
    }

    pub fn epoch(&self, peer: PublicKey) -> Arc<Epoch> {
        self.epochs().entry(peer).or_default().clone()
    }

    /// Returns a stream that was taken or opened in `epoch`; of more than `max` idle ones it is closed.
    pub fn give(&self, (peer, protocol): (PublicKey, &'static str), stream: SignedStream, epoch: &Epoch, max: usize) {
        let mut idle = self.idle.lock().expect("no holder of the pool panics");
        // Checked under the lock, which `forget` takes after it has ended the epoch.
        if epoch.0.load(Ordering::Acquire) {
            return;
        }
        let streams = idle.entry((peer, protocol)).or_default();
        if streams.len() < max {
            streams.push((stream, Instant::now()));
        }
    }

    /// Drops streams that the peer closed or that were idle for too long.
    pub fn sweep(&self) {
        let mut idle = self.idle.lock().expect("no holder of the pool panics");
        idle.retain(|_, streams| {
            streams.retain_mut(|(stream, since)| since.elapsed() < IDLE_TIMEOUT && !stream.is_closed());
            !streams.is_empty()
        });
        // No call and no idle stream refers to the other epochs.
        let held = |peer: &PublicKey| idle.keys().any(|(with, _)| with == peer);
        self.epochs().retain(|peer, epoch| Arc::strong_count(epoch) > 1 || held(peer));
    }

    /// Drops the streams to a peer that has disconnected, or is reached by another connection now.
    pub fn forget(&self, peer: PublicKey) {
        if let Some(epoch) = self.epochs().remove(&peer) {
            epoch.0.store(true, Ordering::Release);
        }
        self.idle.lock().expect("no holder of the pool panics").retain(|(with, _), _| *with != peer);
    }

    fn epochs(&self) -> MutexGuard<'_, BTreeMap<PublicKey, Arc<Epoch>>> {
        self.epochs.lock().expect("no holder of the epochs panics")
    }

    /// Peers with an epoch.
    #[cfg(test)]
    pub fn peers(&self) -> usize {
        self.epochs().len()
    }
}

//! Verifies values that peers store here, one after another, on a task of its own.

use std::collections::BTreeMap;

use althing_communication::WallClock;
use althing_communication::address_groups::AddressGroup;
use althing_protocol::PublicKey;
use althing_protocol::record::{RecordError, RecordKey, Value};
use tokio::sync::mpsc;

/// Values that wait for verification; more are dropped, and their senders republish them.
const WAITING_MAX: usize = 64;
/// Waiting values of one sender, so that it cannot fill the queue.
const PER_SENDER_MAX: usize = 8;

/// The sender of a value, and its address group.
pub(crate) type Sender = (PublicKey, Option<AddressGroup>);

/// A value that a peer stores.
struct Unverified {
    from: Sender,
    key: RecordKey,
    bytes: Vec<u8>,
}

/// A valid value.
pub(crate) struct Verified {
    pub from: Sender,
    pub key: RecordKey,
    pub value: Value,
    /// When it expires.
    pub in_ms: u64,
}

/// An invalid value.
pub(crate) struct Refused {
    pub from: PublicKey,
    /// See [`RecordError::is_forged`].
    pub forged: bool,
}

/// The queue of values to verify.
pub(crate) struct VerificationQueue {
    queue: mpsc::Sender<Unverified>,
    of: BTreeMap<PublicKey, usize>,
}

impl VerificationQueue {
    /// Starts the task; also gives the receiver of its outcomes.
    pub fn new(network: &str, clock: WallClock) -> (VerificationQueue, mpsc::Receiver<Result<Verified, Refused>>) {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let (verified, outcomes) = mpsc::channel(WAITING_MAX);
        tokio::spawn(verify(network.to_owned(), clock, waiting, verified));
        (VerificationQueue { queue, of: BTreeMap::new() }, outcomes)
    }

    /// Queues a value. False when there is no room for it.
    pub fn offer(&mut self, from: Sender, key: RecordKey, bytes: Vec<u8>) -> bool {
        let count = self.of.entry(from.0).or_default();
        let room = *count < PER_SENDER_MAX && self.queue.try_send(Unverified { from, key, bytes }).is_ok();
        *count += usize::from(room);
        if *count == 0 {
            self.of.remove(&from.0);
        }
        room
    }

    /// A value of `from` was verified or refused.
    pub fn finished(&mut self, from: PublicKey) {
        if let Some(count) = self.of.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                self.of.remove(&from);
            }
        }
    }
}

/// Verifies a value.
pub(crate) fn open(
    from: Sender,
    key: RecordKey,
    bytes: &[u8],
    network: &str,
    clock: &WallClock,
) -> Result<Verified, RecordError> {
    let now_ms = clock.now_ms();
    let value = Value::open(key, bytes, network, now_ms)?;
    let in_ms = value.not_after_ms().map_or(u64::MAX, |end| end.saturating_sub(now_ms));
    Ok(Verified { from, key, value, in_ms })
}

async fn verify(
    network: String,
    clock: WallClock,
    mut waiting: mpsc::Receiver<Unverified>,
    verified: mpsc::Sender<Result<Verified, Refused>>,
) {
    while let Some(Unverified { from, key, bytes }) = waiting.recv().await {
        let outcome = open(from, key, &bytes, &network, &clock);
        if let Err(reason) = &outcome {
            tracing::debug!(from = %from.0, %reason, "value refused");
        }
        let outcome = outcome.map_err(|reason| Refused { from: from.0, forged: reason.is_forged() });
        if verified.send(outcome).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    fn peer(number: u8) -> PublicKey {
        SecretKey::from_seed(&[number; 32]).public()
    }

    #[tokio::test]
    async fn one_sender_cannot_fill_the_queue() {
        let (mut waiting, mut outcomes) = VerificationQueue::new("test", WallClock::new(|| 1_000));
        let key = RecordKey::contact("test", peer(9));
        let offer =
            |number: u8, waiting: &mut VerificationQueue| waiting.offer((peer(number), None), key, vec![0xff, number]);
        assert_eq!((0..1_000).filter(|_| offer(1, &mut waiting)).count(), PER_SENDER_MAX);
        assert!(offer(2, &mut waiting));
        for _ in 0..=PER_SENDER_MAX {
            let refused = outcomes.recv().await.expect("an outcome").err().expect("it is no value");
            assert!(refused.forged);
            waiting.finished(refused.from);
        }
        assert!(waiting.of.is_empty());
        assert!(offer(1, &mut waiting), "it may again");
        let taken = (2..=u8::MAX).filter(|number| offer(*number, &mut waiting)).count();
        assert_eq!(taken, WAITING_MAX - 1, "all together have a limit");
        assert_eq!(waiting.of.len(), WAITING_MAX, "refused senders are not counted");
    }
}

//! Values that others want kept are verified beside the swarm's task, one after the other.

use std::collections::BTreeMap;

use althing_communication::WallClock;
use althing_communication::groups::Group;
use althing_protocol::PublicKey;
use althing_protocol::record::{RecordError, RecordKey, Value};
use tokio::sync::mpsc;

/// Values that wait to be verified; more are dropped, and their senders say them again.
const WAITING_MAX: usize = 64;
/// Those of one sender: who sends more than can be verified takes nobody else's places.
const OF_ONE_MAX: usize = 8;

/// Who wants a value kept, and the network that it is in.
pub(crate) type From = (PublicKey, Option<Group>);

/// A value that somebody wants kept.
struct Unverified {
    from: From,
    key: RecordKey,
    bytes: Vec<u8>,
}

/// One that holds.
pub(crate) struct Verified {
    pub from: From,
    pub key: RecordKey,
    pub value: Value,
    /// When it ends.
    pub in_ms: u64,
}

/// One that does not.
pub(crate) struct Refused {
    pub from: PublicKey,
    /// See [`RecordError::is_forged`].
    pub forged: bool,
}

/// What waits.
pub(crate) struct Waiting {
    queue: mpsc::Sender<Unverified>,
    of: BTreeMap<PublicKey, usize>,
}

impl Waiting {
    /// Verifies what is offered, and gives what comes of it.
    pub fn new(network: &str, clock: WallClock) -> (Waiting, mpsc::Receiver<Result<Verified, Refused>>) {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let (verified, outcomes) = mpsc::channel(WAITING_MAX);
        tokio::spawn(verify(network.to_owned(), clock, waiting, verified));
        (Waiting { queue, of: BTreeMap::new() }, outcomes)
    }

    /// False when there is no room for it.
    pub fn offer(&mut self, from: From, key: RecordKey, bytes: Vec<u8>) -> bool {
        let of_one = self.of.entry(from.0).or_default();
        let room = *of_one < OF_ONE_MAX && self.queue.try_send(Unverified { from, key, bytes }).is_ok();
        *of_one += usize::from(room);
        if *of_one == 0 {
            self.of.remove(&from.0);
        }
        room
    }

    /// One of `from` was verified, or refused.
    pub fn over(&mut self, from: PublicKey) {
        if let Some(of_one) = self.of.get_mut(&from) {
            *of_one -= 1;
            if *of_one == 0 {
                self.of.remove(&from);
            }
        }
    }
}

/// Verifies a value.
pub(crate) fn open(
    from: From,
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
    async fn who_offers_much_takes_nobody_elses_places() {
        let (mut waiting, mut outcomes) = Waiting::new("test", WallClock::new(|| 1_000));
        let key = RecordKey::contact("test", peer(9));
        let offer = |number: u8, waiting: &mut Waiting| waiting.offer((peer(number), None), key, vec![0xff, number]);
        assert_eq!((0..1_000).filter(|_| offer(1, &mut waiting)).count(), OF_ONE_MAX);
        assert!(offer(2, &mut waiting));
        for _ in 0..=OF_ONE_MAX {
            let refused = outcomes.recv().await.expect("an outcome").err().expect("it is no value");
            assert!(refused.forged);
            waiting.over(refused.from);
        }
        assert!(waiting.of.is_empty());
        assert!(offer(1, &mut waiting), "it may again");
        let taken = (2..=u8::MAX).filter(|number| offer(*number, &mut waiting)).count();
        assert_eq!(taken, WAITING_MAX - 1, "and all together have a limit");
        assert_eq!(waiting.of.len(), WAITING_MAX, "who got no place is not remembered");
    }
}

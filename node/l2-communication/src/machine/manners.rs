//! How much each peer may ask that nobody here trusts, and how often it is complained of. Times are those since the node
//! began.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_protocol::PublicKey;

use crate::turns::Turns;

/// One peer's offences stand in the log once in this.
const COMPLAINT: Duration = Duration::from_secs(60);

/// What is known of the peers' manners. Who makes no requests is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Manners {
    peers: BTreeMap<PublicKey, OfPeer>,
}

#[derive(Debug, Default)]
struct OfPeer {
    turns: Turns,
    complained: Option<Duration>,
    /// Offences that were not complained of.
    silent: u64,
}

impl Manners {
    /// `peer`, which may make `rate` requests a second, made one: how long it is to wait until it is served.
    pub fn request(&mut self, peer: PublicKey, rate: u32, now: Duration) -> Duration {
        self.peers.entry(peer).or_default().turns.take(rate, now)
    }

    /// Something of `peer` was refused: is that to be said now, and how many were not since it was said last?
    pub fn complain(&mut self, peer: PublicKey, now: Duration) -> Option<u64> {
        let of_peer = self.peers.entry(peer).or_default();
        if of_peer.complained.is_some_and(|at| now.saturating_sub(at) < COMPLAINT) {
            of_peer.silent += 1;
            return None;
        }
        of_peer.complained = Some(now);
        Some(std::mem::take(&mut of_peer.silent))
    }

    /// Forgets those who may do everything again: not for having hung up, which costs nothing.
    pub fn sweep(&mut self, now: Duration) {
        self.peers.retain(|_, of_peer| {
            let named = of_peer.complained.is_some_and(|at| now.saturating_sub(at) < COMPLAINT);
            of_peer.turns.owes(now) || named
        });
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.peers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::BURST;
    use althing_protocol::SecretKey;
    use proptest::prelude::*;

    fn peer(seed: u8) -> PublicKey {
        SecretKey::from_seed(&[seed; 32]).public()
    }

    proptest! {
        #[test]
        fn a_stranger_gets_its_rate_and_the_burst_and_no_more(
            gaps in proptest::collection::vec(0u64..30_000, 1..400), rate in 1u32..1_000
        ) {
            let (mut manners, mut now, mut served) = (Manners::default(), Duration::ZERO, Vec::new());
            for (gap, other) in gaps.into_iter().zip((2..=u8::MAX).cycle()) {
                now += Duration::from_micros(gap);
                let wait = manners.request(peer(1), rate, now);
                served.push(now + wait);
                // Others are not held up.
                prop_assert_eq!(manners.request(peer(other), rate, now), Duration::ZERO);
            }
            // However they come: in the time until the last of some of them is served, no more are than the rate gives.
            let each = Duration::from_secs(1) / rate;
            for (count, at) in (1u32..).zip(&served) {
                let room = *at + each * rate * BURST + each;
                prop_assert!(each * count <= room, "{count} at {at:?}");
            }
        }

        #[test]
        fn who_asks_slowly_never_waits(rate in 1u32..1_000, requests in 1usize..200) {
            let (mut manners, mut now) = (Manners::default(), Duration::from_secs(9));
            for _ in 0..requests {
                prop_assert_eq!(manners.request(peer(1), rate, now), Duration::ZERO);
                now += Duration::from_secs(1) / rate;
            }
        }
    }

    #[test]
    fn an_offender_is_named_once_a_minute() {
        let (mut manners, now) = (Manners::default(), Duration::from_secs(9));
        assert_eq!(manners.complain(peer(1), now), Some(0));
        for _ in 0..1_000 {
            assert_eq!(manners.complain(peer(1), now + Duration::from_secs(59)), None);
        }
        assert_eq!(manners.complain(peer(2), now), Some(0));
        assert_eq!(manners.complain(peer(1), now + COMPLAINT), Some(1_000));
    }

    #[test]
    fn who_owes_nothing_is_forgotten() {
        let (mut manners, now) = (Manners::default(), Duration::from_secs(9));
        manners.request(peer(1), 1, now);
        manners.complain(peer(2), now);
        manners.sweep(now);
        assert_eq!(manners.len(), 2, "hanging up pays for nothing");
        manners.sweep(now + COMPLAINT);
        assert_eq!(manners.len(), 0);
    }
}

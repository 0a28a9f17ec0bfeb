//! The request rate of each stranger, and how often its offences are logged as warnings. Times are since the start of the
//! node.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_protocol::PublicKey;

use crate::machine::rate_limiter::RateLimiter;

/// One peer's offences are logged as a warning once in this.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The rate limits of peers. Idle peers are dropped.
#[derive(Debug, Default)]
pub(crate) struct PeerRateLimits {
    peers: BTreeMap<PublicKey, OfPeer>,
}

#[derive(Debug, Default)]
struct OfPeer {
    requests: RateLimiter,
    logged: Option<Duration>,
    /// Offences since then, which were not logged as warnings.
    suppressed: u64,
}

impl PeerRateLimits {
    /// `peer`, which may make `rate` requests a second, made one: how long that one is delayed.
    pub fn request(&mut self, peer: PublicKey, rate: u32, now: Duration) -> Duration {
        self.peers.entry(peer).or_default().requests.take(rate, now)
    }

    /// Something of `peer` was refused. When a warning is due: how many offences were suppressed since the last one.
    pub fn log_refusal(&mut self, peer: PublicKey, now: Duration) -> Option<u64> {
        let of_peer = self.peers.entry(peer).or_default();
        if of_peer.logged.is_some_and(|at| now.saturating_sub(at) < LOG_INTERVAL) {
            of_peer.suppressed += 1;
            return None;
        }
        of_peer.logged = Some(now);
        Some(std::mem::take(&mut of_peer.suppressed))
    }

    /// Drops peers that have their whole burst and no recent warning; disconnecting, which costs nothing, does not drop one.
    pub fn sweep(&mut self, now: Duration) {
        self.peers.retain(|_, of_peer| {
            let is_logged = of_peer.logged.is_some_and(|at| now.saturating_sub(at) < LOG_INTERVAL);
            !of_peer.requests.is_full(now) || is_logged
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
    use crate::machine::rate_limiter::BURST;
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
            let (mut limits, mut now, mut served) = (PeerRateLimits::default(), Duration::ZERO, Vec::new());
            for (gap, other) in gaps.into_iter().zip((2..=u8::MAX).cycle()) {
                now += Duration::from_micros(gap);
                let wait = limits.request(peer(1), rate, now);
                served.push(now + wait);
                // Others are not delayed.
                prop_assert_eq!(limits.request(peer(other), rate, now), Duration::ZERO);
            }
            // However the requests arrive, no more of them are served by any time than the rate allows.
            let each = Duration::from_secs(1) / rate;
            for (count, at) in (1u32..).zip(&served) {
                let room = *at + each * rate * BURST + each;
                prop_assert!(each * count <= room, "{count} at {at:?}");
            }
        }

        #[test]
        fn a_slow_peer_is_never_delayed(rate in 1u32..1_000, requests in 1usize..200) {
            let (mut limits, mut now) = (PeerRateLimits::default(), Duration::from_secs(9));
            for _ in 0..requests {
                prop_assert_eq!(limits.request(peer(1), rate, now), Duration::ZERO);
                now += Duration::from_secs(1) / rate;
            }
        }
    }

    #[test]
    fn an_offender_is_logged_once_a_minute() {
        let (mut limits, now) = (PeerRateLimits::default(), Duration::from_secs(9));
        assert_eq!(limits.log_refusal(peer(1), now), Some(0));
        for _ in 0..1_000 {
            assert_eq!(limits.log_refusal(peer(1), now + Duration::from_secs(59)), None);
        }
        assert_eq!(limits.log_refusal(peer(2), now), Some(0));
        assert_eq!(limits.log_refusal(peer(1), now + LOG_INTERVAL), Some(1_000));
    }

    #[test]
    fn an_idle_peer_is_dropped() {
        let (mut limits, now) = (PeerRateLimits::default(), Duration::from_secs(9));
        limits.request(peer(1), 1, now);
        limits.log_refusal(peer(2), now);
        limits.sweep(now);
        assert_eq!(limits.len(), 2, "the burst is not full yet, and the warning is recent");
        limits.sweep(now + LOG_INTERVAL);
        assert_eq!(limits.len(), 0);
    }
}

//! The ban list: a peer that repeatedly stores malformed or forged records in the DHT is banned for a while.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use althing_protocol::PublicKey;

/// Offences that are tolerated. A node whose clock is wrong, or an older version, commits a few each half hour.
const TOLERATED: u32 = 64;
/// One offence is forgiven in this time.
const FORGIVEN: Duration = Duration::from_secs(1);
/// Peers with known offences, and banned peers; of more, those that would be forgiven first are dropped.
const PEERS_MAX: usize = 4_096;

/// The offences of peers, and the banned ones.
pub(crate) struct BanList {
    /// How long a ban lasts.
    duration: Duration,
    /// When all offences of a peer will be forgiven.
    forgiven_at: BTreeMap<PublicKey, Duration>,
    /// When peers without offences are dropped next.
    sweep_at: Option<Duration>,
    banned: BTreeSet<PublicKey>,
    /// The ends of the bans, the earliest first: each poll looks only at that one.
    ends: VecDeque<(Duration, PublicKey)>,
}

impl BanList {
    /// An empty list, with bans of that duration.
    pub fn new(duration: Duration) -> BanList {
        let (forgiven_at, banned, ends) = (BTreeMap::new(), BTreeSet::new(), VecDeque::new());
        BanList { duration, forgiven_at, sweep_at: None, banned, ends }
    }

    /// Records an offence of `peer`: is it banned now?
    pub fn record_offence(&mut self, peer: PublicKey, now: Duration) -> bool {
        if self.banned.contains(&peer) {
            return false;
        }
        let forgiven_at = self.forgiven_at.get(&peer).map_or(now, |at| (*at).max(now)) + FORGIVEN;
        if forgiven_at.saturating_sub(now) <= FORGIVEN * TOLERATED {
            self.forgiven_at.insert(peer, forgiven_at);
            self.sweep(now);
            return false;
        }
        self.forgiven_at.remove(&peer);
        self.banned.insert(peer);
        self.ends.push_back((now + self.duration, peer));
        true
    }

    /// Drops forgiven peers from time to time, and of too many peers those that are forgiven first.
    fn sweep(&mut self, now: Duration) {
        if self.sweep_at.is_none_or(|at| at <= now) {
            self.forgiven_at.retain(|_, at| *at > now);
            self.sweep_at = Some(now + FORGIVEN);
        }
        while self.forgiven_at.len() > PEERS_MAX {
            let Some(first) = self.forgiven_at.iter().min_by_key(|(_, until)| **until).map(|(peer, _)| *peer) else {
                break;
            };
            self.forgiven_at.remove(&first);
        }
    }

    /// Lifts bans that are over, and the oldest ones of too many: the peers to unblock.
    pub fn lift_expired(&mut self, now: Duration) -> Vec<PublicKey> {
        let mut lifted = Vec::new();
        while let Some((_, peer)) = self.ends.pop_front_if(|(until, _)| *until <= now || self.banned.len() > PEERS_MAX)
        {
            self.banned.remove(&peer);
            lifted.push(peer);
        }
        lifted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    const BAN: Duration = Duration::from_secs(600);

    fn peer(number: u32) -> PublicKey {
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&number.to_be_bytes());
        SecretKey::from_seed(&seed).public()
    }

    #[test]
    fn a_few_offences_are_tolerated_and_many_are_not() {
        let (mut bans, now) = (BanList::new(BAN), Duration::from_secs(9));
        assert!((0..TOLERATED).all(|_| !bans.record_offence(peer(1), now)));
        assert!(!bans.record_offence(peer(2), now), "peers are counted separately");
        assert!(bans.record_offence(peer(1), now));
        assert!(!bans.record_offence(peer(1), now), "it is banned already");
        assert_eq!(bans.lift_expired(now + BAN - FORGIVEN), []);
        assert_eq!(bans.lift_expired(now + BAN), [peer(1)]);
        assert!(!bans.record_offence(peer(1), now + BAN), "its count starts at zero");
    }

    #[test]
    fn one_offence_a_second_is_tolerated_for_ever() {
        let (mut bans, begun) = (BanList::new(BAN), Duration::from_secs(9));
        assert!((0..10_000).all(|second| !bans.record_offence(peer(1), begun + FORGIVEN * second)));
    }

    #[test]
    fn the_list_is_bounded_however_many_peers_offend() {
        let (mut bans, now) = (BanList::new(BAN), Duration::from_secs(9));
        let all = u32::try_from(PEERS_MAX).expect("few") + 100;
        for number in 0..all {
            assert!(
                (0..=TOLERATED).any(|_| bans.record_offence(peer(number), now + Duration::from_millis(number.into())))
            );
        }
        assert_eq!(bans.lift_expired(now).len(), 100);
        assert_eq!((bans.banned.len(), bans.forgiven_at.len()), (PEERS_MAX, 0));
        for number in all..2 * all {
            bans.record_offence(peer(number), now);
        }
        assert_eq!(bans.forgiven_at.len(), PEERS_MAX);
    }
}

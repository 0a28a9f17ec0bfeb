//! Peers that want things kept that are none: who does it again and again is shut out for a while.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use althing_protocol::PublicKey;
use tokio::time::Instant;

/// Offences that are borne. A node whose clock is wrong, or an older one, has a few each half hour.
const BORNE: u32 = 64;
/// One of them is forgiven in this.
const FORGIVEN: Duration = Duration::from_secs(1);
/// Peers of which offences are known, and peers that are out: of more, those are let off who would be first.
const KNOWN_MAX: usize = 4_096;

/// Who offended, and who is out.
pub(crate) struct Offenders {
    /// How long an offender stays out.
    for_how_long: Duration,
    /// When all will be forgiven.
    debts: BTreeMap<PublicKey, Instant>,
    /// When those who owe nothing any more are forgotten again.
    sweep_at: Option<Instant>,
    out: BTreeSet<PublicKey>,
    /// Those who are out and until when, who went first in front: it is asked for whatever happens, so only that one is
    /// looked at.
    order: VecDeque<(Instant, PublicKey)>,
}

impl Offenders {
    /// None yet; who offends too often stays out for that long.
    pub fn new(for_how_long: Duration) -> Offenders {
        Offenders { for_how_long, debts: BTreeMap::new(), sweep_at: None, out: BTreeSet::new(), order: VecDeque::new() }
    }

    /// `peer` offended: is it to be shut out now?
    pub fn offended(&mut self, peer: PublicKey, now: Instant) -> bool {
        if self.out.contains(&peer) {
            return false;
        }
        let debt = self.debts.get(&peer).map_or(now, |debt| (*debt).max(now)) + FORGIVEN;
        if debt.saturating_duration_since(now) <= FORGIVEN * BORNE {
            self.debts.insert(peer, debt);
            self.forget(now);
            return false;
        }
        self.debts.remove(&peer);
        self.out.insert(peer);
        self.order.push_back((now + self.for_how_long, peer));
        true
    }

    /// Forgets who owes nothing any more, now and then, and those who owe least where too many do.
    fn forget(&mut self, now: Instant) {
        if self.sweep_at.is_none_or(|at| at <= now) {
            self.debts.retain(|_, debt| *debt > now);
            self.sweep_at = Some(now + FORGIVEN);
        }
        while self.debts.len() > KNOWN_MAX {
            let Some(first) = self.debts.iter().min_by_key(|(_, until)| **until).map(|(peer, _)| *peer) else { break };
            self.debts.remove(&first);
        }
    }

    /// Those who may come again: their time is over, or too many others are out.
    pub fn let_in(&mut self, now: Instant) -> Vec<PublicKey> {
        let mut gone = Vec::new();
        while let Some((_, peer)) = self.order.pop_front_if(|(until, _)| *until <= now || self.out.len() > KNOWN_MAX) {
            self.out.remove(&peer);
            gone.push(peer);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;

    const OUT: Duration = Duration::from_secs(600);

    fn peer(number: u32) -> PublicKey {
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&number.to_be_bytes());
        SecretKey::from_seed(&seed).public()
    }

    #[test]
    fn a_few_offences_are_borne_and_many_are_not() {
        let (mut offenders, now) = (Offenders::new(OUT), Instant::now());
        assert!((0..BORNE).all(|_| !offenders.offended(peer(1), now)));
        assert!(!offenders.offended(peer(2), now), "one does not pay for the other");
        assert!(offenders.offended(peer(1), now));
        assert!(!offenders.offended(peer(1), now), "it is told once");
        assert_eq!(offenders.let_in(now + OUT - FORGIVEN), []);
        assert_eq!(offenders.let_in(now + OUT), [peer(1)]);
        assert!(!offenders.offended(peer(1), now + OUT), "and begins anew");
    }

    #[test]
    fn one_each_second_is_borne_for_ever() {
        let (mut offenders, begun) = (Offenders::new(OUT), Instant::now());
        assert!((0..10_000).all(|second| !offenders.offended(peer(1), begun + FORGIVEN * second)));
    }

    #[test]
    fn however_many_offend_what_is_known_of_them_is_bounded() {
        let (mut offenders, now) = (Offenders::new(OUT), Instant::now());
        let all = u32::try_from(KNOWN_MAX).expect("few") + 100;
        for number in 0..all {
            assert!((0..=BORNE).any(|_| offenders.offended(peer(number), now + Duration::from_millis(number.into()))));
        }
        assert_eq!(offenders.let_in(now).len(), 100);
        assert_eq!((offenders.out.len(), offenders.debts.len()), (KNOWN_MAX, 0));
        for number in all..2 * all {
            offenders.offended(peer(number), now);
        }
        assert_eq!(offenders.debts.len(), KNOWN_MAX);
    }
}

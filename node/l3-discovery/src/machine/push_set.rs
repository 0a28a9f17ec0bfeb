//! Who gets this node's placement with each heartbeat. Few enough that a heartbeat costs the same in any network; the
//! others ask when they look for something. Nearer ones take the places of farther ones; of strangers, those who have most.

use std::collections::BTreeMap;

use althing_protocol::PublicKey;

use crate::machine::rank::{Holder, Source, richest};

/// Those who get it, who came first in front.
#[derive(Debug)]
pub struct PushSet {
    members: Vec<(PublicKey, Source)>,
    max: usize,
}

impl PushSet {
    /// Nobody yet, and at most `max`.
    #[must_use]
    pub fn new(max: usize) -> PushSet {
        PushSet { members: Vec::new(), max }
    }

    /// A peer is there. True when it gets the placement from now on, and did not before. It may have taken another's place.
    pub fn joined(&mut self, peer: PublicKey, source: Source) -> bool {
        if let Some((_, known)) = self.members.iter_mut().find(|(member, _)| *member == peer) {
            *known = source;
            return false;
        }
        if self.members.len() >= self.max {
            let Some(goes) = self.who_goes(peer, source) else { return false };
            self.members.remove(goes);
        }
        self.members.push((peer, source));
        true
    }

    /// The last of the farthest, when these are farther than who comes; of those as near, the last of whoever has most.
    fn who_goes(&self, comes: PublicKey, source: Source) -> Option<usize> {
        let farthest = self.members.iter().map(|(_, member)| member.rank).max()?;
        let counted = |peer: PublicKey, member: &Source| member.shares_with(peer, farthest);
        if farthest < source.rank {
            return None;
        }
        let mut shares: BTreeMap<Holder, usize> = BTreeMap::new();
        for (peer, member) in self.members.iter().filter(|(_, member)| member.rank == farthest) {
            *shares.entry(counted(*peer, member)).or_default() += 1;
        }
        let most = if farthest > source.rank {
            shares.iter().max_by_key(|(_, places)| **places).map(|(holder, _)| *holder)
        } else {
            richest(&shares, counted(comes, &source), 1)
        }?;
        self.members.iter().rposition(|(peer, member)| member.rank == farthest && counted(*peer, member) == most)
    }

    /// A peer left. True when it was one of those who got it.
    pub fn left(&mut self, peer: PublicKey) -> bool {
        let before = self.members.len();
        self.members.retain(|(member, _)| *member != peer);
        self.members.len() < before
    }

    /// Brings it up to date with who is connected, and how near they are now; gives those who get it from now on.
    pub fn review(&mut self, connected: &[(PublicKey, Source)]) -> Vec<PublicKey> {
        let there: BTreeMap<PublicKey, Source> = connected.iter().copied().collect();
        self.members.retain_mut(|(member, source)| there.get(member).inspect(|now| *source = **now).is_some());
        let before: Vec<PublicKey> = self.members().collect();
        for (peer, source) in connected {
            self.joined(*peer, *source);
        }
        self.members().filter(|member| !before.contains(member)).collect()
    }

    /// Does that peer get it?
    #[must_use]
    pub fn contains(&self, peer: PublicKey) -> bool {
        self.members.iter().any(|(member, _)| *member == peer)
    }

    /// Those who get it.
    pub fn members(&self) -> impl Iterator<Item = PublicKey> {
        self.members.iter().map(|(member, _)| *member)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use althing_communication::Origin;
    use althing_protocol::SecretKey;

    use super::*;
    use crate::machine::rank::Rank;

    fn peers<const N: usize>() -> [PublicKey; N] {
        std::array::from_fn(|number| SecretKey::from_seed(&[u8::try_from(number).expect("few"); 32]).public())
    }

    fn from(rank: Rank, address: u8) -> Source {
        Source { rank, holder: Holder::Origin(Origin::of(IpAddr::from([10, 0, 0, address]))) }
    }

    fn members(push_set: &PushSet) -> Vec<PublicKey> {
        push_set.members().collect()
    }

    #[test]
    fn who_came_first_stays_and_who_waits_takes_the_place_of_who_leaves() {
        let [a, b, c] = peers();
        let all = [a, b, c].map(|peer| (peer, Source::stranger(peer)));
        let mut push_set = PushSet::new(2);
        let mut joins = |at: usize| push_set.joined(all[at].0, all[at].1);
        assert!(joins(0) && joins(1) && !joins(2) && !joins(0));
        assert_eq!(push_set.review(&all[..2]), []);
        assert_eq!(members(&push_set), [a, b]);
        assert!(push_set.left(a) && !push_set.left(a));
        assert_eq!(push_set.review(&all[1..]), [c]);
        assert_eq!(members(&push_set), [b, c]);
    }

    #[test]
    fn nearer_ones_take_the_places_of_farther_ones_and_never_the_other_way() {
        use Rank::{InUse, Own, Stranger, Trusted};
        let [a, b, c, d, e, f] = peers();
        let mut push_set = PushSet::new(2);
        for (peer, rank) in [(a, Stranger), (b, Stranger), (c, InUse), (d, Trusted), (e, Own)] {
            assert!(push_set.joined(peer, from(rank, 1)), "{rank:?}");
        }
        assert_eq!(members(&push_set), [d, e]);
        assert!(!push_set.joined(a, from(Stranger, 2)) && !push_set.joined(c, from(InUse, 3)));
        assert!(!push_set.joined(f, from(Trusted, 4)), "another that is trusted has one too");
        // Who is not trusted any more has a stranger's place.
        assert_eq!(push_set.review(&[(d, from(Stranger, 1)), (e, from(Own, 1)), (f, from(Trusted, 4))]), [f]);
        assert_eq!(members(&push_set), [e, f]);
    }

    #[test]
    fn strangers_of_one_origin_leave_room_for_those_of_another() {
        let [a, b, c, d, e] = peers();
        let mut push_set = PushSet::new(3);
        for peer in [a, b, c] {
            assert!(push_set.joined(peer, from(Rank::Stranger, 1)));
        }
        assert!(push_set.joined(d, from(Rank::Stranger, 2)));
        assert_eq!(members(&push_set), [a, b, d]);
        assert!(!push_set.joined(c, from(Rank::Stranger, 1)) && !push_set.joined(e, from(Rank::Stranger, 2)));
    }
}

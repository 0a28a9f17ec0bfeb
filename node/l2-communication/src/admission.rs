//! Whose connections are taken when there are too many: keys are free, addresses are not, so each origin has a share.
//!
//! A connection that is being made may be ended again for another, for it is not known yet who makes it: of the origin with
//! the most of them a random one goes, as with half-open connections of TCP (RFC 4987, section 3.4: the least harm is done
//! to those who finish soon).
//!
//! Of those that stand, sixteen origins have a sixteenth of the places each for certain. What is free beyond is lent to
//! whoever comes, up to half of all, and taken back from the origin that has most.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::groups::Group;

/// Of the places for connections that stand, an origin has one in this many for certain.
const SHARES: usize = 16;

/// Where connections come from, as far as somebody pays for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Addresses on the internet that lie close together.
    Group(Group),
    /// One that is not routed there.
    Address(IpAddr),
    /// Through the relay at that address, which says nothing about it.
    PassedOn(Option<IpAddr>),
}

impl Origin {
    /// That of an address.
    #[must_use]
    pub fn of(ip: IpAddr) -> Origin {
        Group::of(ip).map_or(Origin::Address(ip.to_canonical()), Origin::Group)
    }
}

/// The connections that are being made. `Id` names one of them.
#[derive(Debug)]
pub struct Coming<Id> {
    max: usize,
    origins: BTreeMap<Origin, Vec<Id>>,
    len: usize,
}

impl<Id: Copy + PartialEq> Coming<Id> {
    /// None yet, and at most so many.
    #[must_use]
    pub fn new(max: usize) -> Coming<Id> {
        Coming { max, origins: BTreeMap::new(), len: 0 }
    }

    /// Takes one more, and says which is to be ended for it: that which a random number draws of the origins that have most.
    pub fn take(&mut self, id: Id, origin: Origin, draw: usize) -> Option<Id> {
        self.origins.entry(origin).or_default().push(id);
        self.len += 1;
        if self.len <= self.max {
            return None;
        }
        let most = self.origins.values().map(Vec::len).max()?;
        let mut crowded = self.origins.iter().filter(|(_, ids)| ids.len() == most);
        let crowds = crowded.clone().count();
        let (origin, ids) = crowded.nth(draw / most % crowds)?;
        let (origin, gone) = (*origin, ids[draw % most]);
        self.over(gone, origin);
        Some(gone)
    }

    /// One is made, or has failed.
    pub fn over(&mut self, id: Id, origin: Origin) {
        let Some(ids) = self.origins.get_mut(&origin) else { return };
        let Some(at) = ids.iter().position(|held| *held == id) else { return };
        ids.swap_remove(at);
        self.len -= 1;
        if ids.is_empty() {
            self.origins.remove(&origin);
        }
    }
}

/// The connections that stand and were made by others. `Id` names one of them.
#[derive(Debug)]
pub struct Standing<Id> {
    max: usize,
    /// Those of each origin, who came first in front.
    origins: BTreeMap<Origin, Vec<Id>>,
    of: BTreeMap<Id, Origin>,
}

impl<Id: Copy + Ord> Standing<Id> {
    /// None yet, and at most so many.
    #[must_use]
    pub fn new(max: usize) -> Standing<Id> {
        Standing { max, origins: BTreeMap::new(), of: BTreeMap::new() }
    }

    /// Is one more of that origin taken? Beyond its share when half of the places are free; up to it while there is a free
    /// one, or one that another origin has beyond its own.
    #[must_use]
    pub fn has_room(&self, origin: Origin) -> bool {
        let below = self.origins.get(&origin).map_or(0, Vec::len) < self.share();
        self.of.len() < self.max / 2 || below && (self.of.len() < self.max || self.most() > self.share())
    }

    /// One stands. Where that is one too many, says which is to be ended: the last of the origin that has most.
    pub fn add(&mut self, id: Id, origin: Origin) -> Option<Id> {
        self.origins.entry(origin).or_default().push(id);
        self.of.insert(id, origin);
        let most = self.most();
        let crowd = self.origins.values().find(|ids| ids.len() == most).filter(|_| self.of.len() > self.max);
        crowd.and_then(|ids| ids.last().copied())
    }

    /// One that stood is gone.
    pub fn remove(&mut self, id: Id) {
        let Some(origin) = self.of.remove(&id) else { return };
        if let Some(ids) = self.origins.get_mut(&origin) {
            ids.retain(|held| *held != id);
            if ids.is_empty() {
                self.origins.remove(&origin);
            }
        }
    }

    fn share(&self) -> usize {
        (self.max / SHARES).max(1)
    }

    fn most(&self) -> usize {
        self.origins.values().map(Vec::len).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn origin(number: u8) -> Origin {
        Origin::of(IpAddr::from([9, 9, number, 7]))
    }

    #[test]
    fn neighbours_on_the_internet_are_one_origin_and_those_on_a_lan_are_not() {
        let of = |ip: &str| Origin::of(ip.parse().expect("an address"));
        assert_eq!(of("9.9.9.9"), of("9.9.9.10"));
        assert_eq!(of("192.168.1.1"), of("::ffff:192.168.1.1"));
        assert_ne!(of("192.168.1.1"), of("192.168.1.2"));
        assert_ne!(of("fd00::1"), of("fd00::2"));
    }

    #[test]
    fn one_origin_takes_half_of_what_is_free_and_sixteen_have_their_share() {
        let (mut standing, mut next) = (Standing::new(64), 0);
        let mut fill = |standing: &mut Standing<u32>, number: u8| {
            let mut taken = 0;
            while standing.has_room(origin(number)) {
                next += 1;
                taken += 1;
                if let Some(gone) = standing.add(next, origin(number)) {
                    standing.remove(gone);
                }
            }
            taken
        };
        assert_eq!(fill(&mut standing, 1), 32);
        assert_eq!((2..=16).map(|number| fill(&mut standing, number)).collect::<Vec<i32>>(), [4; 15]);
        assert!(standing.origins.values().all(|ids| ids.len() == 4), "what was lent is taken back");
        assert_eq!(standing.origins[&origin(1)], [1, 2, 3, 4], "who came first stays");
        assert_eq!(fill(&mut standing, 17), 0, "sixteen have all");
        standing.remove(1);
        assert_eq!((fill(&mut standing, 17), standing.of.len()), (1, 64));
    }

    /// Where each has one, anybody's may be ended: not always that of the same.
    #[test]
    fn of_equals_none_is_chosen_by_its_address() {
        let gone = |draw: usize| {
            let mut coming = Coming::new(4);
            (0..5).find_map(|number| coming.take(number, origin(number), draw)).expect("one too many")
        };
        assert_eq!((0..5).map(gone).collect::<Vec<u8>>(), [0, 1, 2, 3, 4]);
    }

    proptest! {
        /// Whatever comes and goes: never too many, nobody is ended for one who has more, and whoever has less than its share
        /// comes in as long as another has more than its own.
        #[test]
        fn shares_hold(steps in proptest::collection::vec((0u8..24, any::<bool>()), 1..400)) {
            let mut standing = Standing::new(32);
            for (id, (number, ends)) in steps.into_iter().enumerate() {
                if ends {
                    standing.remove(id / 2);
                    continue;
                }
                let of = origin(number);
                let (before, had) = (standing.of.len(), standing.origins.get(&of).map_or(0, Vec::len));
                if !standing.has_room(of) {
                    prop_assert!(had >= 2 || before == 32 && standing.most() <= 2, "{had} of {before}");
                    continue;
                }
                if let Some(gone) = standing.add(id, of) {
                    prop_assert!(standing.most() > 2 && standing.of[&gone] != of);
                    standing.remove(gone);
                }
                prop_assert!(standing.of.len() <= 32);
                prop_assert_eq!(standing.origins.values().map(Vec::len).sum::<usize>(), standing.of.len());
            }
        }

        /// However many come of one origin, those of another are ended only when it has as many.
        #[test]
        fn a_flood_ends_its_own(steps in proptest::collection::vec((0u8..4, any::<usize>(), any::<bool>()), 1..400)) {
            let mut coming = Coming::new(16);
            let mut held: Vec<(usize, Origin)> = Vec::new();
            for (id, (number, draw, ends)) in steps.into_iter().enumerate() {
                if ends && !held.is_empty() {
                    let (id, of) = held.swap_remove(id % held.len());
                    coming.over(id, of);
                    coming.over(id, of);
                }
                let of = origin(number);
                held.push((id, of));
                let count = |of: Origin| held.iter().filter(|(_, held)| *held == of).count();
                let most = (0..4).map(|number| count(origin(number))).max();
                if let Some(gone) = coming.take(id, of, draw) {
                    let at = held.iter().position(|(id, _)| *id == gone).expect("one that is there");
                    prop_assert_eq!(Some(count(held[at].1)), most);
                    held.swap_remove(at);
                }
                prop_assert!(held.len() <= 16);
                prop_assert_eq!(coming.len, held.len());
            }
        }
    }
}

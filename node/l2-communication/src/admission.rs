//! Whose connections are taken when there are too many: keys are free, addresses are not, so each origin has a share.
//!
//! A connection that is being made may be ended again for another, for it is not known yet who makes it: of the origin with
//! the most of them a random one goes, as with half-open connections of TCP (RFC 4987, section 3.4: the least harm is done
//! to those who finish soon). One that stands is never ended for another; those of an origin that has its share are not
//! taken while less than half of the places are free.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::groups::Group;
use crate::tally::Tally;

/// Of the places for connections that stand, an origin has one in this many for certain to itself.
const SHARES: usize = 16;

/// Where connections come from, as far as somebody pays for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Addresses on the internet that lie close together.
    Group(Group),
    /// One that is not routed there.
    Address(IpAddr),
    /// Through relays, which say nothing about it.
    PassedOn,
}

impl Origin {
    /// That of an address, or of none.
    #[must_use]
    pub fn of(ip: Option<IpAddr>) -> Origin {
        ip.map_or(Origin::PassedOn, |ip| Group::of(ip).map_or(Origin::Address(ip.to_canonical()), Origin::Group))
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

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The connections that stand and were made by others.
#[derive(Debug)]
pub struct Standing {
    max: usize,
    origins: Tally<Origin>,
    len: usize,
}

impl Standing {
    /// None yet, and at most so many.
    #[must_use]
    pub fn new(max: usize) -> Standing {
        Standing { max, origins: Tally::default(), len: 0 }
    }

    /// Is one more of that origin taken?
    #[must_use]
    pub fn has_room(&self, origin: Origin) -> bool {
        self.len < self.max && (self.len < self.max / 2 || self.origins.of(origin) < (self.max / SHARES).max(1))
    }

    /// One stands.
    pub fn add(&mut self, origin: Origin) {
        self.origins.add(origin);
        self.len += 1;
    }

    /// One that stood is gone.
    pub fn remove(&mut self, origin: Origin) {
        self.len -= usize::from(self.origins.of(origin) > 0);
        self.origins.remove(origin);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn origin(number: u8) -> Origin {
        Origin::of(Some(IpAddr::from([9, 9, number, 7])))
    }

    #[test]
    fn neighbours_on_the_internet_are_one_origin_and_those_on_a_lan_are_not() {
        let of = |ip: &str| Origin::of(Some(ip.parse().expect("an address")));
        assert_eq!(of("9.9.9.9"), of("9.9.9.10"));
        assert_eq!(of("192.168.1.1"), of("::ffff:192.168.1.1"));
        assert_ne!(of("192.168.1.1"), of("192.168.1.2"));
        assert_ne!(of("fd00::1"), of("fd00::2"));
        assert_eq!(Origin::of(None), Origin::PassedOn);
    }

    #[test]
    fn one_origin_takes_at_most_half_of_what_stands_and_each_other_has_its_share() {
        let mut standing = Standing::new(64);
        let mut fill = |number: u8| {
            let mut taken = 0;
            while standing.has_room(origin(number)) {
                standing.add(origin(number));
                taken += 1;
            }
            taken
        };
        assert_eq!(fill(1), 32);
        assert_eq!((2..=9).map(&mut fill).collect::<Vec<i32>>(), [4; 8]);
        assert_eq!(fill(10), 0, "all are taken");
        standing.remove(origin(1));
        assert!(!standing.has_room(origin(1)) && standing.has_room(origin(10)));
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
                prop_assert_eq!(coming.len(), held.len());
            }
        }
    }
}

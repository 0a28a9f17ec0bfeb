//! Whose connections are taken when there are too many: keys are free, addresses are not, so each origin has a share.
//!
//! A connection that is being made may be ended again for another, for it is not known yet who makes it: of the origin with
//! the most of them a random one goes, as with half-open connections of TCP (RFC 4987, section 3.4: the least harm is done
//! to those who finish soon).
//!
//! Of those that stand, an eighth is kept: for peers that are nearer than strangers, and for those who have just come, for who
//! they are shows when both have shaken hands and said hello. Of the other places sixteen origins have a sixteenth each for
//! certain. What is free beyond is lent to whoever comes, up to half of all, and taken back from the origin that has most. Where
//! all is taken, addresses that are not routed on the internet count as one origin with those next to them, for on a LAN
//! addresses are free, too; among themselves, who has fewest comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::groups::Group;
use crate::machine::nearness::Nearness;

/// Of the places for connections that stand, an origin has one in this many for certain.
const SHARES: usize = 16;
/// One in this many is kept for nearer peers and for who has just come.
const KEPT: usize = 8;
/// Who has just come from an origin that has its share has this long to show that it is near; then the next may try. It takes
/// a few round trips.
const TRIAL: Duration = Duration::from_secs(2);

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

/// Those who have one share where all is taken: the addresses behind one router on the internet are one origin by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Neighbourhood {
    /// As it is.
    Origin(Origin),
    /// The first three bytes of an address that is not routed, as most interfaces of IPv4 have them in common.
    V4([u8; 3]),
    /// The first eight: every interface of IPv6 has them in common.
    V6([u8; 8]),
}

impl Neighbourhood {
    fn of(origin: Origin) -> Neighbourhood {
        match origin {
            Origin::Address(IpAddr::V4(v4)) => {
                let [a, b, c, _] = v4.octets();
                Neighbourhood::V4([a, b, c])
            }
            Origin::Address(IpAddr::V6(v6)) => {
                let [a, b, c, d, e, f, g, h, ..] = v6.octets();
                Neighbourhood::V6([a, b, c, d, e, f, g, h])
            }
            Origin::Group(_) | Origin::PassedOn(_) => Neighbourhood::Origin(origin),
        }
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

/// The connections that stand and were made by others. `Id` names one of them, and is the larger the later it came.
#[derive(Debug)]
pub struct Standing<Id> {
    max: usize,
    of: BTreeMap<Id, (Origin, Place)>,
    /// Those of strangers, who came first in front.
    strangers: BTreeMap<Neighbourhood, BTreeMap<Origin, BTreeSet<Id>>>,
    /// Those who have just come from where others have all there is, since when.
    trials: BTreeMap<Id, Duration>,
    near: BTreeSet<(Nearness, Id)>,
}

/// What a connection's place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Stranger,
    Trial,
    Near(Nearness),
}

impl<Id: Copy + Ord> Standing<Id> {
    /// None yet, and at most so many.
    #[must_use]
    pub fn new(max: usize) -> Standing<Id> {
        let (of, strangers) = (BTreeMap::new(), BTreeMap::new());
        Standing { max, of, strangers, trials: BTreeMap::new(), near: BTreeSet::new() }
    }

    /// Is one more of that origin taken? If it has a claim to a place, or to show who it is.
    #[must_use]
    pub fn has_room(&self, origin: Origin, now: Duration) -> bool {
        self.has_claim(origin) || self.may_try(origin, now)
    }

    /// One stands. Where that is one too many, says which is to be ended.
    pub fn add(&mut self, id: Id, origin: Origin, now: Duration) -> Option<Id> {
        if self.has_claim(origin) {
            self.insert(id, origin, Place::Stranger, now);
            return if self.count_strangers() > self.strangers_max() {
                self.crowding(origin)
            } else if self.of.len() > self.max {
                self.trials.keys().next().copied().or_else(|| self.crowding(origin))
            } else {
                None
            };
        }
        let before = self.trial_of(origin);
        self.insert(id, origin, Place::Trial, now);
        let others = self.trials.iter().filter(|(trial, _)| **trial != id);
        let oldest = others.min_by_key(|(_, since)| **since).map(|(id, _)| *id).or_else(|| self.crowding(origin));
        before.or(oldest.filter(|_| self.of.len() > self.max))
    }

    /// It is known now how near who made it is. Where too few places are left for who comes, says which is to be ended.
    pub fn regard(&mut self, id: Id, nearness: Nearness, now: Duration) -> Option<Id> {
        let (origin, place) = self.of.get(&id).copied()?;
        if nearness == Nearness::Stranger {
            if let Place::Near(_) = place {
                self.remove(id);
                return self.add(id, origin, now);
            }
            return None;
        }
        self.remove(id);
        self.insert(id, origin, Place::Near(nearness), now);
        // The farthest of them, who came last.
        let farthest = self.near.first().map(|(nearness, _)| *nearness)?;
        let of_farthest = self.near.iter().take_while(|(nearness, _)| *nearness == farthest);
        of_farthest.last().map(|(_, id)| *id).filter(|_| self.near.len() > self.max - self.kept() / 2)
    }

    /// One that stood is gone.
    pub fn remove(&mut self, id: Id) {
        let Some((origin, place)) = self.of.remove(&id) else { return };
        match place {
            Place::Near(nearness) => {
                self.near.remove(&(nearness, id));
            }
            Place::Trial => {
                self.trials.remove(&id);
            }
            Place::Stranger => {
                let neighbourhood = Neighbourhood::of(origin);
                let Some(origins) = self.strangers.get_mut(&neighbourhood) else { return };
                if let Some(ids) = origins.get_mut(&origin) {
                    ids.remove(&id);
                }
                origins.retain(|_, ids| !ids.is_empty());
                if origins.is_empty() {
                    self.strangers.remove(&neighbourhood);
                }
            }
        }
    }

    fn insert(&mut self, id: Id, origin: Origin, place: Place, now: Duration) {
        self.of.insert(id, (origin, place));
        match place {
            Place::Near(nearness) => {
                self.near.insert((nearness, id));
            }
            Place::Trial => {
                self.trials.insert(id, now);
            }
            Place::Stranger => {
                let origins = self.strangers.entry(Neighbourhood::of(origin)).or_default();
                origins.entry(origin).or_default().insert(id);
            }
        }
    }

    /// Beyond its share when half of the places are free; up to it while there is a free one, or one that another has beyond its
    /// own; and among neighbours on a LAN, while another of them has two more.
    fn has_claim(&self, origin: Origin) -> bool {
        let (strangers, max, share) = (self.count_strangers(), self.strangers_max(), self.share());
        if strangers < max / 2 && self.of.len() < self.max {
            return true;
        }
        let has = self.count(origin);
        if strangers < max && self.of.len() < self.max {
            return has < share;
        }
        let neighbours = self.strangers.get(&Neighbourhood::of(origin));
        let here = neighbours.map_or(0, of_all);
        let most_here = neighbours.and_then(|origins| origins.values().map(BTreeSet::len).max()).unwrap_or(0);
        let most = self.strangers.values().map(of_all).max().unwrap_or(0);
        has < share && (here < share && most > share || has + 1 < most_here)
    }

    /// Has nobody else of that origin just come, and is there a place to try?
    fn may_try(&self, origin: Origin, now: Duration) -> bool {
        let since = self.trial_of(origin).and_then(|id| self.trials.get(&id));
        let over = since.is_none_or(|since| now.saturating_sub(*since) >= TRIAL);
        over && (self.of.len() < self.max || self.near.len() < self.max)
    }

    fn trial_of(&self, origin: Origin) -> Option<Id> {
        self.trials.keys().find(|id| self.of.get(id).is_some_and(|(of, _)| *of == origin)).copied()
    }

    /// Of the neighbourhood with most strangers, or that of `newcomer` where no other has more than its share: the last of the
    /// origin that has most.
    fn crowding(&self, newcomer: Origin) -> Option<Id> {
        let largest = self.strangers.values().max_by_key(|origins| of_all(origins))?;
        let neighbours = self.strangers.get(&Neighbourhood::of(newcomer));
        let here = neighbours.filter(|origins| of_all(origins) > self.share() || of_all(largest) <= self.share());
        let from = here.unwrap_or(largest);
        from.values().max_by_key(|ids| ids.len())?.last().copied()
    }

    fn count(&self, origin: Origin) -> usize {
        self.strangers.get(&Neighbourhood::of(origin)).and_then(|origins| origins.get(&origin)).map_or(0, BTreeSet::len)
    }

    fn count_strangers(&self) -> usize {
        self.of.len() - self.trials.len() - self.near.len()
    }

    /// Places of strangers, beside those who have just come.
    fn strangers_max(&self) -> usize {
        self.max - self.kept()
    }

    fn kept(&self) -> usize {
        (self.max / KEPT).max(1)
    }

    fn share(&self) -> usize {
        (self.strangers_max() / SHARES).max(1)
    }
}

fn of_all<Id>(origins: &BTreeMap<Origin, BTreeSet<Id>>) -> usize {
    origins.values().map(BTreeSet::len).sum()
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

    /// 64 of them are strangers'.
    const MAX: usize = 73;

    fn lan(number: u8) -> Origin {
        Origin::of(IpAddr::from([192, 168, 7, number]))
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Connections of strangers, each named by its number.
    struct Scene {
        standing: Standing<u32>,
        next: u32,
    }

    impl Scene {
        fn new() -> Scene {
            Scene { standing: Standing::new(MAX), next: 0 }
        }

        /// One more, if it is taken.
        fn come(&mut self, origin: Origin, now: Duration) -> Option<u32> {
            if !self.standing.has_room(origin, now) {
                return None;
            }
            self.next += 1;
            if let Some(gone) = self.standing.add(self.next, origin, now) {
                assert_ne!(gone, self.next, "it was taken");
                self.standing.remove(gone);
            }
            assert!(self.standing.of.len() <= MAX);
            Some(self.next)
        }

        /// As many as have a claim.
        fn fill(&mut self, origin: Origin) -> usize {
            let mut taken = 0;
            while self.standing.has_claim(origin) {
                taken += 1;
                self.come(origin, at(0));
            }
            taken
        }
    }

    #[test]
    fn one_origin_takes_half_of_what_is_free_and_sixteen_have_their_share() {
        let mut scene = Scene::new();
        assert_eq!(scene.fill(origin(1)), 32);
        assert_eq!((2..=16).map(|number| scene.fill(origin(number))).collect::<Vec<usize>>(), [4; 15]);
        let count = |scene: &Scene, number: u8| scene.standing.count(origin(number));
        assert!((1..=16).all(|number| count(&scene, number) == 4), "what was lent is taken back");
        assert!((1..=4).all(|first| scene.standing.of.contains_key(&first)), "who came first stays");
        assert_eq!(scene.fill(origin(17)), 0, "sixteen networks of the internet, which somebody pays for, have all");
        scene.standing.remove(1);
        assert_eq!((scene.fill(origin(17)), scene.standing.of.len()), (1, 64));
    }

    /// On a LAN a machine has as many addresses as it likes: they are one origin to the others, and a seventeenth address has as
    /// much as each of the sixteen.
    #[test]
    fn sixteen_addresses_of_a_lan_do_not_have_all() {
        let mut scene = Scene::new();
        for number in 1..=16 {
            scene.fill(lan(number));
        }
        assert_eq!(scene.standing.count_strangers(), 64);
        assert_eq!(scene.fill(lan(17)), 3, "until it has one less than the others");
        assert_eq!(scene.fill(origin(1)), 4, "a sixteenth, and nobody else of the internet lost any");
        assert_eq!(scene.fill(origin(2)), 4);
        assert_eq!((scene.standing.count(origin(1)), scene.standing.count_strangers()), (4, 64));
    }

    /// However many addresses have all there is: who has just come can show that it is near, and then it stays.
    #[test]
    fn near_peers_come_through_and_stay_whatever_strangers_hold() {
        let mut scene = Scene::new();
        for number in 0..=u8::MAX {
            scene.come(lan(number), at(0));
        }
        assert_eq!(scene.standing.of.len(), MAX);
        let near: Vec<u32> = [Nearness::Own, Nearness::Trusted, Nearness::InUse]
            .into_iter()
            .map(|nearness| {
                let id = scene.come(Origin::of(IpAddr::from([192, 168, 8, 1])), at(0)).expect("it may try");
                assert_eq!(scene.standing.regard(id, nearness, at(0)), None);
                id
            })
            .collect();
        for round in 1..10 {
            for number in 0..=u8::MAX {
                scene.come(lan(number), at(round * 3));
            }
        }
        assert!(near.iter().all(|id| scene.standing.of.contains_key(id)));
        // From the very address of the crowd, in its turn.
        assert_eq!(scene.come(lan(7), at(40)).and_then(|_| scene.come(lan(7), at(41))), None, "one at a time tries");
        assert!(scene.come(lan(7), at(42)).is_some());
    }

    #[test]
    fn of_too_many_near_peers_the_farthest_goes_and_there_is_always_a_place_to_try() {
        let mut scene = Scene::new();
        let mut near = Vec::new();
        for number in 0..200u8 {
            let id = scene.come(origin(number), at(u64::from(number))).expect("it may try");
            let nearness = if number % 2 == 0 { Nearness::Own } else { Nearness::Trusted };
            near.push((nearness, id));
            if let Some(gone) = scene.standing.regard(id, nearness, at(0)) {
                scene.standing.remove(gone);
            }
        }
        let stands = |(_, id): &&(Nearness, u32)| scene.standing.of.contains_key(id);
        assert_eq!(near.iter().filter(stands).count(), MAX - 4);
        assert!(near.iter().filter(stands).all(|(nearness, _)| *nearness == Nearness::Own));
        // Who is near no more is one of the strangers again.
        let (_, id) = near[0];
        assert_eq!(scene.standing.regard(id, Nearness::Stranger, at(0)), None);
        assert_eq!(scene.standing.count_strangers(), 1);
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
        fn shares_hold(steps in proptest::collection::vec((0u8..24, 0u8..6), 1..400)) {
            // 32 of them are strangers'.
            let mut standing = Standing::new(36);
            for (id, (number, what)) in steps.into_iter().enumerate() {
                match what {
                    0 => standing.remove(id / 2),
                    1 => {
                        let nearness = if number % 2 == 0 { Nearness::Own } else { Nearness::Stranger };
                        if let Some(gone) = standing.regard(id / 3, nearness, at(0)) {
                            standing.remove(gone);
                        }
                    }
                    _ => {
                        let of = origin(number);
                        let (before, had) = (standing.count_strangers(), standing.count(of));
                        let most = |standing: &Standing<usize>| standing.strangers.values().map(of_all).max().unwrap_or(0);
                        let full = standing.of.len() == 36 || before == 32;
                        let tries = !standing.has_claim(of);
                        if tries {
                            prop_assert!(had >= 2 || full && most(&standing) <= 2, "{had} of {before}");
                        }
                        if !standing.has_room(of, at(u64::from(number))) {
                            continue;
                        }
                        if let Some(gone) = standing.add(id, of, at(u64::from(number))) {
                            let (origin, place) = standing.of[&gone];
                            prop_assert!(gone != id && !matches!(place, Place::Near(_)));
                            prop_assert!(place == Place::Trial || tries || origin != of && most(&standing) > 2);
                            standing.remove(gone);
                        }
                    }
                }
                prop_assert!(standing.of.len() <= 36 && standing.count_strangers() <= 32);
                let counted: usize = standing.strangers.values().map(of_all).sum();
                prop_assert_eq!(counted, standing.count_strangers());
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

//! Which inbound connections are accepted when there are too many. Keys are free and addresses are not, so each origin has a
//! share.
//!
//! Pending connections, whose peer is not known yet, may be aborted for others: a random one of the origin with most of them,
//! as with half-open connections of TCP (RFC 4987, section 3.4), which harms those that complete soon the least.
//!
//! Of the established ones, an eighth is reserved for trusted peers and those in use, and for connections on trial, whose
//! trust level is not known before the handshake and both hellos. Sixteen origins are guaranteed a sixteenth each of the other
//! slots. Free slots beyond that are lent to any origin, up to half of all, and taken back from the origin that has most. When
//! all are taken, private addresses count as one origin with their neighbours, since addresses are free on a LAN, too; within
//! such a neighbourhood the address with fewest connections comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::origin::Origin;
use super::trust_level::TrustLevel;

/// An origin is guaranteed one in this many of the strangers' slots.
const SHARES: usize = 16;
/// One in this many slots is reserved for trusted peers, those in use, and connections on trial.
const RESERVED: usize = 8;
/// A connection of an origin that has its share is on trial for this long, to prove its trust level, which takes a few round
/// trips; then the next one of that origin may be.
const TRIAL: Duration = Duration::from_secs(2);

/// The origins that share one quota when all slots are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Neighbourhood {
    /// One origin on the internet, or a relay.
    Origin(Origin),
    /// The first three bytes of a private IPv4 address: a typical subnet.
    V4([u8; 3]),
    /// The first eight bytes of a private IPv6 address: its subnet.
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
            Origin::Group(_) | Origin::Relayed(_) => Neighbourhood::Origin(origin),
        }
    }
}

/// The inbound connections whose handshake is not complete. `Id` names one of them.
#[derive(Debug)]
pub struct PendingConnections<Id> {
    max: usize,
    origins: BTreeMap<Origin, Vec<Id>>,
    len: usize,
}

impl<Id: Copy + PartialEq> PendingConnections<Id> {
    /// An empty set of at most `max` connections.
    #[must_use]
    pub fn new(max: usize) -> PendingConnections<Id> {
        PendingConnections { max, origins: BTreeMap::new(), len: 0 }
    }

    /// Adds a connection. Of one too many, gives the one to abort: the random number `draw` selects it among those of the
    /// origins with most.
    pub fn add(&mut self, id: Id, origin: Origin, draw: usize) -> Option<Id> {
        self.origins.entry(origin).or_default().push(id);
        self.len += 1;
        if self.len <= self.max {
            return None;
        }
        let most = self.origins.values().map(Vec::len).max()?;
        let mut largest = self.origins.iter().filter(|(_, ids)| ids.len() == most);
        let count = largest.clone().count();
        let (origin, ids) = largest.nth(draw / most % count)?;
        let (origin, aborted) = (*origin, ids[draw % most]);
        self.remove(aborted, origin);
        Some(aborted)
    }

    /// A handshake is complete, or has failed.
    pub fn remove(&mut self, id: Id, origin: Origin) {
        let Some(ids) = self.origins.get_mut(&origin) else { return };
        let Some(at) = ids.iter().position(|held| *held == id) else { return };
        ids.swap_remove(at);
        self.len -= 1;
        if ids.is_empty() {
            self.origins.remove(&origin);
        }
    }
}

/// The established inbound connections. `Id` names one of them; later ones have larger ids.
#[derive(Debug)]
pub struct EstablishedConnections<Id> {
    max: usize,
    of: BTreeMap<Id, (Origin, Slot)>,
    /// Those of strangers, the oldest first.
    strangers: BTreeMap<Neighbourhood, BTreeMap<Origin, BTreeSet<Id>>>,
    /// Connections on trial, and since when they are.
    trials: BTreeMap<Id, Duration>,
    trusted: BTreeSet<(TrustLevel, Id)>,
}

/// The kind of slot that a connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Stranger,
    Trial,
    /// Of a peer above [`TrustLevel::Stranger`].
    Trusted(TrustLevel),
}

impl<Id: Copy + Ord> EstablishedConnections<Id> {
    /// An empty set of at most `max` connections.
    #[must_use]
    pub fn new(max: usize) -> EstablishedConnections<Id> {
        let (of, strangers) = (BTreeMap::new(), BTreeMap::new());
        EstablishedConnections { max, of, strangers, trials: BTreeMap::new(), trusted: BTreeSet::new() }
    }

    /// Is one more connection of `origin` accepted, because the origin has a claim to a slot, or on trial?
    #[must_use]
    pub fn has_room(&self, origin: Origin, now: Duration) -> bool {
        self.has_claim(origin) || self.may_try(origin, now)
    }

    /// Adds a connection. Of one too many, gives the one to close.
    pub fn add(&mut self, id: Id, origin: Origin, now: Duration) -> Option<Id> {
        if self.has_claim(origin) {
            self.insert(id, origin, Slot::Stranger, now);
            return if self.count_strangers() > self.strangers_max() {
                self.surplus_of(origin)
            } else if self.of.len() > self.max {
                self.trials.keys().next().copied().or_else(|| self.surplus_of(origin))
            } else {
                None
            };
        }
        let before = self.trial_of(origin);
        self.insert(id, origin, Slot::Trial, now);
        let others = self.trials.iter().filter(|(trial, _)| **trial != id);
        let oldest = others.min_by_key(|(_, since)| **since).map(|(id, _)| *id).or_else(|| self.surplus_of(origin));
        before.or(oldest.filter(|_| self.of.len() > self.max))
    }

    /// Sets the trust level of a connection's peer. When too few slots are left for trials, gives the one to close.
    pub fn set_trust(&mut self, id: Id, trust: TrustLevel, now: Duration) -> Option<Id> {
        let (origin, slot) = self.of.get(&id).copied()?;
        if trust == TrustLevel::Stranger {
            if let Slot::Trusted(_) = slot {
                self.remove(id);
                return self.add(id, origin, now);
            }
            return None;
        }
        self.remove(id);
        self.insert(id, origin, Slot::Trusted(trust), now);
        // The latest of those with the lowest trust level.
        let lowest = self.trusted.first().map(|(trust, _)| *trust)?;
        let of_lowest = self.trusted.iter().take_while(|(trust, _)| *trust == lowest);
        of_lowest.last().map(|(_, id)| *id).filter(|_| self.trusted.len() > self.max - self.reserved() / 2)
    }

    /// A connection is closed.
    pub fn remove(&mut self, id: Id) {
        let Some((origin, slot)) = self.of.remove(&id) else { return };
        match slot {
            Slot::Trusted(trust) => {
                self.trusted.remove(&(trust, id));
            }
            Slot::Trial => {
                self.trials.remove(&id);
            }
            Slot::Stranger => {
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

    fn insert(&mut self, id: Id, origin: Origin, slot: Slot, now: Duration) {
        self.of.insert(id, (origin, slot));
        match slot {
            Slot::Trusted(trust) => {
                self.trusted.insert((trust, id));
            }
            Slot::Trial => {
                self.trials.insert(id, now);
            }
            Slot::Stranger => {
                let origins = self.strangers.entry(Neighbourhood::of(origin)).or_default();
                origins.entry(origin).or_default().insert(id);
            }
        }
    }

    /// An origin may exceed its share while half of the slots are free, and fill it while one is free or another origin exceeds
    /// its own. Among neighbours on a LAN it may take one from another that has two more.
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

    /// Is no other connection of `origin` on trial, and is there a slot for a trial?
    fn may_try(&self, origin: Origin, now: Duration) -> bool {
        let since = self.trial_of(origin).and_then(|id| self.trials.get(&id));
        let is_next = since.is_none_or(|since| now.saturating_sub(*since) >= TRIAL);
        is_next && (self.of.len() < self.max || self.trusted.len() < self.max)
    }

    fn trial_of(&self, origin: Origin) -> Option<Id> {
        self.trials.keys().find(|id| self.of.get(id).is_some_and(|(of, _)| *of == origin)).copied()
    }

    /// The connection to close for `newcomer`: the latest of the origin with most, in the neighbourhood with most strangers, or
    /// in its own where no other one exceeds its share.
    fn surplus_of(&self, newcomer: Origin) -> Option<Id> {
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
        self.of.len() - self.trials.len() - self.trusted.len()
    }

    /// The slots of strangers, without those on trial.
    fn strangers_max(&self) -> usize {
        self.max - self.reserved()
    }

    fn reserved(&self) -> usize {
        (self.max / RESERVED).max(1)
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
        connections: EstablishedConnections<u32>,
        next: u32,
    }

    impl Scene {
        fn new() -> Scene {
            Scene { connections: EstablishedConnections::new(MAX), next: 0 }
        }

        /// Adds a connection, if it is accepted.
        fn connect(&mut self, origin: Origin, now: Duration) -> Option<u32> {
            if !self.connections.has_room(origin, now) {
                return None;
            }
            self.next += 1;
            if let Some(gone) = self.connections.add(self.next, origin, now) {
                assert_ne!(gone, self.next, "it was taken");
                self.connections.remove(gone);
            }
            assert!(self.connections.of.len() <= MAX);
            Some(self.next)
        }

        /// Adds connections while the origin has a claim.
        fn fill(&mut self, origin: Origin) -> usize {
            let mut taken = 0;
            while self.connections.has_claim(origin) {
                taken += 1;
                self.connect(origin, at(0));
            }
            taken
        }
    }

    #[test]
    fn one_origin_takes_half_of_what_is_free_and_sixteen_have_their_share() {
        let mut scene = Scene::new();
        assert_eq!(scene.fill(origin(1)), 32);
        assert_eq!((2..=16).map(|number| scene.fill(origin(number))).collect::<Vec<usize>>(), [4; 15]);
        let count = |scene: &Scene, number: u8| scene.connections.count(origin(number));
        assert!((1..=16).all(|number| count(&scene, number) == 4), "lent slots are taken back");
        assert!((1..=4).all(|first| scene.connections.of.contains_key(&first)), "the oldest stay");
        assert_eq!(scene.fill(origin(17)), 0, "sixteen networks of the internet, which somebody pays for, have all");
        scene.connections.remove(1);
        assert_eq!((scene.fill(origin(17)), scene.connections.of.len()), (1, 64));
    }

    /// On a LAN a machine has as many addresses as it likes: they are one origin to the others, and a seventeenth address has as
    /// much as each of the sixteen.
    #[test]
    fn sixteen_addresses_of_a_lan_do_not_have_all() {
        let mut scene = Scene::new();
        for number in 1..=16 {
            scene.fill(lan(number));
        }
        assert_eq!(scene.connections.count_strangers(), 64);
        assert_eq!(scene.fill(lan(17)), 3, "until it has one less than the others");
        assert_eq!(scene.fill(origin(1)), 4, "a sixteenth, and nobody else of the internet lost any");
        assert_eq!(scene.fill(origin(2)), 4);
        assert_eq!((scene.connections.count(origin(1)), scene.connections.count_strangers()), (4, 64));
    }

    /// However many strangers hold all slots: a new connection can prove its trust level on trial, and then stays.
    #[test]
    fn trusted_peers_connect_and_stay_whatever_strangers_hold() {
        let mut scene = Scene::new();
        for number in 0..=u8::MAX {
            scene.connect(lan(number), at(0));
        }
        assert_eq!(scene.connections.of.len(), MAX);
        let near: Vec<u32> = [TrustLevel::Own, TrustLevel::Trusted, TrustLevel::InUse]
            .into_iter()
            .map(|trust| {
                let id =
                    scene.connect(Origin::of(IpAddr::from([192, 168, 8, 1])), at(0)).expect("it is accepted on trial");
                assert_eq!(scene.connections.set_trust(id, trust, at(0)), None);
                id
            })
            .collect();
        for round in 1..10 {
            for number in 0..=u8::MAX {
                scene.connect(lan(number), at(round * 3));
            }
        }
        assert!(near.iter().all(|id| scene.connections.of.contains_key(id)));
        // From the very address of a stranger, one trial after another.
        assert_eq!(
            scene.connect(lan(7), at(40)).and_then(|_| scene.connect(lan(7), at(41))),
            None,
            "one trial at a time"
        );
        assert!(scene.connect(lan(7), at(42)).is_some());
    }

    #[test]
    fn of_too_many_trusted_peers_the_least_trusted_is_closed_and_a_slot_for_trials_remains() {
        let mut scene = Scene::new();
        let mut near = Vec::new();
        for number in 0..200u8 {
            let id = scene.connect(origin(number), at(u64::from(number))).expect("it is accepted on trial");
            let trust = if number % 2 == 0 { TrustLevel::Own } else { TrustLevel::Trusted };
            near.push((trust, id));
            if let Some(gone) = scene.connections.set_trust(id, trust, at(0)) {
                scene.connections.remove(gone);
            }
        }
        let stands = |(_, id): &&(TrustLevel, u32)| scene.connections.of.contains_key(id);
        assert_eq!(near.iter().filter(stands).count(), MAX - 4);
        assert!(near.iter().filter(stands).all(|(trust, _)| *trust == TrustLevel::Own));
        // A peer that is no longer trusted counts as a stranger again.
        let (_, id) = near[0];
        assert_eq!(scene.connections.set_trust(id, TrustLevel::Stranger, at(0)), None);
        assert_eq!(scene.connections.count_strangers(), 1);
    }

    /// Where each origin has one, any of them may be aborted.
    #[test]
    fn of_equals_none_is_chosen_by_its_address() {
        let gone = |draw: usize| {
            let mut pending = PendingConnections::new(4);
            (0..5).find_map(|number| pending.add(number, origin(number), draw)).expect("one too many")
        };
        assert_eq!((0..5).map(gone).collect::<Vec<u8>>(), [0, 1, 2, 3, 4]);
    }

    proptest! {
        /// Never too many; no connection is closed for an origin that has more; and an origin below its share is accepted as
        /// long as another exceeds its own.
        #[test]
        fn shares_hold(steps in proptest::collection::vec((0u8..24, 0u8..6), 1..400)) {
            // 32 of them are strangers'.
            let mut connections = EstablishedConnections::new(36);
            for (id, (number, what)) in steps.into_iter().enumerate() {
                match what {
                    0 => connections.remove(id / 2),
                    1 => {
                        let trust = if number % 2 == 0 { TrustLevel::Own } else { TrustLevel::Stranger };
                        if let Some(gone) = connections.set_trust(id / 3, trust, at(0)) {
                            connections.remove(gone);
                        }
                    }
                    _ => {
                        let of = origin(number);
                        let (before, had) = (connections.count_strangers(), connections.count(of));
                        let most = |connections: &EstablishedConnections<usize>| connections.strangers.values().map(of_all).max().unwrap_or(0);
                        let full = connections.of.len() == 36 || before == 32;
                        let tries = !connections.has_claim(of);
                        if tries {
                            prop_assert!(had >= 2 || full && most(&connections) <= 2, "{had} of {before}");
                        }
                        if !connections.has_room(of, at(u64::from(number))) {
                            continue;
                        }
                        if let Some(gone) = connections.add(id, of, at(u64::from(number))) {
                            let (origin, slot) = connections.of[&gone];
                            prop_assert!(gone != id && !matches!(slot, Slot::Trusted(_)));
                            prop_assert!(slot == Slot::Trial || tries || origin != of && most(&connections) > 2);
                            connections.remove(gone);
                        }
                    }
                }
                prop_assert!(connections.of.len() <= 36 && connections.count_strangers() <= 32);
                let counted: usize = connections.strangers.values().map(of_all).sum();
                prop_assert_eq!(counted, connections.count_strangers());
            }
        }

        /// However many come of one origin, those of another are ended only when it has as many.
        #[test]
        fn a_flood_ends_its_own(steps in proptest::collection::vec((0u8..4, any::<usize>(), any::<bool>()), 1..400)) {
            let mut pending = PendingConnections::new(16);
            let mut held: Vec<(usize, Origin)> = Vec::new();
            for (id, (number, draw, ends)) in steps.into_iter().enumerate() {
                if ends && !held.is_empty() {
                    let (id, of) = held.swap_remove(id % held.len());
                    pending.remove(id, of);
                    pending.remove(id, of);
                }
                let of = origin(number);
                held.push((id, of));
                let count = |of: Origin| held.iter().filter(|(_, held)| *held == of).count();
                let most = (0..4).map(|number| count(origin(number))).max();
                if let Some(gone) = pending.add(id, of, draw) {
                    let at = held.iter().position(|(id, _)| *id == gone).expect("one that is there");
                    prop_assert_eq!(Some(count(held[at].1)), most);
                    held.swap_remove(at);
                }
                prop_assert!(held.len() <= 16);
                prop_assert_eq!(pending.len, held.len());
            }
        }
    }
}

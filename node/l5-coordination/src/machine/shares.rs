//! How the room of a group is divided: half of it is for everybody together, and of the other half each owner has an equal
//! share, so that no owner's nodes take all of it from the others.

use std::collections::BTreeMap;

use althing_protocol::PublisherId;
use althing_protocol::group::Charter;

use super::members::Members;
use super::outcome::Refusal;

/// The owners among whom the room is divided: those of the group, and those of its members.
#[derive(Debug, Clone, Copy)]
pub struct Sharers<'a> {
    charter: &'a [PublisherId],
    members: &'a Members,
}

/// When a command is executed, and who shares the room then.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The group's time, Unix milliseconds.
    pub now_ms: u64,
    /// Who shares the room.
    pub sharers: Sharers<'a>,
}

impl<'a> Sharers<'a> {
    /// The owners of a group with this charter and these members.
    pub(crate) fn of(charter: Option<&'a Charter>, members: &'a Members) -> Sharers<'a> {
        Sharers { charter: charter.map(|charter| charter.owners.as_slice()).unwrap_or_default(), members }
    }

    fn has(&self, owner: &PublisherId) -> bool {
        self.charter.contains(owner) || self.members.owns(owner)
    }

    fn count(&self) -> usize {
        self.members.owners() + self.charter.iter().filter(|owner| !self.members.owns(owner)).count()
    }
}

/// What each owner takes of one room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    by_owner: BTreeMap<PublisherId, usize>,
    sum: usize,
}

impl Ledger {
    /// What all take together.
    #[must_use]
    pub fn sum(&self) -> usize {
        self.sum
    }

    /// What an owner takes.
    #[must_use]
    pub fn of(&self, owner: &PublisherId) -> usize {
        self.by_owner.get(owner).copied().unwrap_or_default()
    }

    /// The owner that takes most, of those that are meant; of several the last one by its id. Shares are equal, so it is the
    /// one that is furthest over its own.
    pub(crate) fn largest(&self, is_meant: impl Fn(&PublisherId) -> bool) -> Option<PublisherId> {
        let meant = self.by_owner.iter().filter(|&(owner, _)| is_meant(owner));
        meant.max_by_key(|(_, amount)| **amount).map(|(owner, _)| *owner)
    }

    pub(crate) fn add(&mut self, owner: PublisherId, amount: usize) {
        if amount > 0 {
            *self.by_owner.entry(owner).or_default() += amount;
            self.sum += amount;
        }
    }

    /// Takes back what was added.
    pub(crate) fn remove(&mut self, owner: &PublisherId, amount: usize) {
        let left = self.of(owner) - amount;
        self.sum -= amount;
        if left == 0 {
            self.by_owner.remove(owner);
        } else {
            self.by_owner.insert(*owner, left);
        }
    }

    /// Whether `owner` may take `more` of a room of this size. Who owns nothing in the group any more, and has something in
    /// the room yet, counts as one who shares it.
    pub(crate) fn fits(&self, owner: &PublisherId, more: usize, room: usize, sharers: Sharers<'_>) -> bool {
        if more == 0 {
            return true;
        }
        if self.sum.saturating_add(more) > room {
            return false;
        }
        let is_new = !self.by_owner.contains_key(owner) && !sharers.has(owner);
        let gone = self.by_owner.keys().filter(|known| !sharers.has(known)).count() + usize::from(is_new);
        let count = (sharers.count() + gone).max(1);
        let share = room / 2 / count;
        let taken = self.of(owner) + more;
        if taken <= share {
            return true;
        }
        // What the others have beyond their shares is of the part that is for everybody.
        let others = self.by_owner.iter().filter(|(known, _)| *known != owner);
        let beyond: usize = others.map(|(_, amount)| amount.saturating_sub(share)).sum();
        beyond + (taken - share) <= room - share * count
    }

    /// As [`Ledger::fits`]; `what` names the room.
    ///
    /// # Errors
    /// [`Refusal::Full`].
    pub(crate) fn check(
        &self,
        owner: &PublisherId,
        more: usize,
        room: usize,
        sharers: Sharers<'_>,
        what: &str,
    ) -> Result<(), Refusal> {
        if self.fits(owner, more, room, sharers) {
            return Ok(());
        }
        if self.sum.saturating_add(more) > room {
            return Err(Refusal::Full(format!("it has at most {room} {what}; end or remove some, or try it later")));
        }
        Err(Refusal::Full(format!(
            "it has at most {room} {what}, of which other owners have their shares, and this one has used up its own; end or \
             remove some, or try it later"
        )))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use althing_protocol::SecretKey;
    use proptest::prelude::*;

    use super::*;

    /// The owner of that number.
    pub fn owner(number: u8) -> PublisherId {
        PublisherId::from_digest([number; 32])
    }

    /// One member of each of these owners.
    pub fn members(owners: &[u8]) -> Members {
        let mut members = Members::default();
        for number in owners {
            let node = SecretKey::from_seed(&[*number; 32]).public();
            members.join(node, owner(*number), Vec::new(), None, 5).expect("another member");
        }
        members
    }

    /// Takes one after the other until no more fits; how many it has then.
    fn fill(ledger: &mut Ledger, number: u8, room: usize, sharers: Sharers<'_>) -> usize {
        while ledger.fits(&owner(number), 1, room, sharers) {
            ledger.add(owner(number), 1);
        }
        ledger.of(&owner(number))
    }

    /// P-197
    #[test]
    fn who_is_alone_has_all_and_of_several_each_has_a_share_that_the_others_leave() {
        let alone = members(&[1]);
        let mut ledger = Ledger::default();
        assert_eq!(fill(&mut ledger, 1, 64, Sharers::of(None, &alone)), 64);
        let two = members(&[1, 2]);
        let sharers = Sharers::of(None, &two);
        let mut ledger = Ledger::default();
        assert_eq!(fill(&mut ledger, 1, 64, sharers), 48, "the half for all, and its share");
        assert_eq!(fill(&mut ledger, 2, 64, sharers), 16, "its share");
        assert_eq!((ledger.sum(), fill(&mut ledger, 1, 64, sharers)), (64, 48));
        // What ends makes room, first for whoever is within its share.
        ledger.remove(&owner(1), 8);
        assert_eq!(fill(&mut ledger, 2, 64, sharers), 24);
        ledger.remove(&owner(2), 24);
        assert_eq!(ledger.of(&owner(2)), 0);
        assert_eq!(fill(&mut ledger, 1, 64, sharers), 48);
        assert!(ledger.fits(&owner(1), 0, 64, sharers), "nothing more always fits");
        let refused = ledger.check(&owner(1), 1, 64, sharers, "things").expect_err("it has its part");
        assert!(refused.to_string().contains("other owners have their shares"), "{refused}");
    }

    /// P-120, P-136
    #[test]
    fn the_largest_is_the_one_that_takes_most_and_of_several_the_last() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.largest(|_| true), None);
        for (number, amount) in [(1, 4), (2, 9), (3, 9), (4, 20)] {
            ledger.add(owner(number), amount);
        }
        assert_eq!(ledger.largest(|_| true), Some(owner(4)));
        assert_eq!(ledger.largest(|meant| *meant != owner(4)), Some(owner(3)));
        ledger.remove(&owner(3), 1);
        assert_eq!(ledger.largest(|meant| *meant != owner(4)), Some(owner(2)));
        assert_eq!(ledger.largest(|_| false), None);
    }

    /// P-197
    #[test]
    fn who_left_goes_on_sharing_what_it_has() {
        let (two, one) = (members(&[1, 2]), members(&[1]));
        let mut ledger = Ledger::default();
        assert_eq!(fill(&mut ledger, 2, 64, Sharers::of(None, &two)), 48);
        assert_eq!(fill(&mut ledger, 1, 64, Sharers::of(None, &one)), 16);
        ledger.remove(&owner(2), 48);
        assert_eq!(fill(&mut ledger, 1, 64, Sharers::of(None, &one)), 64);
    }

    proptest! {
        /// P-197: whatever the others take, whoever has not used up its share may take more; and all is never more than the room.
        #[test]
        fn no_owner_keeps_another_one_from_its_share(
            steps in prop::collection::vec((0..5u8, 1..200usize, any::<bool>()), 1..300),
            room in 1..2_000usize,
        ) {
            let five = members(&[0, 1, 2, 3, 4]);
            let sharers = Sharers::of(None, &five);
            let mut ledger = Ledger::default();
            for (number, amount, takes) in steps {
                let owner = owner(number);
                if takes && ledger.fits(&owner, amount, room, sharers) {
                    ledger.add(owner, amount);
                } else {
                    let has = ledger.of(&owner);
                    ledger.remove(&owner, amount.min(has));
                }
                prop_assert!(ledger.sum() <= room);
                for other in 0..5 {
                    let (other, share) = (self::owner(other), room / 2 / 5);
                    let left = share.saturating_sub(ledger.of(&other));
                    prop_assert!(ledger.fits(&other, left, room, sharers), "{} of {}", left, share);
                }
            }
        }
    }
}

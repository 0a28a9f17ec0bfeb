//! How much the releases of one publisher may take: where everybody may publish, nobody fills the registry alone.

use std::collections::BTreeMap;

use althing_protocol::PublisherId;

use super::Refusal;

/// Releases of one publisher: some hundred bytes of each stay in memory. Those that were purged count, since their versions stay
/// taken.
const RELEASES_MAX: usize = 65_536;
/// Bytes that the bundles of one publisher's releases say they have: as many as one writer's Things.
const BUNDLES_BYTES_MAX: u64 = 1 << 30;

/// How much releases take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// How many there ever were.
    pub(super) releases: usize,
    /// Bytes that their bundles say they have, of those that were not purged.
    pub(super) bytes: u64,
}

/// How much the releases of each publisher take, and at most may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Room {
    max: Taken,
    taken: BTreeMap<PublisherId, Taken>,
}

impl Default for Room {
    fn default() -> Room {
        Room::of_at_most(Taken { releases: RELEASES_MAX, bytes: BUNDLES_BYTES_MAX })
    }
}

impl Room {
    /// Nothing is taken yet, and no publisher takes more than that.
    pub(super) fn of_at_most(max: Taken) -> Room {
        Room { max, taken: BTreeMap::new() }
    }

    /// That of one publisher.
    pub(super) fn of(&self, publisher: PublisherId) -> Room {
        let taken = self.taken.get(&publisher).map(|taken| (publisher, *taken));
        Room { max: self.max, taken: taken.into_iter().collect() }
    }

    /// Whether a publisher may release something more, with a bundle of so many bytes.
    pub(super) fn judge(&self, publisher: PublisherId, bytes: u64) -> Result<(), Refusal> {
        let taken = self.taken.get(&publisher).copied().unwrap_or_default();
        if taken.releases >= self.max.releases || taken.bytes.saturating_add(bytes) > self.max.bytes {
            return Err(Refusal::PublisherFull {
                publisher,
                releases: taken.releases,
                bytes: taken.bytes,
                releases_max: self.max.releases,
                bytes_max: self.max.bytes,
            });
        }
        Ok(())
    }

    /// A publisher released something, with a bundle of so many bytes.
    pub(super) fn add(&mut self, publisher: PublisherId, bytes: u64) {
        let taken = self.taken.entry(publisher).or_default();
        taken.releases += 1;
        taken.bytes = taken.bytes.saturating_add(bytes);
    }

    /// What a publisher released with a bundle of so many bytes was purged.
    pub(super) fn free(&mut self, publisher: PublisherId, bytes: u64) {
        let taken = self.taken.entry(publisher).or_default();
        taken.bytes = taken.bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publisher_takes_at_most_so_much() {
        let [one, other] = [1, 2].map(|byte| PublisherId::from_digest([byte; 32]));
        let mut room = Room::of_at_most(Taken { releases: 2, bytes: 100 });
        assert!(matches!(room.judge(one, 101), Err(Refusal::PublisherFull { releases: 0, bytes: 0, .. })));
        assert_eq!(room.judge(one, 100), Ok(()));
        room.add(one, 100);
        assert!(matches!(room.judge(one, 1), Err(Refusal::PublisherFull { releases: 1, bytes: 100, .. })));
        assert_eq!(room.judge(one, 0), Ok(()), "what has no bundle");
        assert_eq!(room.judge(other, 100), Ok(()), "each has room of its own");
        room.free(one, 100);
        assert_eq!(room.judge(one, 100), Ok(()));
        room.add(one, 0);
        assert!(matches!(room.judge(one, 0), Err(Refusal::PublisherFull { releases: 2, bytes: 0, .. })));
        assert_eq!(room.of(one), room);
        assert_eq!(room.of(other).judge(other, 100), Ok(()));
        // After a start what was purged is not there: only its version is.
        let mut again = Room::of_at_most(Taken { releases: 2, bytes: 100 });
        again.add(one, 0);
        again.add(one, 0);
        assert_eq!(again, room);
    }
}

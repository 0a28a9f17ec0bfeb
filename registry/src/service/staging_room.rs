//! How much may wait for approval: in all, of one publisher, and from one origin where everybody may publish. Keys cost nothing
//! there, so shares by publisher alone would be none.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::PublisherId;

/// Releases of one publisher that wait at one time.
pub const STAGED_MAX: usize = 32;
/// Bytes of all that wait.
const BYTES_MAX: u64 = 2 << 30;
/// Bytes that wait of publishers that nobody named, in all: what is left is for those who were.
const UNNAMED_BYTES_MAX: u64 = 1 << 30;
/// Bytes that wait from one origin, of publishers that nobody named.
const ORIGIN_BYTES_MAX: u64 = 64 << 20;
/// What a release takes at least, however short it is: a place in memory, and rows on disk.
const ENTRY_BYTES_MIN: u64 = 64 << 10;
/// How long a release waits, milliseconds.
const WAITS_MS: u64 = 30 * 24 * 3_600_000;
/// Releases that are taken away by one write.
const EXPIRED_AT_ONCE: usize = 1_024;

/// Whether what came then has waited too long.
pub fn is_over(at_ms: u64, now_ms: u64) -> bool {
    at_ms.saturating_add(WAITS_MS) < now_ms
}

/// What is staged with the release `key`, apart from its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedEntry {
    /// Whose it is.
    pub publisher: PublisherId,
    /// Bytes on disk.
    pub bytes: u64,
    /// When it came, Unix milliseconds.
    pub at_ms: u64,
    /// Whether its publisher was admitted by name then.
    pub is_named: bool,
    /// The net from which it came; none where many come through one address, and for what came before this was kept.
    pub origin: Option<String>,
}

impl StagedEntry {
    /// Bytes that it takes of the room.
    fn taken(&self) -> u64 {
        self.bytes.max(ENTRY_BYTES_MIN)
    }
}

/// Why there is no room for one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The publisher has enough.
    #[error("{STAGED_MAX} releases of this publisher wait for approval: approve or reject some first")]
    Publisher,
    /// The origin has enough.
    #[error(
        "releases of {ORIGIN_BYTES_MAX} bytes from your network wait for approval: approve or reject some first, or ask the \
         registry's operator to admit your publisher by name"
    )]
    Origin,
    /// All have.
    #[error(
        "too much waits for approval in this registry: what is older than thirty days is taken away; try again later"
    )]
    All,
}

/// What waits for approval, by its key, with sums of it: to judge one more is as much work however many there are.
#[derive(Debug, Default)]
pub struct StagingRoom {
    entries: BTreeMap<Vec<u8>, StagedEntry>,
    by_time: BTreeSet<(u64, Vec<u8>)>,
    bytes: u64,
    /// Of publishers that nobody named.
    unnamed_bytes: u64,
    /// The same by their origin.
    origin_bytes: BTreeMap<String, u64>,
    /// How many releases there are of a publisher.
    of_publisher: BTreeMap<PublisherId, u64>,
}

impl StagingRoom {
    /// Whether a release may wait too.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn judge(&self, one: &StagedEntry) -> Result<(), NoRoom> {
        if self.of_publisher.get(&one.publisher).is_some_and(|count| *count >= STAGED_MAX as u64) {
            return Err(NoRoom::Publisher);
        }
        let with = |sum: u64| sum.saturating_add(one.taken());
        if !one.is_named {
            // Who comes from this machine may be a proxy, which stands for many.
            let sum_of = |origin: &String| self.origin_bytes.get(origin).copied().unwrap_or_default();
            if one.origin.as_ref().is_some_and(|origin| with(sum_of(origin)) > ORIGIN_BYTES_MAX) {
                return Err(NoRoom::Origin);
            }
            if with(self.unnamed_bytes) > UNNAMED_BYTES_MAX {
                return Err(NoRoom::All);
            }
        }
        if with(self.bytes) > BYTES_MAX { Err(NoRoom::All) } else { Ok(()) }
    }

    /// A release waits.
    pub fn add(&mut self, key: Vec<u8>, one: StagedEntry) {
        self.remove(&key);
        let taken = one.taken();
        self.bytes += taken;
        if !one.is_named {
            self.unnamed_bytes += taken;
            if let Some(origin) = &one.origin {
                *self.origin_bytes.entry(origin.clone()).or_default() += taken;
            }
        }
        *self.of_publisher.entry(one.publisher).or_default() += 1;
        self.by_time.insert((one.at_ms, key.clone()));
        self.entries.insert(key, one);
    }

    /// A release waits no more.
    pub fn remove(&mut self, key: &[u8]) {
        let Some(one) = self.entries.remove(key) else { return };
        let taken = one.taken();
        self.bytes -= taken;
        if !one.is_named {
            self.unnamed_bytes -= taken;
            if let Some(origin) = &one.origin {
                lessen(&mut self.origin_bytes, origin, taken);
            }
        }
        lessen(&mut self.of_publisher, &one.publisher, 1);
        self.by_time.remove(&(one.at_ms, key.to_vec()));
    }

    /// The keys of those that waited too long, the oldest first; not all at once if they are many.
    #[must_use]
    pub fn expired(&self, now_ms: u64) -> Vec<Vec<u8>> {
        let over = self.by_time.iter().take_while(|(at_ms, _)| is_over(*at_ms, now_ms));
        over.take(EXPIRED_AT_ONCE).map(|(_, key)| key.clone()).collect()
    }
}

/// Takes something from a sum, of which nothing is kept where nothing is left.
fn lessen<K: Ord>(sums: &mut BTreeMap<K, u64>, of: &K, by: u64) {
    let Some(sum) = sums.get_mut(of) else { return };
    *sum = sum.saturating_sub(by);
    if *sum == 0 {
        sums.remove(of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUNDLE: u64 = 3 << 20;

    fn of(key: u32, origin: Option<&str>, is_named: bool) -> StagedEntry {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&key.to_be_bytes());
        let origin = origin.map(str::to_owned);
        StagedEntry { publisher: PublisherId::from_digest(digest), bytes: BUNDLE, at_ms: 0, is_named, origin }
    }

    /// Adds what finds room, each of another publisher; how many that were.
    fn fill(room: &mut StagingRoom, first: u32, origins: &[Option<&str>], is_named: bool) -> (u64, NoRoom) {
        for (added, key) in (0..).zip(first..) {
            let one = of(key, origins[key as usize % origins.len()], is_named);
            if let Err(why) = room.judge(&one) {
                return (added, why);
            }
            room.add(key.to_be_bytes().to_vec(), one);
        }
        unreachable!("there is an end");
    }

    /// SR-2
    #[test]
    fn keys_that_cost_nothing_fill_neither_the_disk_nor_the_room_of_who_was_named() {
        let mut room = StagingRoom::default();
        let (added, why) = fill(&mut room, 0, &[Some("198.51.100.0/24")], false);
        assert_eq!((added, why), (ORIGIN_BYTES_MAX / BUNDLE, NoRoom::Origin));
        assert_eq!(room.judge(&of(1 << 20, Some("203.0.113.0/24"), false)), Ok(()), "another net");
        let nets: Vec<String> = (0..64).map(|net| format!("2001:db8:{net}::/48")).collect();
        let nets: Vec<Option<&str>> = nets.iter().map(|net| Some(net.as_str())).collect();
        let (more, why) = fill(&mut room, 1 << 21, &nets, false);
        assert_eq!(why, NoRoom::All);
        assert!((added + more) * BUNDLE <= UNNAMED_BYTES_MAX);
        let (named, why) = fill(&mut room, 1 << 22, &[None], true);
        assert_eq!(why, NoRoom::All);
        assert!(named >= (BYTES_MAX - UNNAMED_BYTES_MAX) / BUNDLE, "room of their own");
    }

    /// SR-2
    #[test]
    fn a_short_release_takes_room_too_and_what_comes_through_a_proxy_has_no_share_of_one_origin() {
        let mut room = StagingRoom::default();
        let short = |key: u32, origin| StagedEntry { bytes: 1, ..of(key, origin, false) };
        let net = Some("198.51.100.1");
        let most = u32::try_from(ORIGIN_BYTES_MAX / ENTRY_BYTES_MIN).expect("few");
        for key in 0..most {
            assert_eq!(room.judge(&short(key, net)), Ok(()), "{key}");
            room.add(key.to_be_bytes().to_vec(), short(key, net));
        }
        assert_eq!(room.judge(&short(most, net)), Err(NoRoom::Origin));
        // The same again takes nothing more.
        room.add(vec![0; 4], short(0, net));
        room.remove(&[9; 4]);
        assert_eq!(room.bytes, ORIGIN_BYTES_MAX);
        let (added, why) = fill(&mut room, 1 << 20, &[None], false);
        assert_eq!((added, why), ((UNNAMED_BYTES_MAX - ORIGIN_BYTES_MAX) / BUNDLE, NoRoom::All));
        let keys: Vec<Vec<u8>> = room.entries.keys().cloned().collect();
        keys.iter().for_each(|key| room.remove(key));
        assert_eq!((room.bytes, room.unnamed_bytes), (0, 0));
        assert!(room.origin_bytes.is_empty() && room.of_publisher.is_empty() && room.by_time.is_empty());
    }

    /// SR-2
    #[test]
    fn who_was_named_takes_nothing_of_the_share_that_others_of_its_net_have() {
        let mut room = StagingRoom::default();
        let net = Some("198.51.100.0/24");
        let share = u32::try_from(ORIGIN_BYTES_MAX / BUNDLE).expect("few");
        for key in 0..=share {
            let named = of(key, net, true);
            assert_eq!(room.judge(&named), Ok(()), "{key}");
            room.add(key.to_be_bytes().to_vec(), named);
        }
        assert_eq!(fill(&mut room, 1 << 20, &[net], false), (u64::from(share), NoRoom::Origin), "all of it is theirs");
        let keys: Vec<Vec<u8>> = room.entries.keys().cloned().collect();
        keys.iter().for_each(|key| room.remove(key));
        assert!(room.origin_bytes.is_empty(), "and nothing is kept of who has left");
    }

    #[test]
    fn a_publisher_has_a_few_and_each_waits_thirty_days() {
        let mut room = StagingRoom::default();
        for at in 0..STAGED_MAX as u32 {
            let one = StagedEntry { bytes: 1, at_ms: u64::from(at), ..of(7, None, true) };
            assert_eq!(room.judge(&one), Ok(()));
            room.add(at.to_be_bytes().to_vec(), one);
        }
        assert_eq!(room.judge(&of(7, None, true)), Err(NoRoom::Publisher));
        assert_eq!(room.expired(WAITS_MS), Vec::<Vec<u8>>::new());
        let over = room.expired(WAITS_MS + 2);
        assert_eq!(over, [0_u32, 1].map(|at| at.to_be_bytes().to_vec()));
        over.iter().for_each(|key| room.remove(key));
        assert_eq!(room.judge(&of(7, None, true)), Ok(()));
    }
}

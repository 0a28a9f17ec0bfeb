//! What was found in folders, so that it is not read again while it is the same: programs are started again and again, and look through
//! the same folders for sockets.
//!
//! **Input**: what was read of a folder, when it changed last, and the time by the clock with which file systems note that.
//! **Output**: what is known of a folder that did not change since.
//!
//! **Invariants**
//! - What is remembered was read so long after the last change that a later one has another time.
//! - It is bounded in bytes. Where there is no room, what was asked for lately stays: of more than fits, always the same is known.
//!
//! **Never knows**: where a folder is. Another one under its path has another number, or changed at another time.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::Kind;

/// Seconds between a change and a reading, so that no later change has the same time: the coarsest file systems note each second one.
const SETTLED_S: i64 = 5;
/// Seconds after which what nobody asked for makes room for others.
const IDLE_S: i64 = 3_600;
/// About what a folder takes beside the names, bytes, and each of these beside its length.
const FOLDER_BYTES: usize = 192;
const NAME_BYTES: usize = 48;

/// Which folder it is, and when it changed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The number of its file system.
    pub device: u64,
    /// Its number there.
    pub number: u64,
    /// When it, or what lies in it, changed; seconds and nanoseconds of Unix time, which nobody can set.
    pub changed: (i64, i64),
    /// When what lies in it changed; this may be set.
    pub modified: (i64, i64),
}

/// What lies in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// How many entries it has.
    pub count: usize,
    /// The names of those that are folders or sockets.
    pub inside: Vec<(OsString, Kind)>,
}

impl Contents {
    fn bytes(&self) -> usize {
        FOLDER_BYTES + self.inside.iter().map(|(name, _)| name.len() + NAME_BYTES).sum::<usize>()
    }
}

#[derive(Debug)]
struct Record {
    stamp: Stamp,
    contents: Contents,
    /// The place in the order of use.
    used: u64,
}

/// What is known of folders.
#[derive(Debug)]
pub struct FolderMemory {
    folders: BTreeMap<(u64, u64), Record>,
    /// Those that were asked for, by when: the number of the use, and its second.
    uses: BTreeMap<u64, ((u64, u64), i64)>,
    count: u64,
    bytes: usize,
    bytes_max: usize,
}

impl FolderMemory {
    /// One that remembers about so many bytes.
    pub const fn new(bytes_max: usize) -> FolderMemory {
        FolderMemory { folders: BTreeMap::new(), uses: BTreeMap::new(), count: 0, bytes: 0, bytes_max }
    }

    /// What lies in a folder, if that is known and did not change.
    pub fn get(&mut self, stamp: &Stamp, now_s: i64) -> Option<&Contents> {
        let key = (stamp.device, stamp.number);
        if self.folders.get(&key).is_some_and(|known| known.stamp != *stamp) {
            self.forget(key);
        }
        let known = self.folders.get_mut(&key)?;
        self.uses.remove(&known.used);
        self.count += 1;
        known.used = self.count;
        self.uses.insert(known.used, (key, now_s));
        Some(&known.contents)
    }

    /// Remembers what was read of a folder, which had this stamp before and after that, if there is room.
    pub fn put(&mut self, stamp: Stamp, contents: Contents, now_s: i64) {
        let key = (stamp.device, stamp.number);
        self.forget(key);
        if now_s.saturating_sub(stamp.changed.0.max(stamp.modified.0)) < SETTLED_S {
            return;
        }
        let bytes = contents.bytes();
        if bytes > self.bytes_max {
            return;
        }
        while self.bytes + bytes > self.bytes_max {
            let oldest = self.uses.first_key_value().map(|(_, use_of)| *use_of);
            match oldest {
                Some((key, used_s)) if now_s.saturating_sub(used_s) >= IDLE_S => self.forget(key),
                _ => return,
            }
        }
        self.count += 1;
        self.bytes += bytes;
        self.uses.insert(self.count, (key, now_s));
        self.folders.insert(key, Record { stamp, contents, used: self.count });
    }

    fn forget(&mut self, key: (u64, u64)) {
        if let Some(known) = self.folders.remove(&key) {
            self.uses.remove(&known.used);
            self.bytes -= known.contents.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: i64 = 1_800_000_000;

    fn stamp(number: u64) -> Stamp {
        Stamp { device: 1, number, changed: (NOW_S - 60, 7), modified: (NOW_S - 60, 7) }
    }

    fn contents(count: usize) -> Contents {
        Contents { count, inside: vec![("a.sock".into(), Kind::Socket)] }
    }

    #[test]
    fn a_folder_is_known_until_it_changes_in_whatever_way() {
        let changed = [
            Stamp { changed: (NOW_S - 60, 8), ..stamp(1) },
            Stamp { changed: (NOW_S - 59, 7), ..stamp(1) },
            Stamp { modified: (NOW_S - 61, 7), ..stamp(1) },
        ];
        for other in changed {
            let mut memory = FolderMemory::new(1 << 20);
            assert_eq!(memory.get(&stamp(1), NOW_S), None);
            memory.put(stamp(1), contents(3), NOW_S);
            assert_eq!(memory.get(&stamp(1), NOW_S), Some(&contents(3)));
            assert_eq!(memory.get(&Stamp { device: 2, ..stamp(1) }, NOW_S), None, "of another file system");
            assert_eq!(memory.get(&stamp(2), NOW_S), None);
            assert_eq!(memory.get(&other, NOW_S), None, "{other:?}");
            assert_eq!((memory.bytes, memory.uses.len()), (0, 0), "it is of no use any more");
        }
    }

    #[test]
    fn what_changed_a_moment_before_it_was_read_is_not_remembered() {
        for (changed, modified, is_known) in
            [(SETTLED_S, 60, true), (SETTLED_S - 1, 60, false), (60, SETTLED_S - 1, false), (-60, 60, false)]
        {
            let mut memory = FolderMemory::new(1 << 20);
            let at = Stamp { changed: (NOW_S - changed, 0), modified: (NOW_S - modified, 0), ..stamp(1) };
            memory.put(stamp(1), contents(1), NOW_S);
            memory.put(at, contents(2), NOW_S);
            assert_eq!(memory.get(&at, NOW_S).is_some(), is_known, "{at:?}");
            assert_eq!(memory.get(&stamp(1), NOW_S), None, "what was before it is over");
        }
    }

    #[test]
    fn what_is_asked_for_stays_and_what_nobody_asks_for_makes_room() {
        let each = contents(0).bytes();
        let mut memory = FolderMemory::new(10 * each);
        (0..15).for_each(|number| memory.put(stamp(number), contents(1), NOW_S));
        let known = |memory: &mut FolderMemory, now_s: i64| {
            (0..30).filter(|number| memory.get(&stamp(*number), now_s).is_some()).collect::<Vec<u64>>()
        };
        assert_eq!(known(&mut memory, NOW_S), (0..10).collect::<Vec<u64>>(), "the first that came");
        let later_s = NOW_S + IDLE_S;
        assert!(memory.get(&stamp(0), later_s).is_some());
        (20..30).for_each(|number| memory.put(stamp(number), contents(1), later_s));
        let expected: Vec<u64> = std::iter::once(0).chain(20..29).collect();
        assert_eq!(known(&mut memory, later_s), expected);
        assert!(memory.bytes <= memory.bytes_max && memory.uses.len() == memory.folders.len());
        memory.put(
            stamp(40),
            Contents { count: 1, inside: vec![("x".repeat(11 * each).into(), Kind::Folder)] },
            later_s,
        );
        assert_eq!(memory.get(&stamp(40), later_s), None, "it has no room at all");
    }
}

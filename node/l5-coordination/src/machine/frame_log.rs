//! The last appends that leaders sent this member, as they signed them, within a bound in bytes; and what two members need to
//! find out that a leader told them different things.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use althing_protocol::group::{Said, SignedAppend};
use althing_protocol::{Digest, PublicKey};

/// Bytes of what is kept, for each group.
const LOG_BYTES_MAX: usize = 1 << 20;
/// What an append counts beside its frame, and each of its entries.
const APPEND_BYTES: usize = 256;
const ENTRY_BYTES: usize = 128;

/// Two appends of a leader that contradict each other.
pub type Conflict = (Arc<SignedAppend>, Arc<SignedAppend>);

/// Whose entries, and of which term.
pub type Reign = (PublicKey, u64);

/// The signed appends of one group that are kept, with what was read of them.
#[derive(Default)]
pub struct FrameLog {
    appends: VecDeque<One>,
    bytes: usize,
    /// How many were kept so far: whoever compared at this count has compared all.
    count: u64,
    /// How many of these were read.
    read: u64,
    /// The entries of those that were read.
    entries: BTreeMap<Reign, BTreeMap<u64, (Digest, Arc<SignedAppend>)>>,
}

struct One {
    append: Arc<SignedAppend>,
    bytes: usize,
    /// What it says, once that is needed.
    said: Option<Said>,
}

impl FrameLog {
    /// Keeps an append with so many entries, for the oldest ones. Nothing is decoded yet.
    pub fn keep(&mut self, append: SignedAppend, entries: usize) {
        let bytes = append.frame.len() + APPEND_BYTES + entries * ENTRY_BYTES;
        self.appends.push_back(One { append: Arc::new(append), bytes, said: None });
        self.bytes += bytes;
        self.count += 1;
        while self.bytes > LOG_BYTES_MAX
            && let Some(oldest) = self.appends.pop_front()
        {
            self.bytes -= oldest.bytes;
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, one: &One) {
        let Some(said) = &one.said else { return };
        let reign = (said.leader, said.term);
        let Some(entries) = self.entries.get_mut(&reign) else { return };
        for index in said.entries.keys() {
            if entries.get(index).is_some_and(|(_, append)| Arc::ptr_eq(append, &one.append)) {
                entries.remove(index);
            }
        }
        if entries.is_empty() {
            self.entries.remove(&reign);
        }
    }

    /// How many were kept so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Those that were not read yet, with their numbers. They may be read while others are kept.
    #[must_use]
    pub fn unread(&self) -> Vec<(u64, Arc<SignedAppend>)> {
        let numbered = (self.front()..).zip(&self.appends).skip_while(|(number, _)| *number < self.read);
        numbered.map(|(number, one)| (number, one.append.clone())).collect()
    }

    /// The number of the oldest one.
    fn front(&self) -> u64 {
        self.count - self.appends.len() as u64
    }

    /// What the append of a number says. The append before that it contradicts, where one leader sent this member both, and
    /// itself.
    pub fn note(&mut self, number: u64, said: Said) -> Option<Conflict> {
        self.read = self.read.max(number + 1);
        let at = usize::try_from(number.checked_sub(self.front())?).ok()?;
        let one = self.appends.get_mut(at)?;
        let entries = self.entries.entry((said.leader, said.term)).or_default();
        let mut conflict = None;
        for (index, digest) in &said.entries {
            // The newest one is kept longest.
            let before = entries.insert(*index, (*digest, one.append.clone()));
            if let Some((_, append)) = before.filter(|(other, _)| other != digest) {
                conflict.get_or_insert((append, one.append.clone()));
            }
        }
        one.said = Some(said);
        conflict
    }

    /// The leaders and terms of which entries were read, the newest terms first.
    #[must_use]
    pub fn reigns(&self) -> Vec<Reign> {
        let mut reigns: Vec<Reign> = self.entries.keys().copied().collect();
        reigns.sort_by_key(|(_, term)| std::cmp::Reverse(*term));
        reigns
    }

    /// The entries of a reign in runs without a gap, of at most `most` entries each, the newest `count` of them: the first index
    /// of each, and the digests.
    #[must_use]
    pub fn runs(&self, reign: Reign, most: usize, count: usize) -> Vec<(u64, Vec<Digest>)> {
        let mut runs: Vec<(u64, Vec<Digest>)> = Vec::new();
        for (index, (digest, _)) in self.entries.get(&reign).into_iter().flatten().rev() {
            let follows = |(first, digests): &&mut (u64, Vec<Digest>)| index + 1 == *first && digests.len() < most;
            if let Some((first, digests)) = runs.last_mut().filter(follows) {
                *first = *index;
                digests.push(*digest);
                continue;
            }
            if runs.len() == count {
                break;
            }
            runs.push((*index, vec![*digest]));
        }
        runs.iter_mut().for_each(|(_, digests)| digests.reverse());
        runs
    }

    /// The append with the first entry of a reign that begins otherwise than the digest that another member has at its index.
    #[must_use]
    pub fn differing<'a>(
        &self,
        reign: Reign,
        theirs: impl Iterator<Item = (u64, &'a [u8])>,
    ) -> Option<Arc<SignedAppend>> {
        let entries = self.entries.get(&reign)?;
        let mut others = theirs.filter_map(|(index, digest)| entries.get(&index).map(|ours| (ours, digest)));
        others.find(|((ours, _), digest)| !ours.starts_with(digest)).map(|((_, append), _)| append.clone())
    }

    /// The append that contradicts what a leader said to another member.
    #[must_use]
    pub fn contradicting(&self, said: &Said) -> Option<Arc<SignedAppend>> {
        let entries = self.entries.get(&(said.leader, said.term))?;
        let theirs = said.entries.iter().filter_map(|(index, digest)| Some((entries.get(index)?, digest)));
        theirs.filter(|((ours, _), digest)| ours != *digest).map(|((_, append), _)| append.clone()).next()
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;
    use althing_protocol::group::GroupId;

    use super::*;

    fn leader() -> PublicKey {
        SecretKey::from_seed(&[1; 32]).public()
    }

    /// An append whose frame says which entries it has: pairs of index and content.
    fn append(term: u8, entries: &[(u8, u8)], bytes: usize) -> SignedAppend {
        let mut frame = vec![term];
        frame.extend(entries.iter().flat_map(|(index, content)| [*index, *content]));
        let filled = [vec![u8::try_from(frame.len()).expect("few")], frame].concat();
        let padding = vec![0; bytes.saturating_sub(filled.len())];
        let (to, frame) = (SecretKey::from_seed(&[2; 32]).public(), [filled, padding].concat().into());
        SignedAppend { leader: leader(), to, opener_challenge: [0; 32], acceptor_challenge: [0; 32], frame }
    }

    fn read(append: &SignedAppend) -> Option<Said> {
        let frame = &append.frame[1..=usize::from(append.frame[0])];
        let entries = frame[1..].chunks(2).map(|entry| (u64::from(entry[0]), [entry[1]; 32])).collect();
        Some(Said { group: GroupId::from_digest([3; 32]), leader: append.leader, term: frame[0].into(), entries })
    }

    fn read_all(log: &mut FrameLog) -> Option<Conflict> {
        let unread = log.unread();
        let conflicts = unread.into_iter().filter_map(|(number, one)| log.note(number, read(&one)?));
        conflicts.collect::<Vec<_>>().into_iter().next()
    }

    fn log(appends: &[SignedAppend]) -> FrameLog {
        let mut log = FrameLog::default();
        for append in appends {
            log.keep(append.clone(), 1);
        }
        log
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let mut log = FrameLog::default();
        for index in 0..=255 {
            log.keep(append(1, &[(index, index)], 16 << 10), 1);
            assert!(read_all(&mut log).is_none());
            assert!(log.bytes <= LOG_BYTES_MAX);
        }
        assert!(log.appends.len() > 50 && log.entries[&(leader(), 1)].len() == log.appends.len());
        assert_eq!(log.bytes, log.appends.iter().map(|one| one.bytes).sum::<usize>());
        // Small ones count more than their bytes.
        for _ in 0..20_000 {
            log.keep(append(2, &[], 0), 0);
        }
        assert!(log.appends.len() <= LOG_BYTES_MAX / APPEND_BYTES && log.bytes <= LOG_BYTES_MAX);
        assert!(log.entries.is_empty());
    }

    #[test]
    fn a_leader_that_contradicts_itself_to_one_member_is_found() {
        // Sent again, in other pieces: no contradiction. Another leader's term may replace entries.
        let again = [append(1, &[(4, 1), (5, 2)], 0), append(1, &[(5, 2)], 0), append(2, &[(5, 9)], 0)];
        assert!(read_all(&mut log(&again)).is_none());
        let mut two = log(&[append(1, &[(4, 1), (5, 2)], 0), append(1, &[(5, 3)], 0)]);
        let (one, other) = read_all(&mut two).expect("two entries at 5");
        assert_eq!((read(&one).expect("it").entries[&5], read(&other).expect("it").entries[&5]), ([2; 32], [3; 32]));
        assert!(read_all(&mut two).is_none(), "it is told once");
    }

    /// P-194
    #[test]
    fn two_members_find_what_they_were_told_differently() {
        let mut here = log(&[append(1, &[(3, 1), (5, 1), (6, 2)], 0), append(1, &[(7, 3)], 0)]);
        let mut there = log(&[append(1, &[(5, 1), (6, 2), (7, 4)], 0)]);
        assert!(read_all(&mut here).is_none() && read_all(&mut there).is_none());
        let reign = (leader(), 1);
        let runs = here.runs(reign, 10, 10);
        assert_eq!(runs, [(5, vec![[1; 32], [2; 32], [3; 32]]), (3, vec![[1; 32]])], "a gap ends a run");
        assert_eq!(here.runs(reign, 2, 2), [(6, vec![[2; 32], [3; 32]]), (5, vec![[1; 32]])]);
        assert!(here.runs((leader(), 2), 2, 2).is_empty());
        let (first, digests) = runs.into_iter().next().expect("some");
        let short: Vec<&[u8]> = digests.iter().map(|digest| &digest[..16]).collect();
        let told = there.differing(reign, (first..).zip(short.iter().copied())).expect("7 differs");
        let said = read(&told).expect("it");
        assert!(here.contradicting(&said).is_some());
        assert!(there.contradicting(&said).is_none());
        // Of another term, or of what both were told, nothing differs.
        assert!(there.differing((leader(), 2), (first..).zip(short.iter().copied())).is_none());
        assert!(there.differing(reign, (first..).zip(short.iter().copied()).take(2)).is_none());
    }
}

//! Names that are easily taken for one another.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use althing_protocol::AgentId;
use unicode_security::confusable_detection::skeleton;

/// Characters from which names that differ in one of them look alike.
const CHARS_MIN: usize = 7;
/// Agents that are looked at of those whose names have one hash: the oldest.
const OF_ONE_MAX: usize = 16;

/// Whether two names are easily taken for one another: letters that look alike (UTS 39), hyphens that are there or not, or one
/// letter more, less or other, or two that changed places. A name is taken for itself.
#[must_use]
pub fn look_alike(one: &str, other: &str) -> bool {
    let are_long = one.len().min(other.len()) >= CHARS_MIN;
    folded(one).eq(folded(other)) || (are_long && differ_in_one(one.as_bytes(), other.as_bytes()))
}

/// A name without what one does not see.
fn folded(name: &str) -> impl Iterator<Item = char> {
    skeleton(name).filter(|letter| *letter != '-')
}

/// Whether one byte was changed, added or removed, or two neighbours changed places.
fn differ_in_one(one: &[u8], other: &[u8]) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let same = short.iter().zip(long).take_while(|(one, other)| one == other).count();
    let (short, long_rest) = (&short[same..], &long[same..]);
    match long_rest.len() - short.len() {
        0 => match (short, long_rest) {
            ([_, one @ ..], [_, other @ ..]) if one == other => true,
            ([a, b, one @ ..], [c, d, other @ ..]) => (a, b) == (d, c) && one == other,
            _ => false,
        },
        1 => short == &long_rest[1..],
        _ => false,
    }
}

/// Hashes of a name, of which it shares one with each name that looks like it: of its folded form; and, if it is long, of itself
/// and of what is left of it without one of its letters.
fn hashes(name: &str) -> BTreeSet<u64> {
    let hash = |form: &str| {
        let mut hasher = DefaultHasher::new();
        form.hash(&mut hasher);
        hasher.finish()
    };
    let mut hashes = BTreeSet::from([hash(&folded(name).collect::<String>())]);
    if name.len() >= CHARS_MIN {
        hashes.insert(hash(name));
        hashes.extend(name.char_indices().map(|(at, letter)| {
            let rest = [&name[..at], &name[at + letter.len_utf8()..]].concat();
            hash(&rest)
        }));
    }
    hashes
}

/// The names of agents, by what they look like.
#[derive(Debug, Clone, Default)]
pub struct Twins {
    /// The entries of agents' first releases, after a hash of their names.
    near: BTreeSet<(u64, u64)>,
    /// The agents, by these entries.
    first: BTreeMap<u64, AgentId>,
}

impl Twins {
    /// Takes an agent in, whose first release is that entry.
    pub(super) fn insert(&mut self, agent: &AgentId, first: u64) {
        self.near.extend(hashes(agent.name()).into_iter().map(|hash| (hash, first)));
        self.first.insert(first, agent.clone());
    }

    /// Takes it out.
    pub(super) fn remove(&mut self, agent: &AgentId, first: u64) {
        for hash in hashes(agent.name()) {
            self.near.remove(&(hash, first));
        }
        self.first.remove(&first);
    }

    /// Agents of other publishers whose first releases are before the entry `first`, and whose names look like that of `agent`; the
    /// oldest first.
    pub(super) fn before(&self, agent: &AgentId, first: u64) -> impl Iterator<Item = &AgentId> {
        let near = |hash: u64| self.near.range((hash, 0)..(hash, first)).take(OF_ONE_MAX).map(|(_, entry)| *entry);
        let entries: BTreeSet<u64> = hashes(agent.name()).into_iter().flat_map(near).collect();
        let others: Vec<&AgentId> = entries.iter().filter_map(|entry| self.first.get(entry)).collect();
        let (publisher, name) = (agent.publisher(), agent.name().to_owned());
        others.into_iter().filter(move |other| other.publisher() != publisher && look_alike(other.name(), &name))
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::PublisherId;

    use super::*;

    const KNOWN: [&str; 6] = ["billing", "translator", "warehouse-7", "mail", "l1lm1", "time-machine"];

    fn agent(seed: u8, name: &str) -> AgentId {
        AgentId::new(PublisherId::from_digest([seed; 32]), name).expect("a name")
    }

    /// Names that are easily taken for a known one.
    fn variants(known: &str) -> BTreeSet<String> {
        let letters: Vec<char> = known.chars().collect();
        let mut all = BTreeSet::new();
        let mut put = |letters: &[char]| {
            all.insert(String::from_iter(letters));
        };
        for at in 0..=letters.len() {
            let with = |new: &[char], skipped: usize| [&letters[..at], new, &letters[at + skipped..]].concat();
            put(&with(&['-'], 0));
            let Some(letter) = letters.get(at) else { continue };
            match letter {
                'l' => put(&with(&['1'], 1)),
                '1' => put(&with(&['l'], 1)),
                'm' => put(&with(&['r', 'n'], 1)),
                _ => {}
            }
            if letters.len() < CHARS_MIN {
                continue;
            }
            put(&with(&[], usize::from(letters.len() > CHARS_MIN)));
            for other in "abcdefghijklmnopqrstuvwxyz0123456789".chars() {
                put(&with(&[other], 0));
                put(&with(&[other], 1));
            }
            if let Some(next) = letters.get(at + 1) {
                put(&with(&[*next, *letter], 2));
            }
        }
        all.retain(|name| !name.starts_with('-') && !name.ends_with('-') && name != known);
        all
    }

    #[test]
    fn a_thousand_names_that_look_like_those_of_others_are_flagged() {
        let mut twins = Twins::default();
        for (first, known) in (1..).zip(KNOWN) {
            twins.insert(&agent(1, known), first);
        }
        let mut count = 0;
        for known in KNOWN {
            for name in variants(known) {
                let found: Vec<&str> = twins.before(&agent(2, &name), 100).map(AgentId::name).collect();
                assert!(found.contains(&known), "{name} looks like {known}: {found:?}");
                count += 1;
            }
            let same: Vec<&str> = twins.before(&agent(2, known), 100).map(AgentId::name).collect();
            assert!(same.contains(&known), "the same name of somebody else: {known}");
            assert_eq!(twins.before(&agent(1, known), 100).count(), 0, "its own name is no stranger's: {known}");
        }
        assert!(count >= 1_000, "{count}");
        for other in ["filling-in", "bill", "transistor", "warehouse", "nail", "time", "machine-time", "echo"] {
            assert_eq!(twins.before(&agent(2, other), 100).next(), None, "{other}");
        }
    }

    #[test]
    fn only_what_was_there_before_is_named_and_nothing_is_left_behind() {
        let mut twins = Twins::default();
        let (old, new) = (agent(1, "billing"), agent(2, "bi11ing"));
        twins.insert(&old, 5);
        twins.insert(&new, 9);
        assert_eq!(twins.before(&new, 9).collect::<Vec<_>>(), [&old]);
        assert_eq!(twins.before(&old, 5).next(), None, "nobody makes those look bad who were there first");
        // However many come later, the oldest are named.
        for seed in 3..200 {
            twins.insert(&agent(seed, "billing"), 10 + u64::from(seed));
        }
        assert_eq!(twins.before(&agent(250, "billing"), 1_000).next(), Some(&old));
        for seed in 3..200 {
            twins.remove(&agent(seed, "billing"), 10 + u64::from(seed));
        }
        twins.remove(&old, 5);
        twins.remove(&new, 9);
        assert!(twins.near.is_empty() && twins.first.is_empty());
    }
}

//! Runs of nodes by their keys: whether a key that is heard again is a node that started again, one that moved, or two nodes that
//! use one key. Only what a run says itself, in frames signed with that key, comes here; others can claim nothing of it.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::PublicKey;

use crate::machine::rank::{Holder, richest};

/// Random bytes that name one run of a node.
pub type Instance = [u8; 16];

/// Nodes whose runs are remembered.
const NODES_MAX: usize = 512;
/// Runs of one node; more are as wrong as these.
const RUNS_MAX: usize = 4;
/// A run counts for this long after it was heard.
const HEARD_MS: u64 = 60_000;
/// A run that was heard this long after another began is no rest of the former one, which was on its way for a while.
const REST_MS: u64 = 3_000;
/// A twin of this node counts for this long after somebody showed it.
const SHOWN_MS: u64 = 30_000;
/// Signed statements of this node that it knows again: those of an hour and more.
const OWN_MAX: usize = 1_024;

/// What it means that a run of a node was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing new.
    Same,
    /// The same run is at other addresses.
    Moved,
    /// Another run than before: the node started again, as far as is known.
    Restarted,
    /// Another run is heard beside this one: two nodes use one key.
    Cloned,
}

#[derive(Debug)]
struct Run {
    instance: Instance,
    first_ms: u64,
    last_ms: u64,
    addresses: Vec<String>,
    /// What it signed, to be shown to the others.
    statement: Vec<u8>,
}

#[derive(Debug)]
struct Node {
    holder: Holder,
    runs: Vec<Run>,
}

/// The runs of other nodes that were heard.
#[derive(Debug, Default)]
pub struct Instances {
    nodes: BTreeMap<PublicKey, Node>,
}

impl Instances {
    /// A run of a node was heard, at these addresses; `statement` is what it signed of that.
    pub fn heard(
        &mut self,
        node: PublicKey,
        holder: Holder,
        instance: Instance,
        (addresses, statement): (Vec<String>, Vec<u8>),
        now_ms: u64,
    ) -> Meaning {
        self.sweep(now_ms);
        if !self.nodes.contains_key(&node) && !self.has_room(holder) {
            return Meaning::Same;
        }
        let known = self.nodes.entry(node).or_insert_with(|| Node { holder, runs: Vec::new() });
        known.holder = holder;
        let others = known.runs.len();
        let meaning = if let Some(run) = known.runs.iter_mut().find(|run| run.instance == instance) {
            let moved = run.addresses != addresses;
            (run.last_ms, run.addresses, run.statement) = (now_ms, addresses, statement);
            if moved { Meaning::Moved } else { Meaning::Same }
        } else {
            if others >= RUNS_MAX {
                let silent = known.runs.iter().enumerate().min_by_key(|(_, run)| run.last_ms).map(|(at, _)| at);
                silent.map(|at| known.runs.remove(at));
            }
            known.runs.push(Run { instance, first_ms: now_ms, last_ms: now_ms, addresses, statement });
            if others > 0 { Meaning::Restarted } else { Meaning::Same }
        };
        if known.twins().contains(&instance) { Meaning::Cloned } else { meaning }
    }

    /// What other runs of a node signed that are there beside this one.
    #[must_use]
    pub fn beside(&self, node: PublicKey, instance: Instance) -> Vec<Vec<u8>> {
        let Some(known) = self.nodes.get(&node) else { return Vec::new() };
        let twins = known.twins();
        if !twins.contains(&instance) {
            return Vec::new();
        }
        let others = known.runs.iter().filter(|run| run.instance != instance && twins.contains(&run.instance));
        others.map(|run| run.statement.clone()).collect()
    }

    /// The keys that several nodes use now, with the addresses of each.
    pub fn cloned(&mut self, now_ms: u64) -> Vec<(PublicKey, Vec<Vec<String>>)> {
        self.sweep(now_ms);
        let told = |(key, node): (&PublicKey, &Node)| {
            let twins = node.twins();
            let runs = node.runs.iter().filter(|run| twins.contains(&run.instance));
            (!twins.is_empty()).then(|| (*key, runs.map(|run| run.addresses.clone()).collect()))
        };
        self.nodes.iter().filter_map(told).collect()
    }

    /// Drops runs that were silent for long.
    fn sweep(&mut self, now_ms: u64) {
        self.nodes.retain(|_, node| {
            node.runs.retain(|run| run.last_ms + HEARD_MS > now_ms);
            !node.runs.is_empty()
        });
    }

    /// Whether there is room for one more node of that holder. Whoever has most makes it.
    fn has_room(&mut self, holder: Holder) -> bool {
        if self.nodes.len() < NODES_MAX {
            return true;
        }
        let mut shares: BTreeMap<Holder, usize> = BTreeMap::new();
        for node in self.nodes.values() {
            *shares.entry(node.holder).or_default() += 1;
        }
        let Some(most) = richest(&shares, holder, 1) else { return false };
        let theirs = self.nodes.iter().find(|(_, node)| node.holder == most).map(|(node, _)| *node);
        theirs.is_some_and(|node| self.nodes.remove(&node).is_some())
    }
}

impl Node {
    /// The runs of which each was heard after another one had begun. One that ended before the next began is never among them.
    fn twins(&self) -> BTreeSet<Instance> {
        let mut twins = BTreeSet::new();
        for one in &self.runs {
            for other in &self.runs {
                let begun_first = (one.first_ms, one.instance) < (other.first_ms, other.instance);
                if begun_first && one.last_ms >= other.first_ms + REST_MS {
                    twins.extend([one.instance, other.instance]);
                }
            }
        }
        twins
    }
}

/// What is known of this node's own key: which statements it signed itself, and those of another node.
#[derive(Debug, Default)]
pub struct OwnKey {
    /// The sequences of its own statements.
    own: BTreeSet<u64>,
    /// Where the other node is, and when that was shown last.
    twin: Option<(Vec<String>, u64)>,
}

/// A statement that is signed with this node's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement {
    /// Its sequence.
    pub sequence: u64,
    /// When it was signed, Unix milliseconds.
    pub issued_ms: u64,
}

impl OwnKey {
    /// This node signs a statement.
    pub fn signs(&mut self, sequence: u64) {
        self.own.insert(sequence);
        if self.own.len() > OWN_MAX {
            self.own.pop_first();
        }
    }

    /// Somebody showed a valid statement that is signed with this node's key. True when another node must have signed it:
    /// this one, which began at `begun_ms` (Unix milliseconds), did not, and none of its former runs can have.
    pub fn shown(&mut self, signed: Statement, addresses: Vec<String>, begun_ms: u64, now_ms: u64) -> bool {
        let known = self.own.first().is_some_and(|first| signed.sequence > *first);
        let is_foreign = known && signed.issued_ms > begun_ms && !self.own.contains(&signed.sequence);
        if is_foreign {
            self.twin = Some((addresses, now_ms));
        }
        is_foreign
    }

    /// Where another node is that uses this node's key, if one does.
    #[must_use]
    pub fn twin(&self, now_ms: u64) -> Option<Vec<String>> {
        let (addresses, _) = self.twin.as_ref().filter(|(_, shown_ms)| shown_ms + SHOWN_MS > now_ms)?;
        Some(addresses.clone())
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;
    use proptest::prelude::*;

    use super::*;

    fn node(number: u64) -> PublicKey {
        let mut seed = [3; 32];
        seed[..8].copy_from_slice(&number.to_le_bytes());
        SecretKey::from_seed(&seed).public()
    }

    fn hear(all: &mut Instances, run: u8, address: &str, now_ms: u64) -> Meaning {
        let (addresses, statement) = (vec![address.to_owned()], vec![run]);
        all.heard(node(1), Holder::Node(node(1)), [run; 16], (addresses, statement), now_ms)
    }

    #[test]
    fn a_node_that_moves_or_starts_again_is_one_node() {
        let mut all = Instances::default();
        assert_eq!(hear(&mut all, 1, "a", 0), Meaning::Same);
        assert_eq!(hear(&mut all, 1, "b", 10_000), Meaning::Moved);
        assert_eq!(hear(&mut all, 2, "b", 12_000), Meaning::Restarted);
        // What the first run had sent arrives late.
        assert_eq!(hear(&mut all, 1, "b", 12_500), Meaning::Same);
        assert_eq!(hear(&mut all, 2, "b", 22_000), Meaning::Same);
        assert!(all.cloned(22_000).is_empty() && all.beside(node(1), [2; 16]).is_empty());
    }

    #[test]
    fn two_that_are_heard_in_turn_are_two_until_one_is_silent() {
        let mut all = Instances::default();
        hear(&mut all, 1, "a", 0);
        assert_eq!(hear(&mut all, 2, "b", 5_000), Meaning::Restarted);
        assert_eq!(hear(&mut all, 1, "a", 10_000), Meaning::Cloned);
        assert_eq!(hear(&mut all, 2, "b", 15_000), Meaning::Cloned);
        assert_eq!(all.cloned(15_000), [(node(1), vec![vec!["a".to_owned()], vec!["b".to_owned()]])]);
        assert_eq!((all.beside(node(1), [1; 16]), all.beside(node(1), [2; 16])), (vec![vec![2]], vec![vec![1]]));
        assert!(all.beside(node(1), [9; 16]).is_empty(), "a run that was never heard is shown nothing");
        for now_ms in (20_000..=70_000).step_by(10_000) {
            hear(&mut all, 1, "a", now_ms);
        }
        assert!(!all.cloned(74_999).is_empty());
        assert!(all.cloned(75_000).is_empty(), "the other was silent for a minute");
    }

    #[test]
    fn a_crowd_of_keys_displaces_only_itself_and_a_node_has_few_runs() {
        let mut all = Instances::default();
        let hear_of = |all: &mut Instances, number: u64, holder: u64, run: u8| {
            let what = (vec!["a".to_owned()], vec![run]);
            all.heard(node(number), Holder::Node(node(holder)), [run; 16], what, number);
        };
        hear_of(&mut all, 1, 1, 1);
        for number in 2..NODES_MAX as u64 + 50 {
            hear_of(&mut all, number, 2, 1);
        }
        assert!(all.nodes.len() == NODES_MAX && all.nodes.contains_key(&node(1)));
        hear_of(&mut all, 9_000, 3, 1);
        assert!(all.nodes.len() == NODES_MAX && all.nodes.contains_key(&node(9_000)));
        (1..20).for_each(|run| hear_of(&mut all, 1, 1, run));
        assert_eq!(all.nodes[&node(1)].runs.len(), RUNS_MAX);
    }

    #[test]
    fn only_what_another_node_signed_with_this_key_since_this_one_began_shows_a_twin() {
        let (mut own, begun_ms) = (OwnKey::default(), 1_000);
        let there = || vec!["there".to_owned()];
        let signed = |at_ms| Statement { sequence: at_ms, issued_ms: at_ms };
        assert!(!own.shown(signed(2_000), there(), begun_ms, 0), "it has signed nothing yet");
        [1_500, 2_500].into_iter().for_each(|sequence| own.signs(sequence));
        for (shown, why) in
            [(900, "a former run's"), (1_200, "older than its own"), (1_500, "its own"), (2_500, "its own")]
        {
            assert!(!own.shown(signed(shown), there(), begun_ms, 0), "{why}");
            assert_eq!(own.twin(0), None, "{why}");
        }
        assert!(own.shown(signed(2_000), there(), begun_ms, 5));
        assert_eq!(own.twin(4 + SHOWN_MS), Some(there()));
        assert_eq!(own.twin(5 + SHOWN_MS), None, "nobody shows it any more");
        (3_000..3_000 + OWN_MAX as u64).for_each(|sequence| own.signs(sequence));
        assert!(!own.shown(signed(1_500), there(), begun_ms, 9), "it may have been its own");
    }

    proptest! {
        /// However often a node starts again and moves, it is never taken for two: each run is over before the next begins.
        #[test]
        fn restarts_and_moves_are_never_clones(
            runs in prop::collection::vec(prop::collection::vec((0_u64..20_000, 0_u8..3), 1..8), 1..6),
            late_ms in 0..REST_MS,
        ) {
            let (mut all, mut now_ms) = (Instances::default(), 0);
            for (run, beats) in (0_u8..).zip(runs) {
                for (after_ms, place) in beats {
                    now_ms += after_ms;
                    prop_assert_ne!(hear(&mut all, run, &place.to_string(), now_ms), Meaning::Cloned);
                }
                // The last word of the former run comes after the first of the next.
                now_ms += 1;
                prop_assert_ne!(hear(&mut all, run + 1, "x", now_ms), Meaning::Cloned);
                now_ms += late_ms;
                prop_assert_ne!(hear(&mut all, run, "x", now_ms), Meaning::Cloned);
                now_ms += REST_MS;
                prop_assert!(all.cloned(now_ms).is_empty());
            }
        }

        /// Two that both go on are told, whatever their beats.
        #[test]
        fn two_that_go_on_are_always_told(first in 1_000_u64..10_000, second in 1_000_u64..10_000, apart_ms in 0_u64..10_000) {
            let mut all = Instances::default();
            let mut beats: Vec<(u64, u8)> = (0..8).map(|beat| (beat * first, 1)).collect();
            beats.extend((0..8).map(|beat| (apart_ms + beat * second, 2)));
            beats.sort_unstable();
            let until_ms = beats.iter().filter(|(_, run)| *run == 1).map(|(at_ms, _)| *at_ms).max().unwrap_or_default();
            let mut is_told = false;
            for (at_ms, run) in beats {
                is_told |= hear(&mut all, run, "x", at_ms) == Meaning::Cloned;
            }
            prop_assert!(is_told || until_ms < apart_ms + REST_MS);
        }
    }
}

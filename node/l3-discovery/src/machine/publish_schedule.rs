//! Which records this node publishes in the DHT, and when it publishes them again. Decides; sends nothing itself.

use std::collections::{BTreeMap, BTreeSet};

use althing_communication::records::{distance, position_of_node};
use althing_communication::routing::K;
use althing_protocol::inquiry::Inquiry;
use althing_protocol::record::RecordKey;
use althing_protocol::{AgentId, Digest, PublicKey};
use althing_td::Capability;

use crate::machine::query::Query;
use crate::machine::range::Wanted;

/// Keys that one node publishes at most: 500 agents of eight.
const KEYS_MAX: usize = 4_096;
/// Wait before a key that no node took is published again; doubles up to the longest.
const RETRY_MIN_MS: u64 = 2_000;
/// See [`RETRY_MIN_MS`].
const RETRY_MAX_MS: u64 = 60_000;
/// When the network has doubled, keys are published again, but not more often than this.
const GROWN_MS: u64 = 15_000;
/// Publishing begins when the network's size has not changed for this long: while it grows, everything would have to be
/// published again, by all who join at the same time.
const SETTLED_MS: u64 = 2_000;

/// The keys of an agent: its id, each capability and what the capability's name begins with, action, target.
#[must_use]
pub fn keys(network: &str, agent: &AgentId, capabilities: &[Capability]) -> BTreeSet<RecordKey> {
    let mut keys = BTreeSet::from([RecordKey::agent(network, agent)]);
    for capability in capabilities {
        let dots = capability.id.match_indices('.').map(|(at, _)| &capability.id[..at]);
        keys.extend(dots.chain([capability.id.as_str()]).map(|id| RecordKey::capability(network, id)));
        keys.extend(capability.action.iter().map(|action| RecordKey::action(network, action)));
        keys.extend(capability.target.iter().map(|target| RecordKey::target(network, target)));
    }
    keys
}

/// The key under which `query` is looked up, and what the nodes found there are asked; nothing for free text, for which
/// there are no keys.
#[must_use]
pub fn search_key(network: &str, query: &Query) -> Option<(RecordKey, Inquiry)> {
    // Nodes are asked for all versions: what is found is compared with the range here.
    let capability = query.capability.as_deref().map(|wanted| Wanted::read(wanted).id);
    let key = match (capability, &query.action, &query.target) {
        (Some(id), _, _) => {
            let family = id.strip_suffix(".*").unwrap_or(id);
            // There are no keys for parts of a word.
            if family.contains('*') {
                return None;
            }
            RecordKey::capability(network, family)
        }
        (None, Some(action), _) => RecordKey::action(network, action),
        (None, None, Some(target)) => RecordKey::target(network, target),
        (None, None, None) => return None,
    };
    let inquiry = Inquiry {
        capability: capability.map(str::to_owned),
        action: query.action.clone(),
        target: query.target.clone(),
        agent: None,
    };
    Some((key, inquiry))
}

/// The network's size, estimated from the nodes nearest to this one: they lie as close together as all do.
#[must_use]
pub fn network_size(local: PublicKey, nodes: &[PublicKey]) -> u64 {
    let place = position_of_node(local);
    let mut near: Vec<Digest> = nodes.iter().map(|node| distance(&position_of_node(*node), &place)).collect();
    near.sort_unstable();
    match near.get(K - 1) {
        None => near.len() as u64,
        Some(far) => {
            let share = u64::from_be_bytes(std::array::from_fn(|at| far[at])).max(1);
            u64::try_from(u128::from(u64::MAX) * K as u128 / u128::from(share)).unwrap_or(u64::MAX)
        }
    }
}

#[derive(Debug, Default)]
struct Publication {
    next_ms: u64,
    wait_ms: u64,
    busy: bool,
    /// When it was published last, and how many nodes the network had then.
    last: Option<(u64, u64)>,
}

/// Whether a network keeps its size.
#[derive(Debug, Default)]
pub struct Settling {
    size: u64,
    since_ms: u64,
}

impl Settling {
    /// The network has `size` nodes at `now_ms`. True when it has had about as many for a while.
    pub fn look(&mut self, now_ms: u64, size: u64) -> bool {
        if size > self.size + self.size / 2 || size < self.size / 2 {
            *self = Settling { size, since_ms: now_ms };
        }
        size > 0 && now_ms >= self.since_ms + SETTLED_MS
    }
}

/// Which keys are published, and when.
#[derive(Debug)]
pub struct PublishSchedule {
    again_ms: u64,
    keys: BTreeMap<RecordKey, Publication>,
}

impl PublishSchedule {
    /// An empty schedule; a key is published again each `again_ms`.
    #[must_use]
    pub fn new(again_ms: u64) -> PublishSchedule {
        PublishSchedule { again_ms, keys: BTreeMap::new() }
    }

    /// From now on these keys are published. Gives those that are not any more.
    pub fn set(&mut self, keys: &BTreeSet<RecordKey>) -> Vec<RecordKey> {
        let gone: Vec<RecordKey> = self.keys.keys().filter(|key| !keys.contains(key)).copied().collect();
        for key in &gone {
            self.keys.remove(key);
        }
        for key in keys.iter().take(KEYS_MAX) {
            self.keys.entry(*key).or_default();
        }
        gone
    }

    /// Which keys are due, in a network of `nodes`; each then counts as under way until [`PublishSchedule::ended`]. The nodes nearest to
    /// a key in a small network are not nearest in a large one: when it has doubled, keys are published again.
    pub fn due(&mut self, now_ms: u64, nodes: u64, most: usize) -> Vec<RecordKey> {
        if nodes == 0 {
            return Vec::new();
        }
        let busy = self.keys.values().filter(|publication| publication.busy).count();
        let grown = |publication: &Publication| {
            publication.last.is_some_and(|(at_ms, then)| nodes >= then.saturating_mul(2) && now_ms >= at_ms + GROWN_MS)
        };
        let due = self
            .keys
            .iter_mut()
            .filter(|(_, publication)| !publication.busy && (publication.next_ms <= now_ms || grown(publication)));
        let due = due.take(most.saturating_sub(busy)).map(|(key, publication)| {
            publication.busy = true;
            *key
        });
        due.collect()
    }

    /// A publication ended; `taken` when at least one node took it.
    pub fn ended(&mut self, key: RecordKey, taken: bool, now_ms: u64, nodes: u64) {
        let Some(publication) = self.keys.get_mut(&key) else { return };
        publication.busy = false;
        if taken {
            publication.last = Some((now_ms, nodes));
            publication.wait_ms = 0;
            publication.next_ms = now_ms + self.again_ms;
        } else {
            publication.wait_ms = (publication.wait_ms * 2).clamp(RETRY_MIN_MS, RETRY_MAX_MS);
            publication.next_ms = now_ms + publication.wait_ms;
        }
    }

    /// Keys that are published.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True when nothing is published.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> RecordKey {
        RecordKey::capability("net", name)
    }

    #[test]
    fn what_is_said_is_said_again_in_time_and_to_those_who_came_later() {
        let mut schedule = PublishSchedule::new(60_000);
        assert!(schedule.set(&BTreeSet::from([key("a")])).is_empty());
        assert!(schedule.due(0, 0, 4).is_empty(), "there is nobody to tell");
        assert_eq!(schedule.due(0, 1, 4), [key("a")]);
        assert!(schedule.due(0, 1, 4).is_empty(), "it is being published");
        schedule.ended(key("a"), true, 10, 1);
        assert!(schedule.due(15_000, 2, 4).is_empty(), "not at once");
        assert_eq!(schedule.due(15_010, 2, 4), [key("a")], "the network has doubled");
        schedule.ended(key("a"), true, 15_020, 50);
        assert!(schedule.due(50_000, 99, 4).is_empty(), "most of the k nearest are still those");
        assert_eq!(schedule.due(75_020, 50, 4), [key("a")]);
    }

    #[test]
    fn a_network_has_settled_when_it_keeps_its_size() {
        let mut settling = Settling::default();
        assert!(!settling.look(5_000, 0), "there is nobody");
        for (now_ms, size, settled) in [
            (5_000, 1, false),
            (6_000, 4, false),
            (7_999, 5, false),
            (8_000, 5, true),
            (9_000, 9, false),
            (11_000, 10, true),
        ] {
            assert_eq!(settling.look(now_ms, size), settled, "{now_ms}");
        }
        assert!(!settling.look(12_000, 3), "most have left");
    }

    #[test]
    fn what_nobody_took_is_said_ever_later_and_what_is_gone_not_at_all() {
        let mut schedule = PublishSchedule::new(60_000);
        schedule.set(&BTreeSet::from([key("a")]));
        let mut now_ms = 0;
        for wait_ms in [2_000, 4_000, 8_000] {
            assert_eq!(schedule.due(now_ms, 1, 4), [key("a")]);
            schedule.ended(key("a"), false, now_ms, 1);
            assert!(schedule.due(now_ms + wait_ms - 1, 1, 4).is_empty());
            now_ms += wait_ms;
        }
        assert_eq!(schedule.set(&BTreeSet::from([key("b")])), [key("a")]);
        schedule.ended(key("a"), true, now_ms, 1);
        assert_eq!(schedule.due(now_ms, 1, 4), [key("b")]);
    }

    #[test]
    fn the_size_of_a_network_is_told_from_its_nearest_nodes() {
        let node = |number: u32| {
            let mut seed = [5; 32];
            seed[..4].copy_from_slice(&number.to_be_bytes());
            althing_protocol::SecretKey::from_seed(&seed).public()
        };
        assert_eq!(network_size(node(0), &[]), 0);
        let all: Vec<PublicKey> = (1..=1_000).map(node).collect();
        assert_eq!(network_size(node(0), &all[..7]), 7);
        let guesses: Vec<u64> = (2_000..2_020).map(|number| network_size(node(number), &all)).collect();
        assert!(guesses.iter().all(|guess| (400..2_500).contains(guess)), "{guesses:?}");
    }

    #[test]
    fn no_more_are_said_at_a_time_than_asked_for() {
        let mut schedule = PublishSchedule::new(60_000);
        schedule.set(&(0..10).map(|number| key(&number.to_string())).collect());
        let first = schedule.due(0, 1, 4);
        assert_eq!(first.len(), 4);
        assert!(schedule.due(0, 1, 4).is_empty());
        schedule.ended(first[0], true, 0, 1);
        assert_eq!(schedule.due(0, 1, 4).len(), 1);
    }

    #[test]
    fn a_family_of_capabilities_is_looked_for_under_its_name() {
        let id = AgentId::new(althing_protocol::PublisherId::from_digest([1; 32]), "biller").expect("a name");
        let capability = Capability { id: "billing.view.eu".to_owned(), ..Capability::default() };
        let keys = keys("net", &id, &[capability]);
        for wanted in ["billing.view.eu", "billing.view.*", "billing.*"] {
            let query = Query { capability: Some(wanted.to_owned()), ..Query::default() };
            let (key, _) = search_key("net", &query).expect("a key");
            assert!(keys.contains(&key), "{wanted}");
        }
        let query = Query { text: Some("bills".to_owned()), ..Query::default() };
        assert_eq!(search_key("net", &query), None);
    }
}

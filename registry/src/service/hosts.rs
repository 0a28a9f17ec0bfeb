//! Nodes that told the registry of themselves: where they are, and which published agents they host. Nothing of this is an
//! entry of the log: who does not renew it is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Included, Unbounded};

use althing_protocol::object::Authored;
use althing_protocol::record::Contact;
use althing_protocol::{AgentId, PublicKey, PublisherId};
use althing_td::Capability;

/// How long a node is known unless it renews that, milliseconds.
pub const LEASE_MS: u64 = 60_000;
/// Nodes that are known.
const NODES_MAX: usize = 65_536;
/// Nodes with agents of one publisher.
const NODES_OF_PUBLISHER_MAX: usize = 4_096;
/// Nodes of one answer.
const ANSWER_MAX: usize = 32;
/// Leases that are over and are forgotten at one time: whoever asks next waits for no more.
const FORGOTTEN_MAX: usize = 256;

/// What hosts are looked for; all that is given must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostQuery {
    /// Exactly this agent.
    pub agent: Option<String>,
    /// A capability's id; `billing.*` stands for all that begin with `billing.`.
    pub capability: Option<String>,
    /// What is done.
    pub action: Option<String>,
    /// What it is done to.
    pub target: Option<String>,
}

/// A node that hosts what was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its contact, as it signed it.
    pub contact: Vec<u8>,
    /// Its agents that match.
    pub agents: Vec<AgentId>,
}

struct Lease {
    until_ms: u64,
    contact: Authored<Contact>,
    agents: BTreeSet<AgentId>,
}

/// What the description of an agent says that it can do.
struct Described {
    /// The entry of the release whose description it is.
    entry: u64,
    capabilities: Vec<Capability>,
}

/// What a word of a capability says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Action,
    Target,
}

/// The words of a capability.
fn words(capability: &Capability) -> impl Iterator<Item = (Word, String)> {
    let action = capability.action.as_ref().map(|action| (Word::Action, action.to_lowercase()));
    let target = capability.target.as_ref().map(|target| (Word::Target, target.to_lowercase()));
    action.into_iter().chain(target)
}

/// The nodes that are known.
#[derive(Default)]
pub struct Hosts {
    leases: BTreeMap<PublicKey, Lease>,
    /// When each lease ends.
    ends: BTreeSet<(u64, PublicKey)>,
    by_agent: BTreeMap<AgentId, BTreeSet<PublicKey>>,
    /// Nodes with agents of a publisher.
    by_publisher: BTreeMap<PublisherId, BTreeSet<PublicKey>>,
    described: BTreeMap<AgentId, Described>,
    /// Agents by the ids of their capabilities.
    capable: BTreeMap<String, BTreeSet<AgentId>>,
    /// Agents by what their capabilities do, and to what, in small letters.
    doing: BTreeMap<(Word, String), BTreeSet<AgentId>>,
    /// Rises with each answer, so that not always the same nodes are named.
    answers: usize,
}

impl Hosts {
    /// Whether the capabilities of an agent are those of that release.
    pub fn knows(&self, agent: &AgentId, entry: u64) -> bool {
        self.described.get(agent).is_some_and(|described| described.entry == entry)
    }

    /// Takes what an agent can do from the description of a release.
    pub fn describe(&mut self, agent: AgentId, entry: u64, capabilities: Vec<Capability>) {
        self.forget_described(&agent);
        for capability in &capabilities {
            self.capable.entry(capability.id.clone()).or_default().insert(agent.clone());
            words(capability).for_each(|word| {
                self.doing.entry(word).or_default().insert(agent.clone());
            });
        }
        self.described.insert(agent, Described { entry, capabilities });
    }

    fn forget_described(&mut self, agent: &AgentId) {
        let Some(described) = self.described.remove(agent) else { return };
        for capability in &described.capabilities {
            take_from(&mut self.capable, &capability.id, agent);
            words(capability).for_each(|word| take_from(&mut self.doing, &word, agent));
        }
    }

    /// Takes what a node told of itself, until `now_ms` and [`LEASE_MS`]; whether there was room for it, and it is not older
    /// than what the node told before.
    pub fn renew(&mut self, contact: Authored<Contact>, agents: BTreeSet<AgentId>, now_ms: u64) -> bool {
        let node = contact.body.node;
        let publishers: BTreeSet<PublisherId> = agents.iter().map(AgentId::publisher).collect();
        if !self.has_room(node, &publishers, now_ms) {
            return false;
        }
        let known = self.leases.get(&node).filter(|known| known.until_ms > now_ms);
        if known.is_some_and(|known| known.contact.body.sequence > contact.body.sequence) {
            return false;
        }
        self.forget(node);
        for agent in &agents {
            self.by_agent.entry(agent.clone()).or_default().insert(node);
        }
        for publisher in publishers {
            self.by_publisher.entry(publisher).or_default().insert(node);
        }
        let until_ms = now_ms.saturating_add(LEASE_MS);
        self.ends.insert((until_ms, node));
        self.leases.insert(node, Lease { until_ms, contact, agents });
        true
    }

    /// Whether there is room for a node with agents of these publishers.
    pub fn has_room(&mut self, node: PublicKey, publishers: &BTreeSet<PublisherId>, now_ms: u64) -> bool {
        self.sweep(now_ms);
        let is_full = !self.leases.contains_key(&node) && self.leases.len() >= NODES_MAX;
        let is_crowded = |publisher: &PublisherId| {
            let nodes = self.by_publisher.get(publisher).filter(|nodes| !nodes.contains(&node));
            nodes.is_some_and(|nodes| nodes.len() >= NODES_OF_PUBLISHER_MAX)
        };
        !is_full && !publishers.iter().any(is_crowded)
    }

    fn forget(&mut self, node: PublicKey) {
        let Some(lease) = self.leases.remove(&node) else { return };
        self.ends.remove(&(lease.until_ms, node));
        for agent in lease.agents {
            take_from(&mut self.by_publisher, &agent.publisher(), &node);
            if let Some(nodes) = self.by_agent.get_mut(&agent) {
                nodes.remove(&node);
                if nodes.is_empty() {
                    self.by_agent.remove(&agent);
                    self.forget_described(&agent);
                }
            }
        }
    }

    /// Forgets some of those whose leases are over; each lease is forgotten once, so that nobody walks all of them.
    fn sweep(&mut self, now_ms: u64) {
        for _ in 0..FORGOTTEN_MAX {
            match self.ends.first().copied() {
                Some((until_ms, node)) if until_ms <= now_ms => self.forget(node),
                _ => return,
            }
        }
    }

    /// How many nodes are known.
    pub fn len(&mut self, now_ms: u64) -> usize {
        self.sweep(now_ms);
        self.leases.values().filter(|lease| lease.until_ms > now_ms).count()
    }

    /// Nodes whose agents match.
    pub fn find(&mut self, query: &HostQuery, now_ms: u64, is_shown: impl Fn(&AgentId) -> bool) -> Vec<Host> {
        self.sweep(now_ms);
        let matches = |agent: &AgentId| {
            let capabilities = self.described.get(agent).map_or(&[][..], |described| &described.capabilities);
            query.matches(agent, capabilities) && is_shown(agent)
        };
        let agents = self.candidates(query).into_iter().filter(|agent| matches(agent));
        let is_known = |node: &&PublicKey| self.leases.get(*node).is_some_and(|lease| lease.until_ms > now_ms);
        let nodes = agents.filter_map(|agent| self.by_agent.get(agent)).flatten().filter(is_known);
        let nodes: BTreeSet<&PublicKey> = nodes.collect();
        self.answers = self.answers.wrapping_add(1);
        let first = self.answers % nodes.len().max(1);
        let around = nodes.iter().skip(first).chain(nodes.iter().take(first)).take(ANSWER_MAX);
        let host = |node: &&PublicKey| {
            let lease = self.leases.get(*node)?;
            let agents = lease.agents.iter().filter(|agent| matches(agent)).cloned().collect();
            Some(Host { contact: lease.contact.bytes.clone(), agents })
        };
        around.filter_map(host).collect()
    }

    /// Agents among which all are that match, as few as is known.
    fn candidates(&self, query: &HostQuery) -> Vec<&AgentId> {
        let HostQuery { agent, capability, action, target } = query;
        if let Some(agent) = agent {
            let agent = agent.parse::<AgentId>().ok().and_then(|agent| self.by_agent.get_key_value(&agent));
            return agent.into_iter().map(|(agent, _)| agent).collect();
        }
        if let Some(capability) = capability {
            let Some(prefix) = capability.strip_suffix('*') else {
                return self.capable.get(capability).into_iter().flatten().collect();
            };
            let from = self.capable.range::<str, _>((Included(prefix), Unbounded));
            let all = from.take_while(|(id, _)| id.starts_with(prefix)).flat_map(|(_, agents)| agents);
            return all.collect::<BTreeSet<_>>().into_iter().collect();
        }
        let action = action.as_ref().map(|action| (Word::Action, action.to_lowercase()));
        let word = action.or_else(|| target.as_ref().map(|target| (Word::Target, target.to_lowercase())));
        match word {
            Some(word) => self.doing.get(&word).into_iter().flatten().collect(),
            None => self.by_agent.keys().collect(),
        }
    }
}

/// Takes one out of those of a key.
fn take_from<K: Ord, V: Ord>(all: &mut BTreeMap<K, BTreeSet<V>>, key: &K, one: &V) {
    if let Some(of_key) = all.get_mut(key) {
        of_key.remove(one);
        if of_key.is_empty() {
            all.remove(key);
        }
    }
}

impl HostQuery {
    pub(super) fn matches(&self, agent: &AgentId, capabilities: &[Capability]) -> bool {
        let (action, target) = (self.action.as_deref(), self.target.as_deref());
        let named = self.agent.as_ref().is_none_or(|wanted| *wanted == agent.to_string());
        let capable = self.capability.as_ref().is_none_or(|wanted| capabilities.iter().any(|has| has.has_id(wanted)));
        let does = (action.is_none() && target.is_none()) || capabilities.iter().any(|has| has.does(action, target));
        named && capable && does
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::SecretKey;
    use althing_protocol::object;

    const NOW: u64 = 1_800_000_000_000;

    fn contact(seed: u8, sequence: u64) -> Authored<Contact> {
        let key = SecretKey::from_seed(&[seed; 32]);
        let addresses = vec!["/ip4/192.0.2.1/tcp/1".to_owned()];
        let body = Contact::new(key.public(), sequence, NOW, NOW + 60_000, addresses);
        object::sign(body, "", "", &key).expect("a contact")
    }

    fn agent(name: &str) -> AgentId {
        AgentId::new(PublisherId::from_digest([7; 32]), name).expect("an id")
    }

    fn capability(id: &str, action: &str) -> Capability {
        Capability { id: id.to_owned(), action: Some(action.to_owned()), ..Capability::default() }
    }

    fn of_capability(id: &str) -> HostQuery {
        HostQuery { capability: Some(id.to_owned()), ..HostQuery::default() }
    }

    #[test]
    fn a_host_is_found_by_what_its_agents_can_do_until_its_lease_ends() {
        let mut hosts = Hosts::default();
        assert!(hosts.renew(contact(1, 1), [agent("echo"), agent("bill")].into(), NOW));
        hosts.describe(agent("bill"), 3, vec![capability("billing.view", "View")]);
        assert!(hosts.knows(&agent("bill"), 3) && !hosts.knows(&agent("bill"), 4));
        let found = hosts.find(&of_capability("billing.*"), NOW + 1, |_| true);
        assert_eq!(found, [Host { contact: contact(1, 1).bytes, agents: vec![agent("bill")] }]);
        let does = HostQuery { action: Some("view".to_owned()), ..HostQuery::default() };
        assert_eq!(hosts.find(&does, NOW + 1, |_| true).len(), 1);
        assert_eq!(hosts.find(&of_capability("billing.pay"), NOW + 1, |_| true), []);
        let echo = HostQuery { agent: Some(agent("echo").to_string()), ..HostQuery::default() };
        assert_eq!(hosts.find(&echo, NOW + LEASE_MS - 1, |_| true).len(), 1);
        assert_eq!(hosts.find(&echo, NOW + LEASE_MS, |_| true), []);
        assert!(!hosts.knows(&agent("bill"), 3), "nothing is kept of what nobody hosts");
        assert!(hosts.capable.is_empty() && hosts.doing.is_empty());
    }

    #[test]
    fn what_a_node_tells_later_replaces_what_it_told_before() {
        let mut hosts = Hosts::default();
        assert!(hosts.renew(contact(1, 2), [agent("echo")].into(), NOW));
        assert!(!hosts.renew(contact(1, 1), [agent("bill")].into(), NOW), "an older contact is replayed");
        assert!(hosts.renew(contact(1, 3), [agent("bill")].into(), NOW));
        let echo = HostQuery { agent: Some(agent("echo").to_string()), ..HostQuery::default() };
        assert_eq!(hosts.find(&echo, NOW, |_| true), []);
        assert_eq!(hosts.len(NOW), 1);
    }

    #[test]
    fn whatever_is_asked_finds_what_matches() {
        let mut hosts = Hosts::default();
        let all = [("a", "billing.view", "View"), ("b", "billing.pay", "pay"), ("c", "bill", "VIEW")];
        assert!(hosts.renew(contact(1, 1), all.iter().map(|(name, ..)| agent(name)).collect(), NOW));
        for (name, id, action) in all {
            hosts.describe(agent(name), 1, vec![capability("old", "old")]);
            hosts.describe(agent(name), 2, vec![capability(id, action), capability("both", "both")]);
        }
        let wanted: [Option<&str>; 8] =
            [None, Some("billing.*"), Some("*"), Some("bill"), Some("both"), Some("old"), Some(""), Some("view")];
        for capability in wanted {
            for action in wanted {
                let query = HostQuery {
                    capability: capability.map(str::to_owned),
                    action: action.map(str::to_owned),
                    ..HostQuery::default()
                };
                let matching = |agent: &&AgentId| query.matches(agent, &hosts.described[*agent].capabilities);
                let each: Vec<AgentId> = hosts.by_agent.keys().filter(matching).cloned().collect();
                let found = hosts.find(&query, NOW, |_| true);
                assert_eq!(found.into_iter().flat_map(|host| host.agents).collect::<Vec<_>>(), each, "{query:?}");
            }
        }
    }

    /// A contact that nobody signed: only the table is tested.
    fn unsigned(number: u16) -> Authored<Contact> {
        let mut seed = [0; 32];
        seed[..2].copy_from_slice(&number.to_be_bytes());
        let node = SecretKey::from_seed(&seed).public();
        let body = Contact::new(node, 1, NOW, NOW + 60_000, vec!["/ip4/192.0.2.1/tcp/1".to_owned()]);
        Authored { body, signer: node, bytes: Vec::new() }
    }

    /// SR-7
    #[test]
    fn a_publisher_has_its_share_of_the_nodes_and_leases_that_are_over_are_forgotten_by_and_by() {
        let mut hosts = Hosts::default();
        let mut full = 0;
        for number in 0..=u16::try_from(NODES_OF_PUBLISHER_MAX).expect("a small number") {
            full += usize::from(!hosts.renew(unsigned(number), [agent("echo"), agent("bill")].into(), NOW));
        }
        assert_eq!((full, hosts.by_publisher.len(), hosts.len(NOW)), (1, 1, NODES_OF_PUBLISHER_MAX));
        let (mine, other) = (agent("echo").publisher(), PublisherId::from_digest([8; 32]));
        let node = |number| unsigned(number).body.node;
        assert!(!hosts.has_room(node(9_999), &[mine].into(), NOW) && hosts.has_room(node(9_999), &[other].into(), NOW));
        assert!(hosts.has_room(node(0), &[mine].into(), NOW), "it has its place");
        let over = NOW + LEASE_MS;
        assert_eq!((hosts.find(&HostQuery::default(), over, |_| true), hosts.len(over)), (vec![], 0));
        assert_eq!(hosts.leases.len(), NODES_OF_PUBLISHER_MAX - 2 * FORGOTTEN_MAX, "some at one time");
        assert!(hosts.has_room(node(9_999), &[mine].into(), over));
        while !hosts.leases.is_empty() {
            hosts.sweep(over);
        }
        assert!(hosts.ends.is_empty() && hosts.by_publisher.is_empty() && hosts.by_agent.is_empty());
    }

    #[test]
    fn answers_are_bounded_and_name_all_nodes_in_turn() {
        let mut hosts = Hosts::default();
        for seed in 0..64 {
            assert!(hosts.renew(contact(seed, 1), [agent("echo")].into(), NOW));
        }
        let all = HostQuery::default();
        let mut named = BTreeSet::new();
        for _ in 0..64 {
            let found = hosts.find(&all, NOW, |_| true);
            assert_eq!(found.len(), ANSWER_MAX);
            named.extend(found.into_iter().map(|host| host.contact));
        }
        assert_eq!(named.len(), 64);
    }
}

//! Nodes that told the registry of themselves: where they are, and which published agents they host. Nothing of this is an
//! entry of the log: who does not renew it is forgotten.

use std::collections::{BTreeMap, BTreeSet};

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

/// The nodes that are known.
#[derive(Default)]
pub struct Hosts {
    leases: BTreeMap<PublicKey, Lease>,
    by_agent: BTreeMap<AgentId, BTreeSet<PublicKey>>,
    described: BTreeMap<AgentId, Described>,
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
        self.described.insert(agent, Described { entry, capabilities });
    }

    /// Takes what a node told of itself, until `now_ms` and [`LEASE_MS`]; whether there was room for it, and it is not older
    /// than what the node told before.
    pub fn renew(&mut self, contact: Authored<Contact>, agents: BTreeSet<AgentId>, now_ms: u64) -> bool {
        self.sweep(now_ms);
        let node = contact.body.node;
        let known = self.leases.get(&node);
        if known.is_some_and(|known| known.contact.body.sequence > contact.body.sequence) {
            return false;
        }
        let full = known.is_none() && self.leases.len() >= NODES_MAX;
        let crowded =
            |publisher| self.nodes_of(publisher).filter(|other| *other != node).count() >= NODES_OF_PUBLISHER_MAX;
        if full || agents.iter().map(AgentId::publisher).collect::<BTreeSet<_>>().into_iter().any(crowded) {
            return false;
        }
        self.forget(node);
        for agent in &agents {
            self.by_agent.entry(agent.clone()).or_default().insert(node);
        }
        self.leases.insert(node, Lease { until_ms: now_ms.saturating_add(LEASE_MS), contact, agents });
        true
    }

    fn nodes_of(&self, publisher: PublisherId) -> impl Iterator<Item = PublicKey> {
        let of = self.by_agent.iter().filter(move |(agent, _)| agent.publisher() == publisher);
        of.flat_map(|(_, nodes)| nodes).copied().collect::<BTreeSet<_>>().into_iter()
    }

    fn forget(&mut self, node: PublicKey) {
        let Some(lease) = self.leases.remove(&node) else { return };
        for agent in lease.agents {
            if let Some(nodes) = self.by_agent.get_mut(&agent) {
                nodes.remove(&node);
                if nodes.is_empty() {
                    self.by_agent.remove(&agent);
                    self.described.remove(&agent);
                }
            }
        }
    }

    fn sweep(&mut self, now_ms: u64) {
        let over: Vec<PublicKey> =
            self.leases.iter().filter(|(_, lease)| lease.until_ms <= now_ms).map(|(node, _)| *node).collect();
        over.into_iter().for_each(|node| self.forget(node));
    }

    /// How many nodes are known.
    pub fn len(&mut self, now_ms: u64) -> usize {
        self.sweep(now_ms);
        self.leases.len()
    }

    /// Nodes whose agents match.
    pub fn find(&mut self, query: &HostQuery, now_ms: u64) -> Vec<Host> {
        self.sweep(now_ms);
        let matches = |agent: &AgentId| {
            let capabilities = self.described.get(agent).map_or(&[][..], |described| &described.capabilities);
            query.matches(agent, capabilities)
        };
        let mut found: BTreeMap<PublicKey, Vec<AgentId>> = BTreeMap::new();
        for (agent, nodes) in self.by_agent.iter().filter(|(agent, _)| matches(agent)) {
            for node in nodes {
                found.entry(*node).or_default().push(agent.clone());
            }
        }
        self.answers = self.answers.wrapping_add(1);
        let first = self.answers % found.len().max(1);
        let around = found.iter().cycle().skip(first).take(found.len().min(ANSWER_MAX));
        let host = |(node, agents): (&PublicKey, &Vec<AgentId>)| {
            Some(Host { contact: self.leases.get(node)?.contact.bytes.clone(), agents: agents.clone() })
        };
        around.filter_map(host).collect()
    }
}

impl HostQuery {
    fn matches(&self, agent: &AgentId, capabilities: &[Capability]) -> bool {
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
        let found = hosts.find(&of_capability("billing.*"), NOW + 1);
        assert_eq!(found, [Host { contact: contact(1, 1).bytes, agents: vec![agent("bill")] }]);
        let does = HostQuery { action: Some("view".to_owned()), ..HostQuery::default() };
        assert_eq!(hosts.find(&does, NOW + 1).len(), 1);
        assert_eq!(hosts.find(&of_capability("billing.pay"), NOW + 1), []);
        let echo = HostQuery { agent: Some(agent("echo").to_string()), ..HostQuery::default() };
        assert_eq!(hosts.find(&echo, NOW + LEASE_MS - 1).len(), 1);
        assert_eq!(hosts.find(&echo, NOW + LEASE_MS), []);
        assert!(!hosts.knows(&agent("bill"), 3), "nothing is kept of what nobody hosts");
    }

    #[test]
    fn what_a_node_tells_later_replaces_what_it_told_before() {
        let mut hosts = Hosts::default();
        assert!(hosts.renew(contact(1, 2), [agent("echo")].into(), NOW));
        assert!(!hosts.renew(contact(1, 1), [agent("bill")].into(), NOW), "an older contact is replayed");
        assert!(hosts.renew(contact(1, 3), [agent("bill")].into(), NOW));
        let echo = HostQuery { agent: Some(agent("echo").to_string()), ..HostQuery::default() };
        assert_eq!(hosts.find(&echo, NOW), []);
        assert_eq!(hosts.len(NOW), 1);
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
            let found = hosts.find(&all, NOW);
            assert_eq!(found.len(), ANSWER_MAX);
            named.extend(found.into_iter().map(|host| host.contact));
        }
        assert_eq!(named.len(), 64);
    }
}

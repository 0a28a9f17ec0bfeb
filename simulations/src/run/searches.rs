//! Searches, and the judgement of what they find.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_discovery::{Found, Query, SearchReport};
use althing_protocol::{AgentId, PublicKey};
use rand::Rng as _;
use tokio::sync::mpsc;

use super::{Ended, SETTLED_MS, Violation, World, pick};
use crate::invariant::Search;
use crate::key;

/// The most nodes that a search asks: candidates from the DHT, and as many peers.
const ASKED_MAX: usize = 40;
/// The longest duration of a search: the look-up, its candidates, and the peers (see [`althing_discovery::DiscoveryConfig`]),
/// without the latency of the link.
const TOOK_MAX: Duration = Duration::from_millis(5_300);

/// How a search exceeded its bounds, whatever it found.
fn exceeded(sought: &SearchReport) -> Option<String> {
    let fits = sought.asked <= ASKED_MAX && sought.took <= TOOK_MAX;
    (!fits).then(|| format!("it asked {} and took {:?}", sought.asked, sought.took))
}

impl World<'_> {
    /// Draws who searches next, and for which capability. `None` for a node that joined only just now.
    pub(super) fn draw_search(&mut self) -> Option<(u32, String)> {
        let running = self.nodes.running();
        let seeker = pick(&mut self.rng, &running)?;
        let capabilities: Vec<&String> = self.nodes.slots.iter().filter_map(|slot| slot.capability.as_ref()).collect();
        let capability = capabilities.get(self.rng.random_range(0..capabilities.len().max(1)))?;
        let capability = self.scenario.finds.only.clone().unwrap_or_else(|| (*capability).clone());
        (self.nodes.slot(seeker).since_ms + SETTLED_MS <= self.now_ms()).then_some((seeker, capability))
    }

    /// A random node searches for a capability.
    pub(super) fn search(&mut self, ended: mpsc::Sender<Ended>) {
        let Some((seeker, capability)) = self.draw_search() else { return };
        let now_ms = self.now_ms();
        let Some(node) = &self.nodes.slot(seeker).node else { return };
        let mut search = Search {
            began_ms: now_ms,
            ended_ms: now_ms,
            seeker,
            capability: capability.clone(),
            found: Vec::new(),
            descriptions: Vec::new(),
            sought: None,
            expected: self.nodes.expected(seeker, &capability, now_ms, &self.judge.truth),
            connected: Vec::new(),
            undisturbed: self.is_healed(now_ms),
        };
        let connected = node.communication.network().connected();
        search.connected = search.expected.iter().filter(|node| connected.contains(node)).copied().collect();
        let (discovery, begun) = (node.discovery.clone(), self.begun);
        tokio::spawn(async move {
            let query = Query { capability: Some(capability), ..Query::default() };
            let (found, why) = discovery.search(&query).await;
            let shown = |found: &Found| {
                let description = &found.candidate.verified.description;
                (found.node, description.body.agent.clone(), description.body.sequence, description.digest())
            };
            search.descriptions = found.iter().map(shown).collect();
            search.found =
                found.into_iter().map(|found| (found.candidate.verified.agent.clone(), found.node)).collect();
            search.sought = why.sought;
            search.ended_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            // The run may be over.
            let _ = ended.send(Ended::Search(search)).await;
        });
    }

    pub(super) fn judge_search(&mut self, mut search: Search) {
        // Nodes that have left meanwhile need not be found.
        let now_ms = self.now_ms();
        let still = self.nodes.expected(search.seeker, &search.capability, now_ms, &self.judge.truth);
        search.expected.retain(|node| still.contains(node));
        let node = self.nodes.slot(search.seeker).node.as_ref();
        let connected = node.map(|node| node.communication.network().connected()).unwrap_or_default();
        search.connected.retain(|node| still.contains(node) && connected.contains(node));
        // A fault during the search disturbed it.
        search.undisturbed &= self.fault_ms.is_none_or(|fault_ms| fault_ms < search.began_ms);
        let took_ms = search.ended_ms - search.began_ms;
        let hosts: Vec<String> = search.found.iter().map(|(agent, _)| agent.name().to_owned()).collect();
        self.recorder.note(format_args!(
            "node {} looked for {} and found {} after {took_ms} ms: {:?}",
            search.seeker,
            search.capability,
            hosts.join(" "),
            search.sought
        ));
        let outcome = &mut self.judge.outcome;
        outcome.finds += 1;
        let adversaries = self.adversaries.iter().flat_map(|adversary| &adversary.agents);
        let theirs: BTreeSet<&(PublicKey, AgentId)> = adversaries.collect();
        let found = search.found.iter().filter(|(agent, node)| theirs.contains(&(*node, agent.clone())));
        outcome.of_adversaries += found.count();
        outcome.connected += usize::from(search.undisturbed && !search.connected.is_empty());
        if search.undisturbed && !search.expected.is_empty() {
            outcome.findable += 1;
            if search.expected.iter().any(|node| search.found.iter().any(|(_, found)| found == node)) {
                outcome.found += 1;
                outcome.took_ms.push(took_ms);
            }
        }
        if let Some(what) = search.sought.as_ref().and_then(exceeded) {
            outcome.violations.push(Violation { invariant: "finds.bounds", at_ms: search.ended_ms, what });
        }
        self.judge.check(search.ended_ms, |invariant, truth| invariant.check(&search, truth));
    }

    /// Judges the values that running nodes store for others at the end.
    pub(super) fn judge_stored(&mut self) {
        for number in self.nodes.running() {
            let holder = key(number + 1).public();
            for (under, bytes) in self.nodes.net.values(holder) {
                self.judge.outcome.values += 1;
                self.judge.check(self.scenario.for_ms, |invariant, _| invariant.check_stored(holder, under, &bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_asks_too_many_or_takes_too_long_is_a_violation() {
        let good = SearchReport { asked: ASKED_MAX, took: TOOK_MAX, ..SearchReport::default() };
        assert_eq!(exceeded(&good), None);
        assert!(exceeded(&SearchReport { asked: ASKED_MAX + 1, ..good.clone() }).is_some());
        assert!(exceeded(&SearchReport { took: TOOK_MAX + Duration::from_millis(1), ..good }).is_some());
    }
}

//! Somebody looks for something, and what is found is judged.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_discovery::{Found, Query, Sought};
use althing_protocol::{AgentId, PublicKey};
use rand::Rng as _;
use tokio::sync::mpsc;

use super::{Ended, SETTLED_MS, Violation, World, pick};
use crate::invariant::Look;
use crate::key;

/// Whom a look asks at most: candidates that the table named, and as many peers.
const ASKED_MAX: usize = 40;
/// How long it takes at most: the look-up, its candidates, and the peers (see [`althing_discovery::DiscoveryConfig`]); a link's
/// time is not among them.
const TOOK_MAX: Duration = Duration::from_millis(5_300);

/// What a look did that it may not, whatever it finds.
fn too_much(sought: &Sought) -> Option<String> {
    let fits = sought.asked <= ASKED_MAX && sought.took <= TOOK_MAX;
    (!fits).then(|| format!("it asked {} and took {:?}", sought.asked, sought.took))
}

impl World<'_> {
    /// Who looks next, and for what. None of those who only just came.
    pub(super) fn wish(&mut self) -> Option<(u32, String)> {
        let there = self.there();
        let seeker = pick(&mut self.rng, &there)?;
        let capabilities: Vec<&String> = self.places.iter().filter_map(|place| place.capability.as_ref()).collect();
        let capability = capabilities.get(self.rng.random_range(0..capabilities.len().max(1)))?;
        let capability = self.scenario.finds.only.clone().unwrap_or_else(|| (*capability).clone());
        (self.place(seeker).since_ms + SETTLED_MS <= self.now_ms()).then_some((seeker, capability))
    }

    /// Somebody looks for something.
    pub(super) fn look(&mut self, ended: mpsc::Sender<Ended>) {
        let Some((seeker, capability)) = self.wish() else { return };
        let now_ms = self.now_ms();
        let Some(node) = &self.place(seeker).node else { return };
        let mut look = Look {
            began_ms: now_ms,
            ended_ms: now_ms,
            seeker,
            capability: capability.clone(),
            found: Vec::new(),
            words: Vec::new(),
            sought: None,
            living: self.living(seeker, &capability),
            calm: self.calm(now_ms),
        };
        let (discovery, begun) = (node.discovery.clone(), self.begun);
        tokio::spawn(async move {
            let query = Query { capability: Some(capability), ..Query::default() };
            let (found, why) = discovery.seek(&query).await;
            let word = |found: &Found| {
                let said = &found.candidate.verified.description;
                (found.node, said.body.agent.clone(), said.body.sequence, said.digest())
            };
            look.words = found.iter().map(word).collect();
            look.found = found.into_iter().map(|found| (found.candidate.verified.agent.clone(), found.node)).collect();
            look.sought = why.sought;
            look.ended_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            // The run may be over.
            let _ = ended.send(Ended::Look(look)).await;
        });
    }

    pub(super) fn judge(&mut self, mut look: Look) {
        // Who went meanwhile need not be found.
        let still = self.living(look.seeker, &look.capability);
        look.living.retain(|node| still.contains(node));
        // What disturbed the network while it looked disturbed the look.
        look.calm &= self.fault_ms.is_none_or(|fault_ms| fault_ms < look.began_ms);
        let took_ms = look.ended_ms - look.began_ms;
        let hosts: Vec<String> = look.found.iter().map(|(agent, _)| agent.name().to_owned()).collect();
        self.recorder.note(format_args!(
            "node {} looked for {} and found {} after {took_ms} ms: {:?}",
            look.seeker,
            look.capability,
            hosts.join(" "),
            look.sought
        ));
        self.outcome.finds += 1;
        let theirs: BTreeSet<&(PublicKey, AgentId)> = self.loose.iter().flat_map(|loose| &loose.agents).collect();
        let found = look.found.iter().filter(|(agent, node)| theirs.contains(&(*node, agent.clone())));
        self.outcome.of_adversaries += found.count();
        if look.calm && !look.living.is_empty() {
            self.outcome.findable += 1;
            if look.living.iter().any(|node| look.found.iter().any(|(_, found)| found == node)) {
                self.outcome.found += 1;
                self.outcome.took_ms.push(took_ms);
            }
        }
        if let Some(what) = look.sought.as_ref().and_then(too_much) {
            self.outcome.violations.push(Violation { invariant: "finds.bounds", at_ms: look.ended_ms, what });
        }
        self.check(look.ended_ms, |invariant, truth| invariant.check(&look, truth));
    }

    /// Looks at what the nodes that are there keep for others, when all is over.
    pub(super) fn judge_kept(&mut self) {
        for number in self.there() {
            let holder = key(number + 1).public();
            for (under, bytes) in self.net.values(holder) {
                self.outcome.values += 1;
                self.check(self.scenario.for_ms, |invariant, _| invariant.check_kept(holder, under, &bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_asks_too_many_or_takes_too_long_is_a_violation() {
        let good = Sought { asked: ASKED_MAX, took: TOOK_MAX, ..Sought::default() };
        assert_eq!(too_much(&good), None);
        assert!(too_much(&Sought { asked: ASKED_MAX + 1, ..good.clone() }).is_some());
        assert!(too_much(&Sought { took: TOOK_MAX + Duration::from_millis(1), ..good }).is_some());
    }
}

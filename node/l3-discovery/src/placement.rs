//! This node's own placement: what it says to whom, signed.

use althing_protocol::Authored;
use althing_protocol::object::{self, Health, Hosted, Placement};
use althing_td::Exposure;

use crate::machine::catalogue::{Candidate, Learned};
use crate::machine::rank::{Holder, Rank, Source, TrustRelation};
use crate::state::{PublishedPlacement, Shared, State};

/// From this load on a node says that it would rather not have more: who asks it waits for others.
const BUSY_PERMILLE: u16 = 800;

impl Shared {
    /// A new placement of this node with what `sees` lets through.
    pub(crate) fn placement(&self, state: &mut State, sees: impl Fn(Exposure) -> bool) -> Authored<Placement> {
        let content = self.content(state, sees);
        self.sign(state, content)
    }

    /// Signs a placement of this content, with a new sequence and the present time.
    fn sign(&self, state: &mut State, mut placement: Placement) -> Authored<Placement> {
        state.sequence += 1;
        (placement.sequence, placement.issued_at_ms) = (state.sequence, self.clock.now_ms());
        object::sign(placement, &self.config.network, "", &self.key)
            .expect("a placement of our own keeps its own limits")
    }

    /// The content of this node's placement for those who may see what `sees` lets through; no sequence, no time.
    fn content(&self, state: &State, sees: impl Fn(Exposure) -> bool) -> Placement {
        let ttl_ms = u64::try_from(self.config.ttl.as_millis()).unwrap_or(u64::MAX);
        let mut placement = Placement::new(self.key.public(), 0, 0, ttl_ms);
        let facts = (self.facts)();
        placement.load_permille = facts.load_permille.min(1_000);
        placement.machine = facts.machine;
        let busy = facts.load_permille >= BUSY_PERMILLE;
        placement.health = if state.health == Health::Healthy && busy { Health::Busy } else { state.health };
        let seen = state.local.values().filter(|local| sees(local.exposure));
        let hosted = seen.map(|local| {
            let (description, grant) = local.verified.digests();
            Hosted { agent: local.verified.agent.clone(), description, grant }
        });
        placement.agents = hosted.take(althing_protocol::limits::PLACEMENT_AGENTS_MAX).collect();
        let loads = placement.agents.iter().map(|hosted| facts.loads.get(hosted.agent.name()).copied());
        placement.loads = loads.collect();
        let successes = placement.agents.iter().map(|hosted| facts.successes.get(hosted.agent.name()).copied());
        let successes: Vec<Option<u8>> = successes.collect();
        placement.successes = successes.iter().any(Option::is_some).then_some(successes);
        placement
    }

    /// Puts this node's own agents, hidden ones too, into its own catalogue.
    pub(crate) fn refresh_own(&self) {
        let now = self.now();
        let mut state = self.lock();
        let placement = self.placement(&mut state, |_| true);
        let own = self.key.public();
        let source = Source { rank: Rank::Own, holder: Holder::Node(own) };
        match state.catalogue.place(now, &placement, Learned::Local, source) {
            Ok(wanted) => {
                for hosted in wanted {
                    let Some(local) = state.local.get(&hosted.agent) else { continue };
                    let candidate =
                        Candidate { verified: local.verified.clone(), description: local.description.clone() };
                    if let Err(reason) = state.catalogue.admit(candidate, Rank::Own) {
                        tracing::error!(agent = %hosted.agent, %reason, "this node's own agent was refused");
                    }
                }
            }
            Err(reason) => tracing::error!(%reason, "this node's own placement was refused"),
        }
    }

    /// Brings the placement that peers of that relation get up to date, with a higher sequence than that of the last.
    pub(crate) fn publish(&self, state: &mut State, relation: TrustRelation) {
        let content = self.content(state, |exposure| seen(exposure, relation));
        let bytes = self.sign(state, content.clone()).bytes;
        state.published[relation.place()].renew(content, bytes);
    }

    /// Brings the placements of all relations up to date. One is signed anew when its content has changed, and when whoever
    /// gets it needs a higher sequence than that of the last (`anew`); those with the same content share a signature.
    pub(crate) fn publish_all(&self, state: &mut State, anew: bool) {
        let mut signed: Vec<(Placement, Vec<u8>)> = Vec::new();
        for relation in TrustRelation::ALL {
            let content = self.content(state, |exposure| seen(exposure, relation));
            if !anew && state.published[relation.place()].content.as_ref() == Some(&content) {
                continue;
            }
            let same = signed.iter().find(|(of, _)| *of == content).map(|(_, bytes)| bytes.clone());
            let bytes = same.unwrap_or_else(|| {
                let bytes = self.sign(state, content.clone()).bytes;
                signed.push((content.clone(), bytes.clone()));
                bytes
            });
            state.published[relation.place()].renew(content, bytes);
        }
    }
}

impl PublishedPlacement {
    fn renew(&mut self, content: Placement, bytes: Vec<u8>) {
        self.version += u64::from(self.content.as_ref() != Some(&content));
        (self.content, self.bytes) = (Some(content), bytes);
    }
}

/// May a peer of that relation know of an agent?
pub(crate) fn seen(exposure: Exposure, relation: TrustRelation) -> bool {
    match exposure {
        Exposure::Public => true,
        Exposure::Trusted => relation != TrustRelation::Stranger,
        Exposure::Own => relation == TrustRelation::Own,
        Exposure::Hidden => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_relation_sees_what_it_may() {
        let see = |exposure| TrustRelation::ALL.map(|relation| seen(exposure, relation));
        assert_eq!(see(Exposure::Public), [true, true, true]);
        assert_eq!(see(Exposure::Trusted), [true, true, false]);
        assert_eq!(see(Exposure::Own), [true, false, false]);
        assert_eq!(see(Exposure::Hidden), [false, false, false]);
    }
}

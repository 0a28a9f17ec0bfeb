//! What this node says of itself.

use althing_protocol::Authored;
use althing_protocol::object::{self, Health, Hosted, Placement};
use althing_td::Exposure;

use crate::machine::catalogue::{Candidate, Learned};
use crate::machine::room::{Holder, Rank, Source};
use crate::service::{Discovery, State};

/// From this load on a node says that it would rather not have more: who asks it waits for others.
const BUSY_PERMILLE: u16 = 800;

/// The placement that some peers are told, as it was signed last.
#[derive(Default)]
pub(crate) struct Told {
    /// What it says, without when and in which order.
    says: Option<Placement>,
    /// Rises whenever it says something else.
    pub version: u64,
    pub bytes: Vec<u8>,
}

impl Discovery {
    /// A new placement of this node with what `sees` lets through.
    pub(crate) fn placement(&self, state: &mut State, sees: impl Fn(Exposure) -> bool) -> Authored<Placement> {
        let says = self.says(state, sees);
        self.sign(state, says)
    }

    /// What a placement says, signed now.
    fn sign(&self, state: &mut State, mut placement: Placement) -> Authored<Placement> {
        state.sequence += 1;
        (placement.sequence, placement.issued_at_ms) = (state.sequence, self.shared.clock.now_ms());
        object::sign(placement, &self.shared.config.network, "", &self.shared.key)
            .expect("a placement of our own keeps its own limits")
    }

    /// What a placement of this node says to those for whom `sees` holds; not when, nor in which order.
    fn says(&self, state: &State, sees: impl Fn(Exposure) -> bool) -> Placement {
        let ttl_ms = u64::try_from(self.shared.config.ttl.as_millis()).unwrap_or(u64::MAX);
        let mut placement = Placement::new(self.shared.key.public(), 0, 0, ttl_ms);
        let facts = (self.shared.facts)();
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
        placement
    }

    /// Puts this node's own agents, hidden ones too, into its own catalogue.
    pub(crate) fn refresh_own(&self) {
        let now = self.now();
        let mut state = self.lock();
        let placement = self.placement(&mut state, |_| true);
        let own = self.shared.key.public();
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

    /// Makes up to date what peers are told, trusted ones or others. It is signed anew when it says something else than
    /// before, and when whoever gets it wants a higher sequence than that of the last (`anew`).
    pub(crate) fn say(&self, state: &mut State, trusted: bool, anew: bool) {
        let says = self.says(state, |exposure| seen(exposure, trusted));
        let told = &state.told[usize::from(trusted)];
        let differs = told.says.as_ref() != Some(&says);
        if differs || anew {
            let version = told.version + u64::from(differs);
            let bytes = self.sign(state, says.clone()).bytes;
            state.told[usize::from(trusted)] = Told { says: Some(says), version, bytes };
        }
    }
}

/// May a peer know of an agent?
pub(crate) fn seen(exposure: Exposure, trusted: bool) -> bool {
    match exposure {
        Exposure::Public => true,
        Exposure::Trusted => trusted,
        Exposure::Hidden => false,
    }
}

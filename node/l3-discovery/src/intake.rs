//! Taking in what other nodes say of themselves: their placements, and the evidence for the agents in them.

use std::sync::Arc;

use althing_communication::Request;
use althing_protocol::PublicKey;
use althing_protocol::object::{self, Health, Hosted, Placement};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::DESCRIBE;
use crate::evidence::EvidenceError;
use crate::machine::catalogue::{Learned, PlacementRefused};
use crate::state::Shared;

/// An agent whose evidence was invalid is not asked for again within this, unless it changes.
const BACK_OFF_MS: u64 = 60_000;
/// One whose evidence was of something that its node did not host any more, within this.
const CHANGED_MS: u64 = 4_000;

/// Why a placement is not taken.
pub(crate) enum PlacementError {
    /// A newer one is known, and what this one says is hosted.
    Stale { reason: String, hosted: Vec<Hosted> },
    /// It is invalid.
    Invalid(String),
}

/// What the events of one subscription said until now.
#[derive(Debug, Default)]
pub(crate) struct EventRecord {
    /// What the last placement among them says is hosted, if one came.
    hosted: Option<Vec<Hosted>>,
    /// Whether the last of them says that something else is hosted than what is believed.
    is_contradicted: bool,
}

/// Why an agent's evidence did not come into the catalogue.
enum FetchError {
    /// Its node did not answer.
    Call(String),
    /// The evidence is invalid.
    Invalid(String),
    /// The evidence is of something that its node does not host now.
    NotHosted(String),
    /// The verification budget of its node's origin is spent for now.
    OverBudget,
}

/// Takes placements into the catalogue and fetches the evidence that is missing.
#[derive(Clone)]
pub(crate) struct Intake(pub Arc<Shared>);

impl Intake {
    /// Takes a peer's placement, and fetches what is new in it; gives what it says is hosted.
    pub fn take(&self, caller: PublicKey, bytes: &[u8]) -> Result<Vec<Hosted>, PlacementError> {
        let shared = &self.0;
        let refused = |reason: String| {
            shared.lock().refused += 1;
            shared.communication.log_refusal(caller, "placement", &reason);
            PlacementError::Invalid(reason)
        };
        let placement =
            object::open::<Placement>(bytes, &shared.config.network, "").map_err(|error| refused(error.to_string()))?;
        if placement.body.node != caller {
            return Err(refused(format!("{caller} pushed the placement of {}", placement.body.node)));
        }
        let (now, source) = (shared.now(), shared.source(caller));
        let placed = shared.lock().catalogue.place(now, &placement, Learned::Push, source);
        let wanted = placed.map_err(|error| match error {
            PlacementRefused::Stale { .. } => {
                PlacementError::Stale { reason: error.to_string(), hosted: placement.body.agents.clone() }
            }
            error => refused(error.to_string()),
        })?;
        if placement.body.health == Health::Leaving {
            let mut state = shared.lock();
            state.fetching.remove(&caller);
            state.known.left(caller);
        }
        self.fetch_wanted(caller, wanted);
        Ok(placement.body.agents)
    }

    /// Takes an event of a subscription: a placement, or nothing when the last one still holds. False when the events are of no use: this
    /// one is, or the second that says something else than what is believed, which came from another node with the same key then.
    pub fn handle_event(&self, node: PublicKey, event: &[u8], said: &mut EventRecord) -> bool {
        if !event.is_empty() {
            match self.take(node, event) {
                Ok(taken) => {
                    *said = EventRecord { hosted: Some(taken), is_contradicted: false };
                    return true;
                }
                Err(PlacementError::Invalid(_)) => return false,
                // What was pushed or asked for meanwhile is newer, or comes from another node with the same key.
                Err(PlacementError::Stale { hosted, .. }) => said.hosted = Some(hosted),
            }
        }
        let (now, rank) = (self.0.now(), self.0.rank(node));
        let (renewed, is_known) = {
            let mut state = self.0.lock();
            let renewed = state.catalogue.renew(now, node, rank, said.hosted.as_deref());
            (renewed, state.catalogue.node(node).is_some())
        };
        let Some(wanted) = renewed else {
            // One event may be overtaken; the next one of the same node is newer again.
            let was_contradicted = std::mem::replace(&mut said.is_contradicted, true);
            return is_known && !was_contradicted;
        };
        said.is_contradicted = false;
        self.fetch_wanted(node, wanted);
        true
    }

    fn fetch_wanted(&self, node: PublicKey, wanted: Vec<Hosted>) {
        if wanted.is_empty() {
            return;
        }
        let most = self.0.config.fetches_per_node;
        let slots = self.0.lock().fetching.entry(node).or_insert_with(|| Arc::new(Semaphore::new(most))).clone();
        // One round of fetches at a time: the next heartbeat asks again for what this one leaves.
        if slots.available_permits() == most {
            tokio::spawn(self.clone().fetch_all(node, wanted, slots));
        }
    }

    async fn fetch_all(self, node: PublicKey, wanted: Vec<Hosted>, slots: Arc<Semaphore>) {
        let fetches = wanted.iter().map(|hosted| async {
            let Ok(_permit) = slots.acquire().await else { return };
            match self.fetch(node, hosted).await {
                // The rest is asked for with the first heartbeat that finds budget again.
                Ok(()) | Err(FetchError::OverBudget) => {}
                Err(FetchError::Call(reason)) => tracing::debug!(%node, agent = %hosted.agent, reason, "not described"),
                Err(FetchError::NotHosted(reason)) => self.refuse(node, hosted, &reason, CHANGED_MS),
                Err(FetchError::Invalid(reason)) => self.refuse(node, hosted, &reason, BACK_OFF_MS),
            }
        });
        futures::future::join_all(fetches).await;
    }

    /// The evidence of an agent is refused, and not asked for again for so long.
    fn refuse(&self, node: PublicKey, hosted: &Hosted, reason: &str, for_ms: u64) {
        let shared = &self.0;
        shared.communication.log_refusal(node, "evidence", &format!("{}: {reason}", hosted.agent));
        let until_ms = shared.now().monotonic_ms + for_ms;
        let mut state = shared.lock();
        state.refused += 1;
        state.catalogue.back_off(node, hosted, until_ms);
    }

    async fn fetch(&self, node: PublicKey, hosted: &Hosted) -> Result<(), FetchError> {
        let shared = &self.0;
        if !shared.may_verify(node) {
            return Err(FetchError::OverBudget);
        }
        let body = minicbor::to_vec(&hosted.agent).expect("writing to a vector cannot fail");
        let asking = shared.communication.call(node, DESCRIBE, Request::new("describe", body));
        let answer = timeout(shared.config.fetch_timeout, asking).await;
        let answer = answer.map_err(|_| FetchError::Call("no answer in time".to_owned()))?;
        let answer = answer.map_err(|error| FetchError::Call(error.to_string()))?;
        let accepted = shared.accept_evidence(node, Some(&hosted.agent), &answer);
        accepted.map(drop).map_err(|error| match error {
            EvidenceError::OverBudget => FetchError::OverBudget,
            EvidenceError::NotHosted(reason) => FetchError::NotHosted(reason),
            EvidenceError::Invalid(reason) => FetchError::Invalid(reason),
        })
    }
}

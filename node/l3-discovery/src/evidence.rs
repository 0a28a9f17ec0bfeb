//! Evidence for agents: verifying what other nodes show, and showing that of this node's own agents.

use std::sync::Arc;

use althing_protocol::inquiry::{Inquiry, Testimony};
use althing_protocol::keyring::KeyringError;
use althing_protocol::limits::{BODY_BYTES_MAX, INQUIRY_AGENTS_MAX};
use althing_protocol::object::{self, Placement};
use althing_protocol::{AgentId, Evidence, PublicKey, VerifiedAgent};
use althing_td::{Description, Strictness};
use minicbor::bytes::ByteVec;

use crate::machine::catalogue::{AdmitRefused, Candidate, Learned, PlacementRefused};
use crate::machine::query::Query;
use crate::machine::rank::Rank;
use crate::machine::verification_budget;
use crate::placement::seen;
use crate::state::Shared;

/// Bytes of an answer that are not evidence: the placement of 500 agents and the frame of the message.
const PLACEMENT_BYTES: usize = 128 << 10;

/// Why evidence is not accepted.
#[derive(Debug)]
pub(crate) enum EvidenceError {
    /// The verification budget of its node's origin is spent for now.
    OverBudget,
    /// It holds, but its node does not say now that it hosts that: what it says has changed meanwhile, or comes from another node
    /// with the same key.
    NotHosted(String),
    /// It is invalid.
    Invalid(String),
}

fn invalid(reason: impl std::fmt::Display) -> EvidenceError {
    EvidenceError::Invalid(reason.to_string())
}

/// The part of an inquiry that capabilities must match.
fn query(inquiry: &Inquiry) -> Query {
    Query {
        capability: inquiry.capability.clone(),
        action: inquiry.action.clone(),
        target: inquiry.target.clone(),
        ..Query::default()
    }
}

impl Shared {
    /// Takes a node's answer to an inquiry into the catalogue; gives how many agents it proved that match the inquiry. Others
    /// do not count: whoever shows them would end a search that has found nothing.
    pub(crate) fn accept_testimony(&self, node: PublicKey, inquiry: &Inquiry, answer: &[u8]) -> Result<usize, String> {
        let testimony = Testimony::decode(answer).map_err(|error| error.to_string())?;
        let placement = object::open::<Placement>(&testimony.placement, &self.config.network, "");
        let placement = placement.map_err(|error| error.to_string())?;
        if placement.body.node != node {
            return Err(format!("{node} showed the placement of {}", placement.body.node));
        }
        let now = self.now();
        let source = self.source(node);
        let placed = self.lock().catalogue.place(now, &placement, Learned::Asked, source);
        match placed {
            // It pushed a newer one meanwhile.
            Ok(_) | Err(PlacementRefused::Stale { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
        let query = query(inquiry);
        let matches = |candidate: &Candidate| {
            inquiry.agent.as_ref().is_none_or(|wanted| *wanted == candidate.verified.agent)
                && query.matches(candidate.description.capabilities())
        };
        let mut matching = 0;
        for evidence in &testimony.evidence {
            match self.accept_evidence(node, None, evidence) {
                Ok(candidate) => matching += usize::from(matches(&candidate)),
                // The rest is fetched once the node's origin has budget again.
                Err(EvidenceError::OverBudget) => break,
                Err(EvidenceError::NotHosted(reason) | EvidenceError::Invalid(reason)) => return Err(reason),
            }
        }
        Ok(matching)
    }

    /// Verifies the evidence for an agent of `node`, which is `expected` where one was asked for, and takes it into the
    /// catalogue.
    ///
    /// # Errors
    /// See [`EvidenceError`].
    pub(crate) fn accept_evidence(
        &self,
        node: PublicKey,
        expected: Option<&AgentId>,
        bytes: &[u8],
    ) -> Result<Candidate, EvidenceError> {
        let evidence = Evidence::decode(bytes).map_err(invalid)?;
        self.pay(node, verification_budget::cost(evidence.key_log.len(), bytes.len()))?;
        let agent = match expected {
            Some(agent) => agent.clone(),
            None => evidence.described(&self.config.network).map_err(invalid)?,
        };
        let now_ms = self.clock.now_ms();
        let verified = evidence.verify(&self.config.network, &agent, node, now_ms).map_err(invalid)?;
        self.check_keys(&verified, now_ms).map_err(invalid)?;
        let description = Description::parse_shared(verified.description.body.td.clone(), Strictness::Own);
        let description = description.map_err(invalid)?;
        if description.id() != Some(agent.to_string().as_str()) {
            return Err(EvidenceError::Invalid(format!("its description is about {:?}", description.id())));
        }
        let candidate = Candidate { verified: Arc::new(verified), description: Arc::new(description) };
        let publisher = self.publisher_rank(&agent);
        self.lock().catalogue.admit(candidate.clone(), publisher).map_err(|refused| match refused {
            AdmitRefused::NotHosted => EvidenceError::NotHosted(refused.to_string()),
            refused => invalid(refused),
        })?;
        Ok(candidate)
    }

    /// Is an agent valid by all key events that are known here, those of its own key log included?
    fn check_keys(&self, agent: &VerifiedAgent, now_ms: u64) -> Result<(), KeyringError> {
        let keys = self.communication.keys();
        match keys.learn_with_agent(agent.key_log.clone(), &self.communication.origin(agent.node)) {
            // Without room to keep the log, the one that is shown counts.
            Ok(_) | Err(KeyringError::Full) => {}
            Err(forked) => return Err(forked),
        }
        keys.holds(agent, now_ms)
    }

    /// Has that node's origin budget left for the verification of evidence? Own and trusted nodes need none.
    pub(crate) fn may_verify(&self, node: PublicKey) -> bool {
        let (source, now_ms) = (self.source(node), self.now().monotonic_ms);
        source.rank <= Rank::Trusted || self.lock().verification_budget.has(source.holder, now_ms)
    }

    /// Charges a node's origin for a verification; own and trusted nodes are not charged.
    fn pay(&self, node: PublicKey, cost: u64) -> Result<(), EvidenceError> {
        let (source, now_ms) = (self.source(node), self.now().monotonic_ms);
        let pays = source.rank > Rank::Trusted;
        if pays && !self.lock().verification_budget.take(source.holder, cost, now_ms) {
            return Err(EvidenceError::OverBudget);
        }
        Ok(())
    }

    /// Answers an inquiry with the placement and the evidence that `caller` may see.
    pub(crate) fn testify(&self, caller: PublicKey, body: &[u8]) -> Result<Vec<u8>, String> {
        let inquiry = Inquiry::decode(body).map_err(|error| error.to_string())?;
        let query = query(&inquiry);
        let relation = self.relation(caller);
        let (placement, matching) = {
            let mut state = self.lock();
            let placement = self.placement(&mut state, |exposure| seen(exposure, relation));
            let matching = state.local.iter().filter(|(id, local)| {
                seen(local.exposure, relation)
                    && inquiry.agent.as_ref().is_none_or(|wanted| wanted == *id)
                    && query.matches(local.description.capabilities())
            });
            let verified = matching.map(|(_, local)| local.verified.clone());
            (placement, verified.take(INQUIRY_AGENTS_MAX).collect::<Vec<_>>())
        };
        // Encoded without the lock.
        let mut room = BODY_BYTES_MAX - PLACEMENT_BYTES;
        let mut evidence: Vec<ByteVec> = Vec::new();
        for verified in matching {
            let bytes = verified.evidence().encode();
            if bytes.len() + 16 > room {
                break;
            }
            room -= bytes.len() + 16;
            evidence.push(bytes.into());
        }
        Ok(Testimony { placement: placement.bytes.into(), evidence }.encode())
    }

    /// The evidence for an agent that this node hosts, if `caller` may see it.
    pub(crate) fn own_evidence(&self, caller: PublicKey, body: &[u8]) -> Result<Vec<u8>, String> {
        althing_protocol::cbor::check(body, 1_024).map_err(|error| error.to_string())?;
        let agent: AgentId = minicbor::decode(body).map_err(|error| error.to_string())?;
        let relation = self.relation(caller);
        let verified = {
            let state = self.lock();
            let local = state.local.get(&agent).filter(|local| seen(local.exposure, relation));
            local.map(|local| local.verified.clone())
        };
        // Encoded without the lock.
        verified.map(|verified| verified.evidence().encode()).ok_or_else(|| format!("{agent} is not hosted here"))
    }
}

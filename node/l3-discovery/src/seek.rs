//! Looking beyond the nodes that are heard of: the table tells who may have what is looked for, and they are asked.
//! Nothing is found before its node has confirmed it and its evidence was verified.

use std::collections::BTreeSet;
use std::sync::Arc;

use althing_communication::dial_addresses::is_far;
use althing_communication::{Provider, Request};
use althing_protocol::inquiry::{Inquiry, Testimony};
use althing_protocol::limits::{BODY_BYTES_MAX, INQUIRY_AGENTS_MAX};
use althing_protocol::object::{self, Placement};
use althing_protocol::record::{RecordKey, Value};
use althing_protocol::{AgentId, Evidence, PublicKey};
use althing_td::{Description, Strictness};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use minicbor::bytes::ByteVec;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::PLACEMENTS;
use crate::machine::catalogue::{Candidate, Learned, PlacementRefused};
use crate::machine::query::{Explanation, Found, Query, Sought};
use crate::machine::room::Rank;
use crate::machine::{allowance, announce};
use crate::service::Discovery;

/// Bytes of an answer that are not evidence: the placement of 500 agents and the frame of the message.
const PLACEMENT_BYTES: usize = 128 << 10;

/// How one candidate answered.
enum Asked {
    /// It has this many of what is looked for.
    Has(usize),
    /// It was not reached, or did not answer.
    Silent,
    /// It answered what does not hold.
    Refused,
}

/// Why evidence is not taken.
#[derive(Debug)]
pub(crate) enum Disbelief {
    /// Its node has shown as much as is verified for it for now.
    Later,
    /// It does not hold.
    Wrong(String),
}

fn wrong(reason: impl std::fmt::Display) -> Disbelief {
    Disbelief::Wrong(reason.to_string())
}

impl Discovery {
    /// What `query` finds here and, where it names a capability, an action or a target, on nodes that were not heard
    /// of.
    pub async fn seek(&self, query: &Query) -> (Vec<Found>, Explanation) {
        let sought = match announce::sought(&self.shared.config.network, query) {
            Some((key, inquiry)) if self.knows_strangers() => {
                let fresh_ms = self.fresh_ms();
                let known = self.find(query).0.iter().any(|found| found.heard_ms_ago <= fresh_ms);
                Some(self.search(key, inquiry, known).await)
            }
            _ => None,
        };
        let (found, mut why) = self.find(query);
        why.sought = sought;
        (found, why)
    }

    /// The nodes that host an agent; they are looked for when none is known.
    pub async fn seek_hosts(&self, agent: &AgentId) -> Vec<PublicKey> {
        let known = self.hosts(agent);
        if !known.is_empty() || !self.knows_strangers() {
            return known;
        }
        let key = RecordKey::agent(&self.shared.config.network, agent);
        let inquiry = Inquiry { agent: Some(agent.clone()), ..Inquiry::default() };
        self.search(key, inquiry, false).await;
        self.hosts(agent)
    }

    /// Connects to a node that is not connected any more: where the table knows it to be, or else where it said last that
    /// it can be dialled. False when that does not succeed.
    pub async fn reach(&self, node: PublicKey) -> bool {
        let network = self.shared.communication.network();
        if network.dial(Some(node), Vec::new()).await.is_ok() {
            return true;
        }
        let (sender, mut heard) = mpsc::channel(althing_communication::routing::RESULTS);
        let key = RecordKey::contact(&self.shared.config.network, node);
        // What was heard until then counts.
        let _ = timeout(self.shared.config.lookup_patience, network.routing().get(key, sender)).await;
        let now_ms = self.shared.clock.now_ms();
        let values = std::iter::from_fn(|| heard.try_recv().ok());
        let contacts = values.filter_map(|bytes| match Value::open(key, &bytes, &self.shared.config.network, now_ms) {
            Ok(Value::Contact(contact)) => Some(contact.body),
            _ => None,
        });
        let newest = self.lock().contacts.newest(contacts);
        let Some(newest) = newest else { return false };
        network.dial(Some(node), newest.addresses).await.is_ok()
    }

    /// May there be nodes that are not heard of? Where all nodes of the table are, and none is beyond this node's own
    /// network, nothing is left to be looked for: those behind routers are in no table.
    fn knows_strangers(&self) -> bool {
        let network = self.shared.communication.network();
        if network.peers().iter().any(|info| is_far(&info.address)) {
            return true;
        }
        let nodes = network.routing().nodes();
        let (now_ms, fresh_ms) = (self.now().monotonic_ms, self.fresh_ms());
        let state = self.lock();
        nodes.iter().any(|node| !state.catalogue.knows(*node, now_ms, fresh_ms))
    }

    /// Who was heard within this is not forgotten before a search ends; who was not is asked again.
    fn fresh_ms(&self) -> u64 {
        u64::try_from(self.shared.config.ttl.as_millis() / 2).unwrap_or(u64::MAX)
    }

    /// `known`: something of that kind is known already, and is shown in any case.
    async fn search(&self, key: RecordKey, inquiry: Inquiry, known: bool) -> Sought {
        let config = &self.shared.config;
        let begun = Instant::now();
        let mut sought = Sought::default();
        let (sender, mut heard) = mpsc::channel(althing_communication::routing::RESULTS);
        let network = self.shared.communication.network();
        let looking = timeout(config.lookup_patience, network.routing().providers(key, sender));
        tokio::pin!(looking);
        let mut looked = false;
        let mut asked = BTreeSet::new();
        // How many of them the table named.
        let (mut named, mut peers_asked) = (0, false);
        let mut answers = FuturesUnordered::new();
        let mut end = begun + config.lookup_patience + config.first_patience;
        loop {
            if known || sought.confirmed > 0 {
                // Who has something to show does not wait for the last straggler.
                end = end.min(begun + config.enough);
            }
            if looked && heard.is_empty() && answers.is_empty() {
                let nothing = !known && sought.confirmed == 0;
                let peers = if nothing && !peers_asked { self.peers_to_ask(&mut asked) } else { Vec::new() };
                if peers.is_empty() {
                    break;
                }
                // Whoever surrounds a key hides what is under it, and not what a peer says of itself.
                peers_asked = true;
                end = Instant::now() + config.ask_patience;
                let peers = peers.into_iter().map(|node| Provider { node, addresses: Vec::new() });
                peers.for_each(|peer| answers.push(self.ask(peer, &inquiry)));
            }
            tokio::select! {
                biased;
                Some(provider) = heard.recv(), if named < config.candidates_max => {
                    if self.worth_asking(provider.node) && asked.insert(provider.node) {
                        named += 1;
                        answers.push(self.ask(provider, &inquiry));
                    }
                }
                Some(answer) = answers.next(), if !answers.is_empty() => sought.count(&answer),
                outcome = &mut looking, if !looked => {
                    looked = true;
                    if let Ok(Ok(stats)) = outcome {
                        (sought.requests, sought.answered) = (stats.requests, stats.answered);
                    }
                    sought.lookup = begun.elapsed();
                    let patience = if known || sought.confirmed > 0 { config.ask_patience } else { config.first_patience };
                    end = end.min(Instant::now() + patience);
                }
                () = sleep_until(end) => break,
            }
        }
        if !looked {
            sought.lookup = begun.elapsed();
        }
        sought.silent += answers.len();
        sought.asked = asked.len();
        sought.took = begun.elapsed();
        sought
    }

    /// Who is heard of has said what it has, unless it was asked for something else.
    fn worth_asking(&self, node: PublicKey) -> bool {
        let (now_ms, fresh_ms) = (self.now().monotonic_ms, self.fresh_ms());
        node != self.shared.key.public() && !self.lock().catalogue.knows(node, now_ms, fresh_ms)
    }

    /// Connected peers that are asked although the table did not name them: others each time.
    fn peers_to_ask(&self, asked: &mut BTreeSet<PublicKey>) -> Vec<PublicKey> {
        let peers = self.shared.communication.network().connected();
        let after = self.lock().asked_last;
        let around = peers.iter().filter(|peer| Some(**peer) > after).chain(&peers);
        let mut some = Vec::new();
        for peer in around.copied().filter(|peer| self.worth_asking(*peer)) {
            if some.len() < self.shared.config.peers_asked_max && asked.insert(peer) {
                some.push(peer);
            }
        }
        if let Some(last) = some.last() {
            self.lock().asked_last = Some(*last);
        }
        some
    }

    async fn ask(&self, provider: Provider, inquiry: &Inquiry) -> Asked {
        let network = self.shared.communication.network();
        let node = provider.node;
        if let Err(reason) = network.dial(Some(node), provider.addresses).await {
            tracing::debug!(%node, %reason, "candidate not reached");
            return Asked::Silent;
        }
        let mut request = Request::new("find", inquiry.encode());
        request.deadline = Some(self.shared.config.fetch_timeout);
        let answer = match self.shared.communication.call(node, PLACEMENTS, request).await {
            Ok(answer) => answer,
            Err(reason) => {
                tracing::debug!(%node, %reason, "candidate did not answer");
                return Asked::Silent;
            }
        };
        match self.believe_all(node, &answer) {
            Ok(agents) => Asked::Has(agents),
            Err(reason) => {
                self.lock().refused += 1;
                self.shared.communication.log_refusal(node, "candidate", &reason);
                Asked::Refused
            }
        }
    }

    /// Takes what a node answered into the catalogue; gives how many agents.
    fn believe_all(&self, node: PublicKey, answer: &[u8]) -> Result<usize, String> {
        let testimony = Testimony::decode(answer).map_err(|error| error.to_string())?;
        let placement = object::open::<Placement>(&testimony.placement, &self.shared.config.network, "");
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
        let mut believed = 0;
        for evidence in &testimony.evidence {
            match self.believe(node, None, evidence) {
                Ok(()) => believed += 1,
                // What is left is fetched when it is its turn again.
                Err(Disbelief::Later) => break,
                Err(Disbelief::Wrong(reason)) => return Err(reason),
            }
        }
        Ok(believed)
    }

    /// Verifies the evidence for an agent of `node`, for `expected` where that was asked for, and takes it into the
    /// catalogue.
    ///
    /// # Errors
    /// See [`Disbelief`].
    pub(crate) fn believe(&self, node: PublicKey, expected: Option<&AgentId>, bytes: &[u8]) -> Result<(), Disbelief> {
        let evidence = Evidence::decode(bytes).map_err(wrong)?;
        self.pay(node, allowance::cost(evidence.key_log.len(), bytes.len()))?;
        let agent = match expected {
            Some(agent) => agent.clone(),
            None => evidence.described(&self.shared.config.network).map_err(wrong)?,
        };
        let now_ms = self.shared.clock.now_ms();
        let verified = evidence.verify(&self.shared.config.network, &agent, node, now_ms);
        let verified = verified.map_err(wrong)?;
        self.heed(&verified, now_ms).map_err(wrong)?;
        let description = Description::parse_shared(verified.description.body.td.clone(), Strictness::Own);
        let description = description.map_err(wrong)?;
        if description.id() != Some(agent.to_string().as_str()) {
            return Err(Disbelief::Wrong(format!("its description is about {:?}", description.id())));
        }
        let candidate = Candidate { verified: Arc::new(verified), description: Arc::new(description) };
        let publisher = self.publisher_rank(&agent);
        self.lock().catalogue.admit(candidate, publisher).map_err(wrong)
    }

    /// May evidence of that node be verified now? Of whoever is near all may.
    pub(crate) fn may_verify(&self, node: PublicKey) -> bool {
        let (source, now_ms) = (self.source(node), self.now().monotonic_ms);
        source.rank <= Rank::Trusted || self.lock().allowance.has(source.holder, now_ms)
    }

    /// Charges a node's origin for what is verified for it, unless it is near.
    fn pay(&self, node: PublicKey, cost: u64) -> Result<(), Disbelief> {
        let (source, now_ms) = (self.source(node), self.now().monotonic_ms);
        let pays = source.rank > Rank::Trusted;
        if pays && !self.lock().allowance.take(source.holder, cost, now_ms) {
            return Err(Disbelief::Later);
        }
        Ok(())
    }

    /// Answers an inquiry with what `caller` may see.
    pub(crate) fn testify(&self, caller: PublicKey, body: &[u8]) -> Result<Vec<u8>, String> {
        let inquiry = Inquiry::decode(body).map_err(|error| error.to_string())?;
        let query = Query {
            capability: inquiry.capability,
            action: inquiry.action,
            target: inquiry.target,
            ..Query::default()
        };
        let trusted = self.trusts(caller);
        let (placement, matching) = {
            let mut state = self.lock();
            let placement = self.placement(&mut state, |exposure| crate::placement::seen(exposure, trusted));
            let matching = state.local.iter().filter(|(id, local)| {
                crate::placement::seen(local.exposure, trusted)
                    && inquiry.agent.as_ref().is_none_or(|wanted| wanted == *id)
                    && query.matches(local.description.capabilities())
            });
            let verified = matching.map(|(_, local)| local.verified.clone());
            (placement, verified.take(INQUIRY_AGENTS_MAX).collect::<Vec<_>>())
        };
        // Encoded when nobody waits for the lock any more.
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
}

impl Sought {
    fn count(&mut self, answer: &Asked) {
        match answer {
            Asked::Has(0) => self.without += 1,
            Asked::Has(_) => self.confirmed += 1,
            Asked::Silent => self.silent += 1,
            Asked::Refused => self.refused += 1,
        }
    }
}

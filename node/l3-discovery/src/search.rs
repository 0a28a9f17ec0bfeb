//! Searching beyond the nodes that are heard of: the DHT names nodes that may host what is looked for, and they are asked.
//! Nothing is found before its node has confirmed it and its evidence was verified. [`Search`] decides.

use std::sync::Arc;

use althing_communication::dial_addresses::is_far;
use althing_communication::{Provider, Request};
use althing_protocol::inquiry::Inquiry;
use althing_protocol::record::{RecordKey, Value};
use althing_protocol::{AgentId, PublicKey};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::PLACEMENTS;
use crate::hints::HINTS_MAX;
use crate::machine::publish_schedule;
use crate::machine::query::{Query, SearchReport};
use crate::machine::search::{CandidateAnswer, Search, SearchEffect, SearchInput, SearchLimits};
use crate::state::Shared;

/// Looks for agents and nodes in the network.
pub(crate) struct Searcher<'a>(pub &'a Arc<Shared>);

impl Searcher<'_> {
    /// Looks for what `query` names, if it names a capability, an action or a target; nothing for free text, and where all
    /// nodes of the network are heard of.
    pub async fn by_query(&self, query: &Query) -> Option<SearchReport> {
        let (key, inquiry) = publish_schedule::search_key(&self.0.config.network, query)?;
        if !self.may_have_unknown_nodes() {
            return None;
        }
        let fresh_ms = self.fresh_ms();
        let now_ms = self.0.now().monotonic_ms;
        let (found, _) = self.0.lock().catalogue.find(query, now_ms);
        let known = found.iter().any(|found| found.heard_ms_ago <= fresh_ms);
        Some(self.search(key, inquiry, known).await)
    }

    /// Looks for nodes that host an agent, when none is known.
    pub async fn hosts(&self, agent: &AgentId) -> Vec<PublicKey> {
        let known = self.0.lock().catalogue.hosts(agent);
        if !known.is_empty() || !self.may_have_unknown_nodes() {
            return known;
        }
        self.search_agent(agent).await;
        self.0.lock().catalogue.hosts(agent)
    }

    /// Nodes that host an agent, but for one that said that it does not any more; the network is searched where no other is known.
    pub async fn other_hosts(&self, agent: &AgentId, gone: PublicKey) -> Vec<PublicKey> {
        let others = || {
            let mut hosts = self.0.lock().catalogue.hosts(agent);
            hosts.retain(|host| *host != gone);
            hosts
        };
        let known = others();
        if !known.is_empty() || !self.may_have_unknown_nodes() {
            return known;
        }
        self.search_agent(agent).await;
        others()
    }

    /// Whether a node hosts an agent; the network is searched where that is not known.
    pub async fn host(&self, agent: &AgentId, node: PublicKey) -> bool {
        let is_known = || self.0.lock().catalogue.candidate(node, agent).is_some();
        if is_known() || !self.may_have_unknown_nodes() {
            return is_known();
        }
        self.search_agent(agent).await;
        is_known()
    }

    /// Asks the nodes that may host an agent and were not heard of.
    async fn search_agent(&self, agent: &AgentId) -> SearchReport {
        let key = RecordKey::agent(&self.0.config.network, agent);
        let inquiry = Inquiry { agent: Some(agent.clone()), ..Inquiry::default() };
        self.search(key, inquiry, false).await
    }

    /// Connects to a node that is not connected any more: at the addresses of the routing table, at those that are remembered,
    /// or else at those that the node published last. False when that does not succeed.
    pub async fn reconnect(&self, node: PublicKey) -> bool {
        let network = self.0.communication.network();
        if network.dial(Some(node), Vec::new()).await.is_ok() {
            return true;
        }
        let known = self.0.lock().known.addresses(node);
        if !known.is_empty() && network.dial(Some(node), known).await.is_ok() {
            return true;
        }
        let (sender, mut received) = mpsc::channel(althing_communication::routing::RESULTS);
        let key = RecordKey::contact(&self.0.config.network, node);
        // What was received until then counts.
        let _ = timeout(self.0.config.lookup_patience, network.routing().get(key, sender)).await;
        let now_ms = self.0.clock.now_ms();
        let values = std::iter::from_fn(|| received.try_recv().ok());
        let contacts = values.filter_map(|bytes| match Value::open(key, &bytes, &self.0.config.network, now_ms) {
            Ok(Value::Contact(contact)) => Some(contact.body),
            _ => None,
        });
        let newest = self.0.lock().contacts.newest(contacts);
        let Some(newest) = newest else { return false };
        network.dial(Some(node), newest.addresses).await.is_ok()
    }

    /// Can there be nodes that are not heard of? Where a registry may know some. Not where all nodes of the routing table are heard of and no peer is beyond
    /// this node's own network: nodes behind routers are in no table.
    fn may_have_unknown_nodes(&self) -> bool {
        let network = self.0.communication.network();
        let hinted = self.0.hints.get().is_some_and(|hints| hints.available());
        if hinted || network.peers().iter().any(|info| is_far(&info.address)) {
            return true;
        }
        let nodes = network.routing().nodes();
        let (now_ms, fresh_ms) = (self.0.now().monotonic_ms, self.fresh_ms());
        let state = self.0.lock();
        nodes.iter().any(|node| !state.catalogue.knows(*node, now_ms, fresh_ms))
    }

    /// Who was heard within this does not expire before a search ends; others are asked again.
    fn fresh_ms(&self) -> u64 {
        u64::try_from(self.0.config.ttl.as_millis() / 2).unwrap_or(u64::MAX)
    }

    fn limits(&self) -> SearchLimits {
        let config = &self.0.config;
        SearchLimits {
            lookup: config.lookup_patience,
            first_answer: config.first_patience,
            answers: config.ask_patience,
            enough: config.enough,
            candidates_max: config.candidates_max,
            peers_max: config.peers_asked_max,
        }
    }

    /// Runs one search. `known`: a match is known already.
    async fn search(&self, key: RecordKey, inquiry: Inquiry, known: bool) -> SearchReport {
        let begun = Instant::now();
        let mut search = Search::new(self.limits(), known);
        let (sender, mut candidates) = mpsc::channel(althing_communication::routing::RESULTS);
        let looking = self.look_up(key, &inquiry, sender);
        tokio::pin!(looking);
        let mut hinted = 0;
        let mut looked_up = false;
        let mut answers = FuturesUnordered::new();
        loop {
            let input = tokio::select! {
                biased;
                Some(provider) = candidates.recv() => SearchInput::Candidate(provider),
                Some(answer) = answers.next(), if !answers.is_empty() => SearchInput::Answered(answer),
                (stats, named) = &mut looking, if !looked_up => {
                    (looked_up, hinted) = (true, named);
                    SearchInput::LookedUp(stats)
                }
                () = sleep_until(begun + search.deadline()) => SearchInput::DeadlinePassed,
            };
            let mut inputs = Vec::new();
            if matches!(input, SearchInput::LookedUp(_)) {
                // Candidates that were named before the look-up ended come before its end.
                inputs.extend(std::iter::from_fn(|| candidates.try_recv().ok()).map(SearchInput::Candidate));
            }
            inputs.push(input);
            for input in inputs {
                if matches!(&input, SearchInput::Candidate(provider) if !self.is_worth_asking(provider.node)) {
                    continue;
                }
                let mut effects = search.handle(begun.elapsed(), input);
                if effects.contains(&SearchEffect::ListPeers) {
                    effects = search.handle(begun.elapsed(), SearchInput::Peers(self.peers_to_ask()));
                    self.remember_last_asked(&effects);
                }
                for effect in effects {
                    match effect {
                        SearchEffect::Ask(provider) => answers.push(self.ask(provider, &inquiry)),
                        SearchEffect::End => return SearchReport { hinted, ..search.report(begun.elapsed()) },
                        SearchEffect::ListPeers => {}
                    }
                }
            }
        }
    }

    /// Looks for candidates in the DHT, and asks for hints meanwhile. How many requests the look-up made and how many were
    /// answered, nothing when it failed or timed out; and how many nodes the hints named.
    async fn look_up(
        &self,
        key: RecordKey,
        inquiry: &Inquiry,
        candidates: mpsc::Sender<Provider>,
    ) -> (Option<(u32, u32)>, usize) {
        let (patience, routing) = (self.0.config.lookup_patience, self.0.communication.network().routing());
        let hinting = async {
            let Some(hints) = self.0.hints.get().filter(|hints| hints.available()) else { return 0 };
            let named = timeout(patience, hints.hosts(inquiry)).await.unwrap_or_default();
            let mut sent = 0;
            for provider in named.into_iter().take(HINTS_MAX) {
                // An error means that the search is over.
                sent += usize::from(candidates.send(provider).await.is_ok());
            }
            sent
        };
        let looking = timeout(patience, routing.providers(key, candidates.clone()));
        let (outcome, hinted) = futures::future::join(looking, hinting).await;
        let stats = outcome.ok().and_then(Result::ok);
        (stats.map(|stats| (stats.requests, stats.answered)), hinted)
    }

    /// A node that is heard of has said what it hosts; others are asked.
    fn is_worth_asking(&self, node: PublicKey) -> bool {
        let (now_ms, fresh_ms) = (self.0.now().monotonic_ms, self.fresh_ms());
        node != self.0.key.public() && !self.0.lock().catalogue.knows(node, now_ms, fresh_ms)
    }

    /// Connected peers that are worth asking, those first that come after the last one that was asked.
    fn peers_to_ask(&self) -> Vec<PublicKey> {
        let peers = self.0.connected();
        let after = self.0.lock().last_peer_asked;
        let around = peers.iter().filter(|peer| Some(**peer) > after).chain(&peers);
        around.copied().filter(|peer| self.is_worth_asking(*peer)).collect()
    }

    fn remember_last_asked(&self, effects: &[SearchEffect]) {
        let asked = effects.iter().rev().find_map(|effect| match effect {
            SearchEffect::Ask(provider) => Some(provider.node),
            _ => None,
        });
        if let Some(last) = asked {
            self.0.lock().last_peer_asked = Some(last);
        }
    }

    async fn ask(&self, provider: Provider, inquiry: &Inquiry) -> CandidateAnswer {
        let communication = &self.0.communication;
        let node = provider.node;
        if let Err(reason) = communication.network().dial(Some(node), provider.addresses).await {
            tracing::debug!(%node, %reason, "candidate not reached");
            return CandidateAnswer::Silent;
        }
        let mut request = Request::new("find", inquiry.encode());
        request.deadline = Some(self.0.config.fetch_timeout);
        let answer = match communication.call(node, PLACEMENTS, request).await {
            Ok(answer) => answer,
            Err(reason) => {
                tracing::debug!(%node, %reason, "candidate did not answer");
                return CandidateAnswer::Silent;
            }
        };
        match self.0.accept_testimony(node, inquiry, &answer) {
            Ok(agents) => CandidateAnswer::Has(agents),
            Err(reason) => {
                self.0.lock().refused += 1;
                communication.log_refusal(node, "candidate", &reason);
                CandidateAnswer::Invalid
            }
        }
    }
}

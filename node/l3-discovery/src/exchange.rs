//! What nodes tell each other: placements are pushed and taken, and the evidence behind them is fetched.

use std::sync::Arc;
use std::time::Duration;

use althing_communication::refusal::{INVALID_PARAMS, METHOD_NOT_FOUND, SERVER_ERROR, refusal, said};
use althing_communication::{Answer, CallError, Caller, Inbound, PeerEvent, Request, StreamError};
use althing_protocol::object::{self, Health, Hosted, Placement};
use althing_protocol::{AgentId, PublicKey};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::{Semaphore, broadcast};
use tokio::time::{interval, sleep, timeout};

use crate::machine::catalogue::{Learned, PlacementRefused};
use crate::placement::seen;
use crate::seek::Disbelief;
use crate::service::{Discovery, State};
use crate::{DESCRIBE, PLACEMENTS};

/// An agent that is not believed is not asked for again within this, unless it changes.
const SPURN_MS: u64 = 60_000;

/// Refusals of peers that are remembered.
const REFUSALS_MAX: usize = 64;
/// The reason of a refusal that means nothing: a node's own placements overtake each other.
const STALE: &str = "STALE_PLACEMENT";

/// Why a placement is not taken.
enum NotTaken {
    /// A newer one was.
    Stale(String),
    /// It does not hold.
    Refused(String),
}

/// Why an agent is not taken.
enum Refused {
    /// Its node was not heard.
    Call(String),
    /// What was heard does not do.
    Agent(String),
    /// Its node has shown as much as is verified for it for now.
    Later,
}

impl Discovery {
    pub(crate) async fn push_for_ever(self, mut events: broadcast::Receiver<PeerEvent>) {
        let mut beat = interval(self.shared.config.heartbeat);
        loop {
            tokio::select! {
                biased;
                _ = beat.tick() => {
                    self.refresh_own();
                    self.review_audience();
                    tokio::spawn(self.clone().push_all_owned());
                }
                () = self.shared.changed.notified() => { tokio::spawn(self.clone().push_all_owned()); }
                event = events.recv() => match event {
                    Ok(PeerEvent::Connected(peer)) => {
                        if self.meet(peer) {
                            tokio::spawn(self.clone().push_new(peer));
                        }
                    }
                    Ok(PeerEvent::Disconnected(peer)) => self.part_from(peer),
                    Ok(PeerEvent::Moved(_)) => {}
                    // Some who came or left were missed.
                    Err(broadcast::error::RecvError::Lagged(_)) => self.review_audience(),
                    Err(broadcast::error::RecvError::Closed) => return,
                },
            }
        }
    }

    /// A peer came. True when it is one of those who hear this node from now on.
    fn meet(&self, peer: PublicKey) -> bool {
        let infos = self.shared.communication.network().peers();
        let dialled = infos.into_iter().find(|info| info.peer == peer && info.dialled);
        let source = self.source(peer);
        let mut state = self.lock();
        let joined = state.audience.joined(peer, source);
        if let Some(info) = dialled.filter(|_| joined) {
            state.dialled.insert(peer, info.address);
        }
        drop(state);
        self.end_watches();
        joined
    }

    /// A peer spoke. Whose it is is known once it did: who is near takes a place among those who hear this node.
    pub(crate) fn hear(&self, peer: PublicKey) {
        let near = self.trusts(peer) && !self.lock().audience.contains(peer);
        if near && self.connected().contains(&peer) && self.meet(peer) {
            tokio::spawn(self.clone().push_new(peer));
        }
    }

    /// Who hears this node, by who is connected and how near they are now.
    fn review_audience(&self) {
        let connected = self.connected_sources();
        let new = self.lock().audience.review(&connected);
        self.end_watches();
        for peer in new {
            tokio::spawn(self.clone().push_new(peer));
        }
    }

    /// Those who made room for others are not told on.
    fn end_watches(&self) {
        let ended = {
            let mut state = self.lock();
            let State { watchers, audience, .. } = &mut *state;
            let before = watchers.len();
            watchers.retain(|peer, _| audience.contains(*peer));
            watchers.len() < before
        };
        if ended {
            self.shared.beaten.notify_waiters();
        }
    }

    /// A peer left. Those who heard this node, and were dialled by it, are dialled again: they were no passers-by.
    fn part_from(&self, peer: PublicKey) {
        let connected = self.connected();
        let now_ms = self.now().monotonic_ms;
        let mut state = self.lock();
        let address = state.dialled.remove(&peer);
        state.refused_by.remove(&peer);
        if !connected.contains(&peer) {
            state.watching.remove(&peer);
        }
        // Who said goodbye is not in the catalogue any more.
        let was_heard = state.catalogue.hears(peer, now_ms, u64::MAX / 2);
        if state.audience.left(peer)
            && was_heard
            && let Some(address) = address
        {
            state.dialling.lost(peer, address, now_ms);
        }
        drop(state);
        self.review_audience();
    }

    fn connected(&self) -> Vec<PublicKey> {
        self.shared.communication.network().connected()
    }

    async fn push_all_owned(self) {
        self.push_all().await;
    }

    /// To all who hear this node: an event to those who watch it, a push to the others. A peer that has not taken the last
    /// placement yet is left out: where everybody is busy, more of them would only make it worse.
    pub(crate) async fn push_all(&self) {
        let (peers, shown) = {
            let mut state = self.lock();
            let members: Vec<PublicKey> = state.audience.members().collect();
            let others = members.into_iter().filter(|peer| !state.watchers.contains_key(peer)).collect::<Vec<_>>();
            let peers: Vec<PublicKey> = others.into_iter().filter(|peer| state.pushing.insert(*peer)).collect();
            // One for those who are trusted and one for the others, and not one for each.
            for trusted in [false, true] {
                self.say(&mut state, trusted, !peers.is_empty());
            }
            state.beat += 1;
            (peers, state.told.each_ref().map(|told| told.bytes.clone()))
        };
        self.shared.beaten.notify_waiters();
        let pushes = peers.into_iter().map(|peer| {
            let bytes = shown[usize::from(self.trusts(peer))].clone();
            async move {
                self.push(peer, bytes).await;
                self.lock().pushing.remove(&peer);
            }
        });
        futures::future::join_all(pushes).await;
    }

    /// A new connection may be one of two, of which one is closed again: so a failed push is repeated soon.
    async fn push_new(self, peer: PublicKey) {
        for wait_ms in [0, 50, 200] {
            sleep(Duration::from_millis(wait_ms)).await;
            let trusted = self.trusts(peer);
            let placement = self.placement(&mut self.lock(), |exposure| seen(exposure, trusted));
            if self.push(peer, placement.bytes).await {
                return;
            }
        }
    }

    async fn push(&self, peer: PublicKey, placement: Vec<u8>) -> bool {
        let mut request = Request::new("placement", placement);
        request.deadline = Some(self.shared.config.push_timeout);
        match self.shared.communication.call(peer, PLACEMENTS, request).await {
            Ok(_) => {
                self.lock().refused_by.remove(&peer);
                true
            }
            Err(CallError::Refused { body, .. }) => {
                let (reason, message) = said(&body);
                tracing::debug!(%peer, message, "peer refused our placement");
                if reason != STALE {
                    self.note_refusal(peer, message);
                }
                true
            }
            // Another version, or another network.
            Err(CallError::Broken { reason: StreamError::Hello(reason), .. }) => {
                self.note_refusal(peer, reason.to_string());
                true
            }
            Err(reason) => {
                tracing::debug!(%peer, %reason, "placement not pushed");
                false
            }
        }
    }

    /// Why a peer does not take what this node says.
    fn note_refusal(&self, peer: PublicKey, reason: String) {
        let mut state = self.lock();
        if state.refused_by.len() < REFUSALS_MAX {
            state.refused_by.insert(peer, reason);
        }
    }

    /// A peer's placement came: takes it, and fetches what is new in it.
    fn take(&self, caller: PublicKey, bytes: &[u8]) -> Result<(), NotTaken> {
        let refused = |reason: String| {
            self.lock().refused += 1;
            self.shared.communication.log_refusal(caller, "placement", &reason);
            NotTaken::Refused(reason)
        };
        let placement = object::open::<Placement>(bytes, &self.shared.config.network, "")
            .map_err(|error| refused(error.to_string()))?;
        if placement.body.node != caller {
            return Err(refused(format!("{caller} pushed the placement of {}", placement.body.node)));
        }
        let (now, source) = (self.now(), self.source(caller));
        let placed = self.lock().catalogue.place(now, &placement, Learned::Push, source);
        let wanted = placed.map_err(|error| match error {
            PlacementRefused::Stale { .. } => NotTaken::Stale(error.to_string()),
            error => refused(error.to_string()),
        })?;
        if placement.body.health == Health::Leaving {
            self.lock().fetching.remove(&caller);
        }
        self.fetch_wanted(caller, wanted);
        Ok(())
    }

    /// A node that this one watches said something, or that what it said last still holds. False when that is of no use.
    pub(crate) fn heed_event(&self, node: PublicKey, event: &[u8]) -> bool {
        if !event.is_empty() {
            match self.take(node, event) {
                Ok(()) => return true,
                Err(NotTaken::Refused(_)) => return false,
                // What was asked meanwhile is newer.
                Err(NotTaken::Stale(_)) => {}
            }
        }
        let (now, rank) = (self.now(), self.rank(node));
        let renewed = self.lock().catalogue.renew(now, node, rank);
        let holds = renewed.is_some();
        self.fetch_wanted(node, renewed.unwrap_or_default());
        holds
    }

    fn fetch_wanted(&self, node: PublicKey, wanted: Vec<Hosted>) {
        if wanted.is_empty() {
            return;
        }
        let most = self.shared.config.fetches_per_node;
        let gate = self.lock().fetching.entry(node).or_insert_with(|| Arc::new(Semaphore::new(most))).clone();
        // A fetch is under way, and the next heartbeat asks again for what it leaves: so one round at a time.
        if gate.available_permits() == most {
            tokio::spawn(self.clone().fetch_all(node, wanted, gate));
        }
    }

    async fn fetch_all(self, node: PublicKey, wanted: Vec<Hosted>, gate: Arc<Semaphore>) {
        let fetches = wanted.iter().map(|hosted| async {
            let Ok(_permit) = gate.acquire().await else { return };
            match self.fetch(node, hosted).await {
                // What is left is asked for with the next heartbeat that comes when it is its turn again.
                Ok(()) | Err(Refused::Later) => {}
                Err(Refused::Call(reason)) => tracing::debug!(%node, agent = %hosted.agent, reason, "not described"),
                Err(Refused::Agent(reason)) => {
                    self.shared.communication.log_refusal(node, "evidence", &format!("{}: {reason}", hosted.agent));
                    let until_ms = self.now().monotonic_ms + SPURN_MS;
                    let mut state = self.lock();
                    state.refused += 1;
                    state.catalogue.spurn(node, hosted, until_ms);
                }
            }
        });
        futures::future::join_all(fetches).await;
    }

    async fn fetch(&self, node: PublicKey, hosted: &Hosted) -> Result<(), Refused> {
        if !self.may_verify(node) {
            return Err(Refused::Later);
        }
        let body = minicbor::to_vec(&hosted.agent).expect("writing to a vector cannot fail");
        let request = Request::new("describe", body);
        let asking = self.shared.communication.call(node, DESCRIBE, request);
        let answer = timeout(self.shared.config.fetch_timeout, asking).await;
        let answer = answer.map_err(|_| Refused::Call("no answer in time".to_owned()))?;
        let answer = answer.map_err(|error| Refused::Call(error.to_string()))?;
        self.believe(node, Some(&hosted.agent), &answer).map_err(|disbelief| match disbelief {
            Disbelief::Later => Refused::Later,
            Disbelief::Wrong(reason) => Refused::Agent(reason),
        })
    }

    /// Evidence for an agent that this node hosts, if `caller` may see it.
    fn evidence(&self, caller: PublicKey, body: &[u8]) -> Result<Vec<u8>, String> {
        althing_protocol::cbor::check(body, 1_024).map_err(|error| error.to_string())?;
        let agent: AgentId = minicbor::decode(body).map_err(|error| error.to_string())?;
        let trusted = self.trusts(caller);
        let verified = {
            let state = self.lock();
            let local = state.local.get(&agent).filter(|local| seen(local.exposure, trusted));
            local.map(|local| local.verified.clone())
        };
        // Encoded when nobody waits for the lock any more.
        verified.map(|verified| verified.evidence().encode()).ok_or_else(|| format!("{agent} is not hosted here"))
    }
}

/// Serves `/althing/placements/1` and `/althing/describe/1`.
pub(crate) struct Serving(pub Discovery);

impl Inbound for Serving {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let answer = match request.operation.as_str() {
            "placement" => match self.0.take(caller.node, &request.body) {
                Ok(()) => {
                    self.0.hear(caller.node);
                    self.0.watch(caller.node);
                    Ok(Vec::new())
                }
                Err(NotTaken::Stale(why)) => Err((INVALID_PARAMS, Some(STALE), why)),
                Err(NotTaken::Refused(why)) => Err((INVALID_PARAMS, None, why)),
            },
            "watch" => match self.0.tell_on(caller.node) {
                Ok(events) => return futures::future::ready(events).boxed(),
                Err(why) => Err((SERVER_ERROR, None, why)),
            },
            "find" => self.0.testify(caller.node, &request.body).map_err(|why| (INVALID_PARAMS, None, why)),
            "describe" => {
                self.0.evidence(caller.node, &request.body).map_err(|why| (SERVER_ERROR, Some("AGENT_NOT_HERE"), why))
            }
            other => Err((METHOD_NOT_FOUND, None, format!("there is no operation {other:?} here"))),
        };
        let answer = match answer {
            Ok(body) => Answer::Response(body),
            Err((code, reason, message)) => Answer::Error(refusal(code, reason, &message)),
        };
        futures::future::ready(answer).boxed()
    }
}

//! What this node has heard of keys, and passes on (SPEC P-67 to P-70): each peer that connects is asked for what it
//! knows, and what is news goes to all who are connected, so that a revoked key is refused by all who can be reached.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use althing_protocol::keyring::{Keyring, News, REFUSED_MAX, Withdrawal, decode_known, encode_known};
use althing_protocol::object::Membership;
use althing_protocol::{Authored, Digest, KeyLog, KeyLogError, KeyringError, PublicKey, VerifiedAgent, cbor};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use minicbor::bytes::ByteVec;
use tokio::sync::{broadcast, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::caller::Caller;
use crate::inbound::{Answer, Inbound};
use crate::lanes::Priority;
use crate::network::PeerEvent;
use crate::outbound;
use crate::refusal::{INVALID_PARAMS, METHOD_NOT_FOUND, refusal};
use crate::service::{Request, Shared};

/// The stream protocol on which nodes hear of keys.
pub const KEYS: &str = "/althing/keys/1";
/// One of the peers is asked again this often: what was pushed may have been lost.
const COMPARE: Duration = Duration::from_secs(8);
/// A peer that takes longer to answer is asked another time.
const PATIENCE: Duration = Duration::from_secs(4);
/// A stream may wait this long for the log that the owner's membership needs.
const LOG_PATIENCE: Duration = Duration::from_secs(2);
/// News that do not fit into one answer are asked for again.
const ROUNDS: usize = 4;

/// What is known of keys.
pub struct Keys {
    ring: Mutex<Keyring>,
    /// What was learned and not yet told to the peers.
    fresh: Mutex<BTreeSet<Digest>>,
    /// Last events of logs that were not taken: they are not asked for again.
    refused: Mutex<BTreeSet<Digest>>,
    changed: watch::Sender<u64>,
}

impl Default for Keys {
    fn default() -> Keys {
        Keys {
            ring: Mutex::default(),
            fresh: Mutex::default(),
            refused: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }
}

impl Keys {
    fn ring(&self) -> MutexGuard<'_, Keyring> {
        self.ring.lock().expect("no holder of the keyring panics")
    }

    fn fresh(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.fresh.lock().expect("no holder of the news panics")
    }

    fn refused(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.refused.lock().expect("no holder of the refusals panics")
    }

    /// What peers need not tell.
    fn known(&self) -> BTreeSet<Digest> {
        let mut known = self.ring().known();
        known.extend(self.refused().iter().copied());
        known
    }

    fn note(&self, news: bool, name: Digest) -> bool {
        if news {
            self.fresh().insert(name);
            self.changed.send_modify(|version| *version += 1);
        }
        news
    }

    /// There is always room for what these publishers do with their keys.
    pub fn watch(&self, publishers: impl IntoIterator<Item = PublicKey>) {
        self.ring().watch(publishers);
    }

    /// Those publishers, and their logs where they have changed.
    #[must_use]
    pub fn watched(&self) -> Vec<(PublicKey, Option<KeyLog>)> {
        self.ring().watched().map(|(publisher, log)| (publisher, log.cloned())).collect()
    }

    /// Takes a key log, and tells the peers what is new in it.
    ///
    /// # Errors
    /// [`KeyringError::Forked`] or [`KeyringError::Full`].
    pub fn learn(&self, log: KeyLog) -> Result<bool, KeyringError> {
        let (name, publisher, revoked) = (log.head(), log.publisher(), log.revoked());
        let news = self.ring().learn(log)?;
        if news {
            tracing::info!(%publisher, revoked, "a publisher has changed its keys");
        }
        Ok(self.note(news, name))
    }

    /// Takes a withdrawal as it was signed, and tells the peers.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn withdraw(&self, bytes: &[u8], now_ms: u64) -> Result<bool, KeyringError> {
        let news = self.ring().withdraw(bytes, now_ms)?;
        Ok(self.note(news, althing_protocol::digest(bytes)))
    }

    /// The log of a publisher that has changed its keys.
    #[must_use]
    pub fn log(&self, publisher: PublicKey) -> Option<KeyLog> {
        self.ring().log(publisher).cloned()
    }

    /// Does an agent, which holds by its own evidence, hold by what was heard of keys?
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn holds(&self, agent: &VerifiedAgent, now_ms: u64) -> Result<(), KeyringError> {
        self.ring().holds(agent, now_ms)
    }

    /// Whose node is `node` by this membership?
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn owns(
        &self,
        membership: &Authored<Membership>,
        node: PublicKey,
        now_ms: u64,
    ) -> Result<PublicKey, KeyringError> {
        self.ring().owns(membership, node, now_ms)
    }

    /// Everything, to be kept across restarts.
    #[must_use]
    pub fn all(&self) -> (Vec<KeyLog>, Vec<Authored<Withdrawal>>) {
        let ring = self.ring();
        (ring.logs().cloned().collect(), ring.withdrawals().cloned().collect())
    }

    /// Rises with all that is learned.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Takes what a peer tells. What does not hold is left out; gives how much of the rest is new.
    async fn take(&self, from: PublicKey, bytes: &[u8], now_ms: u64) -> Result<usize, KeyringError> {
        let news = News::decode(bytes)?;
        let mut learned = 0;
        let refused = |reason: KeyringError| tracing::debug!(peer = %from, %reason, "news of keys refused");
        for events in &news.logs {
            // Known logs are not verified again, and the others leave room for everybody else.
            let head = events.last().map(|event| althing_protocol::digest(event));
            let Some(head) = head.filter(|head| !self.ring().knows(head) && !self.refused().contains(head)) else {
                continue;
            };
            let events: Vec<&[u8]> = events.iter().map(|event| event.as_slice()).collect();
            let outcome = KeyLog::verify(&events).map_err(KeyringError::from).and_then(|log| self.learn(log));
            if outcome.is_err() {
                let mut refusals = self.refused();
                if refusals.len() >= REFUSED_MAX {
                    // There may be room for some of them by now.
                    refusals.clear();
                }
                refusals.insert(head);
            }
            learned += usize::from(outcome.inspect_err(|reason| refused(reason.clone())).unwrap_or(false));
            tokio::task::yield_now().await;
        }
        for withdrawal in &news.withdrawals {
            let outcome = self.withdraw(withdrawal, now_ms);
            learned += usize::from(outcome.inspect_err(|reason| refused(reason.clone())).unwrap_or(false));
            tokio::task::yield_now().await;
        }
        Ok(learned)
    }
}

/// Serves [`KEYS`].
pub(crate) struct Serving(pub Weak<Shared>);

impl Inbound for Serving {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let shared = self.0.upgrade();
        async move {
            let Some(shared) = shared else { return Answer::Response(Vec::new()) };
            let answered = match request.operation.as_str() {
                "compare" => decode_known(&request.body)
                    .map(|known| shared.keys.ring().news(&known, shared.clock.now_ms()).encode()),
                "log" => decode_key(&request.body).map(|publisher| log_of(&shared.keys, publisher).encode()),
                "news" => shared.keys.take(caller.node, &request.body, shared.clock.now_ms()).await.map(|_| Vec::new()),
                other => {
                    let message = format!("there is no operation {other:?} here");
                    return Answer::Error(refusal(METHOD_NOT_FOUND, None, &message));
                }
            };
            match answered {
                Ok(body) => Answer::Response(body),
                Err(reason) => Answer::Error(refusal(INVALID_PARAMS, None, &reason.to_string())),
            }
        }
        .boxed()
    }

    fn priority(&self, _: &Request) -> Priority {
        Priority::Urgent
    }
}

fn decode_key(bytes: &[u8]) -> Result<PublicKey, KeyringError> {
    cbor::check(bytes, 64)?;
    minicbor::decode(bytes).map_err(|error| KeyringError::Shape(error.to_string()))
}

fn log_of(keys: &Keys, publisher: PublicKey) -> News {
    let events = keys.log(publisher).map(|log| log.to_bytes().into_iter().map(ByteVec::from).collect());
    News { logs: events.into_iter().collect(), withdrawals: Vec::new() }
}

/// A membership may be signed by a key that this node has not heard of: whoever shows it is asked for the log.
pub(crate) async fn ensure(shared: &Shared, peer: PublicKey, shown: &Authored<Membership>) {
    let now_ms = shared.clock.now_ms();
    let unheard = KeyringError::KeyLog(KeyLogError::NotItsKey { key: shown.signer, publisher: shown.body.owner });
    if shared.keys.owns(shown, peer, now_ms) != Err(unheard) {
        return;
    }
    let body = minicbor::to_vec(shown.body.owner).expect("writing to a vector cannot fail");
    let request = Request { deadline: Some(LOG_PATIENCE), priority: Priority::Urgent, ..Request::new("log", body) };
    let outcome = match outbound::unary(shared, peer, KEYS, request).await {
        Ok(body) => shared.keys.take(peer, &body, now_ms).await.map_err(|reason| reason.to_string()),
        Err(reason) => Err(reason.to_string()),
    };
    if let Err(reason) = outcome {
        tracing::debug!(%peer, reason, "the log of a peer's owner was not heard");
    }
}

/// Hears and tells for as long as the network lives.
pub(crate) async fn spread(shared: Weak<Shared>, mut events: broadcast::Receiver<PeerEvent>) {
    let Some(mut changes) = shared.upgrade().map(|shared| shared.keys.changes()) else { return };
    let mut again = interval(COMPARE);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    loop {
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Ok(PeerEvent::Connected(peer)) => drop(tokio::spawn(meet(shared.clone(), peer))),
                // Whoever was missed is asked in turn.
                Ok(PeerEvent::Disconnected(_) | PeerEvent::Moved(_)) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return,
            },
            changed = changes.changed() => {
                let Some(shared) = shared.upgrade().filter(|_| changed.is_ok()) else { return };
                tokio::spawn(tell_all(shared));
            }
            _ = again.tick() => {
                let Some(shared) = shared.upgrade() else { return };
                let peers: BTreeSet<PublicKey> = shared.network.connected().into_iter().collect();
                // In turn: the one behind the last.
                let behind = last.and_then(|last| peers.range(last..).find(|peer| **peer != last));
                last = behind.or(peers.first()).copied();
                if let Some(peer) = last {
                    tokio::spawn(async move { compare(&shared, peer).await });
                }
            }
        }
    }
}

/// A new connection may be one of two, of which one is closed again: so what fails is repeated soon.
async fn meet(shared: Weak<Shared>, peer: PublicKey) {
    for wait_ms in [0, 50, 200, 1_000] {
        sleep(Duration::from_millis(wait_ms)).await;
        let Some(shared) = shared.upgrade() else { return };
        if compare(&shared, peer).await {
            return;
        }
    }
}

/// Asks a peer for what it knows and this node does not. False when it could not be asked.
async fn compare(shared: &Shared, peer: PublicKey) -> bool {
    for _ in 0..ROUNDS {
        let known = encode_known(&shared.keys.known());
        let request = Request { deadline: Some(PATIENCE), ..Request::new("compare", known) };
        match outbound::unary(shared, peer, KEYS, request).await {
            Ok(body) => match shared.keys.take(peer, &body, shared.clock.now_ms()).await {
                Ok(0) => return true,
                // There may be more than fits into one answer.
                Ok(_) => {}
                Err(reason) => {
                    tracing::debug!(%peer, %reason, "news of keys refused");
                    return true;
                }
            },
            Err(crate::CallError::Refused { .. }) => return true,
            Err(reason) => {
                tracing::debug!(%peer, %reason, "peer was not asked for keys");
                return false;
            }
        }
    }
    true
}

/// Tells all who are connected what was learned.
async fn tell_all(shared: Arc<Shared>) {
    let fresh = std::mem::take(&mut *shared.keys.fresh());
    let news = {
        let ring = shared.keys.ring();
        let told_before: BTreeSet<Digest> = ring.known().difference(&fresh).copied().collect();
        ring.news(&told_before, shared.clock.now_ms())
    };
    if news.is_empty() {
        return;
    }
    let body = news.encode();
    let tellings = shared.network.connected().into_iter().map(|peer| {
        let (shared, body) = (shared.clone(), body.clone());
        async move {
            let request =
                Request { deadline: Some(PATIENCE), priority: Priority::Urgent, ..Request::new("news", body) };
            if let Err(reason) = outbound::unary(&shared, peer, KEYS, request).await {
                tracing::debug!(%peer, %reason, "peer was not told of keys");
            }
        }
    });
    futures::future::join_all(tellings).await;
}

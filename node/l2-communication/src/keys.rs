//! What this node has heard of keys, and passes on (SPEC P-67 to P-70): each peer that connects is asked for what it
//! knows, and what is news goes to all who are connected, so that a revoked key is refused by all who can be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use althing_protocol::keyring::{
    Forgotten, Keyring, News, Origin, REFUSED_MAX, Row, Stored, Taken, Withdrawal, decode_known, encode_known,
};
use althing_protocol::{
    Digest, Hello, KeyLog, KeyLogError, KeyringError, PublicKey, PublisherId, VerifiedAgent, VerifiedOwner, cbor,
    object,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use minicbor::bytes::ByteVec;
use tokio::sync::{broadcast, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::admission;
use crate::caller::Caller;
use crate::inbound::{Answer, Inbound};
use crate::lanes::Priority;
use crate::network::PeerEvent;
use crate::outbound;
use crate::refusal::{INVALID_PARAMS, METHOD_NOT_FOUND, refusal};
use crate::service::{Request, Shared};
use crate::turns::Turns;

/// The stream protocol on which nodes hear of keys.
pub const KEYS: &str = "/althing/keys/1";
/// One of the peers is asked again this often: what was pushed may have been lost.
const COMPARE: Duration = Duration::from_secs(8);
/// When a publisher comes into use, peers are asked this much later: several come at once.
const SOON: Duration = Duration::from_secs(1);
/// How many of them are asked then.
const ASKED_IN_A_HURRY: usize = 3;
/// A peer that takes longer to answer is asked another time.
const PATIENCE: Duration = Duration::from_secs(4);
/// A stream may wait this long for the log that the owner's membership needs.
const LOG_PATIENCE: Duration = Duration::from_secs(2);
/// News that do not fit into one answer are asked for again.
const ROUNDS: usize = 4;

/// Signatures that strangers of one origin may have verified here, each second, and twice as many at once. At 80
/// microseconds each that is two percent of a core; the longest log has fewer.
const STRANGERS_SIGNATURES: u32 = 256;
/// Origins whose work is counted at one time; beyond, those that owe nothing are dropped.
const ORIGINS_MAX: usize = 1_024;
/// Key logs of publishers that nobody uses here, which are passed on all the same so that they reach those who do: each
/// second, from whomever; what comes beyond is dropped.
const RELAYED_LOGS: u32 = 16;
/// Of them those that wait to be passed on.
const RELAYED_MAX: usize = 64;
/// Events that are verified between two yields: about a millisecond.
const AT_ONE_GO: usize = 12;

/// What is known of keys.
pub struct Keys {
    ring: Mutex<Keyring>,
    /// Whose publishers are in use because of whom.
    uses: Mutex<Uses>,
    /// What was learned and not yet told to the peers.
    fresh: Mutex<BTreeSet<Digest>>,
    /// Logs, by their last events, and withdrawals that were not taken: they are not asked for again.
    refused: Mutex<BTreeSet<Digest>>,
    /// What strangers had verified, by where they come from.
    work: Mutex<BTreeMap<Origin, Turns>>,
    /// What is passed on without being kept.
    relayed: Mutex<Relayed>,
    changed: watch::Sender<u64>,
    /// Rises when a publisher comes into use that was not.
    wanted: watch::Sender<u64>,
}

#[derive(Default)]
struct Relayed {
    turns: Turns,
    logs: Vec<Arc<KeyLog>>,
    /// Their last events.
    heads: BTreeSet<Digest>,
}

#[derive(Default)]
struct Uses {
    /// Whose agents are listed here.
    listed: BTreeSet<PublisherId>,
    /// Whose nodes the peers say that they are.
    owners: BTreeMap<PublicKey, PublisherId>,
}

impl Default for Keys {
    fn default() -> Keys {
        Keys {
            ring: Mutex::default(),
            uses: Mutex::default(),
            fresh: Mutex::default(),
            refused: Mutex::default(),
            work: Mutex::default(),
            relayed: Mutex::default(),
            changed: watch::Sender::new(0),
            wanted: watch::Sender::new(0),
        }
    }
}

impl Keys {
    fn ring(&self) -> MutexGuard<'_, Keyring> {
        self.ring.lock().expect("no holder of the keyring panics")
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().expect("no holder of the uses panics")
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

    fn refuse(&self, name: Digest) {
        let mut refused = self.refused();
        if refused.len() >= REFUSED_MAX {
            // There may be room for some of them by now.
            refused.clear();
        }
        refused.insert(name);
    }

    /// There is always room for what these publishers do with their keys.
    pub fn watch(&self, publishers: impl IntoIterator<Item = PublisherId>) {
        self.ring().watch(publishers);
        self.came_into_use(true);
    }

    /// Agents of these publishers are listed here: what they do with their keys matters.
    pub fn set_listed(&self, publishers: BTreeSet<PublisherId>) {
        let mut uses = self.uses();
        uses.listed = publishers;
        self.apply(&uses);
    }

    /// The peer says that it is this owner's.
    fn note_owner(&self, peer: PublicKey, owner: PublisherId) {
        let mut uses = self.uses();
        if uses.owners.insert(peer, owner) != Some(owner) {
            self.apply(&uses);
        }
    }

    /// The peer is not connected any more.
    pub(crate) fn forget_peer(&self, peer: PublicKey) {
        let mut uses = self.uses();
        if uses.owners.remove(&peer).is_some() {
            self.apply(&uses);
        }
    }

    fn apply(&self, uses: &Uses) {
        let all = uses.listed.iter().chain(uses.owners.values()).copied().collect();
        let more = self.ring().set_in_use(all);
        self.came_into_use(more);
        self.changed.send_modify(|version| *version += 1);
    }

    fn came_into_use(&self, more: bool) {
        if more {
            // What was refused because nobody used it may be wanted now: it is asked for soon.
            self.refused().clear();
            self.wanted.send_modify(|version| *version += 1);
        }
    }

    /// Those publishers that are watched, and their logs where they have changed.
    #[must_use]
    pub fn watched(&self) -> Vec<(PublisherId, Option<Arc<KeyLog>>)> {
        self.ring().watched().map(|(publisher, log)| (publisher, log.cloned())).collect()
    }

    /// Takes a key log of this node's own, of the table, or of before a restart, and tells the peers what is new in it.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn learn(&self, log: impl Into<Arc<KeyLog>>) -> Result<bool, KeyringError> {
        self.learn_from(log.into(), &Origin::default())
    }

    /// Takes a log that came with an agent: its publisher is in use until [`Keys::set_listed`] says otherwise.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn learn_with_agent(&self, log: Arc<KeyLog>, origin: &Origin) -> Result<bool, KeyringError> {
        let more = self.ring().use_publisher(log.publisher());
        self.came_into_use(more);
        self.learn_from(log, origin)
    }

    fn learn_from(&self, log: Arc<KeyLog>, origin: &Origin) -> Result<bool, KeyringError> {
        let (name, publisher, revoked) = (log.head(), log.publisher(), log.revoked());
        let news = self.ring().learn(log, origin)?;
        if news {
            tracing::info!(%publisher, revoked, "a publisher has changed its keys");
        }
        Ok(self.note(news, name))
    }

    /// Takes a withdrawal as it was signed, and tells the peers. `shown` is the log that it is judged by where none is
    /// known.
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn withdraw(&self, bytes: &[u8], shown: Option<&Arc<KeyLog>>, now_ms: u64) -> Result<bool, KeyringError> {
        // Not under the lock: this is what takes time.
        let withdrawal = object::open::<Withdrawal>(bytes, "", "")?;
        let news = self.ring().withdraw(withdrawal, shown, now_ms)?;
        Ok(self.note(news, althing_protocol::digest(bytes)))
    }

    /// Takes a withdrawal that was kept before a restart, and was judged then.
    pub fn restore(&self, taken: Taken, now_ms: u64) {
        self.ring().restore(taken, now_ms);
    }

    /// Takes what was remembered of a publisher before a restart.
    pub fn recall(&self, forgotten: Forgotten) {
        self.ring().recall(forgotten);
    }

    /// The log of a publisher that has changed its keys, if it matters here.
    #[must_use]
    pub fn log(&self, publisher: PublisherId) -> Option<Arc<KeyLog>> {
        self.ring().log(publisher).cloned()
    }

    /// Does an agent, which holds by its own evidence, hold by what was heard of keys?
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn holds(&self, agent: &VerifiedAgent, now_ms: u64) -> Result<(), KeyringError> {
        self.ring().holds(agent, now_ms)
    }

    /// Whose node is `node` by what it showed?
    ///
    /// # Errors
    /// See [`KeyringError`].
    pub fn owns(&self, shown: &VerifiedOwner, node: PublicKey, now_ms: u64) -> Result<PublisherId, KeyringError> {
        self.ring().owns(shown, node, now_ms)
    }

    /// What is kept now: logs, and withdrawals.
    #[must_use]
    pub fn all(&self) -> (Vec<Arc<KeyLog>>, Vec<Taken>) {
        let ring = self.ring();
        (ring.logs().cloned().collect(), ring.withdrawals().cloned().collect())
    }

    /// Up to `max` things that are to be kept across restarts, or to be kept no longer, since this was asked last.
    #[must_use]
    pub fn take_changed(&self, max: usize) -> Vec<(Row, Option<Stored>)> {
        self.ring().take_changed(max)
    }

    /// These could not be kept, and are to be asked for again.
    pub fn put_back(&self, rows: impl IntoIterator<Item = Row>) {
        self.ring().put_back(rows);
    }

    /// Rises with all that is learned or forgotten.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn relayed(&self) -> MutexGuard<'_, Relayed> {
        self.relayed.lock().expect("no holder of the relayed logs panics")
    }

    /// May the log with this end, which is not kept, be passed on now? Once, and not too many of them.
    fn may_relay(&self, head: Digest, now: Duration) -> bool {
        let mut relayed = self.relayed();
        let mut turns = relayed.turns;
        let may = !relayed.heads.contains(&head)
            && relayed.logs.len() < RELAYED_MAX
            && turns.take(RELAYED_LOGS, now).is_zero();
        if may {
            relayed.turns = turns;
            if relayed.heads.len() >= REFUSED_MAX {
                relayed.heads.clear();
            }
            relayed.heads.insert(head);
        }
        may
    }

    fn relay(&self, log: Arc<KeyLog>) {
        self.relayed().logs.push(log);
        self.changed.send_modify(|version| *version += 1);
    }

    /// How long a stranger of this origin is to wait until so many signatures are verified for it.
    fn charge(&self, origin: &Origin, signatures: usize, now: Duration) -> Duration {
        let mut work = self.work.lock().expect("no holder of the work panics");
        if work.len() >= ORIGINS_MAX {
            work.retain(|_, turns| turns.owes(now));
        }
        let turns = work.entry(origin.clone()).or_default();
        (0..signatures).map(|_| turns.take(STRANGERS_SIGNATURES, now)).last().unwrap_or_default()
    }
}

/// Where what a peer tells comes from: strangers of one origin share the room and the work that there is for them.
pub(crate) fn origin(shared: &Shared, peer: PublicKey) -> Origin {
    let address = shared.network.peers().into_iter().find(|info| info.peer == peer).map(|info| info.address);
    let address = address.unwrap_or_default();
    let mut parts = address.split('/').skip(1);
    let ip = match (parts.next(), parts.next()) {
        (Some("ip4" | "ip6"), Some(ip)) => ip.parse().ok(),
        _ => None,
    };
    match ip {
        Some(ip) => format!("{:?}", admission::Origin::of(ip)).into(),
        None => address.into(),
    }
}

/// Takes what a peer tells. What does not hold is left out; gives how much of the rest is new. Only what matters here is
/// verified, only as far as it is not known, and for strangers at a bounded rate.
async fn take(shared: &Shared, from: PublicKey, bytes: &[u8], pushed: bool) -> Result<usize, KeyringError> {
    let news = News::decode(bytes)?;
    let keys = &shared.keys;
    let origin = origin(shared, from);
    let mut learned = 0;
    let mut shown = BTreeMap::new();
    for events in &news.logs {
        let events: Vec<&[u8]> = events.iter().map(|event| event.as_slice()).collect();
        let (Some(first), Some(head)) = (events.first(), events.last().map(|event| althing_protocol::digest(event)))
        else {
            continue;
        };
        let publisher = PublisherId::from_digest(althing_protocol::digest(first));
        if keys.ring().knows(&head) {
            continue;
        }
        if !keys.ring().wants(publisher) {
            // What is pushed is passed on once: whoever uses it hears of it from those who do not.
            keys.refuse(head);
            if pushed && keys.may_relay(head, shared.begun.elapsed()) {
                match verified(shared, from, &origin, None, &events).await {
                    Ok(log) => keys.relay(log),
                    Err(reason) => tracing::debug!(peer = %from, %reason, "a key log is refused"),
                }
            }
            continue;
        }
        if keys.refused().contains(&head) {
            continue;
        }
        match verified(shared, from, &origin, keys.log(publisher), &events).await {
            Ok(log) => {
                shown.insert(publisher, log.clone());
                match keys.learn_from(log, &origin) {
                    Ok(news) => learned += usize::from(news),
                    Err(reason) => {
                        tracing::debug!(peer = %from, %reason, "a key log is not taken");
                        keys.refuse(head);
                    }
                }
            }
            Err(reason) => {
                tracing::debug!(peer = %from, %reason, "a key log is refused");
                keys.refuse(head);
            }
        }
    }
    for bytes in &news.withdrawals {
        learned += usize::from(take_withdrawal(shared, from, &origin, bytes, &shown).await);
    }
    Ok(learned)
}

/// Takes a withdrawal that a peer tells of, judged by the log that came with it where none is known. True when it is new.
async fn take_withdrawal(
    shared: &Shared,
    from: PublicKey,
    origin: &Origin,
    bytes: &[u8],
    shown: &BTreeMap<PublisherId, Arc<KeyLog>>,
) -> bool {
    let keys = &shared.keys;
    let name = althing_protocol::digest(bytes);
    if keys.refused().contains(&name) {
        return false;
    }
    wait_for_turn(shared, from, origin, 1).await;
    let outcome = match object::open::<Withdrawal>(bytes, "", "") {
        Ok(withdrawal) => {
            let by = shown.get(&withdrawal.body.publisher);
            keys.ring().withdraw(withdrawal, by, shared.clock.now_ms())
        }
        Err(reason) => Err(reason.into()),
    };
    match outcome {
        Ok(news) => keys.note(news, name),
        Err(reason) => {
            tracing::debug!(peer = %from, %reason, "a withdrawal is not taken");
            // With its publisher's log, which may come later, it may hold.
            if !matches!(reason, KeyringError::KeyLog(_)) {
                keys.refuse(name);
            }
            false
        }
    }
}

/// Verifies what of a log is not known, in pieces between which others have their turn.
async fn verified(
    shared: &Shared,
    from: PublicKey,
    origin: &Origin,
    known: Option<Arc<KeyLog>>,
    events: &[&[u8]],
) -> Result<Arc<KeyLog>, KeyringError> {
    let unverified = KeyLog::unverified(known.as_deref(), events);
    wait_for_turn(shared, from, origin, unverified).await;
    let mut log = known;
    let mut verified = events.len() - unverified;
    while verified < events.len() {
        verified = (verified + AT_ONE_GO).min(events.len());
        log = Some(Arc::new(KeyLog::verify_onto(log.as_deref(), &events[..verified])?));
        tokio::task::yield_now().await;
    }
    // Where all was known it may have been the beginning of what is known.
    match log.filter(|log| log.len() == events.len()) {
        Some(log) => Ok(log),
        None => Ok(Arc::new(KeyLog::verify(events)?)),
    }
}

/// Has a stranger wait that had much verified. Who is trusted does not wait.
async fn wait_for_turn(shared: &Shared, from: PublicKey, origin: &Origin, signatures: usize) {
    let caller = Caller { node: from, owner: shared.owner(from) };
    if signatures > 0 && shared.is_trusted(&caller) == Some(false) {
        let wait = shared.keys.charge(origin, signatures, shared.begun.elapsed());
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }
}

/// What a peer showed of its owner in its opening, if it holds by itself.
pub(crate) fn note_owner(shared: &Shared, peer: PublicKey, hello: &Hello) -> Option<VerifiedOwner> {
    let proof = hello.owner.as_ref()?;
    let shown = proof.verify(&shared.config.network);
    let shown = shown.inspect_err(|reason| shared.complain(peer, "owner", reason)).ok()?;
    if shown.membership.body.node != peer {
        return None;
    }
    shared.keys.note_owner(peer, shown.membership.body.owner);
    Some(shown)
}

/// Serves [`KEYS`].
pub(crate) struct Serving(pub Weak<Shared>);

impl Inbound for Serving {
    fn call(&self, caller: Caller, request: Request) -> BoxFuture<'static, Answer> {
        let shared = self.0.upgrade();
        async move {
            let Some(shared) = shared else { return Answer::Response(Vec::new()) };
            let answered = match request.operation.as_str() {
                "compare" => decode_known(&request.body).map(|known| {
                    // Copied and encoded when nobody waits for the keyring any more.
                    let selected = shared.keys.ring().news(&known, shared.clock.now_ms());
                    selected.to_news().encode()
                }),
                "log" => decode_publisher(&request.body).map(|publisher| log_of(&shared.keys, publisher).encode()),
                "news" => take(&shared, caller.node, &request.body, true).await.map(|_| Vec::new()),
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

fn decode_publisher(bytes: &[u8]) -> Result<PublisherId, KeyringError> {
    cbor::check(bytes, 64)?;
    minicbor::decode(bytes).map_err(|error| KeyringError::Shape(error.to_string()))
}

fn log_of(keys: &Keys, publisher: PublisherId) -> News {
    let events = keys.log(publisher).map(|log| log.to_bytes().into_iter().map(ByteVec::from).collect());
    News { logs: events.into_iter().collect(), withdrawals: Vec::new() }
}

/// A membership may be signed by a key that this node has not heard of: whoever shows it is asked for the log.
pub(crate) async fn ensure(shared: &Shared, peer: PublicKey, shown: &VerifiedOwner) {
    let now_ms = shared.clock.now_ms();
    let (publisher, key) = (shown.membership.body.owner, shown.membership.signer);
    // A key that the inception does not name, or an inception that is older than what was seen.
    let unheard = [KeyLogError::NotItsKey { key, publisher }, KeyLogError::Outdated(publisher)];
    match shared.keys.owns(shown, peer, now_ms) {
        Err(KeyringError::KeyLog(reason)) if unheard.contains(&reason) => {}
        _ => return,
    }
    let body = minicbor::to_vec(publisher).expect("writing to a vector cannot fail");
    let request = Request { deadline: Some(LOG_PATIENCE), priority: Priority::Urgent, ..Request::new("log", body) };
    let outcome = match outbound::unary(shared, peer, KEYS, request).await {
        Ok(body) => take(shared, peer, &body, false).await.map_err(|reason| reason.to_string()),
        Err(reason) => Err(reason.to_string()),
    };
    if let Err(reason) = outcome {
        tracing::debug!(%peer, reason, "the log of a peer's owner was not heard");
    }
}

/// Hears and tells for as long as the network lives.
pub(crate) async fn spread(shared: Weak<Shared>, mut events: broadcast::Receiver<PeerEvent>) {
    let Some((mut changes, mut wanted)) =
        shared.upgrade().map(|shared| (shared.keys.changes(), shared.keys.wanted.subscribe()))
    else {
        return;
    };
    let mut hurried = false;
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
            wanting = wanted.changed(), if !hurried => {
                if wanting.is_err() {
                    return;
                }
                again.reset_after(SOON);
                hurried = true;
            }
            _ = again.tick() => {
                let Some(shared) = shared.upgrade() else { return };
                let peers: BTreeSet<PublicKey> = shared.network.connected().into_iter().collect();
                let asked = if std::mem::take(&mut hurried) { ASKED_IN_A_HURRY } else { 1 };
                for _ in 0..asked.min(peers.len()) {
                    // In turn: the one behind the last.
                    let behind = last.and_then(|last| peers.range(last..).find(|peer| **peer != last));
                    last = behind.or(peers.first()).copied();
                    if let Some(peer) = last {
                        let shared = shared.clone();
                        tokio::spawn(async move { compare(&shared, peer).await });
                    }
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
            Ok(body) => match take(shared, peer, &body, false).await {
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
    let mut news = {
        let ring = shared.keys.ring();
        let told_before: BTreeSet<Digest> = ring.known().difference(&fresh).copied().collect();
        ring.news(&told_before, shared.clock.now_ms())
    };
    for log in std::mem::take(&mut shared.keys.relayed().logs) {
        news.add(&log);
    }
    let news = news.to_news();
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

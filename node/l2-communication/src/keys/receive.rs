//! Receives key news: verifies what matters here, for strangers at a bounded rate, and stores or forwards it. And serves the
//! requests of peers.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use althing_protocol::keyring::{News, Origin, Withdrawal, decode_known};
use althing_protocol::{Hello, KeyLog, KeyLogError, KeyringError, PublicKey, PublisherId, VerifiedOwner, cbor, object};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use minicbor::bytes::ByteVec;
use tokio::time::sleep;

use super::{KEYS, Keys};
use crate::inbound::{Answer, Inbound};
use crate::lanes::Priority;
use crate::machine::caller::Caller;
use crate::outbound;
use crate::refusal::{INVALID_PARAMS, METHOD_NOT_FOUND, refusal};
use crate::request::Request;
use crate::shared::Shared;

/// How long the opening of a stream may wait for the key log that a membership needs.
const LOG_TIMEOUT: Duration = Duration::from_secs(2);
/// Events that are verified between two yields: about a millisecond.
const BATCH: usize = 12;

/// Why news is not accepted.
#[derive(Debug, thiserror::Error)]
enum NotAccepted {
    #[error(transparent)]
    Refused(#[from] KeyringError),
    #[error("strangers of its origin have used up their verification rate; it is asked for again later")]
    Busy,
}

/// The sender of news.
struct Sender<'a> {
    shared: &'a Shared,
    origin: Origin,
    /// Verification for trusted peers is not limited.
    is_trusted: bool,
}

impl<'a> Sender<'a> {
    fn new(shared: &'a Shared, peer: PublicKey) -> Sender<'a> {
        let caller = Caller { node: peer, owner: shared.owner(peer) };
        let is_trusted = shared.is_trusted(&caller) != Some(false);
        Sender { shared, origin: origin(shared, peer), is_trusted }
    }

    /// Waits until that many signatures may be verified for it.
    async fn wait_for(&self, signatures: usize) -> Result<(), NotAccepted> {
        if self.is_trusted || signatures == 0 {
            return Ok(());
        }
        let now = self.shared.begun.elapsed();
        let wait =
            self.shared.keys.verifications().take_patiently(&self.origin, signatures, now).ok_or(NotAccepted::Busy)?;
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Ok(())
    }

    /// The origin that forwarding counts for; none for a trusted peer.
    fn charged_origin(&self) -> Option<&Origin> {
        (!self.is_trusted).then_some(&self.origin)
    }

    /// Verifies the unknown events of a log in batches, and yields between them. An invalid event ends it, and costs at most its
    /// batch.
    async fn verified(&self, known: Option<Arc<KeyLog>>, events: &[&[u8]]) -> Result<Arc<KeyLog>, NotAccepted> {
        let mut verified = events.len() - KeyLog::unverified(known.as_deref(), events);
        let mut log = known;
        while verified < events.len() {
            let batch = (events.len() - verified).min(BATCH);
            self.wait_for(batch).await?;
            verified += batch;
            let longer = KeyLog::verify_onto(log.as_deref(), &events[..verified]).map_err(KeyringError::from)?;
            log = Some(Arc::new(longer));
            tokio::task::yield_now().await;
        }
        // If all events were known, they may be a prefix of the known log.
        match log.filter(|log| log.len() == events.len()) {
            Some(log) => Ok(log),
            None => Ok(Arc::new(KeyLog::verify(events).map_err(KeyringError::from)?)),
        }
    }
}

/// The origin of a peer's news: strangers of one origin share storage and verification.
pub(crate) fn origin(shared: &Shared, peer: PublicKey) -> Origin {
    if let Some(origin) = shared.network.origin(peer) {
        return format!("{origin:?}").into();
    }
    shared.network.peer(peer).map(|info| info.address).unwrap_or_default().into()
}

/// Receives news from a peer, and gives how many items are new. Invalid items are skipped. News of publishers in use is stored;
/// other pushed news is forwarded, so that it reaches the nodes that use its publisher.
pub(super) async fn receive(
    shared: &Shared,
    from: PublicKey,
    bytes: &[u8],
    pushed: bool,
) -> Result<usize, KeyringError> {
    let news = News::decode(bytes)?;
    let sender = Sender::new(shared, from);
    let mut learned = 0;
    let mut shown = BTreeMap::new();
    for events in &news.logs {
        let events: Vec<&[u8]> = events.iter().map(|event| event.as_slice()).collect();
        match receive_log(&sender, &events, pushed, &mut shown).await {
            Ok(news) => learned += usize::from(news),
            Err(reason) => tracing::debug!(peer = %from, %reason, "key log not accepted"),
        }
    }
    for bytes in &news.withdrawals {
        match receive_withdrawal(&sender, bytes, pushed, &shown).await {
            Ok(news) => learned += usize::from(news),
            Err(reason) => tracing::debug!(peer = %from, %reason, "withdrawal not accepted"),
        }
    }
    Ok(learned)
}

/// Receives a key log. True when it is new.
async fn receive_log(
    sender: &Sender<'_>,
    events: &[&[u8]],
    pushed: bool,
    shown: &mut BTreeMap<PublisherId, Arc<KeyLog>>,
) -> Result<bool, NotAccepted> {
    let keys = &sender.shared.keys;
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(false) };
    let (publisher, head) = (PublisherId::from_digest(althing_protocol::digest(first)), althing_protocol::digest(last));
    // Before the digest of its last event identifies the log: a peer may append another log's event to its own.
    if !KeyLog::is_chained(events) {
        return Err(KeyringError::Shape("events of a key log that do not name each other".to_owned()).into());
    }
    if keys.ring().knows(&head) {
        return Ok(false);
    }
    if !keys.ring().wants(publisher) {
        // It is not asked for again before its publisher comes into use.
        keys.refuse(head);
        if pushed && keys.forwarder().wants(&head) {
            let log = sender.verified(None, events).await?;
            shown.insert(publisher, log.clone());
            let taken = keys.forwarder().log(log, sender.charged_origin(), sender.shared.begun.elapsed());
            keys.wake_forwarding(taken);
        }
        return Ok(false);
    }
    if keys.refused().contains(&head) {
        return Ok(false);
    }
    let learned = async {
        let log = sender.verified(keys.log(publisher), events).await?;
        shown.insert(publisher, log.clone());
        Ok::<_, NotAccepted>(keys.learn_from(log, &sender.origin)?)
    };
    learned.await.inspect_err(|reason| {
        if matches!(reason, NotAccepted::Refused(_)) {
            keys.refuse(head);
        }
    })
}

/// Receives a withdrawal, judged by the log that came with it where none is known. True when it is new.
async fn receive_withdrawal(
    sender: &Sender<'_>,
    bytes: &[u8],
    pushed: bool,
    shown: &BTreeMap<PublisherId, Arc<KeyLog>>,
) -> Result<bool, NotAccepted> {
    let (keys, now_ms) = (&sender.shared.keys, sender.shared.clock.now_ms());
    let name = althing_protocol::digest(bytes);
    let is_refused = keys.refused().contains(&name);
    if is_refused && !(pushed && keys.forwarder().wants(&name)) {
        return Ok(false);
    }
    sender.wait_for(1).await?;
    let taken = async {
        let withdrawal = object::open::<Withdrawal>(bytes, "", "").map_err(KeyringError::from)?;
        let publisher = withdrawal.body.publisher;
        let by = shown.get(&publisher);
        if keys.ring().wants(publisher) {
            return keys.ring().withdraw(withdrawal, by, &sender.origin, now_ms);
        }
        if let Some(by) = by.filter(|_| pushed) {
            keys.ring().judge(&withdrawal, Some(by), now_ms)?;
            let (origin, now) = (sender.charged_origin(), sender.shared.begun.elapsed());
            let taken = keys.forwarder().withdrawal(Arc::new(withdrawal), by.clone(), origin, now);
            keys.wake_forwarding(taken);
        }
        Err(KeyringError::NotInUse(publisher))
    };
    match taken.await {
        Ok(news) => Ok(keys.note(news, name)),
        Err(reason) => {
            // It may be valid by its publisher's log, which may come later.
            if !matches!(reason, KeyringError::KeyLog(_)) {
                keys.refuse(name);
            }
            Err(reason.into())
        }
    }
}

/// The ownership proof of a peer's hello, if it is valid by itself. The same proof is not verified again; another one is verified
/// at the rate of the peer's origin.
pub(crate) fn note_owner(shared: &Shared, peer: PublicKey, hello: &Hello) -> Option<VerifiedOwner> {
    let proof = hello.owner.as_ref()?;
    let before = shared.shown_owner(peer);
    let is_same = |before: &VerifiedOwner| {
        let inception = before.inception.to_bytes();
        before.membership.bytes == *proof.membership
            && inception.first().is_some_and(|first| *first == *proof.inception)
    };
    if let Some(before) = &before
        && is_same(before)
    {
        return Some(before.clone());
    }
    if before.is_some() {
        let sender = Sender::new(shared, peer);
        let mut rates = shared.keys.verifications();
        if !sender.is_trusted && rates.take(&sender.origin, 2, Duration::ZERO, shared.begun.elapsed()).is_none() {
            shared.log_refusal(peer, "owner", &NotAccepted::Busy);
            return None;
        }
    }
    let shown = proof.verify(&shared.config.network);
    let shown = shown.inspect_err(|reason| shared.log_refusal(peer, "owner", reason)).ok()?;
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
                    // Encoded without the lock of the keyring.
                    let selected = shared.keys.ring().news(&known, shared.clock.now_ms());
                    selected.to_news().encode()
                }),
                "log" => decode_publisher(&request.body).map(|publisher| log_of(&shared.keys, publisher).encode()),
                "news" => receive(&shared, caller.node, &request.body, true).await.map(|_| Vec::new()),
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

/// Asks a peer for its owner's key log, if its membership is signed by a key that is unknown here.
pub(crate) async fn ensure(shared: &Shared, peer: PublicKey, shown: &VerifiedOwner) {
    let now_ms = shared.clock.now_ms();
    let (publisher, key) = (shown.membership.body.owner, shown.membership.signer);
    // A key that the inception does not name, or an outdated inception.
    let unknown_key = [KeyLogError::NotItsKey { key, publisher }, KeyLogError::Outdated(publisher)];
    match shared.keys.owns(shown, peer, now_ms) {
        Err(KeyringError::KeyLog(reason)) if unknown_key.contains(&reason) => {}
        _ => return,
    }
    let body = minicbor::to_vec(publisher).expect("writing to a vector cannot fail");
    let request = Request { deadline: Some(LOG_TIMEOUT), priority: Priority::Urgent, ..Request::new("log", body) };
    let outcome = match outbound::unary(shared, peer, KEYS, request).await {
        Ok(body) => receive(shared, peer, &body, false).await.map_err(|reason| reason.to_string()),
        Err(reason) => Err(reason.to_string()),
    };
    if let Err(reason) = outcome {
        tracing::debug!(%peer, reason, "cannot fetch the key log of a peer's owner");
    }
}

//! What peers tell of keys: verified as far as it matters here, for strangers at a bounded rate, kept or passed on; and what
//! they are answered.

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
use crate::caller::Caller;
use crate::inbound::{Answer, Inbound};
use crate::lanes::Priority;
use crate::outbound;
use crate::refusal::{INVALID_PARAMS, METHOD_NOT_FOUND, refusal};
use crate::service::{Request, Shared};

/// A stream may wait this long for the log that the owner's membership needs.
const LOG_PATIENCE: Duration = Duration::from_secs(2);
/// Events that are verified between two yields: about a millisecond.
const AT_ONE_GO: usize = 12;

/// Why a piece of news is not taken.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    #[error(transparent)]
    Refused(#[from] KeyringError),
    #[error("strangers who come from there have had too much verified; it is asked for again later")]
    Busy,
}

/// Who tells something.
struct Teller<'a> {
    shared: &'a Shared,
    origin: Origin,
    /// Then there is no bound to what it may have verified.
    is_trusted: bool,
}

impl<'a> Teller<'a> {
    fn new(shared: &'a Shared, peer: PublicKey) -> Teller<'a> {
        let caller = Caller { node: peer, owner: shared.owner(peer) };
        let is_trusted = shared.is_trusted(&caller) != Some(false);
        Teller { shared, origin: origin(shared, peer), is_trusted }
    }

    /// Waits until so many signatures may be verified for it.
    async fn wait_for(&self, signatures: usize) -> Result<(), NotTaken> {
        if self.is_trusted || signatures == 0 {
            return Ok(());
        }
        let now = self.shared.begun.elapsed();
        let wait = self.shared.keys.work().take_patiently(&self.origin, signatures, now).ok_or(NotTaken::Busy)?;
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Ok(())
    }

    /// Whose share what is passed on for it uses.
    fn relayed_for(&self) -> Option<&Origin> {
        (!self.is_trusted).then_some(&self.origin)
    }

    /// Verifies what of a log is not known, in pieces between which others have their turn. What does not hold ends it, and
    /// costs no more than its piece.
    async fn verified(&self, known: Option<Arc<KeyLog>>, events: &[&[u8]]) -> Result<Arc<KeyLog>, NotTaken> {
        let mut verified = events.len() - KeyLog::unverified(known.as_deref(), events);
        let mut log = known;
        while verified < events.len() {
            let piece = (events.len() - verified).min(AT_ONE_GO);
            self.wait_for(piece).await?;
            verified += piece;
            let longer = KeyLog::verify_onto(log.as_deref(), &events[..verified]).map_err(KeyringError::from)?;
            log = Some(Arc::new(longer));
            tokio::task::yield_now().await;
        }
        // Where all was known it may have been the beginning of what is known.
        match log.filter(|log| log.len() == events.len()) {
            Some(log) => Ok(log),
            None => Ok(Arc::new(KeyLog::verify(events).map_err(KeyringError::from)?)),
        }
    }
}

/// Where what a peer tells comes from: strangers of one origin share the room and the work that there is for them.
pub(crate) fn origin(shared: &Shared, peer: PublicKey) -> Origin {
    if let Some(origin) = shared.network.origin(peer) {
        return format!("{origin:?}").into();
    }
    let address = shared.network.peers().into_iter().find(|info| info.peer == peer).map(|info| info.address);
    address.unwrap_or_default().into()
}

/// Takes what a peer tells. What does not hold is left out; gives how much of the rest is new. Only what matters here is
/// kept, and what is pushed, of others, is passed on: whoever uses it hears of it from those who do not.
pub(super) async fn take(shared: &Shared, from: PublicKey, bytes: &[u8], pushed: bool) -> Result<usize, KeyringError> {
    let news = News::decode(bytes)?;
    let teller = Teller::new(shared, from);
    let mut learned = 0;
    let mut shown = BTreeMap::new();
    for events in &news.logs {
        let events: Vec<&[u8]> = events.iter().map(|event| event.as_slice()).collect();
        match take_log(&teller, &events, pushed, &mut shown).await {
            Ok(news) => learned += usize::from(news),
            Err(reason) => tracing::debug!(peer = %from, %reason, "a key log is not taken"),
        }
    }
    for bytes in &news.withdrawals {
        match take_withdrawal(&teller, bytes, pushed, &shown).await {
            Ok(news) => learned += usize::from(news),
            Err(reason) => tracing::debug!(peer = %from, %reason, "a withdrawal is not taken"),
        }
    }
    Ok(learned)
}

/// Takes a key log that a peer tells of. True when it is new.
async fn take_log(
    teller: &Teller<'_>,
    events: &[&[u8]],
    pushed: bool,
    shown: &mut BTreeMap<PublisherId, Arc<KeyLog>>,
) -> Result<bool, NotTaken> {
    let keys = &teller.shared.keys;
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(false) };
    let (publisher, head) = (PublisherId::from_digest(althing_protocol::digest(first)), althing_protocol::digest(last));
    // Before its last event is taken for the name of anything: somebody else's may stand behind events of one's own.
    if !KeyLog::is_chained(events) {
        return Err(KeyringError::Shape("events of a key log that do not name each other".to_owned()).into());
    }
    if keys.ring().knows(&head) {
        return Ok(false);
    }
    if !keys.ring().wants(publisher) {
        // It need not be told again before its publisher comes into use.
        keys.refuse(head);
        if pushed && keys.relay().wants(&head) {
            let log = teller.verified(None, events).await?;
            shown.insert(publisher, log.clone());
            let taken = keys.relay().log(log, teller.relayed_for(), teller.shared.begun.elapsed());
            keys.pass_on(taken);
        }
        return Ok(false);
    }
    if keys.refused().contains(&head) {
        return Ok(false);
    }
    let learned = async {
        let log = teller.verified(keys.log(publisher), events).await?;
        shown.insert(publisher, log.clone());
        Ok::<_, NotTaken>(keys.learn_from(log, &teller.origin)?)
    };
    learned.await.inspect_err(|reason| {
        if matches!(reason, NotTaken::Refused(_)) {
            keys.refuse(head);
        }
    })
}

/// Takes a withdrawal that a peer tells of, judged by the log that came with it where none is known. True when it is new.
async fn take_withdrawal(
    teller: &Teller<'_>,
    bytes: &[u8],
    pushed: bool,
    shown: &BTreeMap<PublisherId, Arc<KeyLog>>,
) -> Result<bool, NotTaken> {
    let (keys, now_ms) = (&teller.shared.keys, teller.shared.clock.now_ms());
    let name = althing_protocol::digest(bytes);
    let is_refused = keys.refused().contains(&name);
    if is_refused && !(pushed && keys.relay().wants(&name)) {
        return Ok(false);
    }
    teller.wait_for(1).await?;
    let taken = async {
        let withdrawal = object::open::<Withdrawal>(bytes, "", "").map_err(KeyringError::from)?;
        let publisher = withdrawal.body.publisher;
        let by = shown.get(&publisher);
        if keys.ring().wants(publisher) {
            return keys.ring().withdraw(withdrawal, by, &teller.origin, now_ms);
        }
        if let Some(by) = by.filter(|_| pushed) {
            keys.ring().judge(&withdrawal, Some(by), now_ms)?;
            let (origin, now) = (teller.relayed_for(), teller.shared.begun.elapsed());
            let taken = keys.relay().withdrawal(Arc::new(withdrawal), by.clone(), origin, now);
            keys.pass_on(taken);
        }
        Err(KeyringError::NotInUse(publisher))
    };
    match taken.await {
        Ok(news) => Ok(keys.note(news, name)),
        Err(reason) => {
            // With its publisher's log, which may come later, it may hold.
            if !matches!(reason, KeyringError::KeyLog(_)) {
                keys.refuse(name);
            }
            Err(reason.into())
        }
    }
}

/// What a peer showed of its owner in its opening, if it holds by itself. What it showed before is not verified again; another
/// owner's proof is, as news are, at the rate of its origin.
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
        let teller = Teller::new(shared, peer);
        let mut work = shared.keys.work();
        if !teller.is_trusted && work.take(&teller.origin, 2, Duration::ZERO, shared.begun.elapsed()).is_none() {
            shared.complain(peer, "owner", &NotTaken::Busy);
            return None;
        }
    }
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

//! Sessions of clients of versions before 2026-07-28, in bounded number, for all and for each origin. Only idle ones make
//! room for others: whoever begins sessions without end takes them from itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_edge::Identity;
use althing_protocol::{Digest, digest};
use futures::{Stream, StreamExt as _};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use serde_json::Value;
use tokio::time::Instant;

use crate::batch;

/// Sessions at one time.
const SESSIONS_MAX: usize = 256;
/// Those of one origin.
const OF_ORIGIN_MAX: usize = 128;
/// A session that was unused for this long is over. Clients on desktops are idle overnight.
const UNUSED: Duration = Duration::from_secs(24 * 3_600);
/// A session that was unused for this long, and has no stream, may make room for another.
const IDLE: Duration = Duration::from_secs(60);
/// Requests of one session that are not answered yet.
const OPEN_MAX: usize = 1_024;

tokio::task_local! {
    /// The request that is served.
    pub(crate) static ASKING: Arc<Asking>;
}

/// Who asks, and what became of it.
#[derive(Debug)]
pub(crate) struct Asking {
    origin: String,
    /// The user's name; empty if there is none.
    user: String,
    refused: AtomicBool,
}

impl Asking {
    /// Somebody at an address.
    pub fn new(identity: &Identity, from: &str) -> Asking {
        let user = if let Identity::User(user) = identity { user.name.clone() } else { String::new() };
        Asking { origin: format!("{user} {from}"), user, refused: AtomicBool::new(false) }
    }

    /// The user's name; empty if there is none.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Whether there was no room for the session that it wanted to begin.
    pub fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionsError {
    /// All are in use.
    #[error("all sessions are in use")]
    InUse,
    /// The SDK refuses.
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

/// How many there may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub all: usize,
    pub of_origin: usize,
}

impl Default for Most {
    fn default() -> Most {
        Most { all: SESSIONS_MAX, of_origin: OF_ORIGIN_MAX }
    }
}

pub(crate) struct Sessions {
    inner: LocalSessionManager,
    most: Most,
    used: Arc<Mutex<Used>>,
}

/// How each session is used.
#[derive(Default)]
struct Used {
    uses: u64,
    sessions: BTreeMap<SessionId, Use>,
}

struct Use {
    origin: String,
    user: String,
    /// The number of its last use among those of all, and when that was.
    last: u64,
    at: Instant,
    /// Whether it was used since it was begun.
    again: bool,
    /// Streams on which its client waits.
    streams: usize,
    /// The digests of the ids of its requests that are not answered yet.
    open: BTreeSet<Digest>,
}

impl Use {
    /// Whether it may end. One that was only begun was never worked with.
    fn is_idle(&self) -> bool {
        self.streams == 0 && (!self.again || self.at.elapsed() >= IDLE)
    }
}

impl Used {
    fn next(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn note(&mut self, id: &SessionId) {
        let last = self.next();
        if let Some(known) = self.sessions.get_mut(id) {
            (known.last, known.at, known.again) = (last, Instant::now(), true);
        }
    }

    /// Whether there is room for one more of an origin, or the session to close for it, which is forgotten here.
    fn make_room(&mut self, origin: &str, most: Most) -> Result<Option<SessionId>, SessionsError> {
        let crowded = self.sessions.values().filter(|of| of.origin == origin).count() >= most.of_origin;
        if !crowded && self.sessions.len() < most.all {
            return Ok(None);
        }
        let candidates = self.sessions.iter().filter(|(_, of)| of.is_idle() && (!crowded || of.origin == origin));
        let oldest = candidates.min_by_key(|(_, of)| (of.again, of.last)).map(|(id, _)| id.clone());
        let oldest = oldest.ok_or(SessionsError::InUse)?;
        self.sessions.remove(&oldest);
        Ok(Some(oldest))
    }
}

/// Why a request of a session is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// Another one with its id is not answered yet.
    Repeated,
    /// Too many are not.
    Crowded,
}

impl OpenError {
    /// The refusal of the request of that id.
    pub fn refusal(self, id: &Value) -> Value {
        match self {
            OpenError::Repeated => batch::used_twice(id),
            OpenError::Crowded => {
                let why = format!("{OPEN_MAX} requests of this session are not answered yet: wait for an answer");
                batch::refusal(id, batch::INVALID, &why)
            }
        }
    }
}

/// A request of a session that is not answered yet, until this is dropped.
pub(crate) struct OpenRequest {
    used: Arc<Mutex<Used>>,
    session: SessionId,
    id: Digest,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if let Some(of) = locked(&self.used).sessions.get_mut(&self.session) {
            of.open.remove(&self.id);
        }
    }
}

/// A stream of a session, until this is dropped.
struct Streaming {
    used: Arc<Mutex<Used>>,
    id: SessionId,
}

impl Drop for Streaming {
    fn drop(&mut self) {
        let mut used = locked(&self.used);
        used.note(&self.id);
        if let Some(of) = used.sessions.get_mut(&self.id) {
            of.streams -= 1;
        }
    }
}

fn locked(used: &Mutex<Used>) -> MutexGuard<'_, Used> {
    used.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Sessions {
    pub fn new(most: Most) -> Sessions {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(UNUSED);
        Sessions { inner, most, used: Arc::default() }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        locked(&self.used)
    }

    /// Counts a stream of a session until it is dropped.
    fn stream<S: Stream>(&self, id: &SessionId, stream: S) -> impl Stream<Item = S::Item> + use<S> {
        if let Some(of) = self.used().sessions.get_mut(id) {
            of.streams += 1;
        }
        let streaming = Streaming { used: self.used.clone(), id: id.clone() };
        stream.map(move |message| {
            // It belongs to the stream.
            let _ = &streaming;
            message
        })
    }

    /// Notes that a request of a session is not answered yet; nothing where there is no such session, or it is another user's,
    /// which is for others to say.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(&self, session: &str, user: &str, id: &Value) -> Result<Option<OpenRequest>, OpenError> {
        let session: SessionId = session.into();
        let id = digest(id.to_string().as_bytes());
        let mut used = self.used();
        let Some(of) = used.sessions.get_mut(&session).filter(|of| of.user == user) else { return Ok(None) };
        if of.open.contains(&id) {
            return Err(OpenError::Repeated);
        }
        if of.open.len() >= OPEN_MAX {
            return Err(OpenError::Crowded);
        }
        of.open.insert(id);
        Ok(Some(OpenRequest { used: self.used.clone(), session, id }))
    }

    /// Whether a session is of whoever asks: its id is no secret between users of one machine.
    fn is_of(&self, id: &SessionId, user: &str) -> bool {
        self.used().sessions.get(id).is_none_or(|of| of.user == user)
    }

    async fn begin(
        &self,
        origin: &str,
        user: &str,
    ) -> Result<(SessionId, <Self as SessionManager>::Transport), SessionsError> {
        loop {
            let oldest = self.used().make_room(origin, self.most)?;
            let Some(oldest) = oldest else { break };
            self.inner.close_session(&oldest).await?;
        }
        let (id, transport) = self.inner.create_session().await?;
        let mut used = self.used();
        let (last, at) = (used.next(), Instant::now());
        used.sessions.insert(
            id.clone(),
            Use {
                origin: origin.to_owned(),
                user: user.to_owned(),
                last,
                at,
                again: false,
                streams: 0,
                open: BTreeSet::new(),
            },
        );
        Ok((id, transport))
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let asking = ASKING.try_with(Arc::clone).ok();
        let (origin, user) = asking.as_ref().map_or(("", ""), |asking| (&asking.origin, &asking.user));
        let begun = self.begin(origin, user).await;
        if let (Err(SessionsError::InUse), Some(asking)) = (&begun, asking) {
            asking.refused.store(true, Ordering::Relaxed);
        }
        begun
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        let asking = ASKING.try_with(Arc::clone).ok();
        let has =
            self.is_of(id, asking.as_ref().map_or("", |asking| &asking.user)) && self.inner.has_session(id).await?;
        if has {
            self.used().note(id);
        }
        Ok(has)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        if ASKING.try_with(Arc::clone).is_ok_and(|asking| !self.is_of(id, &asking.user)) {
            return Ok(());
        }
        self.used().sessions.remove(id);
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.used().note(id);
        Ok(self.stream(id, self.inner.create_stream(id, message).await?))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.stream(id, self.inner.create_standalone_stream(id).await?))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.stream(id, self.inner.resume(id, last_event_id).await?))
    }
}

#[cfg(test)]
mod tests {
    use althing_edge::User;
    use serde_json::json;

    use super::*;

    const MOST: Most = Most { all: 4, of_origin: 3 };

    async fn begin(sessions: &Sessions, origin: &str) -> Result<SessionId, SessionsError> {
        let asking = Arc::new(Asking::new(&Identity::Local, origin));
        let begun = ASKING.scope(asking.clone(), sessions.create_session()).await;
        assert_eq!(asking.was_refused(), begun.is_err());
        begun.map(|(id, transport)| {
            // The server of a session holds it until the session ends.
            std::mem::forget(transport);
            id
        })
    }

    async fn has(sessions: &Sessions, id: &SessionId) -> bool {
        sessions.inner.has_session(id).await.expect("an answer")
    }

    #[tokio::test(start_paused = true)]
    async fn the_session_that_was_unused_for_longest_makes_room() {
        let sessions = Sessions::new(Most { all: 2, of_origin: 2 });
        let ids = [begin(&sessions, "a").await.expect("a session"), begin(&sessions, "a").await.expect("a session")];
        for id in ids.iter().rev() {
            assert!(sessions.has_session(id).await.expect("an answer"), "it is used");
        }
        assert!(matches!(begin(&sessions, "a").await, Err(SessionsError::InUse)), "both were used just now");
        tokio::time::advance(IDLE).await;
        let third = begin(&sessions, "a").await.expect("a session");
        assert!(!has(&sessions, &ids[1]).await && has(&sessions, &ids[0]).await && has(&sessions, &third).await);
        sessions.close_session(&third).await.expect("it closes");
        assert_eq!(sessions.used().sessions.len(), 1);
    }

    /// Threat: an `initialize` after the other, and nothing behind them.
    #[tokio::test(start_paused = true)]
    async fn whoever_begins_many_sessions_ends_its_own() {
        let sessions = Sessions::new(MOST);
        let other = begin(&sessions, "other").await.expect("a session");
        let mine = begin(&sessions, "me").await.expect("a session");
        sessions.has_session(&mine).await.expect("an answer");
        for _ in 0..20 {
            begin(&sessions, "me").await.expect("one that was only begun makes room");
        }
        assert!(has(&sessions, &other).await, "the flood has its share");
        assert!(has(&sessions, &mine).await, "a session that is worked with stays");
        assert_eq!(sessions.used().sessions.len(), 4);
    }

    #[tokio::test]
    async fn a_session_is_its_users_alone() {
        let sessions = Sessions::new(MOST);
        let by = |name: &str| {
            let user = User { name: name.to_owned(), scopes: [].into(), agents: [].into() };
            Arc::new(Asking::new(&Identity::User(user), "a"))
        };
        let (id, _transport) = ASKING.scope(by("alice"), sessions.create_session()).await.expect("a session");
        for (name, has) in [("alice", true), ("bob", false)] {
            assert_eq!(ASKING.scope(by(name), sessions.has_session(&id)).await.expect("an answer"), has, "{name}");
        }
        assert!(!sessions.has_session(&id).await.expect("an answer"), "of nobody");
    }

    #[tokio::test]
    async fn an_id_is_used_once_until_its_request_is_answered() {
        let sessions = Sessions::new(MOST);
        let ids = [begin(&sessions, "a").await.expect("a session"), begin(&sessions, "a").await.expect("a session")];
        let open = |at: usize, id: Value| sessions.open(&ids[at], "", &id);
        let first = open(0, json!(1)).expect("it is taken").expect("it is noted");
        assert_eq!(open(0, json!(1)).err(), Some(OpenError::Repeated));
        let others = [open(0, json!("1")), open(0, json!(2)), open(1, json!(1))];
        assert!(others.iter().all(|other| matches!(other, Ok(Some(_)))), "another id, or another session");
        assert!(matches!(sessions.open(&ids[0], "bob", &json!(1)), Ok(None)), "it is not his");
        assert!(matches!(sessions.open("none", "", &json!(1)), Ok(None)));
        drop(first);
        assert!(matches!(open(0, json!(1)), Ok(Some(_))), "it is answered");
        drop(others);
        let all: Vec<_> = (0..OPEN_MAX).map(|id| open(0, json!(id)).expect("there is room")).collect();
        assert_eq!(open(0, json!("more")).err(), Some(OpenError::Crowded));
        sessions.close_session(&ids[0]).await.expect("it closes");
        drop(all);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_whose_client_listens_stays() {
        let sessions = Sessions::new(Most { all: 1, of_origin: 1 });
        let listening = begin(&sessions, "a").await.expect("a session");
        let stream = sessions.stream(&listening, futures::stream::pending::<()>());
        tokio::time::advance(10 * IDLE).await;
        assert!(matches!(begin(&sessions, "b").await, Err(SessionsError::InUse)));
        drop(stream);
        assert!(matches!(begin(&sessions, "b").await, Err(SessionsError::InUse)), "it listened just now");
        tokio::time::advance(IDLE).await;
        begin(&sessions, "b").await.expect("it is idle");
        assert!(!has(&sessions, &listening).await);
    }
}

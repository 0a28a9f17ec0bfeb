//! Sessions of clients of versions before 2026-07-28, in bounded number: the one that was unused for longest makes room.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

/// Sessions at one time.
pub(crate) const SESSIONS_MAX: usize = 256;
/// A session that was unused for this long is over. Clients on desktops are idle overnight.
const UNUSED: Duration = Duration::from_secs(24 * 3_600);

/// The sessions.
pub(crate) struct Sessions {
    inner: LocalSessionManager,
    max: usize,
    used: Mutex<Used>,
}

/// When each session was used last, counted in uses of all.
#[derive(Default)]
struct Used {
    uses: u64,
    last: BTreeMap<SessionId, u64>,
}

impl Used {
    fn note(&mut self, id: &SessionId) {
        self.uses += 1;
        self.last.insert(id.clone(), self.uses);
    }

    fn oldest(&self) -> Option<SessionId> {
        self.last.iter().min_by_key(|(_, at)| **at).map(|(id, _)| id.clone())
    }
}

impl Sessions {
    pub fn new(max: usize) -> Sessions {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(UNUSED);
        Sessions { inner, max, used: Mutex::default() }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The session to close for one more, if there is no room. It is forgotten here.
    fn make_room(&self) -> Option<SessionId> {
        let mut used = self.used();
        let oldest = (used.last.len() >= self.max).then(|| used.oldest()).flatten()?;
        used.last.remove(&oldest);
        Some(oldest)
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        while let Some(oldest) = self.make_room() {
            self.inner.close_session(&oldest).await?;
        }
        let (id, transport) = self.inner.create_session().await?;
        self.used().note(&id);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        let has = self.inner.has_session(id).await?;
        if has {
            self.used().note(id);
        }
        Ok(has)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.used().last.remove(id);
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.resume(id, last_event_id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_session_that_was_unused_for_longest_makes_room() {
        let sessions = Sessions::new(2);
        let mut ids = Vec::new();
        let mut kept = Vec::new();
        for _ in 0..2 {
            let (id, transport) = sessions.create_session().await.expect("a session");
            ids.push(id);
            kept.push(transport);
        }
        assert!(sessions.has_session(&ids[0]).await.expect("an answer"), "it is used");
        let (third, _transport) = sessions.create_session().await.expect("a session");
        assert!(!sessions.inner.has_session(&ids[1]).await.expect("an answer"), "it made room");
        for id in [&ids[0], &third] {
            assert!(sessions.inner.has_session(id).await.expect("an answer"));
        }
        assert_eq!(sessions.used().last.len(), 2);
        sessions.close_session(&third).await.expect("it closes");
        assert_eq!(sessions.used().last.len(), 1);
    }
}

//! Whether a server answers: how its last listing ended.

use std::sync::{Arc, Mutex, MutexGuard};

use althing_execution::AgentState;
use althing_execution::tools::Fault;
use althing_td::ToolServerSpec;
use tokio::time::Instant;

use crate::LIST;
use crate::call::Running;

/// The state of one server.
pub struct Health {
    /// Its address, or its program; for its operator.
    at: String,
    now: Mutex<AgentState>,
    /// One that works on a call may list its tools late.
    running: Arc<Running>,
}

/// A listing that runs.
struct Listing<'a> {
    health: &'a Health,
    begun: Instant,
    has_ended: bool,
}

impl Drop for Listing<'_> {
    fn drop(&mut self) {
        // Who waited for it was cancelled, or had enough.
        if !self.has_ended && self.begun.elapsed() >= LIST && !self.health.running.is_busy(LIST) {
            self.health.away(&Fault::Silent(LIST));
        }
    }
}

impl Health {
    /// Of a server that was not asked yet.
    pub fn new(spec: &ToolServerSpec, running: Arc<Running>) -> Health {
        let at = match spec {
            ToolServerSpec::Command { command, .. } => command.first().cloned().unwrap_or_default(),
            ToolServerSpec::Url { url, .. } => url.clone(),
            ToolServerSpec::Thing { thing, .. } => thing.clone(),
        };
        Health { at, now: Mutex::new(AgentState::Ready), running }
    }

    pub fn state(&self) -> AgentState {
        self.lock().clone()
    }

    /// Notes how a listing ends.
    pub async fn noted<T>(&self, listing: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let mut running = Listing { health: self, begun: Instant::now(), has_ended: false };
        let listed = listing.await;
        running.has_ended = true;
        match &listed {
            Ok(_) => *self.lock() = AgentState::Ready,
            Err(fault) => self.away(fault),
        }
        listed
    }

    fn away(&self, fault: &Fault) {
        *self.lock() = AgentState::Unreachable { why: format!("{}: {fault}", self.at) };
    }

    fn lock(&self) -> MutexGuard<'_, AgentState> {
        self.now.lock().expect("no holder of a server's state panics")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const URL: &str = "https://tools.example/mcp";

    fn health() -> Health {
        let spec = ToolServerSpec::Url { url: URL.to_owned(), secret: None, leads_to: Vec::new() };
        Health::new(&spec, Arc::default())
    }

    fn is_away(health: &Health, part: &str) -> bool {
        matches!(health.state(), AgentState::Unreachable { why } if why.starts_with(URL) && why.contains(part))
    }

    #[tokio::test]
    async fn a_server_is_away_from_a_failed_listing_to_the_next_that_succeeds() {
        let health = health();
        assert_eq!(health.state(), AgentState::Ready, "before it was asked");
        let refused = async { Err::<(), _>(Fault::Unreachable("connection refused".to_owned())) };
        assert!(health.noted(refused).await.is_err());
        assert!(is_away(&health, "connection refused"), "{:?}", health.state());
        assert_eq!(health.noted(async { Ok(7) }).await, Ok(7));
        assert_eq!(health.state(), AgentState::Ready);
    }

    #[tokio::test(start_paused = true)]
    async fn a_listing_that_is_given_up_late_tells_of_silence_and_a_cancelled_one_tells_nothing() {
        let health = health();
        let hangs = || health.noted(std::future::pending::<Result<(), Fault>>());
        assert!(timeout(Duration::from_secs(1), hangs()).await.is_err());
        assert_eq!(health.state(), AgentState::Ready, "who asked was cancelled");
        assert!(timeout(2 * LIST, hangs()).await.is_err());
        assert!(is_away(&health, "did not answer"), "{:?}", health.state());
    }
}

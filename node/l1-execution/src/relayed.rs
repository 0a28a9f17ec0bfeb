//! What a relayed tool call has beside its arguments: MCP's answers to what its server asked for in the round before, where its
//! progress is told, and whether its caller can be asked; and the signs of life of a call, relayed or not.

use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task_local;
use tokio::time::Instant;

/// A relayed call. The result may be an `InputRequiredResult`, if its caller may be asked for input.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Relayed {
    /// The answers, by the names of the requests.
    pub input_responses: Option<Map<String, Value>>,
    /// The state that the server gave to be sent back.
    pub request_state: Option<String>,
    /// Who is told how far the call is.
    #[serde(skip)]
    pub progress: Progress,
    /// Whether its caller has somebody who can be asked (elicitation).
    #[serde(skip)]
    pub may_be_asked: bool,
    /// Whether its caller's client has a session with its own server, in which it is asked by requests.
    #[serde(skip)]
    pub has_session: bool,
}

/// Where progress is told, if anybody wants to know.
#[derive(Debug, Clone, Default)]
pub struct Progress(Option<mpsc::Sender<Value>>);

impl Progress {
    /// To this receiver.
    #[must_use]
    pub fn to(receiver: mpsc::Sender<Value>) -> Progress {
        Progress(Some(receiver))
    }

    /// Tells `progress`, `total` and `message` of MCP's notification.
    pub async fn tell(&self, progress: Value) {
        if let Some(receiver) = &self.0 {
            // Whoever listens no more misses nothing.
            let _ = receiver.send(progress).await;
        }
    }
}

/// When a call was last known to be alive: when it began, or told how far it is.
#[derive(Debug, Clone)]
pub struct Life(Arc<Mutex<Instant>>);

impl Life {
    /// Of a call that begins then.
    #[must_use]
    pub fn beginning(begun: Instant) -> Life {
        Life(Arc::new(Mutex::new(begun)))
    }

    /// The last sign of life.
    #[must_use]
    pub fn last(&self) -> Instant {
        *self.0.lock().expect("no holder of a time panics")
    }

    /// Runs a call whose signs of life these are.
    pub async fn of<F: Future>(self, call: F) -> F::Output {
        LIFE.scope(self, call).await
    }
}

/// A sign of life of the call that runs here; nothing elsewhere.
pub fn alive() {
    let now = Instant::now();
    // Nobody waits for it outside a call.
    let _ = LIFE.try_with(|life| *life.0.lock().expect("no holder of a time panics") = now);
}

task_local! {
    static RELAYED: Relayed;
    static LIFE: Life;
}

impl Relayed {
    /// Runs a call as relayed.
    pub async fn call<F: Future>(self, call: F) -> F::Output {
        RELAYED.scope(self, call).await
    }

    /// What the call that runs here has, if it is relayed.
    #[must_use]
    pub fn current() -> Option<Relayed> {
        RELAYED.try_with(Relayed::clone).ok()
    }
}

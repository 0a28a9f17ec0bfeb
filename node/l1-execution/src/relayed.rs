//! What a relayed tool call has beside its arguments: MCP's answers to what its server asked for in the round before, and
//! where its progress is told.

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task_local;

/// A relayed call. Its caller may be asked for input: the result may be an `InputRequiredResult`.
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

task_local! {
    static RELAYED: Relayed;
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

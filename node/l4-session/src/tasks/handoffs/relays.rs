//! How a turn learns that its work is given away.

use std::sync::Mutex;

use althing_protocol::Label;
use tokio::sync::{Notify, oneshot};

use super::rows::OutRow;
use crate::machine::handoff::Sender;

/// What follows the work of a task to its recipient.
pub(crate) struct Relay {
    pub(super) row: OutRow,
    /// Who gave the work away, as the row says.
    pub(super) sender: Sender,
    /// Whether the recipient keeps the handoff until the work begins.
    pub(super) kept: bool,
    /// The label of the task when it was given away.
    pub(super) label: Option<Label>,
    /// Is told when the task's agent has stopped.
    pub(super) started: Option<oneshot::Sender<()>>,
}

/// Where a turn finds what follows its work, once that is given away.
#[derive(Default)]
pub(crate) struct Relays {
    relay: Mutex<Option<Relay>>,
    news: Notify,
}

impl Relays {
    /// Has the turn stop its agent, and follow the work.
    pub fn hand(&self, relay: Relay) {
        *self.relay.lock().expect("no holder of a relay panics") = Some(relay);
        self.news.notify_one();
    }

    /// What is to be followed, if the work is given away by now.
    pub fn take(&self) -> Option<Relay> {
        self.relay.lock().expect("no holder of a relay panics").take()
    }

    /// The same, once it is.
    pub async fn given(&self) -> Relay {
        loop {
            self.news.notified().await;
            if let Some(relay) = self.take() {
                return relay;
            }
        }
    }
}

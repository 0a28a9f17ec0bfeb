//! Messages that are being accepted: of two with the same id, the second waits until the first is accepted.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::machine::record::Scope;

/// The caller's scope, the agent's name, and the message's id.
pub(crate) type MessageKey = (Scope, String, String);

/// Messages that are being accepted.
#[derive(Clone, Default)]
pub(crate) struct InFlightMessages(Arc<Shared>);

#[derive(Default)]
struct Shared {
    keys: Mutex<BTreeSet<MessageKey>>,
    /// Notified whenever a message is done.
    released: Notify,
}

/// A message that is being accepted, until this is dropped.
pub(crate) struct InFlightGuard {
    messages: InFlightMessages,
    key: MessageKey,
}

impl InFlightMessages {
    /// Waits until no other message with that key is being accepted.
    pub async fn acquire(&self, key: MessageKey) -> InFlightGuard {
        loop {
            // Created before the check, so that no notification is missed in between.
            let released = self.0.released.notified();
            if self.keys().insert(key.clone()) {
                return InFlightGuard { messages: self.clone(), key };
            }
            released.await;
        }
    }

    fn keys(&self) -> MutexGuard<'_, BTreeSet<MessageKey>> {
        self.0.keys.lock().expect("no holder of the messages panics")
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.messages.keys().remove(&self.key);
        self.messages.0.released.notify_waiters();
    }
}

//! Events of agents, from where they arrive to those who observe them here. All who may use a gateway are one principal, and
//! see each other's tasks by every face; once there are several, an observer may be told only of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_protocol::AgentId;
use tokio::sync::broadcast;

/// Events that wait for a slow observer; it misses the oldest beyond this.
const WAITING_MAX: usize = 256;

/// What is observed, by agent. An agent that nobody observes has no entry.
#[derive(Default)]
pub(super) struct Bus(Mutex<BTreeMap<AgentId, broadcast::Sender<Arc<str>>>>);

impl Bus {
    /// Tells those who observe an agent.
    pub fn tell(&self, agent: &AgentId, event: &serde_json::Value) {
        let mut observed = self.lock();
        let Some(sender) = observed.get(agent) else { return };
        // It fails if the last observer is gone.
        if sender.send(event.to_string().into()).is_err() {
            observed.remove(agent);
        }
    }

    /// Observes an agent from now on.
    pub fn observe(&self, agent: &AgentId) -> broadcast::Receiver<Arc<str>> {
        let mut observed = self.lock();
        observed.retain(|_, sender| sender.receiver_count() > 0);
        observed.entry(agent.clone()).or_insert_with(|| broadcast::Sender::new(WAITING_MAX)).subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, broadcast::Sender<Arc<str>>>> {
        self.0.lock().expect("no holder of what is observed panics")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn observers_get_their_agents_events_and_the_last_one_leaves_nothing() {
        let id = |name: &str| -> AgentId {
            format!("urn:althing:zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw:{name}").parse().expect("an id")
        };
        let bus = Bus::default();
        bus.tell(&id("a"), &json!(0));
        let (mut first, mut second) = (bus.observe(&id("a")), bus.observe(&id("a")));
        let mut other = bus.observe(&id("b"));
        bus.tell(&id("a"), &json!(1));
        assert_eq!((first.try_recv().as_deref(), second.try_recv().as_deref()), (Ok("1"), Ok("1")));
        assert!(other.try_recv().is_err());
        drop((first, second));
        bus.tell(&id("a"), &json!(2));
        assert_eq!(bus.lock().keys().collect::<Vec<_>>(), [&id("b")]);
    }
}

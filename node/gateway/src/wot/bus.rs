//! Events of agents, from where they arrive to those who observe them here. Each observer is told of its own principal's
//! tasks only.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use althing_calls::Principal;
use althing_protocol::AgentId;
use tokio::sync::Notify;

use crate::client::Client;
use crate::response_budget::{Full, Share};

/// Events that wait for a slow observer; it misses the oldest beyond this.
const WAITING_MAX: usize = 256;
/// Bytes of these. The client's share bounds what all of its observers have.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// What an observer takes without any event.
const OBSERVER_BYTES: usize = 1_024;

/// Who observes, by agent. An agent that nobody observes has no entry.
#[derive(Default)]
pub(super) struct Bus(Mutex<BTreeMap<AgentId, Vec<Weak<Queue>>>>);

impl Bus {
    /// Tells those who observe an agent of an event of that principal's task.
    pub fn tell(&self, agent: &AgentId, of: &Principal, event: &serde_json::Value) {
        let mut observed = self.lock();
        let Some(observers) = observed.get_mut(agent) else { return };
        observers.retain(|queue| queue.strong_count() > 0);
        if observers.is_empty() {
            observed.remove(agent);
            return;
        }
        let event: Arc<str> = event.to_string().into();
        for queue in observers.iter().filter_map(Weak::upgrade).filter(|queue| queue.client.principal == *of) {
            queue.push(&event);
        }
    }

    /// Observes an agent from now on.
    ///
    /// # Errors
    /// When the client has no room for what waits for it.
    pub fn observe(&self, agent: &AgentId, client: &Client) -> Result<Observer, Full> {
        let share = client.account.hold(OBSERVER_BYTES)?;
        let queue =
            Arc::new(Queue { client: client.clone(), waiting: Mutex::default(), bell: Notify::new(), _share: share });
        let mut observed = self.lock();
        observed.retain(|_, observers| {
            observers.retain(|queue| queue.strong_count() > 0);
            !observers.is_empty()
        });
        observed.entry(agent.clone()).or_default().push(Arc::downgrade(&queue));
        Ok(Observer(queue))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, Vec<Weak<Queue>>>> {
        self.0.lock().expect("no holder of what is observed panics")
    }
}

/// An event, and the room that it takes of its observer's share.
pub(super) struct Told {
    pub text: Arc<str>,
    _share: Share,
}

/// What waits for an observer.
struct Queue {
    client: Client,
    waiting: Mutex<VecDeque<Told>>,
    bell: Notify,
    _share: Share,
}

impl Queue {
    /// Adds an event; the oldest make room for it. One for which there is no room at all is missed.
    fn push(&self, event: &Arc<str>) {
        let mut waiting = self.lock();
        let mut bytes: usize = waiting.iter().map(|told| told.text.len()).sum();
        loop {
            let fits = waiting.len() < WAITING_MAX && bytes + event.len() <= WAITING_BYTES_MAX;
            let share = fits.then(|| self.client.account.hold(event.len()).ok()).flatten();
            if let Some(share) = share {
                waiting.push_back(Told { text: event.clone(), _share: share });
                break;
            }
            match waiting.pop_front() {
                Some(oldest) => bytes -= oldest.text.len(),
                None => return,
            }
        }
        drop(waiting);
        self.bell.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Told>> {
        self.waiting.lock().expect("no holder of a queue panics")
    }
}

/// Reads the events of an agent. Who reads slowly misses some, and goes on with the next.
pub(super) struct Observer(Arc<Queue>);

impl Observer {
    /// The next event.
    pub async fn next(&self) -> Told {
        loop {
            if let Some(told) = self.0.lock().pop_front() {
                return told;
            }
            self.0.bell.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::response_budget::ResponseBudget;

    fn id(name: &str) -> AgentId {
        format!("urn:althing:zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw:{name}").parse().expect("an id")
    }

    fn next(observer: &Observer) -> Option<String> {
        observer.next().now_or_never().map(|told| told.text.to_string())
    }

    #[test]
    fn observers_get_their_agents_events_and_the_last_one_leaves_nothing() {
        let (bus, budget) = (Bus::default(), Arc::<ResponseBudget>::default());
        let observe = |agent: &str| bus.observe(&id(agent), &Client::of("a", &budget)).expect("room");
        bus.tell(&id("a"), &Principal::Local, &json!(0));
        let (first, second, other) = (observe("a"), observe("a"), observe("b"));
        bus.tell(&id("a"), &Principal::Local, &json!(1));
        assert_eq!((next(&first), next(&second)), (Some("1".to_owned()), Some("1".to_owned())));
        assert_eq!((next(&first), next(&other)), (None, None));
        drop((first, second));
        bus.tell(&id("a"), &Principal::Local, &json!(2));
        assert_eq!(bus.lock().keys().collect::<Vec<_>>(), [&id("b")]);
        drop(other);
        assert_eq!(budget.bytes(), 0);
    }

    /// Threat: clients that open many streams of events and read none.
    #[test]
    fn who_does_not_read_misses_the_oldest_and_takes_nothing_from_others() {
        let (bus, budget) = (Bus::default(), Arc::new(ResponseBudget::new(16 << 20, 6 << 20)));
        let (greedy, fair) = (Client::of("greedy", &budget), Client::of("fair", &budget));
        let slow: Vec<Observer> = (0..100).map(|_| bus.observe(&id("a"), &greedy).expect("room")).collect();
        let reader = bus.observe(&id("a"), &fair).expect("room");
        let padding = "x".repeat(1 << 20);
        for number in 0..20 {
            bus.tell(&id("a"), &Principal::Local, &json!([number, padding]));
            let told: Value = serde_json::from_str(&next(&reader).expect("it reads all")).expect("JSON");
            assert_eq!(told[0], number);
        }
        assert!(budget.bytes() <= 7 << 20, "{} bytes are kept", budget.bytes());
        let rest: Vec<String> = slow.iter().flat_map(|observer| std::iter::from_fn(|| next(observer))).collect();
        assert!((1..=6).contains(&rest.len()), "{} events wait", rest.len());
        assert!(bus.observe(&id("a"), &fair).is_ok());
        drop((slow, reader));
        assert_eq!(budget.bytes(), 0);
    }

    #[test]
    fn no_more_events_wait_than_their_number_says() {
        let (bus, budget) = (Bus::default(), Arc::<ResponseBudget>::default());
        let slow = bus.observe(&id("a"), &Client::of("a", &budget)).expect("room");
        for number in 0..WAITING_MAX + 10 {
            bus.tell(&id("a"), &Principal::Local, &json!(number));
        }
        assert_eq!(next(&slow), Some("10".to_owned()));
        assert_eq!(std::iter::from_fn(|| next(&slow)).count(), WAITING_MAX - 1);
    }

    #[test]
    fn nobody_is_told_of_anothers_tasks() {
        let (bus, budget) = (Bus::default(), Arc::<ResponseBudget>::default());
        let mut alice = Client::of("alice", &budget);
        alice.principal = Principal::User("alice".to_owned());
        let (hers, local) = (bus.observe(&id("a"), &alice), bus.observe(&id("a"), &Client::of("local", &budget)));
        bus.tell(&id("a"), &alice.principal, &json!("secret"));
        assert_eq!((next(&hers.expect("room")), next(&local.expect("room"))), (Some("\"secret\"".to_owned()), None));
    }
}

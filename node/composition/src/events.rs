//! What happens on the node, as it happens: the newest events, and whoever follows them.
//!
//! An event is noted where something changes, and says nothing that the owner's API does not show. Nobody waits for those who
//! follow: whoever is too slow, or asks for events that are gone, is told so, and looks at how everything is now.

mod machine;

use std::sync::{Arc, Mutex};

use althing_communication::WallClock;
use tokio::sync::watch;

use machine::{Ring, Since};

/// Events that are kept, of about 200 bytes each.
const EVENTS_MAX: usize = 4_096;
/// The first number of a node that starts is its time in milliseconds, times this: numbers go on from those of the run before,
/// and are exact in JSON (2^53) for as long as there are less events than this in a millisecond.
const NUMBERS_PER_MS: u64 = 1_024;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An agent runs from now on.
    AgentStart {
        /// Its name.
        agent: String,
        /// The urn by which others call it.
        id: String,
    },
    /// An agent runs no more.
    AgentEnd {
        /// Its name.
        agent: String,
    },
    /// A turn of a task that agents of this node have is over.
    Task {
        /// The task's id.
        task: String,
        /// The agent, by name.
        agent: String,
        /// The task's state, as A2A names it: `TASK_STATE_COMPLETED`.
        state: String,
    },
    /// This node's part in a group is another one, or somebody else leads it.
    Group {
        /// The group's id.
        group: String,
        /// Its name, for people.
        name: String,
        /// `member`, `joining`, `gone` or `dissolved`; `forgotten` where this node has nothing of it any more.
        standing: String,
        /// The DID of who leads it, if that is known.
        leader: Option<String>,
    },
    /// A group has other tasks, or they are in other states.
    GroupTasks {
        /// The group's id.
        group: String,
        /// How many are in which state.
        tasks: TaskCounts,
    },
    /// The owner trusts somebody from now on, or no longer.
    TrustChange {
        /// The id of a node or a publisher.
        id: String,
        /// Whether it is trusted.
        trusted: bool,
    },
    /// A registry is followed from now on or no longer, or is asked nothing more.
    Registry {
        /// Its address.
        registry: String,
        /// Whether it is followed.
        followed: bool,
        /// Whether it showed two histories: then it is asked nothing more.
        forked: bool,
    },
    /// The owner's keys are others.
    OwnerKeys {
        /// `active`, `rotating`, `revoked`, `outdated` or `withdrawn`.
        state: String,
        /// The name of the key that signs here.
        key: String,
    },
}

/// How many tasks of a group are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Tasks that no member has yet.
    pub waiting: usize,
    /// Tasks that a member has.
    pub working: usize,
    /// Tasks that were completed.
    pub completed: usize,
    /// Tasks that failed, or took too long.
    pub failed: usize,
}

/// An event with its number and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventEntry {
    /// Its number; later ones are higher.
    pub id: u64,
    /// When it was noted, milliseconds since 1970.
    pub at_ms: u64,
    /// What happened.
    pub event: Event,
}

/// What whoever follows events is told next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventNews {
    /// The next event.
    Entry(EventEntry),
    /// Events are gone that were asked for. How everything is, looked at from now on, is at least as new as the event `id`.
    Gap {
        /// How many; none if they are not of this run of the node.
        missed: Option<u64>,
        /// The newest event; what follows comes after it.
        id: u64,
    },
}

/// The events of a node.
#[derive(Clone)]
pub struct Events {
    shared: Arc<EventLog>,
}

struct EventLog {
    ring: Mutex<Ring<EventEntry>>,
    newest: watch::Sender<u64>,
    clock: WallClock,
}

impl Events {
    /// No events yet.
    #[must_use]
    pub fn new(clock: WallClock) -> Events {
        let ring = Ring::new(clock.now_ms().saturating_mul(NUMBERS_PER_MS), EVENTS_MAX);
        let newest = watch::Sender::new(ring.newest());
        Events { shared: Arc::new(EventLog { ring: Mutex::new(ring), newest, clock }) }
    }

    /// Notes that something happened.
    ///
    /// # Panics
    /// If another holder panicked.
    pub fn note(&self, event: Event) {
        let at_ms = self.shared.clock.now_ms();
        let mut ring = self.shared.ring.lock().expect("no holder of the events panics");
        let id = ring.push(|id| EventEntry { id, at_ms, event });
        // Within the lock: the numbers that are announced rise.
        self.shared.newest.send_replace(id);
    }

    /// Changes with each event.
    fn changes(&self) -> watch::Receiver<u64> {
        self.shared.newest.subscribe()
    }

    /// Follows events: those after the number `last`, or from now on.
    #[must_use]
    pub fn follow(&self, last: Option<u64>) -> EventFollower {
        let newest = self.changes();
        let last = last.unwrap_or_else(|| *newest.borrow());
        EventFollower { events: self.clone(), newest, last }
    }

    fn after(&self, number: u64) -> Since<EventEntry> {
        self.shared.ring.lock().expect("no holder of the events panics").after(number)
    }
}

/// Follows the events of a node, until it is dropped.
pub struct EventFollower {
    events: Events,
    newest: watch::Receiver<u64>,
    /// The number of what was told last.
    last: u64,
}

impl EventFollower {
    /// What is told next. It does not end by itself.
    ///
    /// # Panics
    /// If another holder of the events panicked.
    pub async fn next(&mut self) -> EventNews {
        loop {
            // First: what comes after the look is then waited for, and not missed.
            self.newest.mark_unchanged();
            match self.events.after(self.last) {
                Since::Entry(entry) => {
                    self.last = entry.id;
                    return EventNews::Entry(entry);
                }
                Since::Gap(missed, id) => {
                    self.last = id;
                    return EventNews::Gap { missed, id };
                }
                // The sender lives as long as the events that are held here.
                Since::Nothing => {
                    let _ = self.newest.changed().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;

    fn trust(id: u64) -> Event {
        Event::TrustChange { id: id.to_string(), trusted: true }
    }

    fn id(news: EventNews) -> u64 {
        let EventNews::Entry(entry) = news else { panic!("{news:?}") };
        assert_eq!(entry.at_ms, NOW_MS);
        entry.id
    }

    #[tokio::test]
    async fn whoever_waits_is_told_of_each_event_and_whoever_comes_back_of_those_meanwhile() {
        let events = Events::new(WallClock::new(|| NOW_MS));
        events.note(trust(0));
        let mut follower = events.follow(None);
        assert_eq!(follower.next().now_or_never(), None, "what was before is not told");
        let waiting = tokio::spawn(async move { (follower.next().await, follower) });
        tokio::task::yield_now().await;
        events.note(trust(1));
        let (told, follower) = waiting.await.expect("it is told");
        let last = id(told);
        drop(follower);
        events.note(trust(2));
        events.note(trust(3));
        let mut back = events.follow(Some(last));
        assert_eq!([id(back.next().await), id(back.next().await)], [last + 1, last + 2]);
        assert_eq!(back.next().now_or_never(), None);
    }

    #[tokio::test]
    async fn whoever_asks_for_events_that_are_gone_is_told_how_many_and_goes_on_from_the_newest() {
        let events = Events::new(WallClock::new(|| NOW_MS));
        let begun = *events.changes().borrow();
        let more = 10;
        let most = u64::try_from(EVENTS_MAX).expect("a small number");
        (0..most + more).for_each(|number| events.note(trust(number)));
        let newest = begun + most + more;
        let mut late = events.follow(Some(begun));
        assert_eq!(late.next().await, EventNews::Gap { missed: Some(most + more), id: newest });
        assert_eq!(late.next().now_or_never(), None);
        let mut in_time = events.follow(Some(begun + more));
        assert_eq!(id(in_time.next().await), begun + more + 1, "the newest 4,096 are kept");
        // Numbers of another run, or of none.
        for other in [0, 1, begun - 1, newest + 1, u64::MAX] {
            let gap = EventNews::Gap { missed: None, id: newest };
            assert_eq!(events.follow(Some(other)).next().await, gap, "{other}");
        }
        events.note(trust(0));
        assert_eq!(id(late.next().await), newest + 1);
    }
}

//! A task that is not over: its turn, and those who listen to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use a2a::{Message, StreamResponse, Task, TaskState, TaskStatus};
use althing_execution::agent::Metadata;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::error::OperationError;
use crate::machine::record::Record;
use crate::machine::task;
use crate::operation::CallMetadata;
use crate::tasks::opening::{Answer, Opened, Opening, Outcome};

/// Events that wait for one listener. When they are full, the agent waits for it.
const EVENTS: usize = 64;
/// Listeners of one task.
pub(crate) const LISTENERS_MAX: usize = 64;
/// A listener that takes nothing for this long is dropped, so that it cannot hold up the agent and the others.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a turn is begun with, beside its task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    /// What travelled beside the message.
    pub call: CallMetadata,
    /// `metadata` of the request.
    pub metadata: Option<Metadata>,
    /// `acceptedOutputModes` of its configuration.
    pub accepted_output_modes: Option<Vec<String>>,
    /// `historyLength` of its configuration.
    pub history_length: Option<i32>,
    /// How the task stood before the message continued it; none for a new task.
    pub before: Option<TaskStatus>,
    /// Whether the agent may answer without a task.
    pub may_reply: bool,
    /// The id of the message.
    pub message_id: String,
}

impl Asked {
    pub fn new(request: &a2a::SendMessageRequest, call: &CallMetadata, may_reply: bool) -> Asked {
        let configuration = request.configuration.as_ref();
        Asked {
            call: call.clone(),
            metadata: request.metadata.clone(),
            accepted_output_modes: configuration.and_then(|c| c.accepted_output_modes.clone()),
            history_length: configuration.and_then(|c| c.history_length),
            before: None,
            may_reply,
            message_id: request.message.message_id.clone(),
        }
    }
}

/// A task that is not over.
pub(crate) struct Live {
    pub(super) now: Mutex<Now>,
    /// The task's id, and the agent's name.
    pub(super) id: String,
    pub agent: String,
    /// What this turn was begun with.
    pub(super) asked: Asked,
    /// What is known of its answer.
    pub answer: Answer,
    /// Cancels the turn that runs.
    pub cancel: CancellationToken,
    /// Whether it is cancelled for a new message: then its task goes on.
    pub(super) interrupted: AtomicBool,
    /// The state that was last written; whoever waits for the turn's end watches it.
    pub state: watch::Sender<TaskState>,
}

/// Somebody who hears what happens to a task.
#[derive(Clone)]
pub(crate) struct Listener {
    sender: mpsc::Sender<StreamResponse>,
    /// Whether it hears of the turns after this one too: it subscribed to the task, it did not send a message.
    pub(super) stays: bool,
}

impl Listener {
    pub fn new(stays: bool) -> (Listener, mpsc::Receiver<StreamResponse>) {
        let (sender, receiver) = mpsc::channel(EVENTS);
        (Listener { sender, stays }, receiver)
    }

    /// True when nobody takes what it is told.
    pub fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    /// Waits for room; false when there is none for too long.
    pub async fn tell(&self, event: StreamResponse) -> bool {
        self.sender.send_timeout(event, PATIENCE).await.is_ok()
    }
}

pub(super) struct Now {
    pub(super) record: Record,
    pub(super) listeners: Vec<Listener>,
    /// Bytes of what was made, as JSON.
    pub(super) artifact_bytes: usize,
    /// Bytes of the task as it is stored, at most: that of when the turn began, and of all that was made since.
    pub(super) stored_bytes: usize,
    /// How the agent said that the turn ends. It becomes the task's state when it is on disk, not before.
    pub(super) ending: Option<Ending>,
    pub(super) running: bool,
    /// Whether the agent made a task of the message.
    pub(super) begun: bool,
    /// Those who wait for how the answer begins: whoever sent the message, and sent it again.
    pub(super) openings: Vec<oneshot::Sender<Opening>>,
    /// How many of them have not heard it.
    pub(super) waiting: usize,
    /// Whether somebody heard how the answer begins, or waits for all of it.
    pub(super) wanted: bool,
    pub(super) named: Named,
}

/// Whether a turn leaves a task behind, as far as that hangs on who was given its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// Nobody was given it: the agent may answer without a task.
    Nowhere,
    /// Somebody was given it before the agent had answered: the task stays.
    Disclosed,
    /// The agent answered without a task: nobody is given it any more.
    Withdrawn,
}

/// How the agent said that a turn ends.
pub(super) enum Ending {
    Status(TaskState, Option<Message>, Option<Metadata>),
    Reply(Message),
}

impl Now {
    /// The answer begins with the task as it is.
    pub(super) fn open(&mut self) {
        self.begun = true;
        self.listeners.retain(|held| !held.is_gone());
        for opening in std::mem::take(&mut self.openings) {
            let opened = if self.listeners.len() == LISTENERS_MAX {
                Opening::Refused(crowded(&self.record.task.id))
            } else {
                let (listener, receiver) = Listener::new(false);
                self.listeners.push(listener);
                Opening::Task(self.record.task.clone(), receiver)
            };
            // Who asked may have gone away.
            let _ = opening.send(opened);
        }
    }

    /// The turn is over: an answer that has not begun is its outcome, or else the task as it is.
    pub(super) fn close(&mut self, outcome: Option<Outcome>) {
        self.begun = true;
        for opening in std::mem::take(&mut self.openings) {
            let (_, nothing_more) = mpsc::channel(1);
            let task = || Opening::Task(self.record.task.clone(), nothing_more);
            // Who asked may have gone away.
            let _ = opening.send(outcome.clone().map_or_else(task, Opening::from));
        }
    }
}

/// Waits for how an answer begins. When all who do hang up before they hear it, nobody was told which task it is, and
/// nobody else could cancel it: it is given up.
pub(crate) struct Waiting {
    live: Arc<Live>,
    opened: Opened,
}

impl Waiting {
    /// How the answer begins; nothing when the turn ended without a word.
    pub async fn opening(mut self) -> Option<Opening> {
        let opening = (&mut self.opened).await.ok();
        self.live.want();
        opening
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let given_up = {
            let mut now = self.live.lock();
            now.waiting -= 1;
            now.waiting == 0 && !now.wanted
        };
        if given_up {
            self.live.cancel.cancel();
        }
    }
}

impl Live {
    /// A turn that begins, of a task that takes `stored_bytes`, and those who waited for it.
    pub fn new(record: Record, stored_bytes: usize, listeners: Vec<Listener>, asked: Asked) -> Live {
        let state = watch::Sender::new(record.task.status.state.clone());
        let artifact_bytes = record.task.artifacts.iter().flatten().map(task::bytes).sum();
        let (id, agent) = (record.task.id.clone(), record.agent.clone());
        let now = Now {
            record,
            listeners,
            artifact_bytes,
            stored_bytes,
            ending: None,
            running: true,
            begun: !asked.may_reply,
            openings: Vec::new(),
            waiting: 0,
            wanted: false,
            named: Named::Nowhere,
        };
        Live {
            now: Mutex::new(now),
            id,
            agent,
            asked,
            answer: Answer::default(),
            cancel: CancellationToken::new(),
            interrupted: AtomicBool::new(false),
            state,
        }
    }

    pub fn record(&self) -> Record {
        self.lock().record.clone()
    }

    /// Stops the turn for a new message, and waits until its task is at rest, with what was made kept.
    pub async fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Release);
        self.cancel.cancel();
        // The sender lives in `self`: waiting cannot fail.
        let _ = self.state.subscribe().wait_for(task::rests).await;
    }

    pub fn running(&self) -> bool {
        self.lock().running
    }

    /// The task as it is now, and all that happens to it from now on; nothing when too many listen.
    pub fn listen(&self, stays: bool) -> Option<(Task, mpsc::Receiver<StreamResponse>)> {
        let mut now = self.lock();
        now.listeners.retain(|held| !held.is_gone());
        if now.listeners.len() == LISTENERS_MAX {
            return None;
        }
        let (listener, receiver) = Listener::new(stays);
        now.listeners.push(listener);
        Some((now.record.task.clone(), receiver))
    }

    /// Waits for how the answer to the message begins.
    pub fn open(self: &Arc<Live>) -> Waiting {
        let (sender, opened) = oneshot::channel();
        let mut now = self.lock();
        now.waiting += 1;
        now.openings.retain(|opening| !opening.is_closed());
        if now.openings.len() == LISTENERS_MAX {
            // Who asked is just asking.
            let _ = sender.send(Opening::Refused(crowded(&self.id)));
        } else {
            now.openings.push(sender);
            if !now.running || now.named == Named::Withdrawn && self.answer.outcome().is_some() {
                now.close(self.answer.outcome());
            } else if now.begun {
                now.open();
            }
        }
        drop(now);
        Waiting { live: self.clone(), opened }
    }

    /// Somebody waits for all of the answer, or knows of the task: nobody else gives it up by hanging up.
    pub fn want(&self) {
        self.lock().wanted = true;
    }

    /// Somebody is to be given the task's id: then it stays. False when the agent answered without a task before.
    pub fn disclose(&self) -> bool {
        let mut now = self.lock();
        if now.named == Named::Withdrawn {
            return false;
        }
        now.named = Named::Disclosed;
        true
    }

    /// The agent answered without a task. False when somebody was given the task's id: then it stays.
    pub(super) fn leaves_no_task(&self) -> bool {
        let mut now = self.lock();
        if now.named == Named::Disclosed {
            return false;
        }
        now.named = Named::Withdrawn;
        true
    }

    /// Is this the turn of that message?
    pub fn is_of(&self, message_id: &str) -> bool {
        self.asked.message_id == message_id
    }

    /// An event as whoever sent the message hears it: where the agent ended the turn with an error, that error.
    pub fn told(&self, event: StreamResponse) -> Result<StreamResponse, OperationError> {
        match (&event, self.answer.outcome()) {
            (StreamResponse::StatusUpdate(update), Some(Outcome::Refused(error)))
                if update.status.state == TaskState::Failed =>
            {
                Err(error)
            }
            _ => Ok(event),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("no holder of the task panics")
    }

    /// Changes the task under its lock; then tells every listener, one event after the other.
    pub(super) async fn change(&self, change: impl FnOnce(&mut Now) -> Option<StreamResponse>) {
        let (event, listeners) = {
            let mut now = self.lock();
            let event = change(&mut now);
            (event, now.listeners.clone())
        };
        let Some(event) = event else { return };
        for listener in &listeners {
            if !listener.tell(event.clone()).await {
                self.lock().listeners.retain(|held| !held.sender.same_channel(&listener.sender));
            }
        }
    }
}

/// Too many listen.
pub(crate) fn crowded(id: &str) -> OperationError {
    OperationError::busy(format!("{LISTENERS_MAX} listen to task {id}; GetTask shows it"))
}

#[cfg(test)]
mod tests {
    use a2a::{Part, Role};

    use super::*;

    fn word(number: usize) -> StreamResponse {
        StreamResponse::Message(Message::new(Role::Agent, vec![Part::text(number.to_string())]))
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_is_behind_is_waited_for_and_hears_all_in_order() {
        let (listener, mut events) = Listener::new(true);
        let telling = async move {
            for number in 0..EVENTS + 10 {
                assert!(listener.tell(word(number)).await, "event {number}: it is there, and patience is not over");
            }
        };
        let hearing = async {
            // It takes nothing until it is behind by as much as there is room for.
            tokio::time::sleep(PATIENCE / 2).await;
            let mut heard = Vec::new();
            while let Some(StreamResponse::Message(message)) = events.recv().await {
                heard.push(message.text().unwrap_or_default().to_owned());
            }
            heard
        };
        let ((), heard) = tokio::join!(telling, hearing);
        assert_eq!(heard, (0..EVENTS + 10).map(|number| number.to_string()).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_takes_nothing_for_too_long_is_given_up() {
        let (listener, _events) = Listener::new(true);
        for number in 0..EVENTS {
            assert!(listener.tell(word(number)).await);
        }
        let begun = tokio::time::Instant::now();
        assert!(!listener.tell(word(EVENTS)).await, "it would miss an event");
        assert_eq!(begun.elapsed(), PATIENCE);
    }
}

//! A task that is alive: its turn, and those who listen to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use a2a::{Message, Part, Role, StreamResponse, Task, TaskState};
use althing_execution::agent::{Made, Parameters};
use althing_execution::{AgentError, Output, Turn};
use althing_store::Durability;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::hosting::Hosting;
use crate::machine::task;
use crate::operation::Beside;
use crate::tasks::{Record, TaskStoreError};
use crate::trace::Trace;

/// Events that wait for one listener. When they are full, the agent waits for it.
const EVENTS: usize = 64;
/// Listeners of one task.
pub(crate) const LISTENERS_MAX: usize = 64;
/// A listener that takes nothing for this long is dropped, so that it cannot hold up the agent and the others.
const PATIENCE: Duration = Duration::from_secs(10);

/// A task that is not over.
pub(crate) struct Live {
    now: Mutex<Now>,
    /// What travelled beside the message of this turn.
    beside: Beside,
    /// Cancels the turn that runs.
    pub cancel: CancellationToken,
    /// Whether it is cancelled for a new message: then its task goes on.
    interrupted: AtomicBool,
    /// The state that was last written; whoever waits for the turn's end watches it.
    pub state: watch::Sender<TaskState>,
}

/// Somebody who hears what happens to a task.
#[derive(Clone)]
pub(crate) struct Listener {
    sender: mpsc::Sender<StreamResponse>,
    /// Whether it hears of the turns after this one too: it subscribed to the task, it did not send a message.
    stays: bool,
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

struct Now {
    record: Record,
    listeners: Vec<Listener>,
    artifact_bytes: usize,
    /// How the agent said that the turn ends. It becomes the task's state when it is on disk, not before.
    ending: Option<(TaskState, Option<Message>)>,
    running: bool,
}

impl Live {
    /// A turn that begins, and those who waited for it.
    pub fn new(record: Record, listeners: Vec<Listener>, beside: Beside) -> Live {
        let state = watch::Sender::new(record.task.status.state.clone());
        let made = record.task.artifacts.iter().flatten();
        let artifact_bytes = made.map(|artifact| serde_json::to_vec(artifact).map_or(0, |json| json.len())).sum();
        let now = Now { record, listeners, artifact_bytes, ending: None, running: true };
        Live {
            now: Mutex::new(now),
            beside,
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

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("no holder of the task panics")
    }

    /// Changes the task under its lock; then tells every listener, one event after the other.
    async fn change(&self, change: impl FnOnce(&mut Now) -> Option<StreamResponse>) {
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

/// Runs one turn to its end; the task is then at rest, and on disk.
pub(crate) async fn run(hosting: &Hosting, live: &Live) {
    let record = live.record();
    let (agent, id) = (record.agent.clone(), record.task.id.clone());
    let turn = turn_of(record, live.beside.clone());
    live.change(|now| Some(task::set(&mut now.record.task, TaskState::Working, None, hosting.now()))).await;
    let (output, mut outputs) = Output::channel();
    let working = hosting.host().turn(&agent, turn, output);
    tokio::pin!(working);
    let mut outcome = None;
    let ended = loop {
        tokio::select! {
            biased;
            () = live.cancel.cancelled() => break Err(AgentError::Cancelled),
            made = outputs.recv() => match made {
                Some(made) => if let Err(error) = take(hosting, live, made).await { break Err(error) },
                // All was taken; what the turn itself says comes from `working`.
                None => match outcome.take() {
                    Some(outcome) => break outcome,
                    None => break working.as_mut().await,
                },
            },
            ended = &mut working, if outcome.is_none() => outcome = Some(ended),
        }
    };
    let (state, message) = match verdict(ended) {
        (Some(TaskState::Canceled), _) if live.interrupted.load(Ordering::Acquire) => {
            (Some(TaskState::InputRequired), Some("interrupted by a new message".to_owned()))
        }
        verdict => verdict,
    };
    finish(hosting, live, state, message).await;
    tracing::debug!(agent, task = id, state = ?live.record().task.status.state, "turn ended");
}

fn turn_of(record: Record, beside: Beside) -> Turn {
    let mut history = record.task.history.unwrap_or_default();
    let message = history.pop().unwrap_or_else(|| Message::new(Role::User, Vec::new()));
    let artifacts = record.task.artifacts.unwrap_or_default();
    let (task_id, context_id) = (record.task.id, record.task.context_id);
    let Trace { traceparent, tracestate } = Trace::of(&tracing::Span::current());
    let parameters =
        Parameters { extensions: beside.extensions, principals: beside.principals, traceparent, tracestate };
    Turn { task_id, context_id, message, history, artifacts, remembered: record.remembered, parameters }
}

/// Takes one output; an error ends the turn.
async fn take(hosting: &Hosting, live: &Live, made: Made) -> Result<(), AgentError> {
    let bytes = match &made {
        Made::Artifact { artifact, .. } => serde_json::to_vec(artifact).map_or(0, |json| json.len()),
        Made::Status(..) | Made::Remember(_) => 0,
    };
    let word = match &made {
        Made::Status(_, Some(message)) => serde_json::to_vec(message).map_or(0, |json| json.len()),
        Made::Remember(kept) => kept.len(),
        Made::Status(_, None) | Made::Artifact { .. } => 0,
    };
    if word > task::WORD_BYTES_MAX {
        let reason =
            format!("a word of {word} bytes: one has at most {}; an artifact may hold more", task::WORD_BYTES_MAX);
        return Err(AgentError::Failed(reason));
    }
    let mut failed = None;
    live.change(|now| {
        if let Made::Remember(kept) = &made {
            now.record.remembered = Some(kept.clone());
            return None;
        }
        now.artifact_bytes += bytes;
        if now.artifact_bytes > task::ARTIFACT_BYTES_MAX {
            failed = Some(format!("its artifacts pass {} bytes", task::ARTIFACT_BYTES_MAX));
            return None;
        }
        if now.ending.is_some() {
            failed = Some("it went on after it had said that it was done".to_owned());
            return None;
        }
        if let Made::Status(state, message) = &made
            && task::rests(state)
        {
            now.ending = Some((state.clone(), message.clone()));
            return None;
        }
        task::step(&mut now.record.task, made, hosting.now()).unwrap_or_else(|error| {
            failed = Some(error.to_string());
            None
        })
    })
    .await;
    match failed {
        Some(reason) => Err(AgentError::Failed(reason)),
        None => Ok(()),
    }
}

/// What a turn's end means for the task, unless the agent said so itself.
fn verdict(ended: Result<(), AgentError>) -> (Option<TaskState>, Option<String>) {
    match ended {
        Ok(()) => (None, None),
        Err(AgentError::Cancelled) => (Some(TaskState::Canceled), None),
        Err(AgentError::Rejected(reason)) => (Some(TaskState::Rejected), Some(reason)),
        Err(error) => (Some(TaskState::Failed), Some(error.to_string())),
    }
}

/// Writes the task's resting state to disk, then tells of it.
async fn finish(hosting: &Hosting, live: &Live, state: Option<TaskState>, reason: Option<String>) {
    let (mut record, ending) = {
        let mut now = live.lock();
        (now.record.clone(), now.ending.take())
    };
    let (state, message) = match state {
        Some(state) => (state, reason.map(|reason| Message::new(Role::Agent, vec![Part::text(reason)]))),
        None => ending.unwrap_or((TaskState::Completed, None)),
    };
    let event = task::set(&mut record.task, state, message, hosting.now());
    if let Err(error) = hosting.tasks().write(&record, Durability::Synced).await {
        // It cannot be kept, so it must not be told as done.
        tracing::error!(task = record.task.id, %error, "a task's end could not be kept");
        lost(live, &error, hosting).await;
        return;
    }
    let over = record.task.status.state.clone();
    live.change(|now| {
        now.record = record;
        Some(event)
    })
    .await;
    rest(hosting, live, over);
}

/// The turn is over: whoever waits is woken, and the task is read from disk from now on. Listening ends, except for
/// those who stay until the task itself is over.
fn rest(hosting: &Hosting, live: &Live, state: TaskState) {
    let id = live.record().task.id;
    let over = state.is_terminal();
    // At once: a message that continues the task must not find this turn, nor be forgotten with it.
    hosting.alive().put_to_rest(&id, || {
        let mut now = live.lock();
        now.running = false;
        let mut listeners = std::mem::take(&mut now.listeners);
        listeners.retain(|listener| listener.stays && !over);
        listeners
    });
    live.state.send_replace(state);
}

/// The turn ended without a word: its task fails.
pub(crate) async fn broke(hosting: &Hosting, live: &Live, reason: &str) {
    tracing::error!(task = live.record().task.id, reason, "turn broke");
    finish(hosting, live, Some(TaskState::Failed), Some("the agent broke down".to_owned())).await;
}

/// The end of a task could not be written: listeners learn that it failed, and why.
async fn lost(live: &Live, error: &TaskStoreError, hosting: &Hosting) {
    let message = Message::new(Role::Agent, vec![Part::text(format!("this node could not keep the result: {error}"))]);
    live.change(|now| Some(task::set(&mut now.record.task, TaskState::Failed, Some(message), hosting.now()))).await;
    // What was made takes room that there may not be; that it failed takes little.
    let mut record = live.record();
    record.task.artifacts = None;
    if let Err(error) = hosting.tasks().write(&record, Durability::Synced).await {
        tracing::error!(task = record.task.id, %error, "not even the failure of a task could be kept");
    }
    rest(hosting, live, TaskState::Failed);
}

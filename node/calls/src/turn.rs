//! A task that is alive: its turn, and those who listen to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use a2a::{Message, Part, Role, StreamResponse, Task, TaskState, TaskStatus};
use althing_execution::agent::{Made, Metadata, Parameters};
use althing_execution::{AgentError, Output, Turn};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::error::OperationError;
use crate::hosting::Hosting;
use crate::machine::chain;
use crate::machine::listing::NotedFailure;
use crate::machine::task;
use crate::opening::{Answer, Opened, Opening, Outcome};
use crate::operation::CallMetadata;
use crate::tasks::{self, Encoded, Record, TaskStoreError, WORKING_BYTES_MAX};
use crate::trace::Trace;

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
    now: Mutex<Now>,
    /// The task's id, and the agent's name.
    id: String,
    pub agent: String,
    /// What this turn was begun with.
    asked: Asked,
    /// What is known of its answer.
    pub answer: Answer,
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
    /// Bytes of what was made, as JSON.
    artifact_bytes: usize,
    /// Bytes of the task as it is stored, at most: that of when the turn began, and of all that was made since.
    stored_bytes: usize,
    /// How the agent said that the turn ends. It becomes the task's state when it is on disk, not before.
    ending: Option<Ending>,
    running: bool,
    /// Whether the agent made a task of the message.
    begun: bool,
    /// Those who wait for how the answer begins: whoever sent the message, and sent it again.
    openings: Vec<oneshot::Sender<Opening>>,
    /// How many of them have not heard it.
    waiting: usize,
    /// Whether somebody heard how the answer begins, or waits for all of it.
    wanted: bool,
    named: Named,
}

/// Whether a turn leaves a task behind, as far as that hangs on who was given its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// Nobody was given it: the agent may answer without a task.
    Nowhere,
    /// Somebody was given it before the agent had answered: the task stays.
    Disclosed,
    /// The agent answered without a task: nobody is given it any more.
    Withdrawn,
}

/// How the agent said that a turn ends.
enum Ending {
    Status(TaskState, Option<Message>, Option<Metadata>),
    Reply(Message),
}

impl Now {
    /// The answer begins with the task as it is.
    fn open(&mut self) {
        self.begun = true;
        self.listeners.retain(|held| !held.is_gone());
        for opening in std::mem::take(&mut self.openings) {
            let opened = if self.listeners.len() == LISTENERS_MAX {
                Opening::Refused(crate::alive::crowded(&self.record.task.id))
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
    fn close(&mut self, outcome: Option<Outcome>) {
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
            let _ = sender.send(Opening::Refused(crate::alive::crowded(&self.id)));
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
    fn leaves_no_task(&self) -> bool {
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
    let turn = turn_of(record, &live.asked);
    live.change(|now| {
        let event = task::set(&mut now.record.task, TaskState::Working, None, hosting.now());
        // An agent that makes tasks itself says so itself.
        now.begun.then_some(event)
    })
    .await;
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
    let ended = match ended {
        Err(AgentError::Refused { code, message, details }) => {
            let error = OperationError::of_agent(code, message, details);
            if refused(hosting, live, &error).await {
                return;
            }
            Err(AgentError::Failed(error.message))
        }
        ended => ended,
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

fn turn_of(record: Record, asked: &Asked) -> Turn {
    let mut history = record.task.history.unwrap_or_default();
    let message = history.pop().unwrap_or_else(|| Message::new(Role::User, Vec::new()));
    let artifacts = record.task.artifacts.unwrap_or_default();
    let (task_id, context_id) = (record.task.id, record.task.context_id);
    let Trace { traceparent, tracestate } = Trace::of(&tracing::Span::current());
    let parameters = Parameters {
        extensions: asked.call.extensions.clone(),
        principals: chain::written(&asked.call.principals),
        traceparent,
        tracestate,
        metadata: asked.metadata.clone(),
        accepted_output_modes: asked.accepted_output_modes.clone(),
        history_length: asked.history_length,
    };
    Turn { task_id, context_id, message, history, artifacts, remembered: record.remembered, parameters }
}

/// Takes one output; an error ends the turn.
async fn take(hosting: &Hosting, live: &Live, made: Made) -> Result<(), AgentError> {
    let size = task::size(&made);
    if task::says_too_much(&made, &size) {
        let reason = format!("a word has at most {} bytes; an artifact may hold more", task::WORD_BYTES_MAX);
        return Err(AgentError::Failed(reason));
    }
    if size.held_bytes > 0 {
        let grown = hosting.alive().grow(&live.id, size.held_bytes);
        grown.map_err(|crowded| AgentError::Failed(crowded.to_string()))?;
    }
    let mut failed = None;
    live.change(|now| {
        if let Made::Remember(kept) = &made {
            now.record.remembered = Some(kept.clone());
            return None;
        }
        now.artifact_bytes = now.artifact_bytes.saturating_add(size.artifact_bytes);
        now.stored_bytes = now.stored_bytes.saturating_add(size.stored_bytes);
        if now.artifact_bytes > task::ARTIFACT_BYTES_MAX {
            failed = Some(format!("its artifacts pass {} bytes", task::ARTIFACT_BYTES_MAX));
            return None;
        }
        if now.stored_bytes > WORKING_BYTES_MAX {
            failed = Some("the task holds as much as one may; begin another".to_owned());
            return None;
        }
        let begins = matches!(made, Made::Begun { .. });
        if now.ending.is_some() && !begins {
            failed = Some("it went on after it had said that it was done".to_owned());
            return None;
        }
        match ending(now, made) {
            Ok(ending) => {
                now.ending = Some(ending);
                None
            }
            Err(made) => {
                let stepped = task::step(&mut now.record.task, *made, hosting.now());
                now.begun = true;
                // A task that begins with its end is told when that is on disk.
                if begins && now.ending.is_none() {
                    now.open();
                }
                stepped.unwrap_or_else(|error| {
                    failed = Some(error.to_string());
                    None
                })
            }
        }
    })
    .await;
    match failed {
        Some(reason) => Err(AgentError::Failed(reason)),
        None => Ok(()),
    }
}

/// How `made` ends the turn; or `made`, when it does not.
fn ending(now: &Now, made: Made) -> Result<Ending, Box<Made>> {
    let rests = |made: &Made| matches!(made, Made::Status(state, _) if task::rests(state));
    match made {
        Made::Reply(message) if now.begun => Ok(Ending::Status(TaskState::Completed, Some(message), None)),
        Made::Reply(message) => Ok(Ending::Reply(message)),
        Made::Annotated(made, metadata) if rests(&made) => match *made {
            Made::Status(state, message) => Ok(Ending::Status(state, message, Some(metadata))),
            made => Err(Box::new(made)),
        },
        Made::Status(state, message) if task::rests(&state) => Ok(Ending::Status(state, message, None)),
        made => Err(Box::new(made)),
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
    let (state, message, metadata) = match (state, ending) {
        (Some(state), _) => (state, reason.map(said), None),
        (None, Some(Ending::Reply(mut message))) if live.leaves_no_task() => {
            // The agent's own names mean nothing here.
            message.task_id = None;
            message.context_id = message.context_id.map(|_| record.task.context_id);
            leave_no_task(hosting, live, Outcome::Reply(message)).await;
            return;
        }
        (None, Some(Ending::Reply(message))) => (TaskState::Completed, Some(message), None),
        (None, Some(Ending::Status(state, message, metadata))) => (state, message, metadata),
        (None, None) => (TaskState::Completed, None, None),
    };
    let merged = task::merge(&mut record.task.metadata, metadata.clone());
    let (state, message) = match merged {
        Ok(()) => (state, message),
        Err(error) => (TaskState::Failed, Some(said(error.to_string()))),
    };
    let event = task::annotated(task::set(&mut record.task, state, message, hosting.now()), metadata);
    if let Err(error) = write(hosting, &record).await {
        // It cannot be kept, so it must not be told as done.
        tracing::error!(task = record.task.id, %error, "a task's end could not be kept");
        lost(live, hosting).await;
        return;
    }
    let over = record.task.status.state.clone();
    live.change(|now| {
        now.record = record;
        now.close(live.answer.outcome());
        Some(event)
    })
    .await;
    rest(hosting, live, over);
}

async fn write(hosting: &Hosting, record: &Record) -> Result<(), TaskStoreError> {
    hosting.tasks().write(Encoded::of(record)?).await
}

/// Why a turn ended, as the task's last word; what is too long for one is cut.
fn said(mut reason: String) -> Message {
    reason.truncate(reason.floor_char_boundary(task::REASON_BYTES_MAX));
    Message::new(Role::Agent, vec![Part::text(reason)])
}

/// The agent refused the message with an error of its own: true when that is all that comes of it. Else it had made
/// something of it, which stays as a task that failed.
async fn refused(hosting: &Hosting, live: &Live, error: &OperationError) -> bool {
    if live.lock().begun || live.cancel.is_cancelled() || !live.leaves_no_task() {
        live.answer.settle(Outcome::Refused(error.clone()));
        return false;
    }
    leave_no_task(hosting, live, Outcome::Refused(error.clone())).await;
    true
}

/// The turn is over without a task: a new one is forgotten, one that was continued is as it was before. That is on disk
/// before the answer is given, so that who has it finds no other one after a power cut.
async fn leave_no_task(hosting: &Hosting, live: &Live, outcome: Outcome) {
    let mut record = live.record();
    let kept = match live.asked.before.clone() {
        None => hosting.tasks().forget(&live.id).await,
        Some(before) => {
            task::take_back(&mut record.task, before);
            write(hosting, &record).await
        }
    };
    let mut event = match &outcome {
        Outcome::Reply(message) => Some(StreamResponse::Message(message.clone())),
        Outcome::Refused(_) => None,
    };
    if let Err(error) = kept {
        tracing::error!(task = live.id, %error, "a task that came to nothing could not be taken back");
        // The answer is known and is given; what stays on disk must not stay without an end.
        let (failure, now_ms) = (NotedFailure::ResultNotKept, hosting.now().timestamp_millis());
        hosting.tasks().note_failures(std::slice::from_ref(&live.id), failure, now_ms).await;
        event = Some(tasks::fail(&mut record.task, failure, now_ms));
    }
    let state = record.task.status.state.clone();
    live.answer.settle(outcome.clone());
    live.change(|now| {
        now.record = record;
        now.close(Some(outcome));
        event
    })
    .await;
    rest(hosting, live, if task::rests(&state) { state } else { TaskState::Completed });
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

/// The end of a task could not be written: listeners learn that it failed. Why stands in the log, and is nobody else's.
async fn lost(live: &Live, hosting: &Hosting) {
    let failure = NotedFailure::ResultNotKept;
    let now_ms = hosting.now().timestamp_millis();
    hosting.tasks().note_failures(std::slice::from_ref(&live.id), failure, now_ms).await;
    live.change(|now| {
        now.record.task.artifacts = None;
        let event = tasks::fail(&mut now.record.task, failure, now_ms);
        now.close(live.answer.outcome());
        Some(event)
    })
    .await;
    rest(hosting, live, TaskState::Failed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let long = said("ü".repeat(task::REASON_BYTES_MAX));
        let text = long.text().expect("a text");
        assert_eq!((text.len(), text.chars().all(|letter| letter == 'ü')), (task::REASON_BYTES_MAX, true));
        assert_eq!(said("odd".to_owned() + &"ü".repeat(task::REASON_BYTES_MAX)).text().map(str::len), Some(4_095));
        assert_eq!(said("short".to_owned()).text(), Some("short"));
    }

    fn word(number: usize) -> StreamResponse {
        StreamResponse::Message(said(number.to_string()))
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

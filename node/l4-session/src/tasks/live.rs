//! A live task: its turn, and its listeners.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use a2a::{Message, StreamResponse, Task, TaskState, TaskStatus};
use althing_call::{CallMetadata, Consent, OperationError};
use althing_execution::agent::Metadata;
use althing_execution::run_notes::RunNotes;
use althing_execution::verdicts::{RefusedAnswer, TurnVerdicts};
use althing_protocol::{AgentRef, AnswerAttributes};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::journal::TurnJournal;
use crate::machine::record::Record;
use crate::machine::size::stored_bytes;
use crate::machine::task;
use crate::tasks::course::CourseNotes;
use crate::tasks::events::TaskEvents;
use crate::tasks::first_response::{Answer, FirstResponse, FirstResponseReceiver, Outcome};
use crate::tasks::handoffs::Relays;
use crate::tasks::in_flight::MessageKey;
use crate::tasks::persistence::PersistenceState;
use crate::tasks::refusals::TurnRefusals;

/// Events that are queued for one listener. When its queue is full, the agent waits.
const EVENTS: usize = 64;
/// Listeners of one task.
pub(crate) const LISTENERS_MAX: usize = 64;
/// A listener that reads nothing for this long is dropped, so that it does not block the agent and the other listeners.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a turn goes on that nobody waits for, and whose task nobody was shown: whoever hung up may send the message again.
const LEFT_MAX: Duration = Duration::from_secs(60);

/// The request that begins a turn, beside its task.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnRequest {
    /// The metadata of the call.
    pub call: CallMetadata,
    /// `metadata` of the request.
    pub metadata: Option<Metadata>,
    /// `acceptedOutputModes` of its configuration.
    pub accepted_output_modes: Option<Vec<String>>,
    /// `historyLength` of its configuration.
    pub history_length: Option<i32>,
    /// The task's status before the message continued it; none for a new task.
    pub before: Option<TaskStatus>,
    /// Whether the agent may answer without a task.
    pub may_reply: bool,
    /// The id of the message.
    pub message_id: String,
    /// How long its sender lets the turn take.
    pub within: Option<Duration>,
    /// Whether the task is written only when somebody is to be told of it.
    pub waits: bool,
    /// What somebody must consent to before a turn runs: until then the task rests.
    pub consent: Option<Consent>,
    /// The journal of the turn, if it can begin again.
    pub journal: Option<Arc<TurnJournal>>,
    /// How long the turn ran before its node ended, of one that was resumed.
    pub elapsed: Duration,
    /// What the turn does, as it is noted.
    pub run: RunNotes,
}

impl TurnRequest {
    pub fn new(request: &a2a::SendMessageRequest, call: &CallMetadata, may_reply: bool) -> TurnRequest {
        let configuration = request.configuration.as_ref();
        TurnRequest {
            call: call.clone(),
            metadata: request.metadata.clone(),
            accepted_output_modes: configuration.and_then(|c| c.accepted_output_modes.clone()),
            history_length: configuration.and_then(|c| c.history_length),
            before: None,
            may_reply,
            message_id: request.message.message_id.clone(),
            within: None,
            waits: false,
            consent: None,
            journal: None,
            elapsed: Duration::ZERO,
            run: RunNotes::default(),
        }
    }
}

/// A task whose turn runs.
pub(crate) struct LiveTask {
    pub(super) now: Mutex<LiveState>,
    /// The task's id, and the agent in the version that was given the message.
    pub id: String,
    pub agent: AgentRef,
    /// The request that began this turn.
    pub request: TurnRequest,
    /// Whether the task is on disk. Held while it is written.
    pub(super) persistence: tokio::sync::Mutex<PersistenceState>,
    /// The result, if the turn leaves no task.
    pub answer: Answer,
    /// Cancels the turn.
    pub cancel: CancellationToken,
    /// Why it was stopped, if its task goes on: with a new message, or on another node.
    interrupted: OnceLock<&'static str>,
    /// What follows the work, once that is given away.
    pub relays: Relays,
    /// What gates refused of its answer so far.
    refusals: Arc<TurnRefusals>,
    /// How the turn goes, for whoever counts that.
    pub course: CourseNotes,
    /// The state that was written last; watched to wait for the end of the turn.
    pub state: watch::Sender<TaskState>,
}

/// A receiver of a task's events.
#[derive(Clone)]
pub(crate) struct Listener {
    sender: mpsc::Sender<StreamResponse>,
    /// Whether it subscribed to the task, and so receives events of later turns too; otherwise it sent the message.
    pub(super) is_subscription: bool,
    /// Where what is said of the events is added to.
    answer: AnswerAttributes,
    /// Why it is told nothing more, where the task goes on.
    left: Arc<OnceLock<OperationError>>,
}

impl Listener {
    /// One whose call has that answer, and what it receives.
    pub fn new(is_subscription: bool, answer: &AnswerAttributes) -> (Listener, TaskEvents) {
        let (sender, receiver) = mpsc::channel(EVENTS);
        let left: Arc<OnceLock<OperationError>> = Arc::default();
        let listener = Listener { sender, is_subscription, answer: answer.clone(), left: left.clone() };
        (listener, TaskEvents::new(receiver, left))
    }

    /// It is told nothing more than what it was sent, and then why, though the task goes on. Who says it first says why.
    pub fn leave(&self, why: &OperationError) {
        let _ = self.left.set(why.clone());
    }

    /// Whether its receiver was dropped.
    pub fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends an event of which that is said; false if its queue stays full for too long.
    pub async fn tell(&self, event: StreamResponse, said: &AnswerAttributes) -> bool {
        // Before the event, and so perhaps with an earlier one: a label may be too strict, and never too lax.
        self.answer.add_all(said);
        self.sender.send_timeout(event, PATIENCE).await.is_ok()
    }
}

/// A client that waits for the first response.
pub(super) struct FirstWaiter {
    sender: oneshot::Sender<FirstResponse>,
    /// Where what is said of its answer is added to.
    answer: AnswerAttributes,
}

pub(super) struct LiveState {
    pub(super) record: Record,
    /// What is said of the turn's answer so far.
    said: AnswerAttributes,
    pub(super) listeners: Vec<Listener>,
    /// Bytes of the artifacts, as JSON.
    pub(super) artifact_bytes: usize,
    /// Upper bound of the stored task's bytes: those when the turn began, and of all outputs since.
    pub(super) stored_bytes: usize,
    /// The ids of the artifacts that the turn has made so far, or added to.
    pub(super) made: BTreeSet<String>,
    /// How the agent ended the turn. It becomes the task's state once it is on disk.
    pub(super) ending: Option<Ending>,
    pub(super) running: bool,
    /// Whether the agent has begun a task.
    pub(super) begun: bool,
    /// Clients that wait for the first response: the message may have been sent more than once.
    pub(super) first_responses: Vec<FirstWaiter>,
    /// How many of them have not received it.
    pub(super) waiting: usize,
    /// How often all of them hung up.
    pub(super) left: u64,
    /// Whether a client received the first response, or waits for the whole answer.
    pub(super) keep_alive: bool,
    pub(super) disclosure: Disclosure,
}

/// Whether the task's id was disclosed, which decides whether the turn must leave a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disclosure {
    /// Not disclosed: the agent may answer without a task.
    NotDisclosed,
    /// Disclosed before the agent answered: the task stays.
    Disclosed,
    /// The agent answered without a task: the id is not disclosed any more.
    Withdrawn,
}

/// How the agent ended a turn.
pub(super) enum Ending {
    Status(TaskState, Option<Message>, Option<Metadata>),
    Reply(Message),
}

impl LiveState {
    /// The task as it is now, with the label of what its turn was given by now.
    pub(super) fn labelled(&self) -> Record {
        let mut record = self.record.clone();
        record.add_label(self.said.label());
        record
    }

    /// Whether nobody waits for the answer, and nobody was told of the task.
    fn is_left(&self) -> bool {
        self.waiting == 0 && !self.keep_alive
    }

    /// Takes the artifacts out of the task that the turn has made so far; gives what listeners are told of that.
    pub(super) fn take_back(&mut self) -> Vec<StreamResponse> {
        let made = std::mem::take(&mut self.made);
        let events = made.iter().filter_map(|id| task::take_back(&mut self.record.task, id)).collect();
        self.artifact_bytes = artifact_bytes(&self.record);
        events
    }

    /// Sends the task as the first response.
    pub(super) fn open(&mut self) {
        self.begun = true;
        self.listeners.retain(|held| !held.is_gone());
        for waiter in std::mem::take(&mut self.first_responses) {
            waiter.answer.add_all(&self.said);
            let opened = if self.listeners.len() == LISTENERS_MAX {
                FirstResponse::Refused(too_many_listeners(&self.record.task.id))
            } else {
                let (listener, receiver) = Listener::new(false, &waiter.answer);
                self.listeners.push(listener);
                FirstResponse::Task(self.record.task.clone(), receiver)
            };
            // The client may have hung up.
            let _ = waiter.sender.send(opened);
        }
    }

    /// The turn is over: sends its outcome, or else the task, to clients that wait for the first response.
    pub(super) fn close(&mut self, outcome: Option<Outcome>) {
        self.begun = true;
        for waiter in std::mem::take(&mut self.first_responses) {
            waiter.answer.add_all(&self.said);
            let task = || FirstResponse::Task(self.record.task.clone(), TaskEvents::none());
            // The client may have hung up.
            let _ = waiter.sender.send(outcome.clone().map_or_else(task, FirstResponse::from));
        }
    }
}

/// Waits for the first response. If all clients that wait hang up before it, nobody knows the task's id and could cancel
/// it: the turn is cancelled, unless one of them sends the message again soon.
pub(crate) struct AnswerWaiter {
    live: Arc<LiveTask>,
    opened: FirstResponseReceiver,
}

impl AnswerWaiter {
    /// The first response; none if the turn ended without one.
    pub async fn first_response(mut self) -> Option<FirstResponse> {
        let opening = (&mut self.opened).await.ok();
        self.live.keep_alive();
        opening
    }
}

impl Drop for AnswerWaiter {
    fn drop(&mut self) {
        let left = {
            let mut now = self.live.lock();
            now.waiting -= 1;
            let is_left = now.is_left();
            now.left += u64::from(is_left);
            is_left.then_some(now.left)
        };
        let Some(left) = left else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(given_up_later(self.live.clone(), left))),
            // The node is about to end.
            Err(_) => self.live.cancel.cancel(),
        }
    }
}

/// Cancels a turn that was left, unless it ends before, or somebody waits for it again.
async fn given_up_later(live: Arc<LiveTask>, left: u64) {
    let mut state = live.state.subscribe();
    let is_over = tokio::time::timeout(LEFT_MAX, state.wait_for(task::is_idle)).await.is_ok();
    let now = live.lock();
    if !is_over && now.is_left() && now.left == left {
        live.cancel.cancel();
    }
}

impl LiveTask {
    /// A turn that begins, with the listeners that waited for it; the stored task has `stored_bytes`.
    pub fn new(
        agent: AgentRef,
        record: Record,
        stored_bytes: usize,
        listeners: Vec<Listener>,
        asked: TurnRequest,
    ) -> LiveTask {
        let state = watch::Sender::new(record.task.status.state.clone());
        let artifact_bytes = artifact_bytes(&record);
        let persistence = if asked.waits { PersistenceState::NotYet } else { PersistenceState::Yes };
        let id = record.task.id.clone();
        // What the task holds by now, and what came with the message: the turn's answer is made of it.
        asked.call.answer.add_label(record.label);
        let now = LiveState {
            record,
            said: asked.call.answer.clone(),
            listeners,
            artifact_bytes,
            stored_bytes,
            made: BTreeSet::new(),
            ending: None,
            running: true,
            // Of a task that rests, its sender is shown nothing before that.
            begun: !asked.may_reply && asked.consent.is_none(),
            first_responses: Vec::new(),
            waiting: 0,
            left: 0,
            keep_alive: false,
            disclosure: Disclosure::NotDisclosed,
        };
        LiveTask {
            now: Mutex::new(now),
            id,
            agent,
            request: asked,
            persistence: tokio::sync::Mutex::new(persistence),
            answer: Answer::default(),
            cancel: CancellationToken::new(),
            interrupted: OnceLock::new(),
            relays: Relays::default(),
            refusals: Arc::default(),
            course: CourseNotes::default(),
            state,
        }
    }

    pub fn record(&self) -> Record {
        self.lock().labelled()
    }

    /// The task is as it was when the turn began, which makes again what it made since: with the label of all that it was given
    /// by now.
    pub(super) fn restore(&self, mut record: Record) {
        let stored_bytes = stored_bytes(&record);
        let mut now = self.lock();
        record.add_label(now.record.label);
        now.artifact_bytes = artifact_bytes(&record);
        now.made.clear();
        (now.stored_bytes, now.ending, now.record) = (stored_bytes, None, record);
        drop(now);
        // What is refused again is noted again.
        drop(self.take_refusals());
    }

    /// Where gates tell what they refuse of its answer.
    pub(super) fn verdicts(&self) -> TurnVerdicts {
        TurnVerdicts(self.refusals.clone())
    }

    /// Takes what gates refused of its answer so far.
    pub(super) fn take_refusals(&self) -> Vec<RefusedAnswer> {
        self.refusals.take()
    }

    /// What is said of the answer of its turn so far.
    pub fn said(&self) -> &AnswerAttributes {
        &self.request.call.answer
    }

    /// The message that began the task, if it was that of this turn.
    pub(super) fn began_by(&self) -> Option<MessageKey> {
        let began = self.request.before.is_none();
        began.then(|| (self.lock().record.scope, self.agent.name().to_owned(), self.request.message_id.clone()))
    }

    /// Whether a client that asks now is shown the task before the turn is over.
    pub fn shows(&self) -> bool {
        self.lock().begun
    }

    /// Stops the turn, though its task goes on, and waits until that is idle; its outputs so far are kept. `why` is told to
    /// whoever is shown the task.
    pub async fn interrupt(&self, why: &'static str) {
        // Who stopped it first says why.
        let _ = self.interrupted.set(why);
        self.cancel.cancel();
        // The sender lives in `self`: waiting cannot fail.
        let _ = self.state.subscribe().wait_for(task::is_idle).await;
    }

    /// Why it was stopped, if that was done though its task goes on.
    pub(super) fn interruption(&self) -> Option<&'static str> {
        self.interrupted.get().copied()
    }

    pub fn running(&self) -> bool {
        self.lock().running
    }

    /// The task as it is now and its further events; none if there are too many listeners. What is said of them is added to
    /// `answer`.
    pub fn listen(&self, is_subscription: bool, answer: &AnswerAttributes) -> Option<(Task, TaskEvents)> {
        let mut now = self.lock();
        now.listeners.retain(|held| !held.is_gone());
        if now.listeners.len() == LISTENERS_MAX {
            return None;
        }
        let (listener, receiver) = Listener::new(is_subscription, answer);
        now.listeners.push(listener);
        answer.add_all(&now.said);
        Some((now.record.task.clone(), receiver))
    }

    /// Waits for the first response to the message; what is said of the answer is added to `answer`.
    pub fn open(self: &Arc<LiveTask>, answer: &AnswerAttributes) -> AnswerWaiter {
        let (sender, opened) = oneshot::channel();
        let mut now = self.lock();
        now.waiting += 1;
        now.first_responses.retain(|waiter| !waiter.sender.is_closed());
        if now.first_responses.len() == LISTENERS_MAX {
            // The receiver is in this very function.
            let _ = sender.send(FirstResponse::Refused(too_many_listeners(&self.id)));
        } else {
            now.first_responses.push(FirstWaiter { sender, answer: answer.clone() });
            if !now.running || now.disclosure == Disclosure::Withdrawn && self.answer.outcome().is_some() {
                now.close(self.answer.outcome());
            } else if now.begun {
                now.open();
            }
        }
        drop(now);
        AnswerWaiter { live: self.clone(), opened }
    }

    /// A client waits for the whole answer, or knows the task: others that hang up no longer cancel the turn.
    pub fn keep_alive(&self) {
        self.lock().keep_alive = true;
    }

    /// Whether nobody waits for the answer: then it is kept for whoever sends the message again.
    pub(super) fn is_left(&self) -> bool {
        self.lock().is_left()
    }

    /// Marks the task's id as disclosed: the task stays. False if the agent has answered without a task.
    pub fn disclose(&self) -> bool {
        let mut now = self.lock();
        if now.disclosure == Disclosure::Withdrawn {
            return false;
        }
        now.disclosure = Disclosure::Disclosed;
        true
    }

    /// The agent answered without a task. False if the task's id was disclosed: then the task stays.
    pub(super) fn withdraw_task_id(&self) -> bool {
        let mut now = self.lock();
        if now.disclosure == Disclosure::Disclosed {
            return false;
        }
        now.disclosure = Disclosure::Withdrawn;
        true
    }

    /// Whether that message began this turn.
    pub fn is_of(&self, message_id: &str) -> bool {
        self.request.message_id == message_id
    }

    /// An event as the sender of the message receives it: the agent's error, if it ended the turn with one.
    pub fn for_sender(&self, event: StreamResponse) -> Result<StreamResponse, OperationError> {
        match (&event, self.answer.outcome()) {
            (StreamResponse::StatusUpdate(update), Some(Outcome::Refused(error)))
                if update.status.state == TaskState::Failed =>
            {
                Err(error)
            }
            _ => Ok(event),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.now.lock().expect("no holder of the task panics")
    }

    /// Changes the task under its lock; then sends the event to every listener, and gives it.
    pub(super) async fn change(
        &self,
        change: impl FnOnce(&mut LiveState) -> Option<StreamResponse>,
    ) -> Option<StreamResponse> {
        let (event, listeners) = {
            let mut now = self.lock();
            let event = change(&mut now);
            (event, now.listeners.clone())
        };
        let event = event?;
        for listener in &listeners {
            if !listener.tell(event.clone(), self.said()).await {
                self.lock().listeners.retain(|held| !held.sender.same_channel(&listener.sender));
            }
        }
        Some(event)
    }
}

/// Bytes of the artifacts of a task, as JSON.
fn artifact_bytes(record: &Record) -> usize {
    record.task.artifacts.iter().flatten().map(task::bytes).sum()
}

/// The task has too many listeners.
pub(crate) fn too_many_listeners(id: &str) -> OperationError {
    OperationError::busy(format!("{LISTENERS_MAX} listen to task {id}; GetTask shows it"))
}

#[cfg(test)]
mod tests {
    use a2a::{Part, Role};
    use althing_protocol::contract::DataLabel;
    use althing_protocol::{CallerId, Label, PublisherId};

    use super::*;
    use crate::machine::record::Scope;

    async fn tell(listener: &Listener, number: usize) -> bool {
        listener.tell(word(number), &AnswerAttributes::default()).await
    }

    fn word(number: usize) -> StreamResponse {
        StreamResponse::Message(Message::new(Role::Agent, vec![Part::text(number.to_string())]))
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_is_behind_is_waited_for_and_hears_all_in_order() {
        let (listener, mut events) = Listener::new(true, &AnswerAttributes::default());
        let telling = async move {
            for number in 0..EVENTS + 10 {
                assert!(tell(&listener, number).await, "event {number}: it is there, and patience is not over");
            }
        };
        let hearing = async {
            // It reads nothing until its queue is full.
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
        let (listener, _events) = Listener::new(true, &AnswerAttributes::default());
        for number in 0..EVENTS {
            assert!(tell(&listener, number).await);
        }
        let begun = tokio::time::Instant::now();
        assert!(!tell(&listener, EVENTS).await, "it would miss an event");
        assert_eq!(begun.elapsed(), PATIENCE);
    }

    /// P-201
    #[tokio::test]
    async fn whoever_is_shown_a_task_is_told_the_label_of_all_that_is_in_it_by_then() {
        let said = |level, trusted| Some(Label { level, trusted });
        let owner = CallerId::Publisher(PublisherId::from_digest([1; 32]));
        let message = Message::new(Role::User, vec![Part::text("hi")]);
        let task = task::submitted("t".to_owned(), "c".to_owned(), message, chrono::DateTime::UNIX_EPOCH);
        let agent = AgentRef::new(PublisherId::from_digest([1; 32]), "echo", "1.0.0").expect("a name");
        let mut record = Record::new(task, agent.name(), Scope::of(owner));
        record.add_label(said(DataLabel::Internal, true));
        let live = Arc::new(LiveTask::new(agent, record, 0, Vec::new(), TurnRequest::default()));
        assert_eq!(live.said().label(), said(DataLabel::Internal, true), "its answer is made of what it holds");

        let (listens, waits) = (AnswerAttributes::default(), AnswerAttributes::default());
        let (_, mut events) = live.listen(true, &listens).expect("there is room");
        assert_eq!(listens.label(), said(DataLabel::Internal, true));
        live.said().add_label(said(DataLabel::Restricted, false));
        live.change(|_| Some(word(1))).await;
        events.recv().await.expect("an event");
        assert_eq!(listens.label(), said(DataLabel::Restricted, false));
        assert_eq!(live.record().label, said(DataLabel::Restricted, false), "it is written with the task");

        // Sent again, and answered with the task as it is.
        let first = live.open(&waits).first_response().await;
        assert!(matches!(first, Some(FirstResponse::Task(..))));
        assert_eq!(waits.label(), said(DataLabel::Restricted, false));
    }
}

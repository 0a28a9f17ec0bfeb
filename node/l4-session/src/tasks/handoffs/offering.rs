//! The end that gives work away, until it is accepted: the agent goes on with it meanwhile.

use std::sync::Arc;
use std::time::Duration;

use a2a::{SendMessageResponse, TaskState};
use althing_call::Operation;
use althing_execution::work_terms;
use althing_protocol::audit::AuditOutcome;
use althing_protocol::object::{self, Authored, Handoff, HandoffReason, HandoffVerdict};
use althing_protocol::{AgentId, AgentRef, CallerId, Label};
use althing_store::{Batch, Durability};
use althing_td::HandoffFile;
use tokio::sync::oneshot;

use super::asking::{self, SignedAnswer, hear};
use super::begin;
use super::draft::{self, DraftWords};
use super::error::HandoffError;
use super::relays::Relay;
use super::rows::OutRow;
use super::service::{HandoffGiver, HandoffService};
use super::state::OfferClaim;
use super::way::HandoffWay;
use super::wire::{self, SignedHandoff};
use crate::machine::handoff::{Action, End, HandoffId, Refusal, Sender, Stage};
use crate::machine::record::Record;
use crate::machine::session::Doubt;
use crate::machine::task;
use crate::tasks::live::LiveTask;
use crate::tasks::recording;
use crate::tasks::runner::TaskRunner;
use crate::tasks::store::TaskStoreError;

/// The state of a handoff, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandoffProgress {
    /// Its id, a UUID.
    pub handoff: String,
    /// The sender's task.
    pub task: String,
    /// Who is to do the work.
    pub recipient: AgentId,
    /// What became of it.
    pub state: HandoffState,
}

/// What became of a handoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandoffState {
    /// The work is given away: the sender's task ends with the result of that one.
    Given {
        /// The recipient's task.
        task: String,
    },
    /// It is offered again while this node runs, since the recipient has no room or did not answer; the sender goes on with it
    /// meanwhile. Nothing of that is on disk.
    Waiting {
        /// In words for its owner.
        why: String,
    },
    /// The recipient has the work by another handoff.
    Duplicate {
        /// The id of that one.
        original: String,
    },
    /// The sender still has the work.
    Rejected {
        /// Why.
        reason: HandoffReason,
        /// The same for people, in the recipient's words.
        message: String,
    },
    /// Nobody answered while the handoff was in force: the sender still has the work.
    Unanswered,
}

/// How long a call that must not be made twice may still take before the work is given away: far less than a recipient holds room
/// for it.
const CALLS_WITHIN: Duration = Duration::from_secs(30);

impl HandoffService {
    /// A handoff of a task to another agent, not signed, with all that the node knows of the work.
    ///
    /// # Errors
    /// [`HandoffError`]: there is nothing to hand over.
    pub async fn draft(
        &self,
        task: &str,
        recipient: &AgentId,
        words: &DraftWords,
    ) -> Result<HandoffFile, HandoffError> {
        let runner = &self.runner;
        let record = record_of(runner, task)?;
        let sender = sender_of(runner, &record)?;
        if sender == *recipient {
            return Err(HandoffError::ToItself(sender));
        }
        let previous = {
            let recipients = runner.store().handoffs().recipients.lock().await;
            recipients.get(&record.agent).and_then(|recipient| recipient.digest_of(task))
        };
        let agents = (sender, recipient.clone());
        let handoff = draft::draft(&record, new_id(runner), agents, previous, words, runner.now_ms());
        Ok(HandoffFile { handoff, signature: None })
    }

    /// Signs a handoff of a task and offers it to its recipient. The task's agent goes on until it is accepted; then the task
    /// ends with the recipient's result. Completes once that is settled, or once the recipient has no room, or does not answer:
    /// then it is offered again for as long as the handoff is in force and the node runs.
    ///
    /// # Errors
    /// [`HandoffError`]; the agent still has the work then.
    pub async fn give(&self, task: &str, file: HandoffFile, by: HandoffGiver) -> Result<HandoffProgress, HandoffError> {
        let runner = &self.runner;
        let handoffs = runner.store().handoffs();
        if handoffs.way.get().is_none() {
            return Err(HandoffError::NotReady);
        }
        let claim = handoffs.begin_offer(task).ok_or_else(|| HandoffError::Given(task.to_owned()))?;
        let record = record_of(runner, task)?;
        check(runner, &record, &file)?;
        let signer = runner.signer();
        // In place of whoever signed it before.
        let signed = object::sign(file.handoff, &signer.network, "", &signer.key).map_err(HandoffError::Sign)?;
        let signers = work_terms(runner.host(), record.agent.as_str()).map(|terms| terms.signers).unwrap_or_default();
        let sender = Sender::new(&signed, record.label, &signers, runner.now_ms())?;
        let (tell, told) = oneshot::channel();
        let (runner, signed) = (runner.clone(), Arc::new(signed));
        let offering = OfferRun { runner, signed, sender, label: record.label, by, _claim: claim };
        tokio::spawn(Box::pin(offering.run(Some(tell))));
        told.await.unwrap_or(Err(HandoffError::NotReady))
    }
}

/// A UUID of version 7, of the node's clock and randomness.
fn new_id(runner: &TaskRunner) -> HandoffId {
    let (clock, entropy) = runner.ports();
    uuid::Builder::from_unix_timestamp_millis(clock.now_ms(), &entropy.bytes()).into_uuid().into_bytes()
}

/// A task that can be handed over, as it is now.
fn record_of(runner: &TaskRunner, task: &str) -> Result<Record, HandoffError> {
    let live = runner.live().running(task);
    let record = match &live {
        Some(live) => Some(live.record()),
        None => runner.store().read(task)?,
    };
    let record = record.filter(|record| record.departed.is_none());
    let record = record.ok_or_else(|| HandoffError::NoTask(task.to_owned()))?;
    let named = |error: fn(String) -> HandoffError| Err(error(task.to_owned()));
    if runner.store().handoffs().is_given(task) {
        return named(HandoffError::Given);
    }
    match &record.task.status.state {
        TaskState::AuthRequired => return named(HandoffError::Unallowed),
        state if state.is_terminal() => return named(HandoffError::Over),
        _ => {}
    }
    let journal = live.as_ref().and_then(|live| live.request.journal.as_ref());
    if journal.is_some_and(|journal| !journal.ledger().doubts.is_empty()) {
        return named(HandoffError::InDoubt);
    }
    Ok(record)
}

/// The agent that works on a task: this node's agents are its owner's.
fn sender_of(runner: &TaskRunner, record: &Record) -> Result<AgentId, HandoffError> {
    let no_task = || HandoffError::NoTask(record.task.id.clone());
    match runner.owner().caller {
        CallerId::Publisher(owner) => AgentId::new(owner, &record.agent).map_err(|_| no_task()),
        CallerId::Node(_) => Err(no_task()),
    }
}

/// Checks that a document is of that task, and says no less of its data than the task does.
fn check(runner: &TaskRunner, record: &Record, file: &HandoffFile) -> Result<(), HandoffError> {
    let (handoff, sender) = (&file.handoff, sender_of(runner, record)?);
    if handoff.recipient == sender {
        return Err(HandoffError::ToItself(sender));
    }
    let label = |label: Option<Label>| match label {
        Some(Label { level, trusted }) => {
            format!("{} ({})", level.name(), if trusted { "trusted" } else { "not trusted" })
        }
        None => "absent".to_owned(),
    };
    let wanted = Label::of_both(handoff.label, record.label);
    for (member, found, wanted) in [
        ("task_id", handoff.task_id.clone(), record.task.id.clone()),
        ("sender.agent", handoff.sender.agent.to_string(), sender.to_string()),
        ("label", label(handoff.label), label(wanted)),
    ] {
        if found != wanted {
            return Err(HandoffError::Document { member, found, wanted });
        }
    }
    Ok(())
}

type Tell = oneshot::Sender<Result<HandoffProgress, HandoffError>>;

/// Work that is being offered.
struct OfferRun {
    runner: TaskRunner,
    signed: Arc<Authored<Handoff>>,
    sender: Sender,
    /// The label of the task.
    label: Option<Label>,
    by: HandoffGiver,
    _claim: OfferClaim,
}

impl OfferRun {
    /// Offers the work until that is settled; who asked is told at once where it takes longer.
    async fn run(mut self, mut tell: Option<Tell>) {
        let Some(way) = self.runner.store().handoffs().way.get().cloned() else { return };
        let (mut last, mut why) = (None, "it has not answered yet".to_owned());
        let mut action = self.sender.tick(self.runner.now_ms());
        let settled = loop {
            action = match action {
                Action::Offer => match self.offer(&way).await {
                    Ok(heard) => {
                        if matches!(heard.verdict, HandoffVerdict::Queued { .. }) {
                            "it has no room now".clone_into(&mut why);
                        }
                        let next = self.sender.answer(heard.verdict.clone(), self.runner.now_ms());
                        last = Some(heard);
                        next
                    }
                    Err(error) => {
                        tracing::debug!(task = self.signed.body.task_id, error, "a handoff is not answered");
                        why = error;
                        self.sender.sent(self.runner.now_ms())
                    }
                },
                Action::Wait { until_ms } => {
                    if let Some(tell) = tell.take() {
                        let state = HandoffState::Waiting { why: why.clone() };
                        // Whoever asked may have gone.
                        let _ = tell.send(Ok(self.progress(state)));
                    }
                    if !self.wait(until_ms).await {
                        return;
                    }
                    self.sender.tick(self.runner.now_ms())
                }
                Action::Write | Action::End(End::Given { .. }) => break self.give(last).await,
                // Nothing is committed before it is given away.
                Action::Commit { .. } => break Err(HandoffError::NotReady),
                Action::End(end) => break Ok(kept(end)),
            };
        };
        let settled = settled.map(|state| self.progress(state));
        match &settled {
            Ok(progress) => tracing::info!(task = progress.task, state = ?progress.state, "a handoff is settled"),
            Err(error) => tracing::warn!(task = self.signed.body.task_id, %error, "work is not handed over"),
        }
        if let Some(tell) = tell {
            // Whoever asked may have gone.
            let _ = tell.send(settled);
        }
    }

    async fn offer(&self, way: &Arc<dyn HandoffWay>) -> Result<SignedAnswer, String> {
        let (signed, digest, network) = (&*self.signed, &self.sender.digest, &*self.runner.signer().network);
        let of = SignedHandoff { signed, digest, network };
        let response = asking::offer(way, of, self.label).await.map_err(|error| error.message)?;
        if let SendMessageResponse::Task(task) = &response {
            // It takes no handoffs, and began to work on what it does not know.
            let cancel = asking::request(Operation::CancelTask, &serde_json::json!({ "id": task.id }));
            let _ = asking::ask(way, &signed.body, cancel.map_err(|error| error.message)?, self.label).await;
        }
        hear(way, of, &response).await
    }

    /// Waits; false if the work need not be offered any more.
    async fn wait(&self, until_ms: u64) -> bool {
        let left = Duration::from_millis(until_ms.saturating_sub(self.runner.now_ms()));
        tokio::select! {
            biased;
            () = self.runner.ending().cancelled() => false,
            () = tokio::time::sleep(left) => record_of(&self.runner, &self.signed.body.task_id).is_ok(),
        }
    }

    fn progress(&self, state: HandoffState) -> HandoffProgress {
        let Handoff { handoff_id, task_id, recipient, .. } = &self.signed.body;
        let handoff = wire::id_text(handoff_id);
        HandoffProgress { handoff, task: task_id.clone(), recipient: recipient.clone(), state }
    }

    /// Gives the work away: that is on disk, and the task's agent has stopped, before the recipient is asked to begin.
    async fn give(&mut self, heard: Option<SignedAnswer>) -> Result<HandoffState, HandoffError> {
        let Some(SignedAnswer { host, bytes, kept, .. }) = heard else { return Err(HandoffError::NotReady) };
        let (runner, id) = (&self.runner, &self.signed.body.task_id);
        let turn = runner.live().running(id);
        // Its agent is stopped between calls: of one that is cut off nobody would know whether it took place.
        let _held = match turn.as_ref().and_then(|live| live.request.journal.as_ref()) {
            Some(journal) => Some(journal.final_calls().hold(CALLS_WITHIN).await.map_err(|call| under_way(id, call))?),
            None => None,
        };
        // No message begins a turn of it meanwhile.
        let _lock = runner.live().write_lock(id).await;
        let record = record_of(runner, id)?;
        if let Some(live) = runner.live().running(id) {
            if turn.as_ref().is_none_or(|turn| !Arc::ptr_eq(turn, &live)) {
                return Err(HandoffError::Busy("its agent began another turn; hand it over again".to_owned()));
            }
            // It is found again after a crash, and goes on if whoever sent the message hangs up.
            live.keep_alive();
            if !live.disclose() || !runner.keep_shown(&live).await? {
                return Err(HandoffError::Over(id.clone()));
            }
        }
        let _ = self.sender.written(runner.now_ms());
        let stage = self.sender.stage().clone();
        let task = match &stage {
            Stage::Committing { task, .. } | Stage::Ended(End::Given { task }) => task.clone(),
            _ => return Err(HandoffError::NotReady),
        };
        let version = record.version.clone().unwrap_or_default();
        let agent = AgentRef { id: sender_of(runner, &record)?, version: version.into() };
        let recorded = |outcome| self.recorded(&agent, turn.as_deref(), &task, outcome);
        let row = OutRow { signed: self.signed.clone(), stage, host, answer: bytes };
        let mut batch = Batch::large();
        row.put(&mut batch);
        batch.append(recorded(AuditOutcome::Done));
        let written = self.runner.store().handoffs().store.write(batch, Durability::Synced).await;
        written.map_err(TaskStoreError::from)?;
        self.runner.store().handoffs().given().insert(id.clone());
        let relay = Relay { row, sender: self.sender.clone(), kept, label: self.label, started: None };
        if let Err(error) = hand_to_turn(runner, record, relay).await {
            runner.store().handoffs().drop_row(id, recorded(AuditOutcome::Failed)).await;
            return Err(error);
        }
        Ok(HandoffState::Given { task })
    }

    /// Rows by which it is on record that the task's agent gave the work away, which hears no more of that, or that it stays.
    fn recorded(&self, agent: &AgentRef, turn: Option<&LiveTask>, becomes: &str, outcome: AuditOutcome) -> Batch {
        if self.by == HandoffGiver::Owner {
            return Batch::new();
        }
        let work = &self.signed.body;
        let id = wire::id_text(&work.handoff_id);
        recording::given(&self.runner, (agent, turn), (&id, work, becomes), outcome)
    }
}

fn under_way(task: &str, call: Doubt) -> HandoffError {
    HandoffError::UnderWay { task: task.to_owned(), step: call.seq, name: call.name }
}

/// Has the turn of a task, or a new one, follow the work to its recipient.
async fn hand_to_turn(runner: &TaskRunner, record: Record, relay: Relay) -> Result<(), HandoffError> {
    let (go, gone) = oneshot::channel();
    let id = record.task.id.clone();
    let relay = Relay { started: Some(go), ..relay };
    let Some(live) = runner.live().running(&id) else {
        let version = record.version.clone().unwrap_or_default();
        let agent = AgentRef { id: sender_of(runner, &record)?, version: version.into() };
        let begun = begin::follow(runner, agent, record, relay);
        return begun.map_err(|error| HandoffError::Busy(error.message));
    };
    let mut state = live.state.subscribe();
    live.relays.hand(relay);
    tokio::select! {
        biased;
        started = gone => started.map_err(|_| HandoffError::Over(id)),
        // The agent was done before it was stopped.
        _ = state.wait_for(task::is_idle) => Err(HandoffError::Over(id)),
    }
}

/// What is told of a handoff that did not give the work away.
fn kept(end: End) -> HandoffState {
    match end {
        End::Duplicate { original } => HandoffState::Duplicate { original: wire::id_text(&original) },
        End::Kept(Refusal::Rejected { reason, message }) => HandoffState::Rejected { reason, message },
        End::Kept(Refusal::NoAnswer) => HandoffState::Unanswered,
        End::Given { task } | End::InDoubt { task } => HandoffState::Given { task },
    }
}

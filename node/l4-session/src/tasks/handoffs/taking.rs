//! The end to which work is offered: a handoff is verified and answered before the agent sees anything of it.

use std::sync::Arc;

use a2a::SendMessageResponse;
use althing_call::{CallMetadata, Consent, OperationError, Principal, Reply};
use althing_communication::Caller;
use althing_execution::{WorkTerms, work_terms};
use althing_protocol::object::{self, Authored, Handoff, HandoffAnswer, HandoffReason, HandoffVerdict};
use althing_protocol::{AgentId, Attributes, Digest, Label};
use althing_store::{Batch, Durability};

use super::rows;
use super::service::HandoffService;
use super::state::Handoffs;
use super::wire::{self, Offer};
use crate::machine::handoff::{Commit, CommitError, HandoffId, Recipient, Rejection, Room, Terms};
use crate::machine::record::{Record, Scope};
use crate::tasks::accept::{Accepted, Start};
use crate::tasks::live::LiveTask;
use crate::tasks::replies::sent;
use crate::tasks::runner::{HostedAgent, TaskRunner, internal};

/// When work is offered again for which an agent has no room now, milliseconds.
const QUEUE_MS: u64 = 5_000;

/// What came with a message that brings a handoff, and to whom.
struct Arrival<'a> {
    runner: &'a TaskRunner,
    agent: &'a HostedAgent,
    caller: &'a Caller,
    scope: Scope,
    call: &'a CallMetadata,
    terms: WorkTerms,
}

impl HandoffService {
    /// Answers a message that brings a handoff to an agent: an offer by a signed answer, and a commit by the task that begins, or
    /// by a signed answer that says why none does. What is accepted is on disk before it is said. With `consent` the task that
    /// begins rests until that is there.
    ///
    /// # Errors
    /// `InvalidParams` where there is no handoff to answer, `OVERLOADED`, and what the task's message is refused with.
    pub async fn take(
        &self,
        agent: &HostedAgent,
        (caller, scope): (&Caller, Scope),
        request: a2a::SendMessageRequest,
        call: &CallMetadata,
        consent: Option<Consent>,
    ) -> Result<Reply, OperationError> {
        let offer = wire::read(&request.message)?;
        let gone = || OperationError::busy(format!("{} is being started, or stopped; offer it again", agent.name()));
        let terms = work_terms(self.runner.host(), &agent.agent).ok_or_else(gone)?;
        let arrival = Arrival { runner: &self.runner, agent, caller, scope, call, terms };
        let Some(bytes) = offer.file.envelope() else {
            let why = Rejection::BadSignature("nobody has signed the handoff".to_owned());
            return arrival.say(&offer, offer.file.handoff.document(), rejected(why));
        };
        let digest = althing_protocol::digest(&bytes);
        let handoffs: &Handoffs = self.runner.store().handoffs();
        let mut recipients = handoffs.recipients.lock().await;
        let recipient = recipients.entry(agent.name().to_owned()).or_default();
        arrival.sweep(handoffs, recipient).await;
        match &offer.commit {
            None => {
                let verdict = arrival.offered(&offer, &bytes, (handoffs, recipient)).await?;
                arrival.say(&offer, digest, verdict)
            }
            Some(commit) if !commit.is_of(&digest) => arrival.say(&offer, digest, refused(CommitError::NotAccepted)),
            Some(commit) => match arrival.opened(&bytes) {
                Ok(opened) => {
                    let (of, acceptance) = ((handoffs, recipient), commit.acceptance);
                    arrival.committed(&offer, &opened, acceptance, of, consent).await
                }
                Err(why) => arrival.say(&offer, digest, rejected(why)),
            },
        }
    }
}

impl Arrival<'_> {
    /// Notes what has its result by now, and forgets what can be offered no more.
    async fn sweep(&self, handoffs: &Handoffs, recipient: &mut Recipient) {
        let over: Vec<HandoffId> =
            recipient.at_work().filter(|(_, entry)| is_over(self.runner, &entry.task)).map(|(id, _)| *id).collect();
        let (mut batch, agent) = (Batch::new(), self.agent.name());
        for id in &over {
            recipient.end(id);
            if let Some(entry) = recipient.entry(id) {
                rows::put_entry(&mut batch, (agent, id), entry);
            }
        }
        for id in recipient.forget(self.runner.now_ms()) {
            rows::delete_entry(&mut batch, (agent, &id));
        }
        if batch.is_empty() {
            return;
        }
        if let Err(error) = handoffs.store.write(batch, Durability::Buffered).await {
            tracing::warn!(%error, "what became of handoffs cannot be written; it is found out again when one comes");
        }
    }

    /// Whether the caller speaks for the agent whose work it is: agents of an owner speak through nodes of that owner.
    fn is_from(&self, sender: &AgentId) -> bool {
        self.call.principals.last() == Some(&Principal::Agent(sender.clone()))
            && self.caller.owner == Some(sender.publisher())
    }

    fn terms(&self) -> Terms<'_> {
        let WorkTerms { tools, clearance, tokens_max, is_capable, signers } = &self.terms;
        Terms {
            now_ms: self.runner.now_ms(),
            network: &self.runner.signer().network,
            agent: self.agent.id(),
            signer: self.caller.node,
            label: self.call.attributes.label,
            clearance: *clearance,
            tools,
            tokens_max: *tokens_max,
            is_capable: *is_capable,
            duration_ms: 0,
            room: self.room(),
            signers,
        }
    }

    fn room(&self) -> Room {
        let running = self.runner.live().by_agent().get(self.agent.name()).copied().unwrap_or_default();
        match self.runner.host().turns_max(&self.agent.agent) {
            Some(most) if running >= most => Room::After(QUEUE_MS),
            _ => Room::Free,
        }
    }

    /// Decides on an offer; what is accepted is on disk then.
    async fn offered(
        &self,
        offer: &Offer,
        bytes: &[u8],
        (handoffs, recipient): (&Handoffs, &mut Recipient),
    ) -> Result<HandoffVerdict, OperationError> {
        let handoff = &offer.file.handoff;
        if !self.is_from(&handoff.sender.agent) {
            return Ok(rejected(self.not_from(&handoff.sender.agent)));
        }
        let id = handoff.handoff_id;
        let before = recipient.entry(&id).cloned();
        let answer = recipient.offer(bytes, &self.runner.new_id(), &self.terms());
        if let Some(entry) = recipient.entry(&id).filter(|entry| before.as_ref() != Some(*entry)) {
            let written = handoffs.write_entry((self.agent.name(), &id), entry, Durability::Synced).await;
            if let Err(error) = written {
                recipient.put_back(id, before);
                return Err(internal(error.into()));
            }
        }
        Ok(answer.into())
    }

    fn not_from(&self, sender: &AgentId) -> Rejection {
        let node = self.caller.node;
        Rejection::BadSignature(format!("{node} offers it, and does not speak for {sender}, whose work it is"))
    }

    /// The handoff in these bytes, if it is signed by the node that calls, for an agent for which that speaks.
    fn opened(&self, bytes: &[u8]) -> Result<Authored<Handoff>, Rejection> {
        let opened = object::open::<Handoff>(bytes, &self.runner.signer().network, "");
        let opened = opened.map_err(|error| Rejection::BadSignature(error.to_string()))?;
        let sender = &opened.body.sender.agent;
        if opened.signer != self.caller.node || !self.is_from(sender) {
            return Err(self.not_from(sender));
        }
        Ok(opened)
    }

    /// Begins the work that was accepted, or answers with the task that it has become.
    async fn committed(
        &self,
        offer: &Offer,
        opened: &Authored<Handoff>,
        acceptance: u64,
        (handoffs, recipient): (&Handoffs, &mut Recipient),
        consent: Option<Consent>,
    ) -> Result<Reply, OperationError> {
        let (id, digest) = (opened.body.handoff_id, opened.digest());
        let before = recipient.entry(&id).cloned();
        let record = match recipient.commit(&id, &digest, acceptance, self.runner.now_ms()) {
            Err(error) => return self.say(offer, digest, refused(error)),
            Ok(Commit::Began(task)) => match self.runner.read(self.agent, self.scope, &task) {
                Ok(record) => record,
                // It is forgotten by now.
                Err(_) => return self.say(offer, digest, HandoffVerdict::AlreadyDone { task }),
            },
            Ok(Commit::Begin(task)) => match self.begin(opened, task, consent).await {
                Ok(record) => record,
                Err(error) => {
                    recipient.put_back(id, before);
                    return Err(error);
                }
            },
        };
        // The task is on disk: if this is lost, it says that the work has begun.
        if let Some(entry) = recipient.entry(&id)
            && let Err(error) = handoffs.write_entry((self.agent.name(), &id), entry, Durability::Buffered).await
        {
            tracing::warn!(task = record.task.id, %error, "that a handoff has begun is written with its task alone");
        }
        self.call.answer.add_label(record.label);
        sent(record.task, Some(0))
    }

    /// Begins the task of a handoff. It is on disk then.
    async fn begin(
        &self,
        opened: &Authored<Handoff>,
        task: String,
        consent: Option<Consent>,
    ) -> Result<Record, OperationError> {
        let message = wire::material(opened, &self.runner.signer().network);
        let request = a2a::SendMessageRequest { message, configuration: None, metadata: None, tenant: None };
        let call = CallMetadata { attributes: self.attributes(&opened.body), ..self.call.clone() };
        let start = Start { waits: false, consent, id: Some(task) };
        let shown = |live: &Arc<LiveTask>| {
            live.keep_alive();
            live.disclose();
        };
        match self.runner.begin(self.agent, self.scope, request, &call, start, shown).await? {
            Accepted::New(live, ()) | Accepted::DuplicateRunning(live) => Ok(live.record()),
            Accepted::Duplicate(id) => self.runner.read(self.agent, self.scope, &id),
        }
    }

    /// What is said of the turn's data: what the call says, and what the handoff does. A stranger wrote it, and where neither says
    /// anything it counts as what comes without a label.
    fn attributes(&self, handoff: &Handoff) -> Attributes {
        let said = self.call.attributes.clone();
        let level = handoff.level(said.label).unwrap_or(Label::UNLABELLED.level);
        Attributes { label: Label::of_both(said.label, Some(Label { level, trusted: false })), ..said }
    }

    /// The signed answer.
    fn say(&self, offer: &Offer, digest: Digest, verdict: HandoffVerdict) -> Result<Reply, OperationError> {
        let (runner, signer) = (self.runner, self.runner.signer());
        let (id, word) = (&offer.file.handoff.handoff_id, verdict.word());
        let answer = HandoffAnswer::new(digest, self.agent.id().clone(), runner.now_ms(), verdict);
        let signed = object::sign(answer, &signer.network, "", &signer.key);
        let signed = signed.map_err(|error| OperationError::internal(error.to_string()))?;
        tracing::info!(agent = self.agent.name(), handoff = wire::id_text(id), answer = word, "a handoff is answered");
        Reply::json(&SendMessageResponse::Message(wire::answer(&signed, id, runner.new_id())))
    }
}

/// Whether a task that has begun has its result, or is forgotten.
fn is_over(runner: &TaskRunner, task: &str) -> bool {
    // In this order: a turn that ends is in the store before it is live no more.
    runner.live().running(task).is_none()
        && runner.store().summary(task).is_none_or(|summary| summary.state.is_terminal())
}

fn rejected(why: Rejection) -> HandoffVerdict {
    HandoffVerdict::Rejected { reason: why.reason(), message: why.to_string() }
}

fn refused(error: CommitError) -> HandoffVerdict {
    let reason = match error {
        CommitError::NotAccepted => HandoffReason::NotAccepted,
        CommitError::TooLate => HandoffReason::TooLate,
    };
    HandoffVerdict::Rejected { reason, message: error.to_string() }
}

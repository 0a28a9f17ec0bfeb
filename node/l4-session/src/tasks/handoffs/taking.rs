//! The end to which work is offered: a handoff is verified and answered before the agent sees anything of it.

use std::sync::Arc;

use a2a::SendMessageResponse;
use althing_call::{CallMetadata, Consent, OperationError, Principal, Reply};
use althing_communication::{Caller, TrustLevel};
use althing_execution::{WorkTerms, work_terms};
use althing_protocol::object::{self, Authored, Handoff, HandoffAnswer, HandoffReason, HandoffVerdict};
use althing_protocol::{AgentId, Attributes, Digest, Label};
use althing_store::{Batch, Durability};
use althing_td::{HandoffFile, HandoffSignature};

use super::rows;
use super::service::HandoffService;
use super::state::Handoffs;
use super::wire::{self, Offer, SignedHandoff};
use crate::machine::answers::payer_of;
use crate::machine::handoff::{
    Acquaintance, Commit, CommitError, HandoffId, KeptHandoff, Recipient, Rejection, Room, Terms, signed_by,
};
use crate::machine::record::{Record, Scope};
use crate::machine::shares::ShareOwner;
use crate::tasks::accept::Start;
use crate::tasks::duplicates::Accepted;
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
        let Offer { id, file, commit } = wire::read(&request.message)?;
        drop(request);
        let gone = || OperationError::busy(format!("{} is being started, or stopped; offer it again", agent.name()));
        let terms = work_terms(self.runner.host(), &agent.agent).ok_or_else(gone)?;
        let arrival = Arrival { runner: &self.runner, agent, caller, scope, call, terms };
        let Document { digest, opened } = match (file, &commit) {
            (Some(file), commit) => arrival.opened(file, commit.is_some()),
            (None, Some(commit)) => arrival.kept(&id, commit)?,
            (None, None) => return Err(OperationError::invalid_params("the message brings no handoff")),
        };
        let opened = match (opened, &commit) {
            (_, Some(commit)) if !commit.is_of(&digest) => {
                return arrival.say(&id, digest, refused(CommitError::NotAccepted), false);
            }
            (Ok(opened), _) => opened,
            (Err(why), _) => return arrival.say(&id, digest, rejected(why), false),
        };
        let handoffs: &Handoffs = self.runner.store().handoffs();
        let mut recipients = handoffs.recipients.lock().await;
        let recipient = recipients.entry(agent.name().to_owned()).or_default();
        arrival.sweep(handoffs, recipient).await;
        match commit {
            None => {
                let verdict = arrival.offered((&*opened, digest), (handoffs, recipient)).await?;
                let is_kept = arrival.keep(KeptHandoff { signed: opened, digest }, &verdict);
                arrival.say(&id, digest, verdict, is_kept)
            }
            Some(commit) => {
                let (of, acceptance) = ((handoffs, recipient), commit.acceptance);
                arrival.committed((&*opened, digest), acceptance, of, consent).await
            }
        }
    }
}

/// A handoff that came, or that an earlier message brought.
struct Document {
    /// Of its signed bytes; what people would sign off of one that nobody signed.
    digest: Digest,
    /// The handoff, if it is signed by the node that calls, for an agent for which that speaks.
    opened: Result<Arc<Authored<Handoff>>, Rejection>,
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
            acquaintance: self.acquaintance(),
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

    /// How well this node knows who calls.
    fn acquaintance(&self) -> Acquaintance {
        let stranger = |owner: ShareOwner| Acquaintance::Stranger(payer_of(&owner));
        match self.call.holder {
            _ if self.runner.is_own(self.scope) => Acquaintance::Known,
            Some(holder) if holder.trust != TrustLevel::Stranger => Acquaintance::Known,
            Some(holder) => stranger(ShareOwner::Crowd(holder.quota_group())),
            None => stranger(ShareOwner::Scope(self.scope)),
        }
    }

    fn room(&self) -> Room {
        let running = self.runner.live().by_agent().get(self.agent.name()).copied().unwrap_or_default();
        match self.runner.host().turns_max(&self.agent.agent) {
            Some(most) if running >= most => Room::After(QUEUE_MS),
            _ => Room::Free,
        }
    }

    /// What a message brings, verified. What is committed is not verified once more while it is kept.
    fn opened(&self, file: HandoffFile, is_commit: bool) -> Document {
        let HandoffFile { handoff, signature } = file;
        let Some(HandoffSignature { signer, value, .. }) = signature else {
            let why = Rejection::BadSignature("nobody has signed the handoff".to_owned());
            return Document { digest: handoff.document(), opened: Err(why) };
        };
        let bytes = handoff.envelope(&signer, &value);
        let digest = althing_protocol::digest(&bytes);
        if !self.is_from(&handoff.sender.agent) {
            return Document { digest, opened: Err(self.not_from(&handoff.sender.agent)) };
        }
        let known = self.find_kept(&handoff.handoff_id).filter(|kept| is_commit && kept.digest == digest);
        let opened = match known {
            Some(KeptHandoff { signed, .. }) if signed.signer == self.caller.node => Ok(signed),
            _ => {
                let opened = handoff.verified(bytes, &self.runner.signer().network);
                signed_by(opened, self.caller.node).map(Arc::new)
            }
        };
        Document { digest, opened }
    }

    /// The handoff that a commit means which does not bring it.
    ///
    /// # Errors
    /// `InvalidParams`: it is not kept, and the commit has to bring it.
    fn kept(&self, id: &HandoffId, commit: &wire::Commit) -> Result<Document, OperationError> {
        let kept = self.find_kept(id).filter(|kept| commit.is_of(&kept.digest));
        let Some(KeptHandoff { signed, digest }) = kept else {
            let why = "the commit brings no handoff, and what it means is not kept here: send both";
            return Err(OperationError::invalid_params(why));
        };
        let sender = &signed.body.sender.agent;
        let is_same = signed.signer == self.caller.node && self.is_from(sender);
        let opened = if is_same { Ok(signed) } else { Err(self.not_from(sender)) };
        Ok(Document { digest, opened })
    }

    fn find_kept(&self, id: &HandoffId) -> Option<KeptHandoff> {
        self.runner.store().handoffs().kept().get((self.agent.name(), id), self.runner.now_ms())
    }

    /// Keeps what was accepted until it begins; false if a commit has to bring it again. Strangers' is not kept: they could fill
    /// the room.
    fn keep(&self, handoff: KeptHandoff, verdict: &HandoffVerdict) -> bool {
        let HandoffVerdict::Accepted { until_ms, .. } = verdict else { return false };
        let (id, now_ms) = (handoff.signed.body.handoff_id, self.runner.now_ms());
        self.acquaintance() == Acquaintance::Known
            && self.runner.store().handoffs().kept().keep((self.agent.name(), &id), handoff, *until_ms, now_ms)
    }

    /// Decides on an offer; what is accepted is on disk then.
    async fn offered(
        &self,
        (opened, digest): (&Authored<Handoff>, Digest),
        (handoffs, recipient): (&Handoffs, &mut Recipient),
    ) -> Result<HandoffVerdict, OperationError> {
        let id = opened.body.handoff_id;
        let before = recipient.entry(&id).cloned();
        let answer = recipient.offer_opened((opened, digest), &self.runner.new_id(), &self.terms());
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

    /// Begins the work that was accepted, or answers with the task that it has become.
    async fn committed(
        &self,
        (opened, digest): (&Authored<Handoff>, Digest),
        acceptance: u64,
        (handoffs, recipient): (&Handoffs, &mut Recipient),
        consent: Option<Consent>,
    ) -> Result<Reply, OperationError> {
        let id = opened.body.handoff_id;
        let before = recipient.entry(&id).cloned();
        let record = match recipient.commit(&id, &digest, acceptance, self.runner.now_ms()) {
            Err(error) => return self.say(&id, digest, refused(error), false),
            Ok(Commit::Began(task)) => match self.runner.read(self.agent, self.scope, &task) {
                Ok(record) => record,
                // It is forgotten by now.
                Err(_) => return self.say(&id, digest, HandoffVerdict::AlreadyDone { task }, false),
            },
            Ok(Commit::Begin(task)) => match self.begin((opened, &digest), task, consent).await {
                Ok(record) => record,
                Err(error) => {
                    recipient.put_back(id, before);
                    return Err(error);
                }
            },
        };
        handoffs.kept().forget((self.agent.name(), &id));
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
        (signed, digest): (&Authored<Handoff>, &Digest),
        task: String,
        consent: Option<Consent>,
    ) -> Result<Record, OperationError> {
        let network = &*self.runner.signer().network;
        let message = wire::material(SignedHandoff { signed, digest, network });
        let request = a2a::SendMessageRequest { message, configuration: None, metadata: None, tenant: None };
        let call = CallMetadata { attributes: self.attributes(&signed.body), ..self.call.clone() };
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

    /// The signed answer, with whether the handoff is kept until it begins.
    fn say(
        &self,
        id: &HandoffId,
        digest: Digest,
        verdict: HandoffVerdict,
        is_kept: bool,
    ) -> Result<Reply, OperationError> {
        let (runner, signer, word) = (self.runner, self.runner.signer(), verdict.word());
        let answer = HandoffAnswer::new(digest, self.agent.id().clone(), runner.now_ms(), verdict);
        let signed = object::sign(answer, &signer.network, "", &signer.key);
        let signed = signed.map_err(|error| OperationError::internal(error.to_string()))?;
        tracing::info!(agent = self.agent.name(), handoff = wire::id_text(id), answer = word, "a handoff is answered");
        Reply::json(&SendMessageResponse::Message(wire::answer(&signed, id, runner.new_id(), is_kept)))
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

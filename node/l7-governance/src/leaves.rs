//! What of the gate goes into the audit log.

use althing_execution::tools::{HAND_OVER, ToolCall};
use althing_execution::{EndedTurn, GivenWork, ToldCall};
use althing_protocol::audit::{AnswerWord, Ask, AuditLeaf, AuditOutcome, AuditStage, BodyRole};
use althing_protocol::limits::{AUDIT_POLICIES_MAX, AUDIT_PRINCIPALS_MAX, AUDIT_TEXT_BYTES_MAX};
use althing_protocol::{AgentId, AgentRef, Digest, Label, digest, digest_of_hex};
use serde_json::json;

use crate::audit::LeafDraft;
use crate::consents::AskDetails;
use crate::machine::arguments::canonical;
use crate::machine::consent::{Question, QuestionState, StandingYes, escaped};
use crate::policies::PolicyRequest;
use crate::refusals::RefusalCount;

/// Characters of a name that an agent chose, which a leaf of a denial repeats.
const NAME_CHARS: usize = 60;
/// Characters of a principal that somebody else wrote.
const PRINCIPAL_CHARS: usize = 120;

/// What an owner changed.
#[derive(Debug, Clone, Copy)]
pub struct OwnerChange<'a> {
    /// Of what kind it is, such as `adding`.
    pub what: &'a str,
    /// The agent that it is about, if it is about one; of all its versions without one.
    pub agent: Option<&'a AgentRef>,
    /// What was there before; empty where nothing was.
    pub before: &'a str,
    /// What is there now; empty where nothing is.
    pub after: &'a str,
}

/// What is known of a call, for its leaves.
#[derive(Clone, Copy)]
pub(crate) struct CallFacts<'a> {
    pub(crate) call: &'a ToolCall<'a>,
    /// The digest of the tool's definition.
    pub(crate) definition: Digest,
    /// That of the arguments.
    pub(crate) label: Label,
    /// The digest of the policy set in force.
    pub(crate) policy: Option<Digest>,
    /// The person on whose behalf it is made.
    pub(crate) person: &'a str,
    /// The digest of the agent's contract.
    pub(crate) contract: Digest,
    /// The policies that decided.
    pub(crate) deciding: &'a [String],
    pub(crate) at_ms: u64,
}

impl CallFacts<'_> {
    fn leaf(&self, stage: AuditStage) -> AuditLeaf {
        let CallFacts { call, .. } = self;
        let mut leaf = AuditLeaf::new(stage, self.at_ms);
        leaf.principals = some(call.principals, AUDIT_PRINCIPALS_MAX);
        leaf.accountable = Some(self.person.to_owned());
        leaf.agent = Some(call.agent.id.clone());
        leaf.version = Some(call.agent.version.to_string());
        leaf.contract = Some(self.contract);
        leaf.binding = digest_of_hex(call.binding_hash);
        leaf.policy = self.policy;
        leaf.deciding = some(self.deciding, AUDIT_POLICIES_MAX);
        leaf.action = Some(call.tool.to_owned());
        leaf.definition = (!call.definition.is_empty()).then_some(self.definition);
        leaf.label = Some(self.label);
        leaf.trace = trace_digest(call.trace);
        leaf
    }

    /// The call is about to be made.
    pub(crate) fn intent(&self, consent: Option<Digest>) -> LeafDraft {
        let mut leaf = self.leaf(AuditStage::Intent);
        leaf.consent = consent;
        LeafDraft::new(leaf).about(self.person).with(BodyRole::Arguments, canonical(self.call.arguments))
    }

    /// The call is not made.
    pub(crate) fn denied(&self, reason: &str) -> LeafDraft {
        let action = escaped(self.call.tool, NAME_CHARS);
        let action = if action.is_empty() { "(none)".to_owned() } else { action };
        let mut leaf = self.leaf(AuditStage::Denied);
        leaf.action = Some(action);
        let draft = LeafDraft::new(leaf).about(self.person);
        draft.with(BodyRole::Arguments, canonical(self.call.arguments)).with(BodyRole::Reason, reason)
    }

    /// What came of the call: its result, or why it failed.
    pub(crate) fn outcome(
        &self,
        (consent, label_after): (Option<Digest>, Option<Label>),
        outcome: Result<String, String>,
    ) -> LeafDraft {
        let (word, role, body) = match outcome {
            Ok(result) => (AuditOutcome::Done, BodyRole::Result, result),
            Err(reason) => (AuditOutcome::Failed, BodyRole::Reason, reason),
        };
        let mut leaf = self.leaf(AuditStage::Outcome);
        (leaf.consent, leaf.label_after, leaf.outcome) = (consent, label_after, Some(word));
        LeafDraft::new(leaf).about(self.person).with(role, body)
    }
}

/// Somebody is asked.
pub(crate) fn asked(ask: &Ask, details: &AskDetails, person: &str) -> LeafDraft {
    let leaf = of_ask(ask, details, AuditStage::Asked, ask.asked_at_ms);
    LeafDraft::new(leaf).about(person).with(BodyRole::Arguments, details.arguments.as_str())
}

/// A question was answered by somebody, or is over.
pub(crate) fn answered(
    question: &Question,
    details: &AskDetails,
    (person, word): (Option<&str>, Option<AnswerWord>),
    at_ms: u64,
) -> LeafDraft {
    let outcome = match (word, question.state()) {
        (Some(AnswerWord::Approve), _) => AuditOutcome::Done,
        (Some(AnswerWord::Deny), _) => AuditOutcome::Refused,
        (None, QuestionState::Denied(_)) => AuditOutcome::Expired,
        (None, _) => AuditOutcome::Refused,
    };
    let mut leaf = of_ask(question.ask(), details, AuditStage::Answered, at_ms);
    leaf.outcome = Some(outcome);
    leaf.principals = person.map(str::to_owned).into_iter().collect();
    let mut draft = LeafDraft::new(leaf);
    let signature = question.answers().last().and_then(|answer| answer.signature.as_deref());
    if let Some(signature) = signature.filter(|_| person.is_some()) {
        // With it whoever has the leaf checks that this person said so.
        draft = draft.with(BodyRole::After, signature);
    }
    match details.denial.as_deref().filter(|_| word == Some(AnswerWord::Deny)) {
        // It may repeat what the call was about, and is erased with that.
        Some(reason) => draft.about(question.need().person()).with(BodyRole::Reason, reason),
        None => draft,
    }
}

/// What policies refused that is no call.
pub(crate) struct RefusedAct<'a> {
    /// What was asked.
    pub(crate) request: &'a PolicyRequest,
    /// The agent that acts, or that it is done with.
    pub(crate) agent: Option<AgentId>,
    /// The person on whose behalf.
    pub(crate) person: &'a str,
    /// The digest of the policies in force.
    pub(crate) set: Option<Digest>,
    /// The policies that decided.
    pub(crate) deciding: &'a [String],
    /// With what it was to be done, as canonical JSON.
    pub(crate) asked: &'a str,
    /// Why not.
    pub(crate) reason: &'a str,
}

/// It is not done.
pub(crate) fn refused(act: RefusedAct<'_>, at_ms: u64) -> LeafDraft {
    let RefusedAct { request, agent, person, set, deciding, asked, reason } = act;
    let mut leaf = AuditLeaf::new(AuditStage::Denied, at_ms);
    leaf.principals = vec![request.principal.id.clone()];
    leaf.accountable = Some(person.to_owned());
    leaf.agent = agent;
    leaf.policy = set;
    leaf.deciding = some(deciding, AUDIT_POLICIES_MAX);
    leaf.action = Some(request.gate.word().to_owned());
    leaf.label = Some(request.label);
    LeafDraft::new(leaf).about(person).with(BodyRole::Arguments, asked).with(BodyRole::Reason, reason)
}

/// What is known of a message that policies deny.
pub(crate) struct MessageFacts<'a> {
    pub(crate) callee: &'a AgentId,
    /// On whose behalf; of one that came without a chain whoever sent it.
    pub(crate) principals: &'a [String],
    pub(crate) person: &'a str,
    pub(crate) policy: Option<Digest>,
    pub(crate) deciding: &'a [String],
    pub(crate) label: Label,
    pub(crate) at_ms: u64,
}

/// A message is refused. It has no bodies: strangers send as many as they like.
pub(crate) fn refused_message(action: &str, facts: &MessageFacts<'_>) -> LeafDraft {
    let mut leaf = AuditLeaf::new(AuditStage::Denied, facts.at_ms);
    leaf.principals = seen(facts.principals);
    leaf.accountable = Some(facts.person.to_owned());
    leaf.agent = Some(facts.callee.clone());
    leaf.policy = facts.policy;
    leaf.deciding = some(facts.deciding, AUDIT_POLICIES_MAX);
    leaf.action = Some(action.to_owned());
    leaf.label = Some(facts.label);
    LeafDraft::new(leaf)
}

/// Policies refused more different acts, or messages, than have entries of their own: how many.
pub(crate) fn further_refused(count: RefusalCount, at_ms: u64) -> LeafDraft {
    let RefusalCount { what, by, set, number } = count;
    let mut leaf = AuditLeaf::new(AuditStage::Denied, at_ms);
    leaf.principals = by.map(|by| by.to_string()).into_iter().collect();
    leaf.policy = set;
    leaf.action = Some(format!("further {what}"));
    let of = if by.is_some() { " of this sender" } else { "" };
    let reason = format!("{number} further {what}{of} were denied by these policies so far");
    LeafDraft::new(leaf).with(BodyRole::Reason, reason)
}

/// What is known of an agent that starts or ends.
#[derive(Clone, Copy)]
pub(crate) struct RunFacts<'a> {
    pub(crate) agent: &'a AgentRef,
    pub(crate) contract: Option<Digest>,
    pub(crate) binding: &'a str,
    pub(crate) at_ms: u64,
}

impl RunFacts<'_> {
    pub(crate) fn leaf(&self, stage: AuditStage, outcome: Option<AuditOutcome>, person: &str) -> LeafDraft {
        let mut leaf = AuditLeaf::new(stage, self.at_ms);
        leaf.accountable = Some(person.to_owned());
        leaf.agent = Some(self.agent.id.clone());
        leaf.version = Some(self.agent.version.to_string());
        leaf.contract = self.contract;
        leaf.binding = digest_of_hex(self.binding);
        leaf.outcome = outcome;
        LeafDraft::new(leaf)
    }
}

/// A turn ended of which nothing else is on record, or that gates judged.
pub(crate) fn ended_turn(turn: &EndedTurn<'_>, (person, policy): (&str, Option<Digest>), at_ms: u64) -> LeafDraft {
    let mut leaf = AuditLeaf::new(AuditStage::Turn, at_ms);
    leaf.principals = seen(turn.principals);
    leaf.accountable = Some(person.to_owned());
    leaf.agent = Some(turn.agent.id.clone());
    leaf.version = Some(turn.agent.version.to_string());
    leaf.contract = digest_of_hex(turn.contract);
    leaf.binding = digest_of_hex(turn.binding);
    leaf.policy = policy;
    (leaf.label, leaf.label_after) = (turn.label, turn.label_after);
    leaf.row = (!turn.row.is_empty()).then(|| digest(turn.row));
    leaf.trace = trace_digest(turn.trace);
    leaf.outcome = Some(turn.outcome);
    leaf.verdicts = turn.verdicts.to_vec();
    LeafDraft::new(leaf)
}

/// Somebody said what came of a call that was in doubt: an outcome that the tool did not say.
pub(crate) fn told_call(call: &ToldCall<'_>, (person, policy): (&str, Option<Digest>), at_ms: u64) -> LeafDraft {
    let ToldCall { task, step, by, .. } = call;
    let action = escaped(call.name, NAME_CHARS);
    let mut leaf = AuditLeaf::new(AuditStage::Outcome, at_ms);
    leaf.principals = seen(call.principals);
    leaf.accountable = Some(person.to_owned());
    leaf.agent = Some(call.agent.id.clone());
    leaf.version = Some(call.agent.version.to_string());
    leaf.contract = digest_of_hex(call.contract);
    leaf.binding = digest_of_hex(call.binding);
    leaf.policy = policy;
    leaf.action = Some(if action.is_empty() { "(none)".to_owned() } else { action });
    (leaf.label_after, leaf.outcome) = (call.label, Some(call.outcome));
    let what = match call.outcome {
        AuditOutcome::Done => "it took place",
        AuditOutcome::InDoubt => "nobody knows, and it is to be made again",
        _ => "it failed, or is given up",
    };
    let draft = LeafDraft::new(leaf).about(person);
    let draft = call.result.into_iter().fold(draft, |draft, result| draft.with(BodyRole::Result, result.to_string()));
    draft.with(BodyRole::Reason, format!("step {step} of task {task} was in doubt; {by} said: {what}"))
}

/// What came of the call by which an agent gave its work away, of which it hears no more.
pub(crate) fn given_work(work: &GivenWork<'_>, (person, policy): (&str, Option<Digest>), at_ms: u64) -> LeafDraft {
    let GivenWork { agent, task, handoff, recipient, becomes, label, outcome, .. } = *work;
    let mut leaf = AuditLeaf::new(AuditStage::Outcome, at_ms);
    leaf.principals = seen(work.principals);
    leaf.accountable = Some(person.to_owned());
    leaf.agent = Some(agent.id.clone());
    leaf.version = Some(agent.version.to_string()).filter(|version| !version.is_empty());
    leaf.contract = digest_of_hex(work.contract);
    leaf.binding = digest_of_hex(work.binding);
    leaf.policy = policy;
    leaf.action = Some(HAND_OVER.to_owned());
    (leaf.label, leaf.label_after, leaf.outcome) = (label, label, Some(outcome));
    let draft = LeafDraft::new(leaf).about(person);
    match outcome {
        AuditOutcome::Done => {
            let given = json!({ "handoff": handoff, "to": recipient.to_string(), "state": "given", "task": becomes });
            draft.with(BodyRole::Result, given.to_string())
        }
        _ => {
            let why = format!("the work of task {task} was not given away: its turn was over before");
            draft.with(BodyRole::Reason, why)
        }
    }
}

/// The owner changed something beside policies and people.
pub(crate) fn owner_changed(change: OwnerChange<'_>, person: &str, at_ms: u64) -> LeafDraft {
    let mut leaf = AuditLeaf::new(AuditStage::Changed, at_ms);
    leaf.principals = vec![person.to_owned()];
    leaf.action = Some(change.what.to_owned());
    leaf.agent = change.agent.map(|agent| agent.id.clone());
    leaf.version = change.agent.map(|agent| agent.version.to_string()).filter(|version| !version.is_empty());
    let sides = [(BodyRole::Before, change.before), (BodyRole::After, change.after)];
    let said = sides.into_iter().filter(|(_, text)| !text.is_empty());
    said.fold(LeafDraft::new(leaf), |draft, (role, text)| draft.with(role, text))
}

/// A standing yes is over, and nobody took it back.
pub(crate) fn over_standing(yes: &StandingYes, (before, after): (&str, &str), at_ms: u64) -> LeafDraft {
    let mut leaf = AuditLeaf::new(AuditStage::Changed, at_ms);
    leaf.accountable = Some(yes.person.clone());
    leaf.agent = Some(yes.template.agent.clone());
    leaf.action = Some("standing yes".to_owned());
    leaf.definition = Some(yes.template.definition);
    leaf.consent = yes.consent;
    // It has arguments of calls on that person's behalf.
    LeafDraft::new(leaf).about(&yes.person).with(BodyRole::Before, before).with(BodyRole::After, after)
}

/// A person changed something that governance goes by.
pub(crate) fn changed(action: &str, person: &str, at_ms: u64, (before, after): (&str, &str)) -> LeafDraft {
    let mut leaf = AuditLeaf::new(AuditStage::Changed, at_ms);
    leaf.principals = vec![person.to_owned()];
    leaf.action = Some(action.to_owned());
    LeafDraft::new(leaf).with(BodyRole::Before, before).with(BodyRole::After, after)
}

fn of_ask(ask: &Ask, details: &AskDetails, stage: AuditStage, at_ms: u64) -> AuditLeaf {
    let mut leaf = AuditLeaf::new(stage, at_ms);
    leaf.principals = some(&details.principals, AUDIT_PRINCIPALS_MAX);
    leaf.agent = Some(ask.terms.agent.clone());
    leaf.version = (!details.version.is_empty()).then(|| details.version.clone());
    leaf.policy = ask.terms.policy;
    leaf.action = Some(ask.terms.action.clone());
    leaf.definition = Some(ask.terms.definition);
    leaf.label = Some(ask.terms.label);
    leaf.consent = Some(ask.digest());
    leaf
}

fn trace_digest(trace: Option<&str>) -> Option<Digest> {
    trace.and_then(|trace| trace.split('-').nth(1)).map(|id| digest(id.as_bytes()))
}

/// The first of these principals, each as people see it: others wrote them.
fn seen(principals: &[String]) -> Vec<String> {
    let seen = principals.iter().filter(|text| !text.is_empty()).map(|text| {
        let text = escaped(text, PRINCIPAL_CHARS);
        let end = text.floor_char_boundary(AUDIT_TEXT_BYTES_MAX);
        text[..end].to_owned()
    });
    seen.take(AUDIT_PRINCIPALS_MAX).collect()
}

/// The first of these.
fn some(texts: &[String], most: usize) -> Vec<String> {
    texts.iter().take(most).cloned().collect()
}

//! Who may reach whom: what decides by contracts first, and then the owner's policies on messages, of those that leave this node
//! and of those that come in.

use std::sync::Arc;

use althing_call::{
    Consent, Decide, Decision, IncomingRequest, Judgement, MessageContent, OperationError, OutgoingRequest, Principal,
    Service,
};
use althing_discovery::TrustRelation;
use althing_policy::{EntityName, Gate, Kind, Verdict};
use althing_protocol::audit::CallTerms;
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentId, Label, PublisherId, digest, hex};
use althing_store::Batch;
use futures::FutureExt as _;
use serde_json::{Map, Value, json};

use crate::act::Act;
use crate::admission::{PolicyRefusal, admit};
use crate::answers::ask_id;
use crate::consultation::{self, Case, Consultation};
use crate::decisions::DecisionRecord;
use crate::desk::by_policies;
use crate::governance::{Governance, person_of};
use crate::leaves::{self, MessageFacts};
use crate::machine::arguments::arguments_digest;
use crate::machine::consent::MESSAGE_ACTION;
use crate::machine::delivery::asked_in;
use crate::machine::rules::{Rule, Statement, Wants};
use crate::machine::taint::{Origin, Taint};
use crate::message::Content;
use crate::policies::{PolicyRequest, deciding};
use crate::records;
use crate::refusals::{Refusal, RefusalEntry, RefusalKind};

/// What a message is called where people are asked about it.
pub(crate) const ACTION: &str = MESSAGE_ACTION;

/// What nobody can be asked about: whoever works on it waits for no answer.
const GROUP_TASKS: &str = "tasks of groups";
/// The same: telling somebody of that question would ask another one, and so on.
const NOTICES: &str = "what tells people of a question";

struct PolicyDecide {
    governance: Governance,
    base: Arc<dyn Decide>,
}

/// A message, as policies and people see it.
struct Passage {
    request: PolicyRequest,
    callee: AgentId,
    principals: Vec<String>,
    /// Whether it came in.
    is_incoming: bool,
    /// As what its denial is known again, of one that came in: another node sends it as often as it likes.
    refusal: Option<RefusalKind>,
    /// Whether this node sent it, and decided on that.
    is_from_here: bool,
    /// What it says, as far as a yes is bound to it; nothing where nobody is asked, or where it is not known any more.
    content: Option<Content>,
    /// What is done where policies ask about it.
    recourse: Recourse,
}

/// What is done where policies ask about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recourse {
    /// Somebody is asked: it does something.
    Person,
    /// Nothing: it is about a task, for which somebody was asked when it began.
    Nothing,
    /// It is denied: nobody can be asked about such things.
    Denial(&'static str),
}

impl Governance {
    /// Decides by `base` first, and then by the policies in force.
    #[must_use]
    pub fn decide(&self, base: Arc<dyn Decide>) -> Arc<dyn Decide> {
        Arc::new(PolicyDecide { governance: self.clone(), base })
    }
}

impl Decide for PolicyDecide {
    fn decide(&self, outgoing: &OutgoingRequest<'_>) -> Judgement {
        let judged = self.base.decide(outgoing);
        match *outgoing {
            OutgoingRequest::Message { agent, version, principals, label, content }
                if self.is_loaded() && !is_refused(&judged) =>
            {
                let label = Taint::of_message(label, Origin::Here, DataLabel::Internal).label();
                let recourse = self.recourse(content);
                let passage = self.passage((agent, version), principals, (None, label), (content, recourse));
                self.judge(judged, passage)
            }
            OutgoingRequest::HandOver { from, to, label } if self.is_loaded() && !is_refused(&judged) => {
                let label = Taint::of_message(label, Origin::Here, DataLabel::Internal).label();
                hand_over(self.governance.clone(), judged, (from.clone(), to.clone(), label))
            }
            _ => judged,
        }
    }

    fn decide_incoming(&self, incoming: &IncomingRequest<'_>) -> Judgement {
        let judged = self.base.decide_incoming(incoming);
        let IncomingRequest { service, caller, principals, label, content } = *incoming;
        let (agent, recourse) = match service {
            Service::Call { agent, operation, .. } if operation.is_message() => (agent, self.recourse(content)),
            Service::Call { agent, .. } => (agent, Recourse::Nothing),
            Service::GroupTask { agent, .. } => (agent, Recourse::Denial(GROUP_TASKS)),
            _ => return judged,
        };
        // Whom contracts refuse the policies need not know.
        if !self.is_loaded() || is_refused(&judged) {
            return judged;
        }
        let label = Taint::of_message(label, Origin::Elsewhere, DataLabel::Internal).label();
        let node = caller.id().to_string();
        let passage = self.passage((agent, None), principals, (Some(node.as_str()), label), (content, recourse));
        let is_from_here = caller.node == self.governance.ports().node;
        let is_near = caller.owner.is_some_and(|owner| self.base.relation(owner) != TrustRelation::Stranger);
        let refusal = Some(RefusalKind::Message { by: caller.id(), is_near });
        self.judge(judged, Passage { is_from_here, refusal, ..passage })
    }

    fn foretell_incoming(&self, incoming: &IncomingRequest<'_>) -> Judgement {
        self.base.foretell_incoming(incoming)
    }

    fn relation(&self, publisher: PublisherId) -> TrustRelation {
        self.base.relation(publisher)
    }

    fn near(&self) -> Vec<PublisherId> {
        self.base.near()
    }
}

impl PolicyDecide {
    fn is_loaded(&self) -> bool {
        self.governance.policies().is_loaded()
    }

    /// What is done where policies ask about a message. Who gives another one the id of one that tells somebody of a question gets less by
    /// it, and never more.
    fn recourse(&self, content: Option<MessageContent<'_>>) -> Recourse {
        let told = content.and_then(|content| ask_id(asked_in(&content.message.message_id)?));
        match told.is_some_and(|ask| self.governance.book().now().asks.get(&ask).is_some()) {
            true => Recourse::Denial(NOTICES),
            false => Recourse::Person,
        }
    }

    /// A message to an agent. `node` is who sent it, where it came in.
    fn passage(
        &self,
        (callee, version): (&AgentId, Option<&str>),
        principals: &[Principal],
        (node, label): (Option<&str>, Label),
        (content, recourse): (Option<MessageContent<'_>>, Recourse),
    ) -> Passage {
        let policies = &self.governance.policies();
        let texts: Vec<String> = principals.iter().map(ToString::to_string).collect();
        let person = match node {
            // What another node says of its people is a claim.
            Some(_) => self.governance.people_now().0.owner().to_owned(),
            None => person_of(&self.governance, &texts),
        };
        // Only the last one is proven: names before it are what others wrote.
        let sender = match principals.last() {
            Some(Principal::Agent(agent)) => Some(agent),
            _ => None,
        };
        let mut facts = Vec::new();
        let principal = match (sender, node) {
            (Some(agent), _) => {
                facts.extend(policies.take_named(agent, ""));
                EntityName::new(Kind::Agent, agent.to_string())
            }
            (None, Some(node)) => {
                facts.push(policies.take_node(node));
                EntityName::new(Kind::Node, node)
            }
            (None, None) => EntityName::new(Kind::Person, person.as_str()),
        };
        facts.extend(policies.take_named(callee, version.unwrap_or_default()));
        let (gate, resource) = (Gate::Call, EntityName::new(Kind::Agent, callee.to_string()));
        let (arguments, person) = (Map::new(), Some(person));
        let request = PolicyRequest { principal, gate, resource, arguments, label, person, facts };
        let is_incoming = node.is_some();
        let content = content.filter(|_| recourse == Recourse::Person);
        let content = content.map(|content| Content::of(&content, is_incoming));
        let (callee, principals, is_from_here, refusal) = (callee.clone(), texts, false, None);
        Passage { request, callee, principals, is_incoming, refusal, is_from_here, content, recourse }
    }

    /// What contracts allow is decided by the policies.
    fn judge(&self, judged: Judgement, passage: Passage) -> Judgement {
        let governance = self.governance.clone();
        match judged {
            Judgement::Now(Decision::Allow) => by_policy(&governance, passage),
            Judgement::Now(other) => Judgement::Now(other),
            Judgement::Later(decision) => Judgement::Later(
                async move {
                    match decision.await {
                        Decision::Allow => by_policy(&governance, passage).decision().await,
                        other => other,
                    }
                }
                .boxed(),
            ),
        }
    }
}

/// Whether work may go to another agent. Nobody is asked: whoever gives it away would wait for an answer of theirs.
fn hand_over(governance: Governance, judged: Judgement, (from, to, label): (AgentId, AgentId, Label)) -> Judgement {
    Judgement::Later(
        async move {
            match judged.decision().await {
                Decision::Allow => {
                    let asked = admit(&governance, &Act::HandOver { from: &from, to: &to, label }).await;
                    let refused = |forbidden: PolicyRefusal| OperationError::caller_not_allowed(forbidden.to_string());
                    Decision::from(asked.map_err(refused))
                }
                other => other,
            }
        }
        .boxed(),
    )
}

fn is_refused(judged: &Judgement) -> bool {
    matches!(judged, Judgement::Now(Decision::Deny(_) | Decision::Ask(_)))
}

fn by_policy(governance: &Governance, passage: Passage) -> Judgement {
    let Some((statement, verdict)) = by_policies(governance, &passage.request) else {
        return Judgement::Now(Decision::Allow);
    };
    let denied = |governance: &Governance, passage: Passage, verdict: Option<Verdict>, reason: String| {
        let governance = governance.clone();
        let denied = async move { deny(&governance, &passage, verdict.as_ref(), (Rule::Policy, reason)).await };
        Judgement::Later(denied.boxed())
    };
    match statement {
        Statement::Permit => {
            // What is about a task was decided when that began, and is done again and again.
            if passage.recourse != Recourse::Nothing {
                note(governance, &passage, verdict.as_ref(), ("permit", None, ""));
            }
            Judgement::Now(Decision::Allow)
        }
        Statement::Deny(reason) => denied(governance, passage, verdict, reason),
        Statement::Ask(wants) => match passage.recourse {
            Recourse::Person => {
                let governance = governance.clone();
                let asked = async move { ask_about(&governance, &passage, verdict.as_ref(), &wants).await };
                Judgement::Later(asked.boxed())
            }
            Recourse::Nothing => Judgement::Now(Decision::Allow),
            Recourse::Denial(what) => {
                let why = format!(
                    "the owner's policies ask about it, and nobody can be asked about {what}: permit or forbid it"
                );
                denied(governance, passage, verdict, why)
            }
        },
    }
}

/// Remembers what was decided about a message.
fn note(
    governance: &Governance,
    passage: &Passage,
    verdict: Option<&Verdict>,
    (answer, rule, reason): (&str, Option<Rule>, &str),
) {
    let at = (governance.policies().digest(), governance.now_ms());
    governance.decision_log().note(DecisionRecord::of(&passage.request, verdict, (answer, rule, reason), at));
}

/// Denies a message, on record.
async fn deny(
    governance: &Governance,
    passage: &Passage,
    verdict: Option<&Verdict>,
    (rule, reason): (Rule, String),
) -> Decision {
    note(governance, passage, verdict, ("deny", Some(rule), reason.as_str()));
    let request = &passage.request;
    let sender = [request.principal.to_string()];
    let (policy, deciding) = (governance.policies().digest(), deciding(verdict));
    let facts = MessageFacts {
        callee: &passage.callee,
        principals: if passage.principals.is_empty() { sender.as_slice() } else { passage.principals.as_slice() },
        person: request.person.as_deref().unwrap_or_default(),
        policy,
        deciding: &deciding,
        label: request.label,
        at_ms: governance.now_ms(),
    };
    let refusals = &governance.policies().refusals;
    // The same denial by the same policies is one entry.
    let refusal = passage.refusal.map(|kind| {
        let what = format!("{ACTION} {} {}\n{:?}\n{reason}", request.principal, facts.callee, facts.label);
        let refusal = Refusal { kind, set: policy, what: digest(what.as_bytes()) };
        (refusal, refusals.note(refusal))
    });
    let draft = match refusal.map_or(RefusalEntry::Own, |(_, entry)| entry) {
        RefusalEntry::Own => Some(leaves::refused_message(ACTION, &facts)),
        RefusalEntry::None => None,
        RefusalEntry::Count(count) => Some(leaves::further_refused(count, facts.at_ms)),
    };
    if let Some(draft) = draft {
        let is_on_record = records::at_least(governance, draft, "the denial of a message").await;
        if let Some((refusal, entry)) = refusal.filter(|_| !is_on_record) {
            refusals.forget(refusal, entry);
        }
    }
    Decision::Deny(OperationError::caller_not_allowed(reason))
}

/// Uses the yes of somebody for a message, or asks for it.
async fn ask_about(governance: &Governance, passage: &Passage, verdict: Option<&Verdict>, wants: &Wants) -> Decision {
    let Passage { request, callee, principals, content, .. } = passage;
    let name = content.as_ref().map(|content| content.name(callee, principals));
    let (passes, now_ms) = (|| governance.book().passes(), governance.now_ms());
    let passed = name.filter(|_| passage.is_from_here).map(|name| passes().take(&name, now_ms)).unwrap_or_default();
    let mut arguments: Value = json!({ "from": request.principal.to_string(), "to": callee.to_string() });
    if let Some(content) = content {
        content.show_in(&mut arguments);
    }
    let terms = CallTerms {
        agent: callee.clone(),
        action: ACTION.to_owned(),
        definition: digest(ACTION.as_bytes()),
        server: digest(request.principal.to_string().as_bytes()),
        arguments: arguments_digest(&arguments),
        label: request.label,
        policy: governance.policies().digest(),
    };
    let policies = deciding(verdict);
    let case = Case {
        terms,
        task: "",
        version: "",
        principals,
        person: request.person.clone().unwrap_or_default(),
        arguments: &arguments,
        // The yes is used before the message goes on, and waits for it through restarts.
        is_journalled: false,
        is_resumable: true,
        key: content.as_ref().map(|content| content.key.as_str()),
        is_again: content.as_ref().is_some_and(|content| content.is_again),
        policies: &policies,
        passed: &passed,
    };
    match consultation::consult(governance, &case, wants, |_| Ok(Batch::new())).await {
        Consultation::Given { .. } => {
            if let Some(name) = name.filter(|_| !passage.is_incoming) {
                passes().add(name, consultation::needs(&case, wants, false), now_ms);
            }
            note(governance, passage, verdict, ("permit", None, "people agreed"));
            Decision::Allow
        }
        Consultation::Denied(reason) => deny(governance, passage, verdict, (Rule::People, reason)).await,
        Consultation::Waits(id) => {
            note(governance, passage, verdict, ("ask", None, wants.consent.join("; ").as_str()));
            let to = format!("a message to {callee} (question {}); send it again when it was answered", hex(&id));
            Decision::Ask(Consent { to })
        }
    }
}

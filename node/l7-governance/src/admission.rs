//! The gate of what is no call: what programs reach, what agents are given when they start, and what the owner does with agents.
//! What policies ask about is denied here: nobody can be asked, and nothing would wait for the answer.

use althing_policy::{EntityName, Kind, Verdict};
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentId, Label, digest};
use althing_store::{Batch, Durability};
use serde_json::{Value, json};

use crate::act::Act;
use crate::audit::LeafDraft;
use crate::decisions::DecisionRecord;
use crate::desk::Desk;
use crate::governance::Governance;
use crate::leaves::{self, RefusedAct};
use crate::machine::arguments::canonical;
use crate::machine::rules::{Rule, Statement};
use crate::policies::{PolicyRequest, deciding};
use crate::refusals::{Refusal, RefusalEntry, RefusalKind};

/// What the owner's policies do not permit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is refused: {reason}")]
pub struct PolicyRefusal {
    /// What was to be done, in words.
    what: String,
    /// Why not, with the policies that decided.
    reason: String,
}

impl PolicyRefusal {
    /// Until the node knows of policies nothing is done.
    pub(crate) fn too_early(act: &Act<'_>) -> PolicyRefusal {
        let reason = "the node is starting and decides about nothing yet; try again in a moment".to_owned();
        PolicyRefusal { what: act.words(), reason }
    }

    /// Why not, with the policies that decided.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// Asks the owner's policies whether something may be done. Where none are loaded it may. A denial has its entry in the audit
/// log.
///
/// # Errors
/// [`PolicyRefusal`], also where policies ask, or cannot decide.
pub async fn admit(governance: &Governance, act: &Act<'_>) -> Result<(), PolicyRefusal> {
    let Ruling { outcome, denial } = Desk::of(governance).rule(act);
    if let Some(Denial { rows, refusal }) = denial
        && let Err(error) = governance.write(rows, Durability::Buffered).await
    {
        tracing::error!(%error, "a denial has no entry in the audit log");
        if let Some((refusal, entry)) = refusal {
            governance.policies().refusals.forget(refusal, entry);
        }
    }
    outcome
}

/// The same where nobody can wait: the entry is written with what is recorded next.
///
/// # Errors
/// As [`admit`].
pub fn admit_now(governance: &Governance, act: &Act<'_>) -> Result<(), PolicyRefusal> {
    let desk = Desk::of(governance);
    let Ruling { outcome, denial } = desk.rule(act);
    if let Some(Denial { rows, .. }) = denial {
        desk.policies.refusals.keep(rows);
    }
    outcome
}

struct Ruling {
    outcome: Result<(), PolicyRefusal>,
    denial: Option<Denial>,
}

/// What is to be written of a denial.
struct Denial {
    rows: Batch,
    /// As what it is known from now on, with what these rows tell of it; nothing of what has an entry each time.
    refusal: Option<(Refusal, RefusalEntry)>,
}

impl Desk<'_> {
    fn rule(&self, act: &Act<'_>) -> Ruling {
        let permitted = Ruling { outcome: Ok(()), denial: None };
        if !self.policies.is_loaded() {
            if let Act::BindModel { name, clearance, .. } = *act {
                // Whoever asks what labels would decide is told without policies too.
                self.policies.take_model(name, clearance);
            }
            return permitted;
        }
        let request = self.request(act);
        let Some((statement, verdict)) = self.decide(&request) else { return permitted };
        let reason = match statement {
            Statement::Permit => None,
            Statement::Deny(reason) => Some(reason),
            Statement::Ask(_) => Some(unasked(verdict.as_ref())),
        };
        self.note(&request, verdict.as_ref(), reason.as_deref());
        let Some(reason) = reason else { return permitted };
        let denial = self.denial((act, &request), verdict.as_ref(), &reason);
        Ruling { outcome: Err(PolicyRefusal { what: act.words(), reason }), denial }
    }

    /// The act as policies see it; those whom it is about are known from now on, or in this request.
    fn request(&self, act: &Act<'_>) -> PolicyRequest {
        let (policies, owner) = (self.policies, self.ports.owner);
        let person = self.people.0.owner().to_owned();
        let mut facts = Vec::new();
        if let Some(agent) = act.subject() {
            // Nobody knows yet whether it will run in that version.
            match agent.publisher() == owner {
                true => policies.take_own_id(agent),
                false => facts.extend(policies.take_named(agent, "")),
            }
        }
        if let Act::BindModel { name, clearance, .. } = *act {
            facts.extend(policies.take_model(name, clearance));
        }
        let principal = match self.agent_of(act) {
            Some(agent) => {
                policies.take_own_id(&agent);
                EntityName::new(Kind::Agent, agent.to_string())
            }
            None => EntityName::new(Kind::Person, person.as_str()),
        };
        let (gate, resource, arguments, label) = (act.gate(), act.resource(), act.input(), self.label(act));
        PolicyRequest { principal, gate, resource, arguments, label, person: Some(person), facts }
    }

    /// The agent of this node that acts; none where the owner does.
    fn agent_of(&self, act: &Act<'_>) -> Option<AgentId> {
        AgentId::new(self.ports.owner, act.agent()?).ok()
    }

    /// Of the data that goes with it. What a program sends nobody sees: it counts as the data of its agent's contract, and for that
    /// nobody vouches.
    fn label(&self, act: &Act<'_>) -> Label {
        match act {
            Act::HandOver { label, .. } => *label,
            Act::Egress { agent, .. } if !agent.is_empty() => {
                let level = self.policies.refusals.data_of(agent).unwrap_or(DataLabel::Confidential);
                Label { level, trusted: false }
            }
            // Nothing was read yet, and nothing of anybody goes with it.
            _ => Label { level: DataLabel::Public, trusted: true },
        }
    }

    /// Remembers the decision.
    fn note(&self, request: &PolicyRequest, verdict: Option<&Verdict>, reason: Option<&str>) {
        let answer = if reason.is_some() { "deny" } else { "permit" };
        let rule = reason.map(|_| Rule::Policy);
        let at = (self.policies.digest(), self.ports.clock.now_ms());
        self.decisions.note(DecisionRecord::of(request, verdict, (answer, rule, reason.unwrap_or_default()), at));
    }

    /// The entry of a denial in the audit log; none where the same was denied before by the same policies, or these denied so many
    /// others that only their number is.
    fn denial(
        &self,
        (act, request): (&Act<'_>, &PolicyRequest),
        verdict: Option<&Verdict>,
        reason: &str,
    ) -> Option<Denial> {
        let resource = request.resource.to_string();
        let asked = canonical(&json!({ "resource": resource, "input": Value::Object(request.arguments.clone()) }));
        let set = self.policies.digest();
        let what = format!("{}\n{}\n{}", request.principal, request.gate.word(), act.pattern().unwrap_or(&asked));
        let refusal = act.is_repeated().then(|| {
            let refusal = Refusal { kind: RefusalKind::Act, set, what: digest(what.as_bytes()) };
            (refusal, self.policies.refusals.note(refusal))
        });
        let draft = match refusal.map_or(RefusalEntry::Own, |(_, entry)| entry) {
            RefusalEntry::None => return None,
            RefusalEntry::Count(count) => leaves::further_refused(count, self.ports.clock.now_ms()),
            RefusalEntry::Own => self.refused_act((act, request), verdict, (&asked, reason)),
        };
        match self.audit.entry_at_least(draft) {
            Ok(rows) => Some(Denial { rows, refusal }),
            Err(error) => {
                tracing::error!(%error, "a denial has no entry in the audit log");
                if let Some((refusal, entry)) = refusal {
                    self.policies.refusals.forget(refusal, entry);
                }
                None
            }
        }
    }

    fn refused_act(
        &self,
        (act, request): (&Act<'_>, &PolicyRequest),
        verdict: Option<&Verdict>,
        (asked, reason): (&str, &str),
    ) -> LeafDraft {
        let agent = self.agent_of(act).or_else(|| act.subject().cloned());
        let person = request.person.as_deref().unwrap_or_default();
        let deciding = deciding(verdict);
        let set = self.policies.digest();
        let refused = RefusedAct { request, agent, person, set, deciding: &deciding, asked, reason };
        leaves::refused(refused, self.ports.clock.now_ms())
    }
}

/// Why what policies ask about is not done.
fn unasked(verdict: Option<&Verdict>) -> String {
    let by = deciding(verdict).join(", ");
    format!("the owner's policies ask about it ({by}), and nobody is asked about this: permit or forbid it")
}
